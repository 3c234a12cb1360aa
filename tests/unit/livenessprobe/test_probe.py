"""The driver's Probe as an HTTP answer, over a real socket; and its metrics, line by line as those of Go's
livenessprobe.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.metrics import CONTENT_TYPE as CONTENT_TYPE_ELSEWHERE
from mooring.csi.call_counts import CallCounts
from mooring.csi.errors import DriverError
from mooring.csi.metrics import CallMetrics
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.sidecars.livenessprobe.probe import (
    CONTENT_TYPE,
    NOT_READY,
    START,
    Prober,
    go_number,
    metrics_page,
    process_started_s,
)
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.node.plugin_world import real_time


class ProbedDriver:
    name = "d1"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer or csi.ProbeResponse()

    async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name)

    async def probe(self, request: Any) -> csi.ProbeResponse:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "hangs":
            await asyncio.get_running_loop().create_future()
        answer: csi.ProbeResponse = self.answer
        return answer


Opens = Callable[..., AbstractAsyncContextManager[tuple[Path, Prober]]]


@pytest.fixture
def a_prober() -> Opens:
    """Opens a prober and a place for its driver's socket: a_prober(timeout_s=2.0)."""

    @asynccontextmanager
    async def opened(timeout_s: float = 2.0) -> AsyncIterator[tuple[Path, Prober]]:
        with tempfile.TemporaryDirectory(prefix="liv-") as folder:
            path = Path(folder) / "csi.sock"
            prober = Prober(str(path), clock=LoopClock(), timeout_s=timeout_s)
            try:
                yield path, prober
            finally:
                await prober.close()

    return opened


@each_row(
    ("answer", "code", "text"),
    [
        (csi.ProbeResponse(), 200, "ok"),
        (csi.ProbeResponse(ready={"value": True}), 200, "ok"),
        (csi.ProbeResponse(ready={"value": False}), 500, NOT_READY),
        (DriverError(Code.FAILED_PRECONDITION, "no disk"), 500, "no disk"),
    ],
    fresh=[a_prober],
)
@real_time
async def test_LIV1_the_answer_is_the_drivers(a_prober: Opens, answer: Any, code: int, text: str) -> None:
    async with a_prober() as (path, prober), serving(ProbedDriver(answer), str(path), grace_s=0.0):
        found = await prober.health()
        assert (code, True) == (found[0], text in found[1])


@real_time
async def test_LIV1_a_driver_that_hangs_is_told_within_the_time_limit(a_prober: Opens) -> None:
    async with a_prober(0.2) as (path, prober), serving(ProbedDriver("hangs"), str(path), grace_s=0.0):
        began = time.monotonic()
        assert 500 == (await prober.health())[0]
        assert time.monotonic() - began < 20


def removed(path: Path) -> None:
    path.unlink()


def replaced_by_a_dead_one(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))


@each_row("lost", [removed, replaced_by_a_dead_one], fresh=[a_prober])
@real_time
async def test_a_driver_whose_socket_is_lost_is_not_well_though_it_runs(
    a_prober: Opens, lost: Callable[[Path], None]
) -> None:
    """Nobody reaches it any more: the kubelet starts it anew, and with it its socket."""
    async with a_prober(0.2) as (path, prober), serving(ProbedDriver(), str(path), grace_s=0.0):
        assert (200, "ok") == await prober.health()
        lost(path)
        code, text = await prober.health()
        assert (500, True) == (code, str(path) in text)


@real_time
async def test_LIV1_a_driver_that_is_away_is_told_with_its_socket_and_found_again(a_prober: Opens) -> None:
    async with a_prober(0.2) as (path, prober):
        code, text = await prober.health()
        assert (500, True) == (code, str(path) in text)
        async with serving(ProbedDriver(), str(path), grace_s=0.0):
            assert (200, "ok") == await prober.health()
        assert 500 == (await prober.health())[0]
        async with serving(ProbedDriver(), str(path), grace_s=0.0):
            while (await prober.health())[0] != 200:  # noqa: ASYNC110 - the driver is another party
                await asyncio.sleep(0.01)


@real_time
async def test_LIV2_a_driver_is_waited_for(a_prober: Opens) -> None:
    async with a_prober() as (path, prober), asyncio.TaskGroup() as group:
        name = group.create_task(prober.introduce(), name="introduce")
        await asyncio.sleep(0.1)
        assert (False, False) == (name.done(), prober.is_connected)
        async with serving(ProbedDriver(), str(path), grace_s=0.0):
            assert "d1" == await name


