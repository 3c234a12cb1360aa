"""The usage of volumes: who is asked, with what, and what becomes of the answer."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from mooring.csi.proto import csi_pb2 as csi
from mooring.node.metrics import NodeMetrics
from mooring.node.volumes.state.desired import PodUse
from mooring.node.volumes.stats import PERIOD_S, StatsTarget, UsageMetrics, VolumeStats, VolumeUsage
from mooring.wire.grpc.codes import Code
from tests.support.cluster_world import metric
from tests.support.fake_mounts import FakeTools
from tests.support.node_driver import NODE_RPC, STATS, NodeDriver
from tests.support.scripted_driver import Fail, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld

ABLE = (NODE_RPC.STAGE_UNSTAGE_VOLUME, NODE_RPC.GET_VOLUME_STATS)
BYTES = csi.VolumeUsage(unit=csi.VolumeUsage.BYTES, total=10, available=4, used=6)


class StatsWorld:
    """told: what was said to be abnormal."""

    def __init__(self, world: VolumesWorld) -> None:
        self.world = world
        self.told: list[tuple[str, str]] = []
        metrics = world.metrics.once(NodeMetrics)
        self.stats = VolumeStats(
            world.drivers, world.node.published, self._abnormal, metrics, clock=world.clock, randomness=world.randomness
        )

    def _abnormal(self, asked: StatsTarget, text: str) -> None:
        self.told.append((asked.handle, text))

    @property
    def usages(self) -> dict[str, VolumeUsage]:
        return {asked.handle: usage for asked, usage in self.stats.usages.items()}


@asynccontextmanager
async def asking(world: VolumesWorld, *, able: tuple[int, ...] = ABLE) -> AsyncIterator[StatsWorld]:
    """A pod with a volume."""
    world.driver.able = able
    async with world.agent():
        await world.running_pod(await world.volume())
        yield StatsWorld(world)


@in_virtual_time
async def test_a_raw_device_is_asked_for_at_the_file_that_is_mapped_for_the_pod(
    world: VolumesWorld, tools: FakeTools
) -> None:
    """As a kubelet does, and not at the path that the driver has published."""
    world.driver.able = ABLE
    async with world.agent():
        pod = await world.running_pod(await world.volume(mode="Block"), devices=True)
        await StatsWorld(world).stats.ask_all()
    mapped = world.layout.csi / "volumeDevices" / "vol" / "dev" / pod["metadata"]["uid"]
    assert str(mapped) == world.request(STATS).volume_path


@in_virtual_time
async def test_STA1_a_driver_without_statistics_is_not_asked(world: VolumesWorld) -> None:
    async with asking(world, able=ABLE[:1]) as stats:
        await stats.stats.ask_all()
        assert ({}, [], []) == (stats.usages, world.driver.made(STATS), stats.told)


@in_virtual_time
async def test_STA1_a_driver_that_does_not_know_the_call_is_no_error(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(world) as stats:
        world.driver.always(STATS, Fail(Code.UNIMPLEMENTED))
        await stats.stats.ask_all()
        assert {} == stats.usages
        assert "No usage" not in caplog.text


@in_virtual_time
async def test_the_driver_is_asked_with_the_path_in_the_pod(world: VolumesWorld) -> None:
    async with asking(world) as stats:
        world.driver.usage = csi.NodeGetVolumeStatsResponse(usage=[BYTES])
        await stats.stats.ask_all()
        request = world.request(STATS)
        assert ("handle-vol", True, "") == (
            request.volume_id,
            request.volume_path.endswith("/vol/mount"),
            request.staging_target_path,
        )
        assert {"handle-vol": VolumeUsage(10, 4, 6)} == stats.usages
        world.metrics.once(UsageMetrics).show("n", lambda: stats.stats.usages)
        labels = {"namespace": "default", "persistentvolumeclaim": "vol"}
        assert 4.0 == metric(world.metrics, "kubelet_volume_stats_available_bytes", **labels)


@in_virtual_time
async def test_STA2_an_answer_without_usage_and_condition_is_an_error_and_the_last_one_stays(
    world: VolumesWorld,
) -> None:
    async with asking(world) as stats:
        world.driver.usage = csi.NodeGetVolumeStatsResponse(usage=[BYTES])
        await stats.stats.ask_all()
        world.driver.usage = csi.NodeGetVolumeStatsResponse()
        await stats.stats.ask_all()
        assert {"handle-vol": VolumeUsage(10, 4, 6)} == stats.usages
        assert 2 == len(world.driver.made(STATS))


def test_each_claim_is_shown_once_and_no_health_that_nobody_told() -> None:
    """Two samples of the same labels are no page that Prometheus takes."""
    registry = CollectorRegistry()

    def target(uid: str, claim: str) -> StatsTarget:
        return StatsTarget("d1", claim, Path(f"/{uid}"), "ns", claim, PodUse(uid, "ns", uid, "v"))

    usages = {
        target("a", "shared"): VolumeUsage(capacity=1),
        target("b", "shared"): VolumeUsage(capacity=1),
        target("c", "well"): VolumeUsage(capacity=1, abnormal=""),
        target("d", "ill"): VolumeUsage(capacity=1, abnormal="smoke"),
    }
    UsageMetrics(registry).show("n", lambda: usages)
    samples = [
        (one.name.removeprefix("kubelet_volume_stats_"), one.labels["persistentvolumeclaim"], one.value)
        for family in registry.collect()
        for one in family.samples
    ]
    assert [
        *(("capacity_bytes", claim, 1.0) for claim in ("shared", "well", "ill")),
        ("health_status_abnormal", "well", 0.0),
        ("health_status_abnormal", "ill", 1.0),
    ] == samples


@in_virtual_time
async def test_a_volume_that_is_not_well_is_told(world: VolumesWorld) -> None:
    async with asking(world) as stats:
        world.driver.usage = csi.NodeGetVolumeStatsResponse(
            volume_condition=csi.VolumeCondition(abnormal=True, message="smoke")
        )
        await stats.stats.ask_all()
        assert [("handle-vol", "smoke")] == stats.told


@in_virtual_time
async def test_a_driver_that_hangs_does_not_hold_up_the_others(world: VolumesWorld) -> None:
    async with asking(world) as stats:
        other = NodeDriver(world.mounts, "d2", ABLE)
        other.usage = csi.NodeGetVolumeStatsResponse(usage=[BYTES])
        await world.register(other)
        await world.running_pod(await world.volume("other", driver="d2"))
        world.driver.always(STATS, Wait(1000.0))
        async with world.running(stats.stats.ask_all()):
            await world.settle(5.0)
            assert {"handle-other": VolumeUsage(10, 4, 6)} == stats.usages
            await world.settle(120.0)


@in_virtual_time
async def test_it_asks_again_and_again_and_forgets_what_has_gone(world: VolumesWorld) -> None:
    async with asking(world) as stats, world.running(stats.stats.run()):
        world.driver.usage = csi.NodeGetVolumeStatsResponse(usage=[BYTES])
        await world.until_called(STATS, 3)
        starts = [call.started_s for call in world.driver.made(STATS)]
        assert all(PERIOD_S <= after - before <= 2 * PERIOD_S for before, after in itertools.pairwise(starts))
        await world.delete_pod({"metadata": {"name": "pod1"}})
        await world.settle(2 * PERIOD_S + 1)
        assert {} == stats.usages


@in_virtual_time
async def test_a_volume_whose_usage_can_t_be_had_keeps_no_other_from_being_asked_for(world: VolumesWorld) -> None:
    async with asking(world) as stats:
        await world.running_pod(await world.volume("other"))
        world.driver.usage = csi.NodeGetVolumeStatsResponse(usage=[BYTES])
        world.driver.always(STATS, lambda request: Fail(Code.INTERNAL) if request.volume_id == "handle-vol" else None)
        await stats.stats.ask_all()
        assert {"handle-other": VolumeUsage(10, 4, 6)} == stats.usages
