"""`livenessprobe` as a process: what its health server answers, when it opens, and what it serves where."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.base.clock import LoopClock
from mooring.cli.livenessprobe_program import ProbeFlags, _open_unconnected
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.programs import Program, free_ports
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.support.waiting import eventually
from tests.unit.cli.node_programs import driver_on

MISSING = "the socket does not exist yet: is the driver running, and is the folder of its socket mounted here too?"
NOT_READY = "driver responded but is not ready"


class ProbedDriver:
    """answer: of Probe; an exception is raised, None hangs. named: cleared, GetPluginInfo hangs."""

    def __init__(self) -> None:
        self.answer: csi.ProbeResponse | Exception | None = csi.ProbeResponse(ready={"value": True})
        self.is_named = True
        self.asked = 0

    async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
        self.asked += 1
        while not self.is_named:  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.02)
        return csi.GetPluginInfoResponse(name="csi.test")

    async def probe(self, request: Any) -> csi.ProbeResponse:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.get_running_loop().create_future()
        assert self.answer is not None
        return self.answer


class Probe:
    """A running program. port: of its health server."""

    def __init__(self, folder: Path, *flags: str) -> None:
        (self.port,) = free_ports(1)
        endpoint = (
            ()
            if any(flag.startswith("--health-port") for flag in flags)
            else (f"--http-endpoint=127.0.0.1:{self.port}",)
        )
        words = [f"--csi-address={folder}/csi.sock", *endpoint, *(flag.format(port=self.port) for flag in flags)]
        self.program = Program([sys.executable, "-m", "mooring.cli.livenessprobe", *words], folder / "log")

    def get(self, path: str = "/healthz", port: int = 0, method: str = "GET") -> tuple[int, str]:
        """Status and text; (0, "") while nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionError:
            return 0, ""
        finally:
            connection.close()

    def opens(self) -> tuple[int, str]:
        """Its first answer."""
        return eventually(lambda: found if (found := self.get())[0] else None, 30, "the health server answers")

    def is_healthy(self) -> bool:
        return self.get() == (200, "ok")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="liv-") as name:
        yield Path(name)


@pytest.fixture
def start(folder: Path) -> Iterator[Any]:
    started: list[Probe] = []

    def probe(*flags: str) -> Probe:
        started.append(Probe(folder, *flags))
        return started[-1]

    yield probe
    for one in started:
        one.program.kill()


@pytest.mark.slow
def test_LV01_LIV1_each_answer_of_the_driver_has_its_status(folder: Path, start: Any) -> None:
    """One process through all of it: ready, not ready, failing, hanging, gone, back."""
    driver, probe = ProbedDriver(), start("--probe-timeout=3s")
    with driver_on(folder / "csi.sock", driver):
        assert (200, "ok") == probe.opens()
        assert (200, "ok") == probe.get(method="POST")
        driver.answer = csi.ProbeResponse()
        assert (200, "ok") == probe.get()
        driver.answer = csi.ProbeResponse(ready={"value": False})
        assert (500, NOT_READY) == probe.get()
        driver.answer = DriverError(Code.INTERNAL, "disk on fire")
        assert (500, "rpc error: code = Internal desc = disk on fire") == probe.get()
        driver.answer = None
        assert (500, "rpc error: code = DeadlineExceeded desc = context deadline exceeded") == probe.get()
    status, text = probe.get()
    assert 500 == status
    assert f"{folder}/csi.sock" in text
    driver.answer = csi.ProbeResponse()
    with driver_on(folder / "csi.sock", driver):
        eventually(probe.is_healthy, 20, "the driver is found again")
        probe.program.send(signal.SIGTERM)
        assert 0 == probe.program.wait_exit()


def test_LV01_a_driver_that_hangs_has_three_seconds() -> None:
    assert 3.0 == ProbeFlags().probe_timeout_s


@pytest.mark.slow
def test_LV02_a_driver_that_is_not_there_yet_is_waited_for_and_told(folder: Path, start: Any) -> None:
    """Better than the Go program, whose port stays closed: the reason is what the kubelet shows."""
    probe = start("--probe-timeout=200ms")
    assert (500, f"no connection to the CSI driver at '{folder}/csi.sock': {MISSING}") == probe.opens()
    with driver_on(folder / "csi.sock", ProbedDriver()):
        eventually(probe.is_healthy, 20, "the driver is found")
    probe.program.assert_alive()


@pytest.mark.slow
def test_LIV2_while_a_driver_has_not_told_its_name_nothing_listens(folder: Path, start: Any) -> None:
    driver = ProbedDriver()
    driver.is_named = False
    with driver_on(folder / "csi.sock", driver):
        probe = start()
        eventually(lambda: driver.asked, 20, "its name is asked for")
        assert (0, "") == probe.get()
        driver.is_named = True
        assert (200, "ok") == probe.opens()


class Opened:
    """Stands for the servers: the moments of their opening."""

    def __init__(self) -> None:
        self.at_s: list[float] = []

    async def open(self) -> None:
        self.at_s.append(asyncio.get_running_loop().time())


@each_row(("is_connected", "opened"), [(False, [2.0]), (True, [])])
@in_virtual_time
async def test_LIV2_LV02_after_two_seconds_the_server_opens_unless_a_driver_is_connected(
    is_connected: bool, opened: list[float]
) -> None:
    servers, began = Opened(), asyncio.get_running_loop().time()
    await _open_unconnected(LoopClock(), SimpleNamespace(is_connected=is_connected), servers)  # type: ignore[arg-type]
    await asyncio.sleep(3600)
    assert opened == [at_s - began for at_s in servers.at_s]


@pytest.mark.slow
def test_HT03_metrics_are_where_the_flag_says(folder: Path, start: Any) -> None:
    with driver_on(folder / "csi.sock", ProbedDriver()):
        probe = start("--metrics-path=/m")
        probe.opens()
        status, page = probe.get("/m")
        assert (200, 404) == (status, probe.get("/metrics")[0])
        names = {family.name: family for family in text_string_to_metric_families(page)}
        assert {"csi_sidecar_operations_seconds", "process_start_time_seconds"} == names.keys()
        (count,) = [
            one.value
            for one in names["csi_sidecar_operations_seconds"].samples
            if one.name.endswith("_count") and one.labels["method_name"].endswith("/Probe")
        ]
        assert 1 == count


@pytest.mark.slow
def test_deprecated_ports_serve_health_and_metrics_apart(folder: Path, start: Any) -> None:
    (port,) = free_ports(1)
    with driver_on(folder / "csi.sock", ProbedDriver()):
        probe = start("--health-port={port}", f"--metrics-address=127.0.0.1:{port}")
        probe.opens()
        eventually(lambda: probe.get("/metrics", port)[0], 20, "the other server answers, too")
        assert (200, 404) == (probe.get("/metrics", port)[0], probe.get("/metrics")[0])
        assert 404 == probe.get("/healthz", port)[0]


@pytest.mark.slow
def test_HT02_a_port_that_is_taken_ends_it_with_1(folder: Path) -> None:
    """The Go program says so and ends with 0."""
    with socket.create_server(("127.0.0.1", 0)) as taken, driver_on(folder / "csi.sock", ProbedDriver()):
        words = [f"--csi-address={folder}/csi.sock", f"--http-endpoint=127.0.0.1:{taken.getsockname()[1]}"]
        program = Program([sys.executable, "-m", "mooring.cli.livenessprobe", *words], folder / "log")
        try:
            assert 1 == program.wait_exit(30)
            assert "cannot listen on" in program.output()
        finally:
            program.kill()
