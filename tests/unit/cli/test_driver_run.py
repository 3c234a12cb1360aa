"""`mooring driver run`: a driver of one's own, its registrar and its probe in one process."""

from __future__ import annotations

import asyncio
import re
import signal
import stat
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.cli.driver import run
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.registration import Registration
from mooring.csi.wire_driver import WireDriver
from tests.support.programs import Program, free_ports
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.unit.driver.calls import a_capability


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path: there are sockets in it."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


DRIVER = """
import asyncio
from pathlib import Path
from google.protobuf.wrappers_pb2 import BoolValue
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.blocking import blocking
from mooring.driver.sdk import Plugin


class Controller(Plugin):
    name = "controller.example.com"


class Mine(Plugin):
    name = "mine.example.com"

    def __init__(self, folder: Path, node_id: str = "node-1") -> None:
        self.folder, self.node_id = folder, node_id

    async def probe(self, request):
        return csi.ProbeResponse(ready=BoolValue(value=not (self.folder / "ill").exists()))

    async def node_publish_volume(self, request):
        (self.folder / "begun").touch()
        while not (self.folder / "go").exists():
            await asyncio.sleep(0.01)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request):
        (self.folder / "begun").touch()
        await blocking(threading.Event().wait)
        return csi.NodeUnpublishVolumeResponse()
"""


@each_row(
    ("argv", "code", "text"),
    [
        (["--help"], 0, "usage: mooring driver hostpath"),
        (["run", "--help"], 0, "mooring driver run shelf:Shelf"),
        (["run"], 2, "endpoint: required"),
        (["run", "--endpoint=FOLDER/none/csi.sock"], 2, "the driver is missing: mooring driver run module:Class"),
        (["run", "nothing:Here", "--endpoint=FOLDER/none/csi.sock"], 1, "there is no module 'nothing' here"),
        (["run", "a:B", "c", "--endpoint=FOLDER/none/csi.sock"], 2, "'c' is no flag"),
        (
            ["run", "a:B", "--endpoint=FOLDER/none/csi.sock", "--option=folder"],
            2,
            "a name and a value, as in folder=/data",
        ),
        (
            ["run", "a:B", "--endpoint=FOLDER/none/csi.sock", "--kubelet-registration-path=/k"],
            2,
            "of no use without --plugin-registration-path",
        ),
        (
            ["run", "a:B", "--endpoint=FOLDER/none/csi.sock", "--socket-mode=rw"],
            2,
            "file permissions in octal, as in 0660",
        ),
        (
            ["run", "a:B", "--endpoint=FOLDER/none/csi.sock", "--socket-mode=7777"],
            2,
            "file permissions in octal, as in 0660",
        ),
        (
            ["run", "a:B", "--endpoint=FOLDER/none/csi.sock", "--grace-period=-1s"],
            2,
            "grace-period: must be greater than zero",
        ),
        (["run", "a:B", "--endpoint=FOLDER/none/csi.sock", "--http-endpoint=here"], 2, "http-endpoint: "),
        (
            ["run", "./DRIVER:Controller", "--endpoint=FOLDER/none/csi.sock", "--plugin-registration-path=/r"],
            1,
            "has no node service",
        ),
        (["run", "./DRIVER:Mine", "--endpoint=FOLDER/none/csi.sock", "--option=folder=/d"], 1, "the folder of socket"),
        (
            ["run", "./DRIVER:Mine", "--endpoint=FOLDER/csi.sock", "--option=folder=/d", "--option=node_id="],
            1,
            "Mine has no node_id",
        ),
    ],
)
def test_words_that_do_not_work(
    argv: list[str],
    code: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine.py").write_text(DRIVER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSI_ENDPOINT", raising=False)
    assert code == run(
        [word.replace("DRIVER", "mine.py").replace("FOLDER", str(tmp_path)) for word in argv], "mooring driver"
    )
    out, err = capsys.readouterr()
    assert text in out + err
    assert "Traceback" not in err


def test_27b6_an_import_that_fails_begins_with_the_authors_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("import no_such_thing\n")
    monkeypatch.chdir(tmp_path)
    assert 1 == run(["run", "./mine.py:Mine", f"--endpoint={tmp_path}/csi.sock"], "mooring driver")
    first, *story = capsys.readouterr().err.splitlines()
    assert "mooring driver run: mine.py, line 1: ModuleNotFoundError: No module named 'no_such_thing'" == first
    assert 4 == len(story), "nothing of ours"


