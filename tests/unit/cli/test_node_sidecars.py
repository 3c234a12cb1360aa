"""The three programs of a node as processes: exit codes, signals and what they say."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import mooring
from mooring.base import watchdog
from mooring.cli.cluster_registrar import run as run_cluster_registrar
from mooring.cli.livenessprobe import run as run_probe
from mooring.cli.process import Machine
from mooring.cli.registrar import run as run_registrar
from mooring.cli.registrar_program import RegistrarFlags, _live
from mooring.csi.errors import DriverError
from mooring.csi.registration import Registration
from mooring.wire.grpc.codes import Code
from tests.support.embedded import EmbeddedServer
from tests.support.programs import Program, free_ports
from tests.support.rows import each_row
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import eventually
from tests.unit.cli.node_programs import driver_on

PATH_FLAG = "--kubelet-registration-path=/k/csi.sock"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ndr-") as name:
        yield Path(name)


@each_row(
    ("run", "words", "code", "text"),
    [
        pytest.param(run_registrar, [], 1, "kubelet-registration-path: required", id="NDR-2"),
        pytest.param(run_registrar, [PATH_FLAG, "--health-port=1", "--http-endpoint=:2"], 1, "only one of", id="NDR-7"),
        pytest.param(
            run_registrar,
            [PATH_FLAG, "--mode=kubelet-registration-probe", "--csi-address=/no"],
            0,
            "deprecated",
            id="NDR-8",
        ),
        pytest.param(run_registrar, ["--mode=kubelet-registration-probe"], 1, "required", id="NDR-8-NDR-2"),
        pytest.param(run_probe, ["--http-endpoint=:1", "--health-port=2"], 1, "only one of", id="probe-port"),
        pytest.param(run_probe, ["--http-endpoint=:1", "--metrics-address=:2"], 1, "only one of", id="probe-metrics"),
    ],
)
def test_flags_that_end_it(
    run: Any, words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == run(words, "x")
    assert text in capsys.readouterr().err


@contextlib.contextmanager
def program(module: str, folder: Path, *flags: str) -> Iterator[Program]:
    running = Program(
        [sys.executable, "-m", f"mooring.cli.{module}", f"--csi-address={folder}/csi.sock", *flags], folder / "log"
    )
    try:
        yield running
    finally:
        running.kill()


def tell(path: Path, *, registered: bool, error: str = "") -> None:
    async def told() -> None:
        kubelet = Registration(path)
        with contextlib.suppress(Exception):  # it may end before it answers
            await kubelet.notify(registered=registered, error=error, timeout_s=5.0)
        await kubelet.close()

    asyncio.run(told())


@pytest.mark.slow
def test_NDR5_sigterm_removes_the_socket_and_NDR4_a_refusal_leaves_it(folder: Path) -> None:
    """The driver comes after the registrar."""
    path = folder / "csi.test-reg.sock"
    flags = (PATH_FLAG, f"--plugin-registration-path={folder}")
    with program("registrar", folder, *flags) as running, driver_on(folder / "csi.sock"):
        eventually(path.exists, 20, "the socket")
        tell(path, registered=True)
        running.send(signal.SIGTERM)
        assert (0, False) == (running.wait_exit(), path.exists())
    with driver_on(folder / "csi.sock"), program("registrar", folder, *flags) as running:
        eventually(path.exists, 20, "the socket")
        tell(path, registered=False, error="dial unix /k/csi.sock: connect: connection refused")
        assert (1, True) == (running.wait_exit(), path.exists())
        assert "/k/csi.sock on the host" in running.output()


@pytest.mark.slow
def test_readyz_is_what_the_kubelet_has_said(folder: Path) -> None:
    (port,) = free_ports(1)
    flags = (PATH_FLAG, f"--plugin-registration-path={folder}", f"--http-endpoint=127.0.0.1:{port}")
    with driver_on(folder / "csi.sock"), program("registrar", folder, *flags):
        eventually(lambda: status(port, "/healthz") == 200, 20, "it is healthy")
        assert 503 == status(port, "/readyz")
        tell(folder / "csi.test-reg.sock", registered=True)
        assert 200 == status(port, "/readyz")


class Failing(ScriptedDriver):
    async def get_plugin_info(self, request: Any) -> Any:
        raise DriverError(Code.INTERNAL, "no name today")


@pytest.mark.slow
@each_row(
    ("driver", "flags", "text"),
    [
        (ScriptedDriver(), ("--plugin-registration-path={folder}/none",), "none/csi.test-reg.sock' does not exist"),
        (ScriptedDriver(), ("--plugin-registration-path=/proc",), "can't be bound"),
        (Failing(), (), "no name today"),
        (ScriptedDriver(""), (), "driver name is empty"),
        (ScriptedDriver(), ("--http-endpoint=127.0.0.1:{taken}",), "cannot listen on"),
    ],
    ids=["no-folder", "no-place", "driver-fails", "no-name", "HT02"],
    fresh=[folder],
)
def test_what_keeps_the_registrar_from_starting_is_named(
    folder: Path, driver: ScriptedDriver, flags: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, driver_on(folder / "csi.sock", driver):
        words = [flag.format(folder=folder, taken=taken.getsockname()[1]) for flag in flags]
        places = [f"--csi-address={folder}/csi.sock", f"--plugin-registration-path={folder}"]
        assert 1 == run_registrar([*places, PATH_FLAG, *words], "x")
        assert text in capsys.readouterr().err


@each_row(("run", "needed"), [(run_registrar, [PATH_FLAG]), (run_probe, []), (run_cluster_registrar, [])])
def test_FL01_FL02_FL03_flags_are_read_as_everywhere(
    run: Any, needed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["-v=5", "--version"], ["--v=5", "-version"], ["--v", "5", "--version=true"]):
        assert 0 == run([*needed, *words], "x")
        assert f"x v{mooring.__version__}\n" == capsys.readouterr().out
    assert 2 == run([*needed, "--no-such"], "x")
    assert "Usage of x" in capsys.readouterr().err


@pytest.mark.slow
@each_row(("number", "code", "stays"), [(signal.SIGINT, 1, False), (signal.SIGTERM, 0, True)], fresh=[folder])
def test_CDR1_sigint_deletes_the_object_and_sigterm_keeps_it(folder: Path, number: int, code: int, stays: bool) -> None:
    """The driver comes after the registrar."""
    with (
        EmbeddedServer(folder) as server,
        program("cluster_registrar", folder, f"--kubeconfig={server.kubeconfig}") as running,
    ):
        with driver_on(folder / "csi.sock"):
            eventually(lambda: "CSIDriver object created" in running.output_alive(), 20, "the object")
            running.send(number)
            assert code == running.wait_exit()
        assert stays == ("CSIDriver object deleted" not in running.output())


HEAVY = {
    "_ssl",
    "google.protobuf",
    "uuid",
    "grpc",
    "mooring.wire.http1",
    "msgspec",
    "yaml",
    "rich",
    "prometheus_client",
    "http.client",
    "email",
    "mooring.kube",
    "mooring.api",
}


MODULES_MAX = 250
"""Of a program with all that it loads: most of its start, and of its memory."""


@pytest.mark.slow
@each_row(
    ("module", "flags", "pages"),
    [
        (
            "registrar",
            (PATH_FLAG, "--plugin-registration-path={folder}", "--enable-pprof"),
            ("/healthz", "/debug/pprof/"),
        ),
        ("livenessprobe", (), ("/healthz", "/metrics")),
    ],
    fresh=[folder],
)
def test_what_runs_for_each_driver_on_each_node_loads_only_what_it_needs(
    folder: Path, module: str, flags: tuple[str, ...], pages: tuple[str, ...]
) -> None:
    """Memory is a budget. Asked of the program itself, once it has served all its pages."""
    (port,) = free_ports(1)
    words = [
        f"--csi-address={folder}/csi.sock",
        f"--http-endpoint=127.0.0.1:{port}",
        *(flag.format(folder=folder) for flag in flags),
    ]
    running = Program([sys.executable, "-X", "importtime", "-m", f"mooring.cli.{module}", *words], folder / "log")
    try:
        with driver_on(folder / "csi.sock"):
            for page in pages:
                eventually(lambda page=page: status(port, page) == 200, 20, page)
            running.send(signal.SIGTERM)
            assert 0 == running.wait_exit()
    finally:
        running.kill()
    loaded = {
        line.rpartition("|")[2].strip() for line in running.output().splitlines() if line.startswith("import time:")
    }
    assert {"asyncio.events", "hpack", f"mooring.cli.{module}_program"} <= loaded
    assert set() == HEAVY & loaded
    assert len(loaded) <= MODULES_MAX, sorted(loaded)


def status(port: int, path: str) -> int:
    """What a GET is answered with; 0 while nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


class Left(Exception):
    """The process would have ended, with this code."""


@pytest.mark.slow
def test_a_registrar_whose_socket_is_gone_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new start makes it again. No probe is needed for that, nor a port."""
    monkeypatch.setattr(watchdog, "BEAT_S", 0.01)
    path = folder / "csi.test-reg.sock"
    flags = RegistrarFlags(
        csi_address=str(folder / "csi.sock"),
        kubelet_registration_path="/k/csi.sock",
        plugin_registration_path=str(folder),
    )

    def leave(code: int) -> NoReturn:
        raise Left(code)

    async def without_socket() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_live(flags, Machine(exit_now=leave)), name="live")
            while not path.exists():  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.005)
            path.unlink()

    with driver_on(folder / "csi.sock"), pytest.raises(ExceptionGroup) as ended:
        asyncio.run(asyncio.wait_for(without_socket(), 20))
    assert [(1,)] == [error.args for error in ended.value.exceptions]
    assert 'reason="registration socket does not exist"' in capsys.readouterr().err
