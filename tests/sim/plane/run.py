"""One life of the whole plane from its seed to its verdict."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mooring.api.workloads import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from tests.sim.checkers import Complaint
from tests.sim.course import REST_S, TOLD_S, Course, Outcome, failures_of, lived
from tests.sim.keeper import Keeper, Made
from tests.sim.leading import Leases, behind_lease
from tests.sim.node.disk import NodeLoop
from tests.sim.node.run import few_workers
from tests.sim.plane.acts import Acts
from tests.sim.plane.agent import AgentNode, nodes_of
from tests.sim.plane.bugs import BUGS
from tests.sim.plane.checkers import complaints, fingerprint, leftovers
from tests.sim.plane.hands import Hands
from tests.sim.plane.kubelet import Kubelet
from tests.sim.plane.life import attachdetach, attacher, binder, health, provisioner, workloads
from tests.sim.plane.line import AGENT, ATTACHDETACH, ATTACHER, BINDER, HEALTH, PROVISIONER, WORKLOADS
from tests.sim.plane.plan import Plan, plan_of
from tests.sim.plane.silence import LOOK_S
from tests.sim.plane.world import PlaneWorld
from tests.sim.planting import planted_of
from tests.sim.shrinking import cut

CALM_S_MAX: Final = 1500.0
"""The longest way to rest: a node is found to be dead, its pods leave it, then the time for force, then keys in their longest back-off."""
LOOKS_S: Final = (1.0, 5.0)
"""Between two looks at a world that is not well yet: at first, and later."""
QUICK_LOOKS: Final = 20
UNNOTICED_S: Final = 150.0
"""The longest time that node health needs for all that it does about a node that died last."""
LED: Final = (ATTACHDETACH, ATTACHER, HEALTH, WORKLOADS)
"""Programs that may stand for a Lease, with a second replica."""
GIVEN_UP_S: Final = 30.0
"""After peace, until nodes that are dead are given up."""


def run_seed(seed: int, *, bug: str | None = None, cuts: tuple[str, ...] = ()) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted for this life. cuts: as in `shrinking.py`."""
    plan = cut(plan_of(seed), cuts)
    life = _Life(plan)
    try:
        with planted_of(BUGS, bug), few_workers():
            return lived(life, seed, bug, "plane", cuts, make_loop=NodeLoop if plan.agents.runs else None)
    finally:
        if life.world is not None:
            life.world.close()


def failures(seeds: range, bug: str | None) -> list[tuple[str, str, int]]:
    return failures_of(run_seed(seed, bug=bug) for seed in seeds)


