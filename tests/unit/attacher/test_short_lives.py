"""An attacher that is killed every five seconds: nothing that it does may wait for a longer life."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import ServerError
from mooring.wire.grpc.codes import Code
from tests.support.attaching import PATCH_STATUS, PATCH_VA, PUBLISH, UNPUBLISH, AttacherWorld
from tests.support.builders import DRIVER, a_csi_node, a_held_pv, a_va
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, ScriptedDriver, Step
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
LIFE_S = 5.0
LIVES_MAX = 3
LIVES = 120  # ten minutes
LOST = ServerError("etcdserver: request timed out")
VOLUMES, NODES = 6, 3


class SlowDriver(ScriptedDriver):
    """Its storage goes on with what was begun, whoever has died meanwhile, and takes `slow_s` for each change."""

    def __init__(self, slow_s: float, controller: tuple[int, ...]) -> None:
        super().__init__(controller=controller)
        self._slow_s = slow_s
        self._changing: dict[str, asyncio.Task[Any]] = {}

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        if request.volume_id not in self._changing and request.node_id in self.published[request.volume_id]:
            return csi.ControllerPublishVolumeResponse()
        publish = functools.partial(super().controller_publish_volume, request)
        response: csi.ControllerPublishVolumeResponse = await self._change(request.volume_id, publish)
        return response

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        if request.volume_id not in self._changing and request.node_id not in self.published[request.volume_id]:
            return csi.ControllerUnpublishVolumeResponse()
        unpublish = functools.partial(super().controller_unpublish_volume, request)
        response: csi.ControllerUnpublishVolumeResponse = await self._change(request.volume_id, unpublish)
        return response

    async def _change(self, volume_id: str, change: Callable[[], Awaitable[Any]]) -> Any:
        if volume_id in self._changing:
            raise DriverError(Code.ABORTED, "a change is under way")

        async def slowly() -> Any:
            try:
                await asyncio.sleep(self._slow_s)
                return await change()
            finally:
                del self._changing[volume_id]

        self._changing[volume_id] = asyncio.get_running_loop().create_task(slowly(), name="change")
        return await asyncio.shield(self._changing[volume_id])


class Wishes:
    """What users want, and since which life they wait for it."""

    def __init__(self, world: AttacherWorld, seed: int) -> None:
        self.world, self._random = world, Random(seed)
        #: by volume, the attachment that is wanted
        self.wanted: dict[int, str] = {}
        self.since: dict[str, int] = {}

    async def change(self, life: int) -> None:
        """A volume gets an attachment, loses it, or moves at once; another machine takes a node's name."""
        volume, node = int(self._random.uniform(0, VOLUMES)), int(self._random.uniform(0, NODES))
        had, wanted = self.wanted.pop(volume, None), f"pv{volume}-node{node}-{life}"
        if had is not None:
            await self.world.delete(VOLUME_ATTACHMENTS, had)
            self.since[had] = life
        if had is None or self._random.uniform(0, 1) < 0.7:
            await self.world.create(a_va(wanted, f"pv{volume}", f"node{node}"))
            self.wanted[volume] = wanted
            self.since[wanted] = life
        if life % 20 == 19:
            await self.world.delete(CSI_NODES, f"node{node}")
            await self.world.create(a_csi_node(f"node{node}", {DRIVER: f"id{node}-{life}"}))

    async def waiting(self, life: int) -> list[str]:
        """The attachments that are not as they are wanted. A volume that moves has to be detached first."""
        found = {one["metadata"]["name"]: one for one in await self.world.list(VOLUME_ATTACHMENTS)}
        there = [name for name in self.since if name in found and name not in self.wanted.values()]
        missing = [name for name in self.wanted.values() if not found[name]["status"]["attached"]]
        leaving = {name.split("-")[0] for name in there}
        self.since = {
            name: life if name in missing and name.split("-")[0] in leaving else since
            for name, since in self.since.items()
            if name in (*there, *missing)
        }
        return [*there, *missing]


def _lost_answers(random: Random) -> Step:
    """One call in four has no answer, or an error that says nothing."""
    drawn = random.uniform(0, 4)
    return Lose() if drawn < 0.5 else Fail(Code.UNAVAILABLE) if drawn < 1 else None


ONE, MANY = ["ReadWriteOnce"], ["ReadWriteMany"]


@each_row(
    ("slow_s", "loses", "lists", "modes"),
    [(0.1, True, False, ONE), (0.1, True, True, MANY), (4.5, False, False, ONE), (3.0, False, True, ONE)],
)
async def test_wishes_are_met_within_three_lives(slow_s: float, loses: bool, lists: bool, modes: list[str]):
    listing = (RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES) if lists else ()
    driver = SlowDriver(slow_s, (RPC.PUBLISH_UNPUBLISH_VOLUME, *listing))
    world, random = AttacherWorld(driver), Random(11)
    for node in range(NODES):
        await world.create(a_csi_node(f"node{node}", {DRIVER: f"id{node}"}))
    for volume in range(VOLUMES):
        await world.create(a_held_pv(f"pv{volume}", f"handle{volume}", modes=modes))
    wishes = Wishes(world, seed=5)
    if loses:
        driver.always(PUBLISH, lambda request: _lost_answers(random))
        driver.always(UNPUBLISH, lambda request: _lost_answers(random))
    for life in range(LIVES):
        if loses:
            world.cluster.refuse((PATCH_STATUS, PATCH_VA)[life % 2], error=LOST, after=life % 4 < 2)
        async with world.attaching():
            await world.settle(1.0)
            if not await wishes.waiting(life) or life % LIVES_MAX == 0:
                await wishes.change(life)
            await world.settle(LIFE_S - 1.0)
        late = [name for name in await wishes.waiting(life) if life - wishes.since[name] >= LIVES_MAX]
        assert not late, f"life {life}: {late}"
    for _ in range(LIVES_MAX):
        async with world.attaching():
            await world.settle(LIFE_S)
    assert not await wishes.waiting(LIVES)
    assert not driver.overlaps
    published = {handle: ids for handle, ids in driver.published.items() if ids}
    assert {f"handle{volume}" for volume in wishes.wanted} == set(published)
    assert all(len(ids) == 1 for ids in published.values()), published


async def test_a_publish_that_may_have_happened_is_told_by_the_next_life():
    """The status patch had no answer, and each life ends before the next try."""
    world = await AttacherWorld(retry_interval_start_s=10.0).base()
    world.driver.script(PUBLISH, Lose())
    await world.create(a_va())
    for _ in range(LIVES_MAX):
        async with world.attaching():
            with contextlib.suppress(AssertionError):
                await world.attached(wait_s=LIFE_S)
    await world.attached(wait_s=0.1)
