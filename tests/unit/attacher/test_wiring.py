"""That flags and capabilities reach the calls: what tables of the pure parts can't show."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.metrics import CallMetrics
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.attaching import GET_SECRET, PUBLISH, AttacherWorld
from tests.support.builders import DRIVER, a_csi_node, a_held_pv, a_secret, a_va
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, ScriptedDriver
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
CONTROLLER = csi.PluginCapability.Service.CONTROLLER_SERVICE
SECRET = {"controllerPublishSecretRef": {"name": "secret", "namespace": "default"}}


def info(*controller: int, plugin: tuple[int, ...] = (CONTROLLER,)) -> DriverInfo:
    return DriverInfo(DRIVER, "1", frozenset(plugin), frozenset(), frozenset(controller))


def test_facts_come_from_capabilities():
    assert not capabilities_of(info()).publishes
    assert not capabilities_of(info(RPC.PUBLISH_UNPUBLISH_VOLUME, plugin=())).publishes
    plain = capabilities_of(info(RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES))
    assert (True, False, False, False) == (
        plain.publishes,
        plain.publishes_readonly,
        plain.single_node_multi_writer,
        plain.lists_published_nodes,
    )
    every = capabilities_of(info(*RPC.Type.values()))
    assert (True, True, True, True) == (
        every.publishes,
        every.publishes_readonly,
        every.single_node_multi_writer,
        every.lists_published_nodes,
    )


async def published(
    driver: ScriptedDriver | None = None, pv: dict[str, object] | None = None, **options: object
) -> csi.ControllerPublishVolumeRequest:
    world = await AttacherWorld(driver, **options).base(**(pv or {}))
    async with world.attaching(a_va()):
        await world.attached()
    request: csi.ControllerPublishVolumeRequest = world.driver.made(PUBLISH)[0].request
    return request


@each_row(("controller", "sent"), [((), False), ((RPC.PUBLISH_READONLY,), True)])
async def test_AT05_readonly_follows_the_drivers_own_word(controller, sent):
    driver = ScriptedDriver(controller=(RPC.PUBLISH_UNPUBLISH_VOLUME, *controller))
    assert sent is (await published(driver, {"readOnly": True})).readonly


async def test_AT30_the_default_file_system_is_the_flags():
    assert "xfs" == (await published(default_fstype="xfs")).volume_capability.mount.fs_type


@each_row(("controller", "mode"), [((), 1), ((RPC.SINGLE_NODE_MULTI_WRITER,), 7)])
async def test_AT31_the_second_table_follows_the_drivers_own_word(controller, mode):
    driver = ScriptedDriver(controller=(RPC.PUBLISH_UNPUBLISH_VOLUME, *controller))
    assert mode == (await published(driver, {"modes": ["ReadWriteOnce"]})).volume_capability.access_mode.mode


async def test_AT31_modes_that_cannot_be_are_told_and_not_published():
    world = await AttacherWorld().base(modes=["ReadOnlyMany", "ReadWriteOnce"])
    async with world.attaching(a_va()):
        assert (
            "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"
            == (await world.error())["message"]
        )
        await world.settle(100)
    assert [] == world.driver.made(PUBLISH)


async def test_ME03_calls_for_in_tree_volumes_are_counted_apart():
    registry = CollectorRegistry()
    metrics = CallMetrics(registry)
    gce = "pd.csi.storage.gke.io"
    world = AttacherWorld(ScriptedDriver(gce), call_metrics=metrics)
    await world.create(
        a_csi_node(drivers={gce: "nodeID1"}),
        a_held_pv("plain", "h1"),
        a_held_pv("tree", source={"gcePersistentDisk": {"pdName": "d"}}),
    )
    metrics.driver_name = gce
    async with world.attaching():
        for name in ("plain", "tree"):
            await world.create(a_va(name, name, attacher=gce))
            await world.attached(name)
    labels = {"driver_name": gce, "method_name": "/csi.v1.Controller/ControllerPublishVolume", "grpc_status_code": "OK"}
    counts = [
        registry.get_sample_value("csi_sidecar_operations_seconds_count", {**labels, "migrated": m})
        for m in ("true", "false")
    ]
    assert [1.0, 1.0] == counts


async def test_a_secret_is_read_once_for_a_burst_and_again_after_five_seconds():
    world = await AttacherWorld().base(**SECRET)
    await world.create(a_secret(data={"a": "Yg=="}), *(a_held_pv(f"pv-{n}", f"h{n}", **SECRET) for n in range(5)))
    async with world.attaching():
        for number in range(5):
            await world.create(a_va(f"va{number}", f"pv-{number}"))
        await world.settle(4)
        assert 1 == world.story.count(GET_SECRET)
        await world.settle(2)
        await world.create(a_va())
        await world.attached()
    assert 2 == world.story.count(GET_SECRET)


async def test_a_secret_is_read_again_after_a_call_that_failed():
    """It may have been mended because of that very failure."""
    world = await AttacherWorld().base(**SECRET)
    await world.create(a_secret(data={"a": "Yg=="}))
    world.driver.script(PUBLISH, Fail(Code.UNAUTHENTICATED))
    async with world.attaching(a_va()):
        await world.attached(wait_s=3)
    assert 2 == world.story.count(GET_SECRET)
