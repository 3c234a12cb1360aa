"""The three programs of a node as processes: exit codes, signals and what they say."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.livenessprobe import run as run_probe
from mooring.cli.registrar import run as run_registrar
from mooring.csi.registration import Registration
from mooring.driver.server import serving
from tests.support.embedded import EmbeddedServer
from tests.support.programs import Program, free_ports
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import eventually

PATH_FLAG = "--kubelet-registration-path=/k/csi.sock"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ndr-") as name:
        yield Path(name)


@contextlib.contextmanager
def driver_on(path: Path) -> Iterator[None]:
    """A driver in a thread of its own."""
    loop, ready, done = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(ScriptedDriver(), str(path), grace_s=0.0):
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()


@pytest.mark.parametrize(
    ("run", "words", "code", "text"),
    [
        pytest.param(run_registrar, [], 1, "kubelet-registration-path: required", id="NDR-2"),
        pytest.param(run_registrar, [PATH_FLAG, "--health-port=1", "--http-endpoint=:2"], 1, "only one of", id="NDR-7"),
        pytest.param(run_registrar, [PATH_FLAG, "--mode=kubelet-registration-probe", "--csi-address=/no"], 0, "deprecated", id="NDR-8"),
        pytest.param(run_registrar, ["--mode=kubelet-registration-probe"], 1, "required", id="NDR-8-NDR-2"),
        pytest.param(run_probe, ["--http-endpoint=:1", "--health-port=2"], 1, "only one of", id="probe-port"),
        pytest.param(run_probe, ["--http-endpoint=:1", "--metrics-address=:2"], 1, "only one of", id="probe-metrics"),
    ],
)
def test_flags_that_end_it(run: Any, words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code == run(words, "x")
    assert text in capsys.readouterr().err


@contextlib.contextmanager
def program(module: str, folder: Path, *flags: str) -> Iterator[Program]:
    running = Program([sys.executable, "-m", f"mooring.cli.{module}", f"--csi-address={folder}/csi.sock", *flags], folder / "log")
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
        tell(path, registered=False, error="connection refused")
        assert (1, True) == (running.wait_exit(), path.exists())
        assert "/k/csi.sock on the host" in running.output()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code", "stays"), [(signal.SIGINT, 1, False), (signal.SIGTERM, 0, True)])
def test_CDR1_sigint_deletes_the_object_and_sigterm_keeps_it(folder: Path, number: int, code: int, stays: bool) -> None:
    """The driver comes after the registrar."""
    with EmbeddedServer(folder) as server, program("cluster_registrar", folder, f"--kubeconfig={server.kubeconfig}") as running:
        with driver_on(folder / "csi.sock"):
            eventually(lambda: "CSIDriver object created" in running.output_alive(), 20, "the object")
            running.send(number)
            assert code == running.wait_exit()
        assert stays == ("CSIDriver object deleted" not in running.output())


HEAVY = {"_ssl", "aiohttp", "msgspec", "yaml", "rich", "prometheus_client", "http.client", "email", "mooring.kube", "mooring.api"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "flags", "pages"),
    [
        ("registrar", (PATH_FLAG, "--plugin-registration-path={folder}", "--enable-pprof"), ("/healthz", "/debug/pprof/")),
        ("livenessprobe", (), ("/healthz", "/metrics")),
    ],
)
def test_what_runs_for_each_driver_on_each_node_loads_only_what_it_needs(
    folder: Path, module: str, flags: tuple[str, ...], pages: tuple[str, ...]
) -> None:
    """Memory is a budget. Asked of the program itself, once it has served all its pages."""
    (port,) = free_ports(1)
    words = [f"--csi-address={folder}/csi.sock", f"--http-endpoint=127.0.0.1:{port}", *(flag.format(folder=folder) for flag in flags)]
    running = Program([sys.executable, "-X", "importtime", "-m", f"mooring.cli.{module}", *words], folder / "log")
    try:
        with driver_on(folder / "csi.sock"):
            for page in pages:
                eventually(lambda page=page: status(port, page) == 200, 20, page)
            running.send(signal.SIGTERM)
            assert 0 == running.wait_exit()
    finally:
        running.kill()
    loaded = {line.rpartition("|")[2].strip() for line in running.output().splitlines() if line.startswith("import time:")}
    assert {"asyncio.events", "grpc", f"mooring.cli.{module}_program"} <= loaded
    assert set() == HEAVY & loaded


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
