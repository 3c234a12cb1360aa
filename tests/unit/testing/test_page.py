"""The tests of docs/testing.md pass, as somebody would run them who has copied them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mooring_dev import needs_mounts
from tests.support.pages import blocks
from tests.support.plugin_methods import table
from tests.support.rows import each_row

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.mark.long
def test_the_page_s_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "shelf.py").write_text(blocks("driver.md")[0])
    for number, text in enumerate(blocks("testing.md")):
        (tmp_path / f"test_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 passed" in done.stdout


def test_who_does_not_use_the_plug_in_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import sys\ndef test_x():\n    assert not [m for m in sys.modules if m.startswith('mooring.dev')]\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    code = "import sys, mooring.testing.pytest_plugin; print([m for m in sys.modules if m.startswith('mooring.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "['mooring.testing', 'mooring.testing.pytest_plugin']" == loaded.strip()


BREAKS = """
import pytest
from mooring.csi.proto import csi_pb2 as csi
from tests.unit.testing.test_cluster import Forgetful

pytestmark = pytest.mark.mooring_cluster(driver=Forgetful, options={"shelf": {}})

def life(cluster):
    cluster.faults.lose_answer("CreateVolume")
    cluster.claim("data").bound()

def test_broken(mooring_cluster):
    life(mooring_cluster)

def test_allowed(mooring_cluster):
    mooring_cluster.allow_breaches("CSI201")
    life(mooring_cluster)

def test_other(mooring_cluster):
    life(mooring_cluster)
    assert False, "something else"
"""


def test_a_test_fails_whose_driver_breaks_a_rule_that_it_may_not_break(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(BREAKS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "the driver broke rules of CSI:" in done.stdout
    assert "mooring_cluster: the driver broke rules of CSI ---" in done.stdout, "also one that fails for another reason"
    assert "CSI201" in done.stdout
    assert "Mend: " in done.stdout
    assert "CSI → driver" in done.stdout, "a failed test shows its cluster's story"


def test_the_page_s_twenty_lines_pass_with_a_command_on_each_node(tmp_path: Path) -> None:
    """Any node may die: the process of none answers the controller's calls."""
    words = f"driver run shelf:Shelf --option shelf={tmp_path}/shelf --option nodes={{node}},n1,n2"
    driver = f"{shlex.quote(str(Path(sys.executable).parent / 'mooring'))} {words} --endpoint unix://{{socket}}"
    (tmp_path / "shelf.py").write_text(blocks("driver.md")[0])
    fixture = f"import pytest\n\n@pytest.fixture\ndef mooring_driver():\n    return {driver!r}\n\n"
    for node in "n1", "n2":
        pod = 'cluster.pod("web", claim'
        lines = blocks("testing.md")[0].replace(f"{pod})", f"{pod}, node={node!r})")
        assert node in lines
        (tmp_path / f"test_{node}.py").write_text(fixture + lines)
    aside = []
    if os.geteuid() != 0:  # the driver's process mounts
        needs_mounts()
        aside = ["unshare", "--user", "--map-root-user", "--mount"]
    command = [*aside, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_page_lists_all_methods_with_their_docstrings() -> None:
    assert table() in (ROOT / "docs" / "testing.md").read_text(), (
        "python -m tests.support.plugin_methods prints what belongs there"
    )


@each_row(
    ("mark", "reason"),
    [
        ('driver="false {socket}"', "driver: false ended with exit code 1 before it answered; it said nothing"),
        (
            'driver="unix:///nowhere"',
            "one socket is one node's, for unix:///nowhere: mark the test with @pytest.mark.mooring_cluster(nodes=1)",
        ),
    ],
)
def test_a_driver_that_can_t_be_used_is_told_in_a_few_lines(tmp_path: Path, mark: str, reason: str) -> None:
    text = f"import pytest\n\n@pytest.mark.mooring_cluster({mark})\ndef test_x(mooring_cluster):\n    pass\n"
    (tmp_path / "test_x.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert reason in done.stdout
    assert len(done.stdout.splitlines()) <= 12, done.stdout


def run(folder: Path, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_x.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_failing_test_shows_its_own_lines_and_none_of_ours(tmp_path: Path) -> None:
    text = """
import pytest

def waits(cluster):
    cluster.claim("data", storage_class="none").bound(wait_s=5)

def test_wait(mooring_cluster):
    waits(mooring_cluster)

def test_config(mooring_cluster):
    mooring_cluster.node("n9")

def test_refused(mooring_cluster):
    mooring_cluster.claim("data")
    mooring_cluster.claim("data")

def test_check(mooring_cluster):
    mooring_cluster.until(lambda: {}["mine"], "it is there")

async def test_coroutine(mooring_cluster):
    await mooring_cluster.aio.claim_named("data").bound(5)

@pytest.mark.mooring_cluster(serves=True)
def test_served(mooring_cluster):
    mooring_cluster.claim_named("data").bound(5)

@pytest.fixture
def claim(mooring_cluster):
    return mooring_cluster.claim_named("data").bound(5)

def test_fixture(claim):
    pass
"""
    done = run(tmp_path, text, "--show-capture=no")
    assert 1 == done.returncode
    places = [line for line in done.stdout.splitlines() if re.match(r"\S+\.py:\d+: ", line)]
    assert {"test_x.py"} == {Path(line.partition(":")[0]).name for line in places}, done.stdout
    assert 9 == len(places)
    assert 'its StorageClass "none" does not exist' in done.stdout
    assert "waiting.py" in run(tmp_path, text, "--full-trace", "-k", "test_wait").stdout
