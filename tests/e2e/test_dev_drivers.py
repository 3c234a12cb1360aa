"""`mooring dev --driver`: somebody's own driver in each of its forms has pods on its volumes; what is wrong with one is
told at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.cli import mooring as command
from tests.e2e.test_dev_pods import CLAIM, Kubectl, mounts_seen_by, pod
from tests.support import mount_driver
from tests.support.folder_driver import FolderDriver
from tests.support.in_process import in_process
from tests.support.mooring_dev import MOORING, Within, as_it_is, dev, dev_to_kill, needs_mounts
from tests.support.mount_namespace import MountNamespace
from tests.support.rows import each_row
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

OWN_CLAIM = {**CLAIM, "spec": {**CLAIM["spec"], "storageClassName": "dev"}}  # type: ignore[dict-item]
CLASS = "tests.support.mount_driver:MountDriver"
COMMAND = f"{shlex.join(mount_driver.COMMAND)} --endpoint unix://{{socket}} --node id-of-{{node}}"
CALLS = ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test driver's."""
    monkeypatch.setenv(mount_driver.FOLDER, str(found := tmp_path / "volumes"))
    return found


@contextlib.contextmanager
def form(name: str, tmp_path: Path, folder: Path) -> Iterator[tuple[str, Within]]:
    """What --driver says, and where dev runs: a driver that somebody else runs mounts there, too."""
    if name != "socket":
        yield {"class": CLASS, "command": COMMAND}[name], as_it_is
        return
    namespace = MountNamespace()
    program = mount_driver.start(folder, socket := tmp_path / "own.sock", tmp_path / "own.log", namespace)
    try:
        eventually(socket.exists, 20, "the driver's socket")
        yield f"unix://{socket}", namespace.command
        assert 0 == program.stop()
    finally:
        program.kill()
        namespace.close()


@pytest.mark.parametrize("name", ["class", "command", "socket"])
def test_a_pod_has_a_volume_of_the_authors_own_driver(tmp_path: Path, folder: Path, name: str) -> None:
    needs_mounts()
    with (
        form(name, tmp_path, folder) as (text, within),
        dev(tmp_path, f"--driver={text}", within=within) as (program, config),
    ):
        kubectl = Kubectl(config)
        assert "mine.csi.test" == kubectl("get", "csidrivers", "-o", "jsonpath={.items[*].metadata.name}")
        assert "dev dev-wait" == kubectl("get", "storageclasses", "-o", "jsonpath={.items[*].metadata.name}")
        node_id = {"class": "n1", "command": "id-of-n1", "socket": "own-id"}[name]
        assert f"n1 {node_id}" == kubectl(
            "get", "csinodes", "-o", "jsonpath={.items[*].metadata.name} {.items[*].spec.drivers[*].nodeID}"
        )
        assert "dev" == kubectl("get", "volumesnapshotclasses", "-o", "jsonpath={.items[*].metadata.name}"), (
            "it makes snapshots"
        )
        assert "resizer → API" in program.output(), "and it grows volumes"
        kubectl.apply(OWN_CLAIM, pod())
        kubectl.ready("pod")
        (volume,) = FolderDriver(folder).volumes.iterdir()
        (volume / "data" / "file").write_text("of the driver")
        (path,) = [one for one in mounts_seen_by(program.pid, config.parent / "nodes") if "/pods/" in one]
        assert "of the driver" == Path(f"/proc/{program.pid}/root{path}/file").read_text()
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
        assert [] == mounts_seen_by(program.pid, config.parent)
        for call in ("CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume"):
            assert re.search(rf"CSI → driver +{call} ", program.output()), f"{call} is told"
        for call in CALLS:
            assert re.search(rf"CSI → n1 +{call} .*→ OK", program.output()), f"{call} is told"
    assert [] == mounts_seen_by("self", tmp_path)
    assert [] == os.listdir(tmp_path / "tmp")


