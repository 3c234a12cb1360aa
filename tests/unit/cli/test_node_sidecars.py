"""The three programs of a node as processes: exit codes, signals and what they say."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
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
from tests.support.programs import Program
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


@pytest.mark.slow
def test_the_registrar_carries_no_metrics() -> None:
    """It has none; their library brings an HTTP server and a mail parser along."""
    code = "import sys, mooring.cli.registrar, mooring.csi.grpc, mooring.registrar.registrar; sys.exit('prometheus_client' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("module", ["registrar", "livenessprobe"])
def test_no_client_of_the_api_server_is_loaded(module: str) -> None:
    """One runs for each driver on each node: memory is a budget."""
    heavy = {"aiohttp", "msgspec", "yaml", "rich", "mooring.kube", "mooring.api"}
    code = f"import sys, mooring.cli.{module}, mooring.csi.grpc, mooring.registrar.registrar, mooring.probe.probe; "
    code += f"sys.exit(str({heavy} & sys.modules.keys() or '') or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (0, "") == (done.returncode, done.stderr)
