"""From the death of a node to the release of its volume, by rule alone: node health and the attach/detach controller on
one cluster.

The test plays kubelets, attacher and the administrator; nobody tells one controller about the other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.cluster.nodehealth.controller import NodeHealth
from tests.support.attachdetaching import AttachDetachWorld, Vol
from tests.support.builders import a_pod
from tests.support.health import OUT_OF_SERVICE, UNREACHABLE, NodeTenant
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
DEAD_S, TOLERATED_S, QUARANTINE_S, FORCED_S = 50.0, 300.0, 40.0, 360.0
HOUR_S = 3600.0


class Plane(NodeTenant):
    """Two nodes, "n" and "other", and a running pod on "n" whose volume is attached there; `next` on "other" waits for
    the volume.
    """

    def __init__(self) -> None:
        self.world = AttachDetachWorld()
        super().__init__(self.world.users, look_s=0.25)
        self.world.look_s = self.look_s
        self._suffix = ""
        self.volume: Vol

    def wall_s(self) -> float:
        return self.world.clock.wall_s()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def populate(self, container: str | None) -> None:
        """container: the state of the pod's container, as the kubelet said it last; None where it said nothing."""
        world = self.world
        for name in ("other", "n"):
            await self.add_node(name)
            await world.manage(name)
        self.volume = await world.volume()
        await self.users.create(PODS.whole(), a_pod("pod", self.volume.claim, node="n"), "default")
        await world.attach(self.volume, "n", hold=True)
        await world.set_in_use("n", self.volume)
        await world.pod_status("pod", state=container)
        await self.users.create(PODS.whole(), a_pod("next", self.volume.claim, node="other"), "default")

    async def die(self) -> float:
        """The node falls silent for ever; once the pod is to go: when the silence began."""
        began = self.now()
        await self.silence("n")
        await self.until_ready_is("Unknown")
        assert DEAD_S - 10 <= self.now() - began <= DEAD_S + 1
        await self.until_tainted((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
        await self.until_leaving()
        assert DEAD_S - 10 + TOLERATED_S <= self.now() - began <= DEAD_S + TOLERATED_S + 1
        return began

    async def detached(self) -> None:
        """The attachment is to go; as the attacher, lets it go. The one that waits gets the volume."""
        await self.world.wait_deleting(self.volume, "n")
        assert await self.find(PODS, "pod") is None, "a pod that may still run keeps its volume"
        assert await self.world.va(self.volume, "other") is None
        await self.world.release(self.volume, "n")
        await self.world.attach(self.volume, "other")
        assert [self.volume.va("other")] == await self.world.attachments()


@contextlib.asynccontextmanager
async def a_plane(container: str | None = "running") -> AsyncIterator[Plane]:
    plane = Plane()
    async with plane.world.controlling(), plane.world.running(NodeHealth(plane.world.runtime).run()):
        await plane.populate(container)
        try:
            yield plane
        finally:
            await plane.end()


async def test_by_the_out_of_service_taint() -> None:
    async with a_plane() as plane:
        await plane.die()
        await asyncio.sleep(60.0)
        tainted = plane.now()
        await plane.taint("n", OUT_OF_SERVICE)
        await plane.detached()
        assert plane.now() - tainted < 5.0, "nobody waits for six minutes"


async def test_by_the_deletion_of_the_node() -> None:
    async with a_plane() as plane:
        await plane.die()
        deleted = plane.now()
        await plane.delete(NODES, "n")
        await plane.until_gone()
        assert QUARANTINE_S - 1 <= plane.now() - deleted <= QUARANTINE_S + 5
        await plane.detached()


async def test_without_a_word_the_volume_stays() -> None:
    async with a_plane() as plane:
        await plane.world.wait_told("next", "FailedAttachVolume", "Multi-Attach error")
        await plane.die()
        await asyncio.sleep(HOUR_S)
        assert "deletionTimestamp" in (await plane.get(PODS, "pod"))["metadata"]
        [attachment] = await plane.list(VOLUME_ATTACHMENTS)
        assert (plane.volume.va("n"), False) == (
            attachment["metadata"]["name"],
            "deletionTimestamp" in attachment["metadata"],
        )


async def test_six_minutes_after_a_pod_whose_containers_do_not_run() -> None:
    """Its deletion is all that its node still had to do: the volume is taken by force, though the pod is still
    there.
    """
    async with a_plane(container=None) as plane:
        await plane.die()
        leaving = plane.now()
        await plane.world.wait_deleting(plane.volume, "n")
        assert FORCED_S - 1 <= plane.now() - leaving <= FORCED_S + 10
        assert await plane.find(PODS, "pod") is not None


async def test_a_node_that_comes_back_ends_its_pod_itself() -> None:
    async with a_plane() as plane:
        await plane.die()
        await plane.revive()
        await plane.post_status()
        await plane.until_tainted()
        await plane.users.delete(PODS, "pod", "default", grace_period_s=0)  # as the kubelet does once the pod has ended
        await asyncio.sleep(30.0)
        assert "deletionTimestamp" not in (await plane.get(VOLUME_ATTACHMENTS, plane.volume.va("n")))["metadata"], (
            "it is still mounted"
        )
        await plane.world.set_in_use("n")
        await plane.detached()