class _Life(Course[PlaneWorld]):
    def __init__(self, plan: Plan) -> None:
        super().__init__(lambda group: PlaneWorld(plan, group))
        self._plan = plan

    async def live(self, world: PlaneWorld) -> None:
        kubelets = nodes_of(world)
        hands, keepers = Hands(world, kubelets), self._keepers(world, kubelets)
        acts = Acts(world, hands, keepers)
        world.laws.on_change = lambda node: _wake(kubelets, node)
        if self._plan.workloads.runs:
            world.workloads.is_mounted = lambda node, uid: node in kubelets and kubelets[node].has(uid)
            world.collects()
        await acts.prepare()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(kubelet.run(), name=f"sim/{node}") for node, kubelet in kubelets.items()]
            running += [
                group.create_task(keeper.run(), name="sim/keeper") for several in keepers.values() for keeper in several
            ]
            if self._plan.health:
                running += [
                    group.create_task(kubelet.renew_for_ever(), name=f"sim/{node}/lease")
                    for node, kubelet in kubelets.items()
                ]
            else:
                running.append(group.create_task(hands.watch_health(), name="sim/health"))
            running.append(group.create_task(_listen(world, kubelets), name="sim/silence"))
            await self._chaos(world, acts, hands)
            world.heal()
            await acts.make_peace()
            await self._end(world, acts, hands, keepers)
            self.lives_count = sum(keeper.started_count for keeper in keepers[ATTACHDETACH])
            for task in running:
                task.cancel()

    def _keepers(self, world: PlaneWorld, kubelets: Mapping[str, Kubelet]) -> Mapping[str, Sequence[Keeper]]:
        plan = self._plan
        several = [
            (ATTACHDETACH, attachdetach, plan.controllers),
            (ATTACHER, attacher, plan.attachers),
            (HEALTH, health, int(plan.health)),
            (PROVISIONER, provisioner, int(plan.provisions)),
            (BINDER, binder, int(plan.provisions)),
            (WORKLOADS, workloads, int(plan.workloads.runs)),
        ]
        agents = [node.keeper for node in kubelets.values() if isinstance(node, AgentNode)]
        replicas = plan.stops.replicas
        programs = {
            who: _behind_lease(world, who, make, replicas)
            if count == 1 and replicas > 1 and who in LED
            else [Keeper(world, f"{who}{'-2' * number}", make) for number in range(count)]
            for who, make, count in several
        }
        return {**programs, AGENT: agents}

    async def _chaos(self, world: PlaneWorld, acts: Acts, hands: Hands) -> None:
        while world.clock.now() < self._plan.chaos_s:
            await world.clock.sleep(world.randomness["actor"].uniform(0.0, 2 * self._plan.pause_s))
            await acts.disturb()
            await hands.tend()
            await acts.end_job_pods()

    async def _end(self, world: PlaneWorld, acts: Acts, hands: Hands, keepers: Mapping[str, Sequence[Keeper]]) -> None:
        """All is well, then all is empty, then nothing happens any more."""

        def unsettled() -> list[Complaint]:
            return [
                ("unsettled", what) for several in keepers.values() for keeper in several for what in keeper.unsettled()
            ]

        if not await self._is_soon(world, acts, hands, lambda: [*complaints(world, hands), *unsettled()], "well"):
            return
        if self._plan.workloads.runs:
            await self._stays_well(world)
        await acts.delete_all()
        if await self._is_soon(world, acts, hands, lambda: [*leftovers(world, hands), *unsettled()], "empty"):
            acts.turn_off()
            await self._rest(world, hands)

    async def _is_soon(
        self, world: PlaneWorld, acts: Acts, hands: Hands, wrong: Callable[[], list[Complaint]], state: str
    ) -> bool:
        began, looks, given_up = world.clock.now(), 0, False
        while found := wrong():
            looks += 1
            waited_s = world.clock.now() - began
            if waited_s > CALM_S_MAX:
                world.fail(found[0][0], f"not {state} after {CALM_S_MAX:g} s: {'; '.join(text for _, text in found)}")
                return False
            if waited_s > GIVEN_UP_S and not given_up:
                given_up = True
                await acts.give_up()
                await acts.give_up_pods()
            await hands.tend()
            await acts.end_job_pods()
            await acts.restore()
            await world.clock.sleep(LOOKS_S[looks > QUICK_LOOKS])
        self.rested_s = world.clock.now()
        world.story.tell("world", f"all is {state}")
        return True

    async def _stays_well(self, world: PlaneWorld) -> None:
        """Of workloads that have what is wished for nothing is written. But a Job may go when its time is up."""
        await world.clock.sleep(REST_S)
        before = world.workloads.writes_count
        await world.clock.sleep(REST_S)
        written = world.workloads.writes_count - before
        if written > len(world.truth.all(JOBS.whole())) + 1:
            world.fail("I10", f"all was well, and the controllers of workloads have written {written} times")

    async def _rest(self, world: PlaneWorld, hands: Hands) -> None:
        """A world that is empty stays as it is. Events may still be on their way, so they get a while first."""
        await world.clock.sleep(UNNOTICED_S if self._plan.health else TOLD_S)
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in leftovers(world, hands):
            world.fail(invariant, f"all was empty, and then: {text}")
        if fingerprint(world) != before:
            world.fail("I10", f"all was empty, and then something was done: {before} became {fingerprint(world)}")


def _behind_lease(world: PlaneWorld, who: str, make: Callable[[Any, Any], Made], replicas: int) -> list[Keeper]:
    numbers = itertools.count(1)
    led = behind_lease(Leases(world), who, make, numbers)
    return [Keeper(world, who, led, numbers) for _ in range(replicas)]


async def _listen(world: PlaneWorld, kubelets: Mapping[str, Kubelet]) -> None:
    """For ever: whoever waits must have been told why."""
    while True:
        await world.clock.sleep(LOOK_S)
        world.laws.silence.look(lambda node: kubelets[node].alive)
        if world.plan.workloads.runs:
            world.workloads.look(world.truth.all(DEPLOYMENTS.whole()))
            owners = [*world.truth.all(STATEFUL_SETS.whole()), *world.truth.all(REPLICA_SETS.whole())]
            world.workloads.listen(owners, world.laws.silence.is_told)


def _wake(kubelets: Mapping[str, Kubelet], node: str) -> None:
    for kubelet in [kubelets[node]] if node else kubelets.values():
        kubelet.wake()
