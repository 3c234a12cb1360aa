"""Sidecars that stand for election: where their Lease is, who works, and how leadership comes and goes. In virtual
time.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cli.process import Machine
from mooring.kube.errors import NotFound, ServerError
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import SidecarInProcess, SlowWork

pytestmark = in_virtual_time
WHOLE_EVENTS = msgspec.structs.replace(EVENTS, struct=dict)
LOCK = "lock-csi-example-com"
EPOCH_S = 1_780_000_000.0


class Server:
    """An API server, and sidecars that use it."""

    def __init__(self):
        self.clock = LoopClock(EPOCH_S)
        self.store = new_store(Random(0), EPOCH_S)
        self.users = LocalCluster(self.store, clock=self.clock, randomness=Random(0))

    def sidecar(self, *flags, seed=1, faults=None, **how):
        cluster = LocalCluster(self.store, clock=self.clock, randomness=Random(seed), faults=faults)
        return SidecarInProcess("--leader-election", *flags, cluster=cluster, seed=seed, **how)

    async def lease(self, namespace="default"):
        try:
            return await self.users.get(LEASES, LOCK, namespace)
        except NotFound:
            return None

    async def until(self, check):
        """Returns when the check is true, looking ten times a second, for ten minutes of virtual time at the most."""
        async with asyncio.timeout(600):
            while not check():
                await self.clock.sleep(0.1)


class Refusing(ServerFaults):
    """A server that refuses writes of the Lease while `on`."""

    on = False

    async def before(self, verb, kind, name):
        if self.on and verb in ("replace", "create", "patch") and kind.plural == "leases":
            raise ServerError("no")


def host(name, **environ):
    return Machine(environ=environ, host_name=lambda: name)


async def test_LE05_the_lease_is_in_the_pods_namespace_with_the_labels():
    server = Server()
    world = server.sidecar(
        "--leader-election-labels=team:storage,tier:gold", machine=host("web.0", POD_NAMESPACE="kube-system")
    )
    async with world.living():
        await server.until(lambda: world.works)
        assert await server.lease() is None
        lease = await server.lease("kube-system")
        assert lease.spec.holder_identity.startswith("web-0_")
        assert {"team": "storage", "tier": "gold"} == dict(lease.metadata.labels)


async def test_LE07_the_leader_works_and_the_standby_is_ready_too():
    server = Server()
    first, second = server.sidecar(machine=host("a")), server.sidecar(machine=host("b"), seed=2)
    async with first.living():
        await server.until(lambda: first.works)
        async with second.living():
            await server.clock.sleep(60)
            assert [] == second.works
            for world in (first, second):
                for path in ("/readyz", "/healthz", "/healthz/leader-election"):
                    answer = await world.asked(path)
                    assert (200, "ok") == (answer.status, answer.body)
            assert b'leader_election_master_status{name=""} 1.0' in (await first.asked("/metrics")).body
            assert b'leader_election_master_status{name=""} 0.0' in (await second.asked("/metrics")).body


async def test_C3_two_processes_on_one_host_are_two_candidates():
    server = Server()
    first, second = server.sidecar(machine=host("a")), server.sidecar(machine=host("a"), seed=2)
    async with first.living(), second.living():
        await server.clock.sleep(60)
        assert 1 == len(first.works) + len(second.works)


async def test_SG_a_leader_that_is_told_to_end_drains_and_hands_over():
    """The Lease is kept until the running call is stored, and then given back at once."""
    server = Server()
    first, second = server.sidecar(machine=host("a")), server.sidecar(machine=host("b"), seed=2)
    first.make = lambda: SlowWork(first.clock, call_s=18)
    async with first.living():
        await server.until(lambda: first.works)
        async with second.living():
            await server.clock.sleep(1)
            first.life.end()
            told_at = server.clock.now()
            await server.until(lambda: second.works)
            assert ["run", "drain", "stored"] == first.works[0].story
            assert 18 < server.clock.now() - told_at < 18 + 15
            assert first.task.done()


async def test_leadership_is_told_in_events_of_the_lease():
    server = Server()
    world = server.sidecar(machine=host("a"))
    async with world.living():
        await server.until(lambda: world.works)
        world.life.end()
        await world.task
    events = {event["message"].partition(" ")[2]: event for event in (await server.users.list(WHOLE_EVENTS)).items}
    assert {"became leader", "stopped leading"} == set(events)
    for event in events.values():
        holder = event["message"].split()[0]
        assert holder.startswith("a_")
        assert ("Normal", "LeaderElection") == (event["type"], event["reason"])
        assert ("Lease", LOCK) == (event["involvedObject"]["kind"], event["involvedObject"]["name"])
        assert f"lock-csi.example.com/{holder}" == event["source"]["component"]


async def test_SG_W17_a_standby_that_is_told_to_end_ends_at_once():
    server = Server()
    first, second = server.sidecar(machine=host("a")), server.sidecar(machine=host("b"), seed=2)
    async with first.living():
        await server.until(lambda: first.works)
        async with second.living():
            await server.clock.sleep(1)
            told_at = server.clock.now()
            second.life.end()
            await second.task
            assert server.clock.now() - told_at < 0.1
        assert ["run"] == first.works[0].story
        assert (await server.lease()).spec.holder_identity.startswith("a_")


async def test_LE03_a_leader_that_cannot_renew_stops_and_stands_again():
    """Differs from upstream, which ends the process."""
    server, faults = Server(), Refusing()
    world = server.sidecar(faults=faults)
    async with world.living():
        await server.until(lambda: world.works)
        faults.on = True
        await server.until(lambda: "cancelled" in world.works[0].story)
        assert server.clock.now() < 15 + 1
        await server.clock.sleep(30)
        assert 1 == len(world.works)
        faults.on = False
        await server.until(lambda: len(world.works) == 2)
        assert ["run"] == world.works[1].story


class Exited(Exception):
    """In place of the end of the process."""


async def test_LE03_work_that_outlives_the_lease_ends_the_process(capsys):
    class Stubborn(SlowWork):
        async def run(self):
            self.story.append("run")
            while True:
                try:
                    await self.clock.sleep(1000)
                except asyncio.CancelledError:
                    self.story.append("not now")
                    if self.clock.now() > 500:
                        raise

    def exit_now(code):
        raise Exited(code)

    server, faults = Server(), Refusing()
    machine = Machine(environ={}, host_name=lambda: "a", exit_now=exit_now)
    world = server.sidecar(faults=faults, machine=machine)
    world.make = lambda: Stubborn(world.clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(_outcome(world))
        await server.until(lambda: world.works)
        faults.on = True
        await server.until(running.done)
        assert server.clock.now() < 15 + 1
        await server.clock.sleep(500)
    assert ("Exited", (1,)) == (type(running.result()).__name__, running.result().args)
    assert "Exiting at once" in capsys.readouterr().err


async def _outcome(world):
    with pytest.raises(Exited) as outcome:
        await world.life.run()
    return outcome.value


async def test_told_to_end_it_ends_also_when_it_loses_the_lease_while_it_drains():
    server, faults = Server(), Refusing()
    first, second = server.sidecar(machine=host("a"), faults=faults), server.sidecar(machine=host("b"), seed=2)
    first.make = lambda: SlowWork(first.clock, call_s=18)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(first.life.run())
        await server.until(lambda: first.works)
        async with second.living():
            await server.clock.sleep(1)
            faults.on = True
            first.life.end()
            await server.clock.sleep(300)
            ended = running.done()
            running.cancel()
    assert ended, f"five minutes after it was told to end; its work: {first.works[0].story}"
