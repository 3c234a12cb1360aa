"""A process with several works, each under a Lease of its own: what ends one does not end another. In virtual time."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from mooring.api.coordination import LEASES
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.errors import InvariantError
from mooring.base.randomness import Random
from mooring.control.program.terms import LeasedWork, LeasedWorks
from mooring.kube.errors import ServerError
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import SidecarInProcess, SlowWork
from tests.unit.cli.test_election import Server

pytestmark = in_virtual_time


class Refusing(ServerFaults):
    """It refuses writes of one Lease while `on`."""

    on = False

    async def before(self, verb, kind, name):
        if self.on and verb in ("replace", "create", "patch") and (kind.plural, name) == ("leases", "lock-one"):
            raise ServerError("no")


class Double(SidecarInProcess):
    """A process with two works."""

    def __init__(self, *flags, cluster=None, seed=1, make=None):
        super().__init__(*flags, cluster=cluster, seed=seed)
        self._made = {"one": [], "other": []}
        self.beside = []
        make = make or (lambda name: SlowWork(self.clock))

        def made(name):
            self._made[name].append(make(name))
            return self._made[name][-1]

        works = tuple(LeasedWork(name, f"lock-{name}", lambda name=name: made(name)) for name in self._made)
        self.life._sidecar = dataclasses.replace(
            self.life._sidecar, works=lambda context: LeasedWorks(works, self._beside)
        )

    async def _beside(self):
        self.beside.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            self.beside.append("ended")

    @property
    def made(self):
        """The works that have begun, of each, in the order of their terms."""
        return {name: [work for work in works if work.story] for name, works in self._made.items()}

    @property
    def stories(self):
        return {name: [work.story for work in works] for name, works in self.made.items()}


def a_double(server, *flags, seed=1, faults=None, **how):
    cluster = LocalCluster(server.store, clock=server.clock, randomness=Random(seed), faults=faults)
    return Double("--leader-election", *flags, cluster=cluster, seed=seed, **how)


async def test_without_an_election_both_work_at_once_and_end_in_good_order():
    world = Double()
    async with world.living():
        assert 200 == (await world.asked("/readyz")).status
        assert {"one": [["run"]], "other": [["run"]]} == world.stories
        assert ["began"] == world.beside
    assert {"one": [["run", "drain", "stored"]], "other": [["run", "drain", "stored"]]} == world.stories
    assert ["began", "ended"] == world.beside


async def test_each_stands_for_its_own_lease():
    server = Server()
    world = a_double(server)
    async with world.living():
        await server.until(lambda: all(world.made.values()))
        found = {one.metadata.name for one in (await server.users.list(LEASES)).items}
        assert {"lock-one", "lock-other"} == found


async def test_a_lost_lease_stops_its_work_alone_and_the_next_term_has_another():
    server, faults = Server(), Refusing()
    world = a_double(server, faults=faults)
    async with world.living():
        await server.until(lambda: all(world.made.values()))
        faults.on = True
        await server.until(lambda: "cancelled" in world.made["one"][0].story)
        assert [["run"]] == world.stories["other"]
        assert 200 == (await world.asked("/readyz")).status
        faults.on = False
        await server.until(lambda: len(world.made["one"]) == 2)
        assert (["run", "cancelled"], ["run"]) == tuple(world.stories["one"])
        assert [["run"]] == world.stories["other"]


async def test_a_replica_may_lead_with_one_and_stand_by_with_the_other():
    """Told to end, the one is ended in good order, and the other has nothing to end."""
    server = Server()
    first = a_double(server)
    async with first.living():
        await server.until(lambda: all(first.made.values()))
        second = a_double(server, seed=2)
        async with second.living():
            await second.clock.sleep(1)
            assert {"one": [], "other": []} == second.stories
            assert 200 == (await second.asked("/readyz")).status
            lease = await server.users.get(LEASES, "lock-one", "default")
            assert lease.spec.holder_identity
            first.life.end()
            await server.until(lambda: all(second.made.values()))
    assert {"one": [["run", "drain", "stored"]], "other": [["run", "drain", "stored"]]} == first.stories


async def test_readyz_names_the_obstacles_of_all():
    def make(name):
        work = SlowWork(world.clock, synced=False)
        work.obstacle = f"no {name}"
        return work

    world = Double(make=make)
    async with world.living():
        body = (await world.asked("/readyz")).body
        assert "not ready: the caches are not filled yet: no one; the caches are not filled yet: no other\n" == body
        for works in world.made.values():
            works[0].has_synced, works[0].obstacle = True, ""


async def test_the_error_of_one_ends_the_process():
    def make(name):
        return SlowWork(world.clock, fail=ZeroDivisionError("a bug") if name == "one" else None)

    world = Double(make=make)
    with pytest.raises(ExceptionGroup) as found:
        async with world.living():
            await world.clock.sleep(1)
    assert found.group_contains(ZeroDivisionError)
    assert not found.group_contains(InvariantError)
    assert [["run", "cancelled"]] == world.stories["other"]


async def test_the_driver_that_is_back_is_told_to_those_that_work():
    world = Double()
    async with world.living():
        world.ports.connection.lose()
        await world.clock.sleep(1)
        world.ports.connection.come_back()
        await world.clock.sleep(60)
        assert all("driver returned" in works[0].story for works in world.made.values())
