"""The probe's metrics as text: the page of Go's livenessprobe, line by line, and what other readers make of it."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from mooring.base.metrics import CONTENT_TYPE as CONTENT_TYPE_ELSEWHERE
from mooring.csi.call_counts import CallCounts
from mooring.csi.metrics import CallMetrics
from mooring.sidecars.livenessprobe.page import CONTENT_TYPE, START, go_number, metrics_page, process_started_s
from mooring.wire.grpc.codes import Code

PROBE = "/csi.v1.Identity/Probe"

OF_GO = """\
# HELP csi_sidecar_operations_seconds [ALPHA] Container Storage Interface operation duration with gRPC error code status total
# TYPE csi_sidecar_operations_seconds histogram
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="0.1"} 1
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="0.25"} 1
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="0.5"} 1
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="1"} 1
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="2.5"} 1
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="5"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="10"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="15"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="25"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="50"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="120"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="300"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="600"} 2
csi_sidecar_operations_seconds_bucket{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",le="+Inf"} 2
csi_sidecar_operations_seconds_sum{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"} 3.002017854
csi_sidecar_operations_seconds_count{driver_name="csi.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"} 2
# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79525001628e+09
"""
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


@pytest.mark.parametrize("driver", ["pd.csi.storage.gke.io", 'a\\b"c\nd', "größe.test"])
def test_its_reader_finds_what_the_library_would_write(driver: str) -> None:
    """prometheus_client, whose page all other programs serve, collects and reads the same samples. One name has the label `migrated`."""
    calls = ((PROBE, Code.OK, 0.1), (PROBE, 77, 1234567.25), (PROBE, None, 0.00001), ("/csi.v1.Identity/GetPluginInfo", 0, 601.0))
    metrics = CallMetrics(CollectorRegistry())
    metrics.driver_name = driver
    for call in calls:
        metrics.observe(*call)
    (wanted,) = metrics.collect()
    (found,) = text_string_to_metric_families(metrics_page(counted(*calls, driver=driver), None).decode())
    assert (wanted.name, wanted.type, wanted.documentation) == (found.name, found.type, found.documentation)
    assert [(one.name, one.labels, one.value) for one in wanted.samples] == [(one.name, one.labels, one.value) for one in found.samples]
    assert CONTENT_TYPE_ELSEWHERE == CONTENT_TYPE


@pytest.mark.parametrize(
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
    library = {sample.name: sample.value for metric in ProcessCollector(registry=None).collect() for sample in metric.samples}
    assert library[START] == process_started_s()
