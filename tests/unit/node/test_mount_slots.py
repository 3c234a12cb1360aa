"""A limit of the volumes that one driver mounts at once."""

from __future__ import annotations

from mooring.api.pods import PODS
from tests.support.node_driver import PUBLISH, STAGE, NodeDriver
from tests.support.rows import each_row
from tests.support.scripted_driver import Wait
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import Bound, VolumesWorld, world

MANY = 8


def at_once(driver: NodeDriver) -> int:
    """The most calls of mounts that ran at the same time."""
    calls = driver.made(STAGE, PUBLISH)
    return max(sum(other.started_s <= call.started_s < other.ended_s for other in calls) for call in calls)


async def volumes(world: VolumesWorld, driver: str = "d1") -> list[Bound]:
    return [await world.volume(f"{driver}-{number}", driver=driver) for number in range(MANY)]


@each_row("limit", [0, 1, 3], fresh=[world])
@in_virtual_time
async def test_no_more_than_the_limit_are_mounted_at_once(world: VolumesWorld, limit: int) -> None:
    """Whoever goes while it waits takes nobody's turn, and the volumes of another driver do not wait."""
    world.mounts_max = limit
    other = NodeDriver(world.mounts, "d2")
    for method in (STAGE, PUBLISH):
        world.driver.always(method, Wait(20.0))
    async with world.agent():
        await world.register(other)
        pods = [await world.pod(volume) for volume in await volumes(world)]
        others = [await world.pod(volume) for volume in await volumes(world, "d2")]
        await world.settle(10.0)
        assert ["Running"] * MANY == [
            (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"] for pod in others
        ]
        await world.delete_pod(pods.pop())
        for pod in pods:
            await world.shown(
                PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", wait_s=1000.0
            )
        assert (limit or MANY) == at_once(world.driver)


@in_virtual_time
async def test_a_failure_gives_its_turn_to_the_next(world: VolumesWorld) -> None:
    world.mounts_max = 1
    async with world.agent():
        waiting = [
            await world.volume("without-secret", nodeStageSecretRef={"name": "none", "namespace": "default"}),
            *await volumes(world),
        ]
        pods = [await world.pod(volume) for volume in waiting]
        for pod in pods[1:]:
            await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")
