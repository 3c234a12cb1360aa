"""A standby's caches are filled before it leads, and it does nothing before they lack nothing: in virtual time."""

from __future__ import annotations

import asyncio

from mooring.api.coordination import LEASES
from mooring.apiserver.local import LocalCluster
from mooring.base.randomness import Random
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import SidecarInProcess, SlowWork
from tests.unit.cli.test_election import Server

pytestmark = in_virtual_time


class Follower(SlowWork):
    """gate: what it takes to catch up. follows: how often it has begun to. caught_up_count: how often it was asked to
    catch up.
    """

    def __init__(self, clock):
        super().__init__(clock)
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = self.ended = self.asked = 0

    async def follow(self):
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1

    async def caught_up(self):
        self.asked += 1
        await self.gate.wait()


class Replica(SidecarInProcess):
    def __init__(self, server, seed, *flags):
        cluster = LocalCluster(server.store, clock=server.clock, randomness=Random(seed))
        super().__init__("--leader-election", "--leader-election-namespace=default", *flags, cluster=cluster, seed=seed)
        self.make = lambda: Follower(self.clock)

    @property
    def standing_by(self):
        """The work of the next term."""
        return self._works[-1]


async def test_a_standby_follows_and_its_work_goes_on_with_that():
    server = Server()
    first, second = Replica(server, 1), Replica(server, 2)
    async with first.living():
        await server.until(lambda: first.works)
        assert (1, 0) == (first.works[0].asked, first.works[0].begun), "it lists when it works"
        async with second.living():
            await second.clock.sleep(60)
            work = second.standing_by
            assert (1, 0, 0) == (work.begun, work.asked, len(second.works))
            first.life.end()
            await server.until(lambda: second.works)
            assert second.works == [work]
            assert (1, 1, 0) == (work.begun, work.asked, work.ended)
        assert 1 == work.ended


async def test_it_begins_nothing_before_it_has_caught_up():
    server = Server()
    first, second = Replica(server, 1), Replica(server, 2)
    async with first.living():
        await server.until(lambda: first.works)
        async with second.living():
            await second.clock.sleep(60)
            second.standing_by.gate.clear()
            first.life.end()
            await server.until(lambda: second.standing_by.asked)
            await second.clock.sleep(60)
            assert [] == second.works
            lease = await server.users.get(LEASES, "lock-csi-example-com", "default")
            assert lease.spec.holder_identity.startswith(second.life._machine.host_name())
            ready = await second.asked("/readyz")
            assert (503, "not ready: the caches are not filled yet\n") == (ready.status, ready.body)
            second.standing_by.gate.set()
            await server.until(lambda: second.works)


async def test_one_that_is_told_to_end_while_it_catches_up_gives_the_lease_back():
    server = Server()
    world = Replica(server, 1)
    world.make = lambda: _shut(Follower(world.clock))
    async with world.living():
        await server.until(lambda: world.standing_by.asked)
        await world.clock.sleep(5)
        world.life.end()
        await world.clock.sleep(1)
        lease = await server.users.get(LEASES, "lock-csi-example-com", "default")
        assert not lease.spec.holder_identity
    assert [] == world.works


def _shut(work):
    work.gate.clear()
    return work


async def test_another_look_at_the_same_vacant_lease_asks_no_second_time_and_another_leader_does():
    server = Server()
    first, second, third = Replica(server, 1), Replica(server, 2), Replica(server, 3)
    async with first.living():
        await server.until(lambda: first.works)
        async with second.living(), third.living():
            await second.clock.sleep(60)
            first.life.end()
            await server.until(lambda: second.works or third.works)
            winner, other = (second, third) if second.works else (third, second)
            waiting = other.standing_by
            assert waiting.asked <= 1
            winner.life.end()
            await server.until(lambda: other.works)
            assert other.works == [waiting]
            assert 1 <= waiting.asked <= 2


async def test_by_the_flag_nothing_is_followed_before_it_leads():
    server = Server()
    first, second = Replica(server, 1), Replica(server, 2, "--leader-election-warm-standby=false")
    async with first.living():
        await server.until(lambda: first.works)
        async with second.living():
            await second.clock.sleep(60)
            assert 0 == second.standing_by.begun
            first.life.end()
            await server.until(lambda: second.works)
            assert (0, 1) == (second.works[0].begun, second.works[0].asked)