def test_what_a_lost_driver_left_mounted_is_not_deleted(tmp_path: Path, folder: Path) -> None:
    """The folder of dev stays where a volume of somebody's may still be mounted in it."""
    namespace = MountNamespace()
    driver = mount_driver.start(folder, socket := tmp_path / "own.sock", tmp_path / "own.log", namespace)
    try:
        eventually(socket.exists, 20, "the driver's socket")
        with dev(tmp_path, f"--driver=unix://{socket}", within=namespace.command) as (program, config):
            kubectl = Kubectl(config)
            kubectl.apply(OWN_CLAIM, pod())
            kubectl.ready("pod")
            (volume,) = FolderDriver(folder).volumes.iterdir()
            (volume / "data" / "file").write_text("dear to somebody")
            driver.kill()
        assert re.search(
            r"warning +nothing comes of the end of the pods: volumes that they still have are left",
            program.output(),
        )
        assert re.search(
            rf"warning +{config.parent} is left, since \S+ is still mounted in it: unmount that", program.output()
        )
        assert "dear to somebody" == (volume / "data" / "file").read_text()
        assert config.parent.is_dir()
    finally:
        driver.kill()
        namespace.close()


def test_a_command_runs_once_for_each_node_and_what_it_says_is_told(tmp_path: Path) -> None:
    needs_mounts()
    with dev(tmp_path, f"--driver={COMMAND}", "--nodes=2") as (program, config):
        kubectl = Kubectl(config)
        ids = kubectl("get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].nodeID}")
        assert "id-of-n1 id-of-n2" == ids
        kubectl.apply(OWN_CLAIM, pod(node="n2"))
        kubectl.ready("pod")
        assert re.search(r"output +id-of-n2 publishes ", program.output())
    assert 2 == program.output().count("ended in good order\n") - 1, "both were asked to end, and dev itself"


def processes_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if text in (entry / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(entry.name))
    return found


def test_a_driver_that_dies_is_started_again_and_its_pods_go_on(tmp_path: Path) -> None:
    needs_mounts()
    with dev(tmp_path, f"--driver={COMMAND}") as (program, config):
        kubectl = Kubectl(config)
        socket = f"unix://{config.parent}/run/1.sock"
        kubectl.apply(OWN_CLAIM, pod())
        kubectl.ready("pod")
        for pid in processes_with(socket):
            if "supervisor" not in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)
        eventually(
            lambda: "the driver ended with exit code 137: started again" in program.output_alive(),
            20,
            "its end is told",
        )
        eventually(lambda: "CSI driver is back, unchanged" in program.output_alive(), 20, "it is back")
        kubectl("delete", "pod", "pod", "--timeout=30s")
        eventually(lambda: [] == mounts_seen_by(program.pid, config.parent), 20, "the volume is unstaged after the pod")


def test_a_killed_dev_takes_its_drivers_along(tmp_path: Path) -> None:
    with dev_to_kill(tmp_path, f"--driver={COMMAND}", f"--state={tmp_path / 'state'}") as (_, config):
        socket = f"unix://{config.parent}/run/1.sock"
        assert processes_with(socket)
    eventually(lambda: not processes_with(socket), 10, "the driver is gone")


def test_a_driver_without_a_node_service_has_volumes_and_no_running_pods(tmp_path: Path) -> None:
    with dev(tmp_path, "--driver=tests.support.mount_driver:NoNodes") as (program, config):
        assert "The driver has no node service: pods get a node, and do not run.\n" in program.output()
        kubectl = Kubectl(config)
        assert "n1" == kubectl("get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].nodeID}")
        kubectl.apply(OWN_CLAIM)
        kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "--timeout=20s", "pvc/claim")


SLOW = f"{shlex.join([mount_driver.COMMAND[0], '-c', 'import time; time.sleep(60)'])} {{socket}}"


