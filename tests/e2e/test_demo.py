"""`mooring demo` and `mooring dev` as people run them."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS
from mooring.base.chance import Chance
from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.grpc import GrpcDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.waiting import until
from mooring.driver.statefile import read_state
from mooring.kube import kubeconfig
from mooring.kube.http import HttpCluster
from tests.support.programs import Program
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

MOORING = [sys.executable, "-m", "mooring.cli.mooring"]

STORY = [
    r"server +answers on https://127\.0\.0\.1:\d+",
    r"CSI → driver +CreateVolume .*name=demo.*→ .*volume_id=vol-",
    r"demo → API +create csinodes/demo-node",
    r"demo → API +create persistentvolumes/demo-pv",
    r"demo → API +create volumeattachments/demo-attachment",
    r"attacher → API +patch persistentvolumes/demo-pv: .*external-attacher/hostpath-csi-mooring",
    r"attacher → API +patch volumeattachments/demo-attachment: .*node-id=demo-node.*external-attacher/hostpath-csi-mooring",
    r"CSI → driver +ControllerPublishVolume node_id=demo-node .*→ publication=1",
    r"attacher → API +patch volumeattachments/demo-attachment/status: status\.attached=true",
    r"ok: the driver, its state file and its folder agree: the volume is on demo-node",
    r"demo → API +delete volumeattachments/demo-attachment",
    r"CSI → driver +ControllerUnpublishVolume node_id=demo-node .*→ OK",
    r"attacher → API +patch volumeattachments/demo-attachment: remove",
    r"ok: the VolumeAttachment is gone",
    r"ok: the driver, its state file and its folder agree: the volume is on no node",
    r"demo → API +delete persistentvolumes/demo-pv",
    r"attacher → API +patch persistentvolumes/demo-pv: remove",
    r"ok: only kubernetes\.io/pv-protection still holds it",
    r"ok: the PersistentVolume is gone",
    r"CSI → driver +DeleteVolume .*→ OK",
    r"ok: the API server has no VolumeAttachment, no PersistentVolume and no CSINode",
    r"Attached and detached\.",
]


def test_the_demo_tells_all_that_happens_and_ends_well() -> None:
    began = time.monotonic()
    done = subprocess.run([*MOORING, "demo"], capture_output=True, text=True, timeout=60, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert time.monotonic() - began < 10, "what the demo may take once everything is installed"
    rest = done.stdout
    for line in STORY:
        found = re.search(line, rest)
        assert found is not None, f"{line!r} is missing, or in another place:\n{done.stdout}"
        rest = rest[found.end() :]
    assert "\x1b" not in done.stdout
    assert not re.search("(?i)error|fail(?!ed$)", done.stdout.replace("no call failed", ""))


def test_on_a_terminal_the_demo_is_alive() -> None:
    here, there = pty.openpty()
    with contextlib.closing(os.fdopen(here, "rb", buffering=0)) as terminal:
        process = subprocess.Popen([*MOORING, "demo"], stdout=there, stderr=there, env={**os.environ, "TERM": "xterm-256color"})
        os.close(there)
        shown = b"".join(_until_hung_up(terminal)).decode()
        assert 0 == process.wait(30), shown
    assert "\x1b[" in shown
    assert "✓ " in shown
    assert "Attached and detached." in shown


def _until_hung_up(terminal: Any) -> Iterator[bytes]:
    with contextlib.suppress(OSError):  # what Linux answers when the other side has closed
        while data := terminal.read(65536):
            yield data


def test_an_interrupted_demo_does_not_claim_success(tmp_path: Path) -> None:
    program = Program([*MOORING, "demo"], tmp_path / "log", {**os.environ, "TMPDIR": str(tmp_path)})
    try:
        eventually(lambda: "answers on" in program.output_alive(), 20, "the demo has begun", every_s=0.005)
        program.send(signal.SIGINT)
        assert 130 == program.wait_exit(), program.log_tail()
    finally:
        program.kill()
    assert ["log"] == os.listdir(tmp_path), "its folder is gone"


@contextlib.contextmanager
def dev(folder: Path, *flags: str) -> Iterator[tuple[Program, Path]]:
    """`mooring dev`, ready, with its kubeconfig; ended by Ctrl-C, as it should be."""
    (folder / "tmp").mkdir(exist_ok=True)
    program = Program([*MOORING, "dev", *flags], folder / "log", {**os.environ, "TMPDIR": str(folder / "tmp")})
    try:
        eventually(lambda: "Ctrl-C ends it" in program.output_alive(), 20, "mooring dev is ready")
        yield program, Path(re.findall("export KUBECONFIG=(.*)", program.output())[-1])
        program.send(signal.SIGINT)
        assert 0 == program.wait_exit(), program.log_tail()
        assert "ended in good order" in program.output()
    finally:
        program.kill()


def attached(va: Any) -> bool:
    return va is not None and va.status.attached


def pasted(output: str) -> dict[str, Any]:
    """What the invitation has people paste."""
    found = re.search(r"^kubectl apply -f - <<'EOF'\n(.*?)^EOF$", output, re.DOTALL | re.MULTILINE)
    assert found is not None, output
    value: dict[str, Any] = yaml.safe_load(found[1])
    return value


async def published(socket: Path) -> dict[str, list[str]]:
    """Volume handles to the nodes that the driver names."""
    driver = GrpcDriver(str(socket), clock=LoopClock())
    await driver.connect(5)
    listed = await driver.list_volumes(csi.ListVolumesRequest(), Call(5.0))
    await driver.close()
    return {one.volume.volume_id: list(one.status.published_node_ids) for one in listed.entries}


async def test_dev_attaches_for_anybody_who_pastes_what_it_says(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}", "--node-id=a,b", "--volume=mine", "--volume=other") as (program, config):
        assert state / "kubeconfig" == config
        assert 0o600 == config.stat().st_mode & 0o777
        client = HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), chance=Chance(), user_agent="test")
        async with client as cluster:
            assert ["a", "b"] == [one["metadata"]["name"] for one in (await cluster.list(CSI_NODES.whole())).items]
            assert ["hostpath.csi.mooring"] == [one["metadata"]["name"] for one in (await cluster.list(CSI_DRIVERS.whole())).items]
            made = {one["metadata"]["name"]: one for one in (await cluster.list(PERSISTENT_VOLUMES.whole())).items}
            assert {"mine", "other"} == set(made)
            await cluster.create(VOLUME_ATTACHMENTS.whole(), pasted(program.output()))
            assert await until(cluster, VOLUME_ATTACHMENTS, "mine-on-a", attached)
            before = (await cluster.list(VOLUME_ATTACHMENTS.whole())).items
        handles = {name: pv["spec"]["csi"]["volumeHandle"] for name, pv in made.items()}
        told = rf"CSI → driver +ControllerPublishVolume node_id=a .*volume_id={handles['mine']} "
        assert re.search(told, program.output()), "ids are whole"
        assert not re.search(r"(?m)^[IWE]\d{4} ", program.output()), "one clock and one form for all lines"
    assert ["a"] == [one.node_id for one in read_state(state / "driver").volumes[handles["mine"]].published]

    with dev(tmp_path, f"--state={state}", "--node-id=a,b", "--volume=mine", "--volume=more") as (_, config):  # everything is still there
        assert {handles["mine"]: ["a"], handles["other"]: []}.items() <= (await published(state / "csi.sock")).items()
        client = HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), chance=Chance(), user_agent="test")
        async with client as cluster:
            assert before == (await cluster.list(VOLUME_ATTACHMENTS.whole())).items
            volumes = {one["metadata"]["name"]: one for one in (await cluster.list(PERSISTENT_VOLUMES.whole())).items}
            assert {"mine", "more", "other"} == set(volumes)
            assert made["mine"]["metadata"]["uid"] == volumes["mine"]["metadata"]["uid"]


def test_dev_without_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    with dev(tmp_path) as (_, config):
        assert tmp_path / "tmp" in config.parents
        assert config.exists()
    assert [] == os.listdir(tmp_path / "tmp")


def test_a_second_dev_on_the_same_folder_is_kept_out(tmp_path: Path) -> None:
    with dev(tmp_path, f"--state={tmp_path / 'state'}"):
        second = subprocess.run([*MOORING, "dev", f"--state={tmp_path / 'state'}"], capture_output=True, text=True, timeout=30, check=False)
    assert 1 == second.returncode
    assert re.search(r"mooring dev: '.*' is in use by the driver of process \d+", second.stderr), second.stderr
