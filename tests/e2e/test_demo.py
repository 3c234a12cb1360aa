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

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
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
from tests.unit.driver.calls import a_creation

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


async def test_dev_attaches_for_anybody_with_its_kubeconfig(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}", "--node-id=a,b") as (program, config):
        assert state / "kubeconfig" == config
        assert 0o600 == config.stat().st_mode & 0o777
        clock = LoopClock()
        driver = GrpcDriver(str(state / "csi.sock"), clock=clock)
        await driver.connect(5)
        handle = (await driver.create_volume(a_creation("mine"), Call(5.0))).volume.volume_id
        await driver.close()
        client = HttpCluster(kubeconfig.load(str(config), {}), clock=clock, chance=Chance(), user_agent="test")
        async with client as cluster:
            info = {"name": "hostpath.csi.mooring", "nodeID": "b", "topologyKeys": []}
            await cluster.create(CSI_NODES.whole(), {"metadata": {"name": "node-b"}, "spec": {"drivers": [info]}})
            csi_source = {"driver": "hostpath.csi.mooring", "volumeHandle": handle}
            spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi_source}
            await cluster.create(PERSISTENT_VOLUMES.whole(), {"metadata": {"name": "pv"}, "spec": spec})
            wanted = {"attacher": "hostpath.csi.mooring", "nodeName": "node-b", "source": {"persistentVolumeName": "pv"}}
            await cluster.create(VOLUME_ATTACHMENTS.whole(), {"metadata": {"name": "va"}, "spec": wanted})
            assert await until(cluster, VOLUME_ATTACHMENTS, "va", attached)
        assert re.search(r"CSI → driver +ControllerPublishVolume node_id=b ", program.output())
    assert ["b"] == [one.node_id for one in read_state(state / "driver").volumes[handle].published]

    with dev(tmp_path, f"--state={state}", "--node-id=a,b"):  # the driver's volumes are still there
        driver = GrpcDriver(str(state / "csi.sock"), clock=clock)
        await driver.connect(5)
        listed = await driver.list_volumes(csi.ListVolumesRequest(), Call(5.0))
        await driver.close()
    assert [(handle, ["b"])] == [(one.volume.volume_id, list(one.status.published_node_ids)) for one in listed.entries]


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
