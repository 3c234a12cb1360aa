"""B1: `mooring dev` ends at one Ctrl-C, whatever its driver does, and leaves nothing behind: no folder, no mount, no
process.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from mooring.mounts import loops
from tests.e2e.test_dev_drivers import OWN_CLAIM, processes_with
from tests.e2e.test_dev_pods import CLAIM, pod
from tests.support.mooring_dev import MOORING, create, dev_to_kill, needs_mounts
from tests.support.programs import Program
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

HANGING = "tests.support.hanging_driver"
DEAF = "trap '' TERM; sleep 1000; sleep 1000"
"""Of a program that SIGTERM does not end."""

LISTENER = (
    "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(1000)"
)
AS_PROGRAM = shlex.join([*MOORING, "driver", "run"]) + f" {HANGING}:{{name}} --endpoint unix://{{{{socket}}}}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test driver's."""
    monkeypatch.setenv("MOUNT_DRIVER_FOLDER", str(found := tmp_path / "volumes"))
    return found


def nothing_is_left(tmp_path: Path, mark: str) -> None:
    assert [] == os.listdir(tmp_path / "tmp"), "no folder"
    eventually(lambda: not processes_with(mark), 20, "no process")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text(), "no mount"
    eventually(lambda: not loops.below(tmp_path), 10, "no loop device")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize(
    ("driver", "waits"),
    [
        ("sh -c 'sleep 1000' {socket}", "its socket is not there yet"),
        (f"sh -c {shlex.quote(DEAF)} {{socket}}", "its socket is not there yet"),
        (shlex.join([sys.executable, "-c", LISTENER]) + " {socket}", "mooring dev 0"),
        (f"{HANGING}:ConstructorBlocks", "it blocks"),
        (f"{HANGING}:ProbeHangs", "it hangs"),
        (f"{HANGING}:ProbeBlocks", "it blocks"),
        (f"{HANGING}:InfoIgnoresItsEnd", "it hangs"),
        ("unix:///no-such-folder/csi.sock", "mooring dev 0"),
    ],
    ids=[
        "silent",
        "deaf",
        "no gRPC",
        "constructor blocks",
        "probe hangs",
        "probe blocks",
        "ignores its end",
        "nobody there",
    ],
)
def test_it_ends_while_it_waits_for_its_driver(tmp_path: Path, driver: str, waits: str, number: signal.Signals) -> None:
    (tmp_path / "tmp").mkdir()
    command = [*MOORING, "dev", f"--driver={driver}"]
    program = Program(command, tmp_path / "log", {**os.environ, "TMPDIR": str(tmp_path / "tmp")})
    try:
        eventually(lambda: waits in program.output_alive(), 40, "it waits")
        program.send(number)
        assert 0 == program.wait_exit(), program.log_tail()
        is_held = (
            "ended by force: the event loop is held at " in program.output()
            and "hanging_driver.py:" in program.output()
        )
        assert is_held is (waits == "it blocks"), "an author reads where"
        nothing_is_left(tmp_path, str(tmp_path / "tmp"))
    finally:
        program.kill()


@pytest.mark.parametrize("name", ["UnpublishHangs", "UnpublishBlocks", "UnpublishFails", "UnpublishHangsInAThread"])
@pytest.mark.parametrize("form", ["class", "command"])
def test_it_ends_while_its_driver_does_not_let_go_of_a_volume(tmp_path: Path, form: str, name: str) -> None:
    needs_mounts()
    driver = f"{HANGING}:{name}" if form == "class" else AS_PROGRAM.format(name=name) + " --option node_id={node}"
    with dev_to_kill(tmp_path, f"--driver={driver}") as (program, config):
        asyncio.run(create(config, OWN_CLAIM, pod()))
        eventually(lambda: "patch pods/pod/status: status.phase=Running" in program.output_alive(), 40, "the pod runs")
        program.send(signal.SIGINT)
        assert 0 == program.wait_exit(), program.log_tail()
        nothing_is_left(tmp_path, str(tmp_path / "tmp"))


def test_a_second_signal_ends_it_and_leaves_nothing_either(tmp_path: Path) -> None:
    needs_mounts()
    raw = {**CLAIM, "spec": {**CLAIM["spec"], "volumeMode": "Block"}}  # type: ignore[dict-item]
    with dev_to_kill(tmp_path) as (program, config):
        block = pod()
        (container,) = block["spec"]["containers"]
        container["volumeDevices"] = [
            {"name": one["name"], "devicePath": "/dev/x"} for one in container.pop("volumeMounts")
        ]
        asyncio.run(create(config, raw, block))
        eventually(lambda: "patch pods/pod/status: status.phase=Running" in program.output_alive(), 40, "the pod runs")
        program.send(signal.SIGINT)
        program.send(signal.SIGTERM)
        assert 0 == program.wait_exit(), program.log_tail()
        nothing_is_left(tmp_path, str(tmp_path / "tmp"))
