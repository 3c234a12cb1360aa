"""Durations of CSI calls, as the Go sidecars count them."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.csi.call_counts import MIGRATED_DRIVERS
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.metrics import CallMetrics
from mooring.csi.probe_and_identify import probe_and_identify
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.csi.servers import CALL, Plugin, failing

pytestmark = in_virtual_time
PUBLISH = "/csi.v1.Controller/ControllerPublishVolume"
NAME = "csi_sidecar_operations_seconds"


class Scrape:
    """Call metrics on a page of their own."""

    def __init__(self, driver_name=None):
        self.page = Metrics()
        self.calls = CallMetrics(self.page.registry)
        if driver_name is not None:
            self.calls.driver_name = driver_name

    def samples(self, suffix, **labels):
        (family,) = [f for f in text_string_to_metric_families(self.page.render().decode()) if f.name == NAME]
        found = [s for s in family.samples if s.name == NAME + suffix]
        return [s for s in found if labels.items() <= s.labels.items()]

    def value(self, suffix, **labels):
        (sample,) = self.samples(suffix, **labels)
        return sample.value


def test_ME01_a_call_of_twenty_seconds_is_in_the_buckets_from_25():
    scrape = Scrape("csi.test")
    scrape.calls.observe(PUBLISH, Code.OK, 20.0)
    buckets = {sample.labels["le"]: sample.value for sample in scrape.samples("_bucket")}
    below = dict.fromkeys(("0.1", "0.25", "0.5", "1", "2.5", "5", "10", "15"), 0)
    assert buckets == {**below, **dict.fromkeys(("25", "50", "120", "300", "600", "+Inf"), 1)}
    assert (scrape.value("_sum"), scrape.value("_count")) == (20, 1)
    assert scrape.samples("_count")[0].labels == {
        "driver_name": "csi.test",
        "grpc_status_code": "OK",
        "method_name": PUBLISH,
    }


def test_ME01_the_page_says_what_the_peers_says():
    scrape = Scrape("D")
    scrape.calls.observe("/csi.v1.Controller/CreateVolume", Code.OK, 20.0)
    lines = scrape.page.render().decode().splitlines()
    assert (
        f"# HELP {NAME} [ALPHA] Container Storage Interface operation duration with gRPC error code status total"
        in lines
    )
    assert f"# TYPE {NAME} histogram" in lines
    assert not [line for line in lines if "_created" in line and NAME in line]


async def test_ME01_calls_are_timed_from_request_to_answer():
    async def slow(request):
        await LoopClock().sleep(20)
        return csi.ControllerPublishVolumeResponse()

    scrape = Scrape("csi.test")
    driver = InProcessDriver(Plugin(controller_publish_volume=slow), clock=LoopClock(), metrics=scrape.calls)
    await driver.controller_publish_volume(csi.ControllerPublishVolumeRequest(), Call(40))
    assert scrape.value("_sum", method_name=PUBLISH) == pytest.approx(20)
    assert (scrape.value("_bucket", le="15"), scrape.value("_bucket", le="25")) == (0, 1)


@each_row(("seconds", "le"), [(0.1, "0.1"), (0.100001, "0.25"), (600.0, "600"), (600.1, "+Inf"), (0.0, "0.1")])
def test_a_bucket_holds_its_own_bound(seconds, le):
    scrape = Scrape()
    scrape.calls.observe(PUBLISH, Code.OK, seconds)
    assert next(sample.labels["le"] for sample in scrape.samples("_bucket") if sample.value == 1) == le


async def test_ME02_calls_before_the_name_is_known_are_of_an_unknown_driver():
    scrape = Scrape()
    driver = InProcessDriver(Plugin(), clock=LoopClock(), metrics=scrape.calls)
    await probe_and_identify(driver, clock=LoopClock(), metrics=scrape.calls)
    counted = {
        sample.labels["method_name"].rpartition("/")[2]: sample.labels["driver_name"]
        for sample in scrape.samples("_count")
    }
    assert counted == {
        "Probe": "unknown-driver",
        "GetPluginInfo": "unknown-driver",
        "GetPluginCapabilities": "csi.test",
        "ControllerGetCapabilities": "csi.test",
    }


async def test_ME03_calls_of_a_migrated_driver_say_whether_the_volume_is_migrated():
    scrape = Scrape("pd.csi.storage.gke.io")
    driver = InProcessDriver(Plugin(), clock=LoopClock(), metrics=scrape.calls)
    for migrated in (True, False, False):
        await driver.controller_publish_volume(csi.ControllerPublishVolumeRequest(), Call(5, migrated=migrated))
    assert scrape.value("_count", migrated="true") == 1
    assert scrape.value("_count", migrated="false") == 2
    assert {"migrated"} == set(scrape.samples("_bucket")[0].labels) - {
        "driver_name",
        "grpc_status_code",
        "method_name",
        "le",
    }


def test_ME03_drivers_that_were_never_in_tree_have_no_such_label():
    scrape = Scrape("csi.test")
    scrape.calls.observe(PUBLISH, Code.OK, 0.1)
    assert "migrated" not in scrape.samples("_count")[0].labels


def test_the_migrated_drivers_are_those_of_the_specification():
    assert sorted(MIGRATED_DRIVERS) == [
        "cinder.csi.openstack.org",
        "csi.vsphere.vmware.com",
        "disk.csi.azure.com",
        "ebs.csi.aws.com",
        "file.csi.azure.com",
        "pd.csi.storage.gke.io",
        "pxd.portworx.com",
    ]


async def test_ME04_a_call_that_the_driver_has_not_is_counted_as_Unimplemented():
    scrape = Scrape("csi.test")
    driver = InProcessDriver(Plugin(), clock=LoopClock(), metrics=scrape.calls)
    with pytest.raises(DriverError):
        await driver.list_volumes(csi.ListVolumesRequest(), CALL)
    assert scrape.value("_count", grpc_status_code="Unimplemented", method_name="/csi.v1.Controller/ListVolumes") == 1


GO_NAMES = """OK Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied
ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable DataLoss Unauthenticated"""


@each_row(("code", "name"), [*enumerate(GO_NAMES.split()), (77, "Code(77)"), (None, "unknown-non-grpc")])
def test_ME04_codes_have_the_names_of_Go(code, name):
    scrape = Scrape()
    scrape.calls.observe(PUBLISH, code, 0.1)
    assert scrape.value("_count", grpc_status_code=name) == 1


async def test_a_call_that_its_caller_gives_up_is_counted_as_Canceled():
    scrape = Scrape()
    clock = LoopClock()
    driver = InProcessDriver(Plugin(probe=lambda request: clock.sleep(100)), clock=clock, metrics=scrape.calls)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await driver.probe(csi.ProbeRequest(), Call(50))
    assert scrape.value("_sum", grpc_status_code="Canceled") == pytest.approx(3)


async def test_errors_are_counted_under_their_own_code():
    scrape = Scrape()
    driver = InProcessDriver(Plugin(probe=failing(DriverError(8, "full"))), clock=LoopClock(), metrics=scrape.calls)
    with pytest.raises(DriverError):
        await driver.probe(csi.ProbeRequest(), CALL)
    assert scrape.value("_count", grpc_status_code="ResourceExhausted") == 1


def test_a_driver_can_not_make_series_without_end():
    scrape = Scrape()
    for code in range(17, 2000):
        scrape.calls.observe(PUBLISH, code, 0.1)
    assert len(scrape.samples("_count")) < 40
    assert sum(sample.value for sample in scrape.samples("_count")) == 1983


def test_two_of_them_in_one_registry_are_an_error():
    scrape = Scrape()
    with pytest.raises(ValueError, match="Duplicated"):
        CallMetrics(scrape.page.registry)