@real_time
async def test_a_driver_without_a_name_is_refused(a_prober: Opens) -> None:
    driver = ProbedDriver()
    driver.name = ""
    async with a_prober() as (path, prober), serving(driver, str(path), grace_s=0.0):
        with pytest.raises(ConfigError, match="driver name is empty"):
            await prober.introduce()


PROBE = "/csi.v1.Identity/Probe"

OF_GO = """\
# HELP csi_sidecar_operations_seconds [ALPHA] Container Storage Interface operation duration with gRPC error code \
status total
# TYPE csi_sidecar_operations_seconds histogram
csi_sidecar_operations_seconds_bucket{CALL,le="0.1"} 1
csi_sidecar_operations_seconds_bucket{CALL,le="0.25"} 1
csi_sidecar_operations_seconds_bucket{CALL,le="0.5"} 1
csi_sidecar_operations_seconds_bucket{CALL,le="1"} 1
csi_sidecar_operations_seconds_bucket{CALL,le="2.5"} 1
csi_sidecar_operations_seconds_bucket{CALL,le="5"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="10"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="15"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="25"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="50"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="120"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="300"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="600"} 2
csi_sidecar_operations_seconds_bucket{CALL,le="+Inf"} 2
csi_sidecar_operations_seconds_sum{CALL} 3.002017854
csi_sidecar_operations_seconds_count{CALL} 2
# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79525001628e+09
""".replace("CALL", 'driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"')
"""As livenessprobe 2.19 wrote it, but for the driver's name and the numbers of calls and seconds."""


def counted(*calls: tuple[str, int | None, float], driver: str = "csi.test") -> CallCounts:
    counts = CallCounts()
    counts.driver_name = driver
    for method, code, seconds in calls:
        counts.observe(method, code, seconds)
    return counts


def test_ME01_the_page_is_that_of_go_line_by_line() -> None:
    assert OF_GO == metrics_page(counted((PROBE, Code.OK, 0.002017854), (PROBE, Code.OK, 3.0)), 1795250016.28).decode()


def test_the_page_before_any_call_has_the_start_alone() -> None:
    assert "".join(OF_GO.splitlines(keepends=True)[-3:]) == metrics_page(CallCounts(), 1795250016.28).decode()
    assert b"" == metrics_page(CallCounts(), None)


@each_row("driver", ["pd.csi.storage.gke.io", 'a\\b"c\nd', "größe.test"])
def test_its_reader_finds_what_the_library_would_write(driver: str) -> None:
    """prometheus_client, whose page all other programs serve, collects and reads the same samples. One name has the
    label `migrated`.
    """
    calls = (
        (PROBE, Code.OK, 0.1),
        (PROBE, 77, 1234567.25),
        (PROBE, None, 0.00001),
        ("/csi.v1.Identity/GetPluginInfo", 0, 601.0),
    )
    metrics = CallMetrics(CollectorRegistry())
    metrics.driver_name = driver
    for call in calls:
        metrics.observe(*call)
    (wanted,) = metrics.collect()
    (found,) = text_string_to_metric_families(metrics_page(counted(*calls, driver=driver), None).decode())
    assert (wanted.name, wanted.type, wanted.documentation) == (found.name, found.type, found.documentation)
    assert [(one.name, one.labels, one.value) for one in wanted.samples] == [
        (one.name, one.labels, one.value) for one in found.samples
    ]
    assert CONTENT_TYPE_ELSEWHERE == CONTENT_TYPE


@each_row(
    ("value", "text"),
    [
        (0, "0"),
        (3, "3"),
        (0.25, "0.25"),
        (0.00005, "5e-05"),
        (999999, "999999"),
        (1000000, "1e+06"),
        (1234567, "1.234567e+06"),
        (1795250016.28, "1.79525001628e+09"),
        (1e16, "1e+16"),
    ],
)
def test_numbers_are_written_as_go_does(value: float, text: str) -> None:
    assert text == go_number(value)


def test_the_start_is_that_which_the_library_finds() -> None:
    library = {
        sample.name: sample.value for metric in ProcessCollector(registry=None).collect() for sample in metric.samples
    }
    assert library[START] == process_started_s()
