"""Real mounts under test, in a process that may mount; and what one is told that may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.testing import opening
from mooring.testing.opening import BY_UNSHARE, a_cluster
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.mooring_dev import needs_mounts
from tests.support.rows import each_row

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

TESTS = """
import os
import shlex
import sys
import pytest
from mooring.mounts.targets import mount_table

def at(path):
    return mount_table().at(str(path))

def life(cluster):
    claim = cluster.claim("data").bound()
    web = cluster.pod("web", claim).running()
    folder = web.folder(claim)
    assert at(folder) is not None, "it is mounted"
    (folder / "page").write_text("hello")
    web.delete().gone()
    assert at(folder) is None
    again = cluster.pod("again", claim).running()
    assert (again.folder(claim) / "page").read_text() == "hello"
    return again

@pytest.mark.mooring_cluster(mounts=True)
def test_with_each_fault(mooring_each_fault):
    again = life(mooring_each_fault)
    assert [] == [one.rule.number for one in mooring_each_fault.breaches]

@pytest.mark.mooring_cluster(mounts=True)
def test_a_dead_node_has_nothing_mounted(mooring_cluster):
    again = life(mooring_cluster)
    folder = again.folder("data")
    node = mooring_cluster.node_of(again).dies()
    assert at(folder) is None
    node.returns()
    mooring_cluster.until(lambda: at(folder) is not None, "it is mounted again")

COMMAND = f"{shlex.quote(sys.executable)} -m mooring.cli.mooring driver hostpath --endpoint unix://{{socket}} "
COMMAND += "--node-id {node} --mounts mount --state "

def test_a_command_mounts(tmp_path):
    from mooring.testing.opening import a_cluster
    with a_cluster(COMMAND + str(tmp_path), nodes=1, mounts=True) as cluster:
        life(cluster)
        assert () == cluster.breaches
"""


@pytest.mark.long
@each_row("way", ["as root", "as everybody"])
def test_volumes_are_mounted_and_nothing_is_left(tmp_path: Path, way: str) -> None:
    needs_mounts()
    if way == "as root" and os.geteuid() != 0:
        not_tested(REAL_MOUNTS, "not root")
    (tmp_path / "test_x.py").write_text(TESTS)
    folder = Path(tempfile.mkdtemp(prefix="m-", dir="/tmp"))  # short: drivers' sockets stand in it
    unshare = ["unshare", "--mount"] if way == "as root" else BY_UNSHARE.split()[:-1]
    words = [
        *unshare,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--rootdir={tmp_path}",
        str(tmp_path),
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout
    assert [] == [path.name for path in folder.iterdir() if path.name.startswith("mooring-")], (
        "what is mounted keeps its folder"
    )
    shutil.rmtree(folder)


def test_who_may_not_mount_is_told_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "mounting_refusal", lambda _: "mount: permission denied")
    with pytest.raises(ConfigError) as refused, a_cluster(mounts=True):
        pass
    assert (
        str(refused.value)
        == f"mounts: this process may not mount (mount: permission denied): run it as root, or by {BY_UNSHARE}"
    )
