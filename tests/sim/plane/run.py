"""The lives of the whole plane."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.api.workloads import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from tests.sim.checkers import Complaint
from tests.sim.course import REST_S, TOLD_S, BoundedLoop, Life, Part
from tests.sim.keeper import Keeper
from tests.sim.leading import replicas_of
from tests.sim.node.disk import NodeLoop
from tests.sim.node.run import few_workers
from tests.sim.plane import checkers
from tests.sim.plane.acts import Acts
from tests.sim.plane.agent import AgentNode, nodes_of
from tests.sim.plane.bugs import BUGS
from tests.sim.plane.checkers import complaints, leftovers
from tests.sim.plane.hands import Hands
from tests.sim.plane.kubelet import Kubelet
from tests.sim.plane.life import attachdetach, attacher, binder, health, provisioner, workloads
from tests.sim.plane.line import AGENT, ATTACHDETACH, ATTACHER, BINDER, HEALTH, PROVISIONER, WORKLOADS
from tests.sim.plane.plan import plan_of
from tests.sim.plane.silence import LOOK_S
from tests.sim.plane.world import PlaneWorld

UNNOTICED_S: Final = 150.0
"""The longest time that node health needs for all that it does about a node that died last."""
LED: Final = (ATTACHDETACH, ATTACHER, HEALTH, WORKLOADS)
"""Programs that may stand for a Lease, with a second replica."""
GIVEN_UP_S: Final = 30.0
"""After peace, until nodes that are dead are given up."""


class PlaneLife(Life[PlaneWorld]):
    """The longest way to rest: a node is found to be dead, its pods leave it, then the time for force, then keys in
    their longest back-off.
    """

    world_type = PlaneWorld
    checkers = checkers
    calm_s_max = 1500.0
    looks_s = 1.0, 5.0
    restless = "I10"

    async def prepare(self, world: PlaneWorld) -> None:
        self._kubelets = kubelets = nodes_of(world)
        self._hands, keepers = Hands(world, kubelets), self._keepers(world)
        self.keepers, self.counted = [one for some in keepers.values() for one in some], keepers[ATTACHDETACH]
        self.acts = Acts(world, self._hands, keepers)
        world.laws.on_change = lambda node: _wake(kubelets, node)
        if self.plan.workloads.runs:
            world.workloads.is_mounted = lambda node, uid: node in kubelets and kubelets[node].has(uid)
            world.collects()
        await self.acts.prepare()

    def _keepers(self, world: PlaneWorld) -> Mapping[str, Sequence[Keeper]]:
        plan = self.plan
        several = [
            (ATTACHDETACH, attachdetach, plan.controllers),
            (ATTACHER, attacher, plan.attachers),
            (HEALTH, health, int(plan.health)),
            (PROVISIONER, provisioner, int(plan.provisions)),
            (BINDER, binder, int(plan.provisions)),
            (WORKLOADS, workloads, int(plan.workloads.runs)),
        ]
        programs = {
            who: replicas_of(world, who, make)
            if count == 1 and who in LED
            else [Keeper(world, f"{who}{'-2' * number}", make) for number in range(count)]
            for who, make, count in several
        }
        return {**programs, AGENT: [node.keeper for node in self._kubelets.values() if isinstance(node, AgentNode)]}

    def works(self, world: PlaneWorld) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        yield from ((f"sim/{node}", kubelet.run()) for node, kubelet in self._kubelets.items())
        yield from super().works(world)
        if self.plan.health:
            yield from ((f"sim/{node}/lease", kubelet.renew_for_ever()) for node, kubelet in self._kubelets.items())
        else:
            yield "sim/health", self._hands.watch_health()
        yield "sim/silence", _listen(world, self._kubelets)

    async def disturb(self) -> None:
        await self.acts.disturb()
        await self._hands.tend()
        await self.acts.end_job_pods()

    async def end(self, world: PlaneWorld) -> None:
        """All is well, then all is empty, then nothing happens any more."""
        if not await self.is_soon(world, lambda: [*complaints(world, self._hands), *self.unsettled()], "well"):
            return
        if self.plan.workloads.runs:
            await self._stays_well(world)
        await self.acts.delete_all()
        if await self.is_soon(world, lambda: [*leftovers(world, self._hands), *self.unsettled()], "empty"):
            self.acts.turn_off()
            self.told_s = UNNOTICED_S if self.plan.health else TOLD_S
            await self.rest(world, lambda: leftovers(world, self._hands), "empty")

    async def is_soon(self, world: PlaneWorld, wrong: Callable[[], Sequence[Complaint]], state: str) -> bool:
        self._given_up = False
        return await super().is_soon(world, wrong, state)

    async def tend(self, waited_s: float) -> None:
        if waited_s > GIVEN_UP_S and not self._given_up:
            self._given_up = True
            await self.acts.give_up()
            await self.acts.give_up_pods()
        await self._hands.tend()
        await self.acts.end_job_pods()
        await self.acts.restore()

    async def _stays_well(self, world: PlaneWorld) -> None:
        """Of workloads that have what is wished for nothing is written. But a Job may go when its time is up."""
        await world.clock.sleep(REST_S)
        before = world.workloads.writes_count
        await world.clock.sleep(REST_S)
        written = world.workloads.writes_count - before
        if written > len(world.truth.all(JOBS.whole())) + 1:
            world.fail("I10", f"all was well, and the controllers of workloads have written {written} times")


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


PART: Final = Part(
    "plane",
    plan_of,
    PlaneLife,
    BUGS,
    around=lambda plan: few_workers(),
    loop_of=lambda plan: NodeLoop if plan.agents.runs else BoundedLoop,
)
