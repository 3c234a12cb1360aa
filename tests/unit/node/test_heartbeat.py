"""The signs of life of a node: HB1 to HB4."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import NODES
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import parse_rfc3339
from mooring.control.caches import Caches
from mooring.control.manager import Loop, Manager
from mooring.kube.errors import Unreachable
from mooring.node.agent import new_node
from mooring.node.heartbeat import CONDITIONS, Heartbeat, decide_conditions
from mooring.node.options import LEASE_S
from tests.support.builders import Json, a_node, typed
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

NOW = "2026-01-01T00:00:00Z"
GOOD = [one._asdict() for one in CONDITIONS]
UNKNOWN = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}


class Outage(ServerFaults):
    """While it lasts nothing can be written."""

    def __init__(self) -> None:
        self.lasts = False

    async def before(self, verb: str, kind: Any, name: str) -> None:
        if self.lasts and verb in ("patch", "create"):
            raise Unreachable("away")


@contextlib.asynccontextmanager
async def beating(faults: ServerFaults | None = None, lease_s: float = LEASE_S) -> AsyncIterator[ClusterWorld]:
    world = ClusterWorld(faults)
    await world.create(new_node("n"))
    caches = Caches(world.runtime)
    heartbeat = Heartbeat(world.runtime, caches, "n", lease_s)
    manager = Manager(caches, heartbeat.controller)

    async def renew() -> None:
        await caches.synced()
        await heartbeat.renew_for_ever()

    manager.beside("lease", Loop(renew))
    async with world.running(manager.run()):
        await asyncio.sleep(1)
        yield world


async def conditions(world: ClusterWorld) -> list[Json]:
    return (await world.get(NODES, "n"))["status"]["conditions"]  # type: ignore[no-any-return]


async def renewed_s(world: ClusterWorld) -> float:
    return parse_rfc3339((await world.get(LEASES, "n", NODE_LEASE_NAMESPACE))["spec"]["renewTime"])


@each_row(
    ("given", "is_due", "types", "changed"),
    [
        ([], False, 4, 4),
        (GOOD, False, 0, 0),
        (GOOD, True, 4, 0),
        ([*GOOD[:3], {**GOOD[3], **UNKNOWN}], False, 4, 1),
        ([*GOOD[:3], {**GOOD[3], "message": "there is no kubelet"}], False, 4, 0),
        ([*GOOD, {"type": "NetworkUnavailable", "status": "True"}], False, 0, 0),
    ],
)
def test_HB2_everything_is_posted_where_something_is_not_right(
    given: list[Json], is_due: bool, types: int, changed: int
) -> None:
    """changed: the conditions that get a new lastTransitionTime."""
    posted = decide_conditions(typed(a_node("n", conditions=given or None)), is_due=is_due, now=NOW)
    assert [types, changed] == [len(posted), sum("lastTransitionTime" in one for one in posted)]
    assert all(one["lastHeartbeatTime"] == NOW for one in posted)


@in_virtual_time
async def test_HB1_the_lease_is_renewed_every_ten_seconds() -> None:
    async with beating() as world:
        lease = await world.get(LEASES, "n", NODE_LEASE_NAMESPACE)
        assert ("n", 40) == (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"])
        uid = (await world.get(NODES, "n"))["metadata"]["uid"]
        assert [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid}] == lease["metadata"]["ownerReferences"]
        world.story.clear()
        await asyncio.sleep(100)
        assert 9 <= len([step for step in world.story if step == "patch leases"]) <= 10
        assert 0 <= world.clock.wall_s() - await renewed_s(world) <= 10.4


@each_row(("lease_s", "told"), [(1.6, 2), (0.2, 1), (8.0, 8)])
@in_virtual_time
async def test_HB1_a_shorter_lease_is_renewed_as_often_in_its_time(lease_s: float, told: int) -> None:
    async with beating(lease_s=lease_s) as world:
        assert told == (await world.get(LEASES, "n", NODE_LEASE_NAMESPACE))["spec"]["leaseDurationSeconds"]
        world.story.clear()
        await asyncio.sleep(10 * lease_s)
        assert 37 <= len([step for step in world.story if step == "patch leases"]) <= 40


@in_virtual_time
async def test_HB1_after_an_outage_the_lease_is_renewed_at_once() -> None:
    outage = Outage()
    async with beating(outage) as world:
        outage.lasts = True
        await asyncio.sleep(300)
        assert world.clock.wall_s() - await renewed_s(world) > 280
        outage.lasts = False
        await asyncio.sleep(2)
        assert world.clock.wall_s() - await renewed_s(world) < 2


@in_virtual_time
async def test_HB1_a_request_that_hangs_does_not_keep_the_next_one() -> None:
    class Hanging(ServerFaults):
        """A renewal that nobody answers."""

        hangs = False

        async def before(self, verb: str, kind: Any, name: str) -> None:
            if self.hangs and (verb, kind.plural) == ("patch", "leases"):
                self.hangs = False
                await asyncio.sleep(30)

    faults = Hanging()
    async with beating(faults) as world:
        await asyncio.sleep(60)
        faults.hangs = True
        for _ in range(40):
            await asyncio.sleep(1)
            assert world.clock.wall_s() - await renewed_s(world) < 23, (
                "ten seconds of waiting, ten of the request, and one"
            )
        assert not faults.hangs


@in_virtual_time
async def test_HB2_conditions_that_another_changes_are_made_good_at_once() -> None:
    async with beating() as world:
        before = await conditions(world)
        assert [tuple(one) for one in CONDITIONS] == [
            (one["type"], one["status"], one["reason"], one["message"]) for one in before
        ]
        unknown = [{**one, **UNKNOWN} for one in before]
        await world.patch(NODES, "n", {"status": {"conditions": unknown}}, subresource="status")
        await asyncio.sleep(1)
        assert {"KubeletReady"} == {one["reason"] for one in await conditions(world) if one["type"] == "Ready"}
        assert "False" == next(one["status"] for one in await conditions(world) if one["type"] == "DiskPressure")


@in_virtual_time
async def test_HB3_conditions_that_do_not_change_are_reported_every_five_minutes() -> None:
    async with beating() as world:
        world.story.clear()
        await asyncio.sleep(1500)
        assert 5 == len([step for step in world.story if step == "patch nodes/status"])


@in_virtual_time
async def test_HB4_without_a_node_there_is_no_lease_and_with_another_one_it_is_that_ones() -> None:
    async with beating() as world:
        await world.delete(NODES, "n")
        await world.delete(LEASES, "n", NODE_LEASE_NAMESPACE)
        await asyncio.sleep(60)
        assert await world.find(LEASES, "n", NODE_LEASE_NAMESPACE) is None
        uid = (await world.create(new_node("n")))["metadata"]["uid"]
        await asyncio.sleep(11)
        lease = await world.get(LEASES, "n", NODE_LEASE_NAMESPACE)
        assert [uid] == [owner["uid"] for owner in lease["metadata"]["ownerReferences"]]
        assert 4 == len(await conditions(world))