@each_row(
    ("flags", "code", "problem"),
    [
        (["--driver=tests.support.mount_driver:MountDrive"], 1, "has no class 'MountDrive': did you mean MountDriver?"),
        (["--driver=tests.support.mount_driver:NoDriver"], 1, "no driver: derive it from mooring.driver.sdk.Plugin"),
        (
            ["--driver=tests.support.mount_driver:NeedsArguments"],
            1,
            "needs the option folder: give --option folder=...",
        ),
        (["--driver=tests.support.mount_driver:Broken"], 1, "ValueError: this driver has no backend\nTraceback"),
        (["--driver=no_such_module:Driver"], 1, "there is no module 'no_such_module' here ("),
        (["--driver=./no_such_file.py:Driver"], 1, "there is no file 'no_such_file.py'"),
        (["--option=folder=/data"], 2, "option: it is for the constructor of a driver that is a class"),
        (["--driver=false {socket}"], 1, "driver: false ended with exit code 1 before it answered; it said nothing"),
        (
            ["--driver=sh -c 'echo no backend; exit 4' {socket}"],
            1,
            "sh ended with exit code 4 before it answered\n  no backend",
        ),
        (["--driver=./no-such-command {socket}"], 1, "./no-such-command: No such file or directory"),
        (["--driver=unix:///no-such-folder/csi.sock"], 1, "the socket does not exist yet: is the driver running"),
        (
            ["--driver=unix:///no-such-folder/csi.sock"],
            1,
            "start the driver first, or let `mooring dev` start it: --driver './my-driver",
        ),
        (
            ["--driver=./driver"],
            2,
            (
                "'./driver' is none of the three forms: unix:///path/of.sock (or the path alone), module:Class (or "
                "./file.py:Class), or a"
            ),
        ),
        (["--driver=unix:///a.sock", "--nodes=2"], 2, "one socket is one node's, and there are 2: take --nodes=1"),
        (
            [f"--driver={COMMAND.replace('{node}', 'x')}", "--nodes=2"],
            1,
            "n1 and n2 got the same node id, 'id-of-x': let the",
        ),
        (
            ["--driver=a:B", "--topology=n1:zone=a"],
            2,
            "topology: of the reference driver alone; your own driver reports",
        ),
        (["--driver=a:B", "--zones=1"], 2, "zones: of the reference driver alone; your own driver reports"),
        (["--zones=4"], 2, "zones: each needs a node, and there are 3; got 4"),
        (["--zones=-1"], 2, "zones: each needs a node, and there are 3; got -1"),
        (
            ["--zones=1", "--topology=n1:zone=a"],
            2,
            "zones: --zones makes zones, and --topology names them: give one of the two",
        ),
        (["--nodes=2", "--topology=n3:zone=a"], 2, "topology: there is no node 'n3', only n1, n2"),
        (["--nodes=2", "--topology=n1:zone=a"], 2, "topology: node 'n2' has other keys than node 'n1'"),
        (["--node-monitor-grace-period=500ms"], 2, "node-monitor-grace-period: must be 1s at least, got 500ms"),
        (["--force-detach-after=-1s"], 2, "force-detach-after: must not be negative, got -1s"),
        (
            ["--nodes=2", "--node-id=a"],
            2,
            "--nodes makes n1, n2 and so on, and --node-id names them: give one of the two",
        ),
        (["--nodes=1000"], 2, "nodes: must be between 1 and 100"),
    ],
    parts=4,
    fresh=[folder],
)
def test_what_is_wrong_is_told_in_a_line_with_the_next_step(
    tmp_path: Path, flags: list[str], code: int, problem: str
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    if code == 2:  # of its flags alone
        done = in_process(command.run, "dev", *flags, environ=environment)
    else:
        words = [*MOORING, "dev", *flags]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (code, True) == (done.returncode, problem in done.stderr), done.stdout + done.stderr
    assert ("Broken" in flags[0]) is ("Traceback" in done.stderr), "an author's own error has its place"
    assert [] == [name for name in os.listdir(tmp_path) if name != "volumes"], "nothing of dev is left"


def test_a_socket_where_nobody_answers_or_somebody_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no socket")
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run(
        [*MOORING, "dev", f"--driver=unix://{tmp_path / 'file'}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert (1, True) == (done.returncode, "it is a file, not a socket" in done.stderr), done.stderr