@asynccontextmanager
async def the_driver(tmp_path: Path, *flags: str) -> AsyncIterator[tuple[Program, Path]]:
    """The running program, and its socket."""
    (tmp_path / "mine.py").write_text(DRIVER)
    (tmp_path / "registry").mkdir()
    socket = tmp_path / "csi.sock"
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "driver",
        "run",
        f"{tmp_path}/mine.py:Mine",
        f"--endpoint=unix://{socket}",
    ]
    program = Program(
        [*command, f"--option=folder={tmp_path}", f"--plugin-registration-path={tmp_path / 'registry'}", *flags],
        tmp_path / "log",
    )
    try:
        registration = tmp_path / "registry" / "mine.example.com-reg.sock"
        await asyncio.to_thread(eventually, lambda: program.assert_alive() or registration.exists(), 30, "it registers")
        yield program, socket
    finally:
        program.kill()


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.slow
async def test_driver_registrar_and_probe_are_one_process(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    flags = ("--kubelet-registration-path=/host/csi.sock", f"--http-endpoint=127.0.0.1:{port}")
    async with the_driver(tmp_path, *flags) as (program, socket):
        assert 0o600 == stat.S_IMODE(socket.stat().st_mode)
        registration = Registration(tmp_path / "registry" / "mine.example.com-reg.sock")
        info = await registration.get_info(10)
        assert ("CSIPlugin", "mine.example.com", "/host/csi.sock") == (info.type, info.name, info.endpoint)
        await asyncio.to_thread(eventually, lambda: asked(port, "/healthz") == (200, "ok"), 20, "it is healthy")
        code, text = await asyncio.to_thread(asked, port, "/readyz")
        assert (503, True) == (code, "has asked, and has not said yet" in text)
        await registration.notify(registered=True, timeout_s=10)
        assert (200, "ok") == await asyncio.to_thread(asked, port, "/readyz")
        (tmp_path / "ill").touch()
        assert (500, "driver responded but is not ready") == await asyncio.to_thread(asked, port, "/healthz")
        await registration.close()
        program.send(signal.SIGTERM)
        assert 0 == await asyncio.to_thread(program.wait_exit, 20), program.log_tail()
        assert not socket.exists()
        assert [] == list((tmp_path / "registry").iterdir())
        assert "Traceback" not in program.output()


@pytest.mark.slow
async def test_a_refused_driver_goes_on_and_is_registered_anew(tmp_path: Path) -> None:
    async with the_driver(tmp_path) as (program, _):
        path = tmp_path / "registry" / "mine.example.com-reg.sock"
        await asyncio.to_thread(eventually, path.exists, 20, "a socket")
        first = path.stat().st_ctime_ns  # (a number of an inode comes again at once)
        registration = Registration(path)
        assert str(tmp_path / "csi.sock") == (await registration.get_info(10)).endpoint
        try:
            await registration.notify(registered=False, error="NodeGetInfo: code = Unavailable", timeout_s=10)
        finally:
            await registration.close()
        await asyncio.to_thread(
            eventually, lambda: path.exists() and path.stat().st_ctime_ns != first, 20, "a new socket"
        )
        program.assert_alive()
        assert "can't reach the driver" in program.output()


@pytest.mark.slow
async def test_a_registration_socket_that_somebody_removed_is_made_anew(tmp_path: Path) -> None:
    """With its folder, too: a kubelet makes that at its start."""
    (port,) = free_ports(1)
    async with the_driver(tmp_path, f"--http-endpoint=127.0.0.1:{port}") as (program, _):
        folder = tmp_path / "registry"
        path = folder / "mine.example.com-reg.sock"
        registration = Registration(path)
        await registration.notify(registered=True, timeout_s=10)
        await registration.close()
        path.unlink()
        folder.rmdir()
        await asyncio.to_thread(eventually, lambda: asked(port, "/readyz")[0] == 503, 20, "it is not ready")
        folder.mkdir()
        await asyncio.to_thread(eventually, path.exists, 20, "a new socket")
        registration = Registration(path)
        await registration.notify(registered=True, timeout_s=10)
        await registration.close()
        assert (200, "ok") == await asyncio.to_thread(asked, port, "/readyz")
        program.assert_alive()


@asynccontextmanager
async def a_client(socket: Path) -> AsyncIterator[WireDriver]:
    driver = WireDriver(str(socket), clock=LoopClock())
    await driver.connect(10)
    yield driver
    await driver.close()


@pytest.mark.slow
async def test_a_call_in_flight_ends_before_the_process_does_and_a_flag_lets_a_group_in(tmp_path: Path) -> None:
    """By the pod's fsGroup sidecars of another user reach the driver's socket."""
    async with the_driver(tmp_path, "--socket-mode=0660") as (program, socket), a_client(socket) as driver:
        assert 0o660 == stat.S_IMODE(socket.stat().st_mode)
        request = csi.NodePublishVolumeRequest(volume_id="v", target_path="/t", volume_capability=a_capability())
        call = asyncio.ensure_future(driver.node_publish_volume(request, Call(timeout_s=60)))
        await asyncio.to_thread(eventually, (tmp_path / "begun").exists, 20, "the call runs")
        program.send(signal.SIGTERM)
        await asyncio.to_thread(
            eventually, lambda: not list((tmp_path / "registry").iterdir()), 20, "the kubelet is told first"
        )
        program.assert_alive()
        (tmp_path / "go").touch()
        await call
        assert 0 == await asyncio.to_thread(program.wait_exit, 20)


@pytest.mark.slow
async def test_a_thread_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    async with the_driver(tmp_path, "--grace-period=100ms") as (program, socket), a_client(socket) as driver:
        request = csi.NodeUnpublishVolumeRequest(volume_id="v", target_path="/t")
        call = asyncio.ensure_future(driver.node_unpublish_volume(request, Call(timeout_s=60)))
        await asyncio.to_thread(eventually, (tmp_path / "begun").exists, 20, "the call runs")
        program.send(signal.SIGTERM)
        assert 0 == await asyncio.to_thread(program.wait_exit, 20)
        with pytest.raises(DriverError):
            await call


BREAKS = """
import asyncio, uuid
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.sdk import Plugin


class Breaks(Plugin):
    name = "breaks.example.com"
    node_id = "n"

    async def create_volume(self, request):
        if request.name == "slow":
            await asyncio.sleep(60)
        return csi.CreateVolumeResponse(volume={"volume_id": uuid.uuid4().hex, "capacity_bytes": 1 << 30})

    async def delete_volume(self, request):
        return csi.DeleteVolumeResponse()

    async def validate_volume_capabilities(self, request):
        return csi.ValidateVolumeCapabilitiesResponse()

    async def node_publish_volume(self, request):
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request):
        return csi.NodeUnpublishVolumeResponse()
"""


async def life_of_a_broken_driver(tmp_path: Path, *flags: str, hangs: bool) -> str:
    """The log of one that makes a volume three times and mounts nothing. hangs: nor does it answer a fourth call."""
    (tmp_path / "breaks.py").write_text(BREAKS)
    socket = tmp_path / "csi.sock"
    words = ["driver", "run", f"{tmp_path}/breaks.py:Breaks", f"--endpoint=unix://{socket}", *flags]
    program = Program([sys.executable, "-m", "mooring.cli.mooring", *words], tmp_path / "log")
    try:
        await asyncio.to_thread(eventually, lambda: program.assert_alive() or socket.exists(), 30, "it serves")
        driver = WireDriver(str(socket), clock=LoopClock())
        await driver.connect(20)
        for _ in range(3):
            await driver.create_volume(
                csi.CreateVolumeRequest(name="a", volume_capabilities=[a_capability()]), Call(20)
            )
        if hangs:
            slow = csi.CreateVolumeRequest(name="slow", volume_capabilities=[a_capability()])
            with pytest.raises(DriverError):
                await driver.create_volume(slow, Call(5))
            # The driver's own time for the call began when the call arrived: it ends a little after the caller's.
            await asyncio.to_thread(eventually, lambda: "CSI704" in program.output(), 30, "the call's end is told")
        target = tmp_path / "target"
        target.mkdir()
        publish = csi.NodePublishVolumeRequest(volume_id="v", target_path=str(target), volume_capability=a_capability())
        await driver.node_publish_volume(publish, Call(20))
        await driver.close()
        program.send(signal.SIGTERM)
        assert 0 == await asyncio.to_thread(program.wait_exit, 20), program.log_tail()
        return program.output()
    finally:
        program.kill()


@pytest.mark.slow
async def test_each_rule_that_the_driver_breaks_is_named_once_and_all_of_them_at_the_end(tmp_path: Path) -> None:
    output = await life_of_a_broken_driver(tmp_path, hangs=True)
    lines = [line for line in output.splitlines() if "The driver breaks a rule of CSI" in line]
    assert ["CSI201", "CSI704", "CSI511"] == [re.findall(r'breach="(CSI\d+) ', line)[0] for line in lines]
    assert all("kubernetes=" in line and "mend=" in line for line in lines)
    _, _, end = output.partition("The driver broke 2 rules of CSI, with 1 warning")
    assert ["CSI201 CreateVolume", "CSI511 NodePublishVolume", "CSI704 (warning) CreateVolume"] == re.findall(
        r"CSI\d+ (?:\(warning\) )?\w+", end
    )


@pytest.mark.slow
async def test_no_rules_are_named_where_nobody_wants_them(tmp_path: Path) -> None:
    assert "CSI201" not in await life_of_a_broken_driver(tmp_path, "--rules=false", hangs=False)
