"""Scripts of the whole plane: a pod's volume is attached, follows the pod to another node, and leaves a node that
died.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from mooring.api.core import NODES
from mooring.cluster.attachdetach.silence import UNSAID_S
from tests.sim.checkers import Complaint
from tests.sim.course import REST_S
from tests.sim.plane import checkers
from tests.sim.plane.acts import Acts
from tests.sim.plane.agent import nodes_of
from tests.sim.plane.checkers import complaints
from tests.sim.plane.hands import Hands
from tests.sim.plane.life import attachdetach, attacher, health
from tests.sim.plane.line import ATTACHDETACH, ATTACHER, HEALTH
from tests.sim.plane.plan import NO_AGENTS, NO_PLACING, RWO, VolumePlan, plan_of
from tests.sim.plane.run import UNNOTICED_S
from tests.sim.plane.world import PlaneWorld
from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage, without_faults, world_of

VOLUME: Final = VolumePlan("pv0", "handle0", RWO, bound_late=False, shared=False)
PLAN: Final[Any] = without_faults(
    plan_of(0),
    volumes=(VOLUME,),
    nodes=("node0", "node1"),
    controllers=1,
    attachers=1,
    health=False,
    provisions=False,
    force_after_s=60.0,
    forces=True,
    lists_published=False,
    single_node_multi_writer=False,
    page_size=0,
    step_s=0.05,
    tolerated_s=10.0,
    reconcile_s=60.0,
    agents=NO_AGENTS,
    placing=NO_PLACING,
)
CALM_S: Final = 1500.0
LOOK_S: Final = 0.001


class Living(Stage[PlaneWorld]):
    checkers = checkers

    def __init__(self, world: PlaneWorld, director: Director) -> None:
        super().__init__(world, director)
        self.kubelets = nodes_of(world)
        self.hands = Hands(world, self.kubelets)
        self.keep(ATTACHDETACH, attachdetach)
        self.keep(ATTACHER, attacher)
        if world.plan.health:
            self.keep(HEALTH, health)
        self.acts = Acts(world, self.hands, {})
        world.laws.on_change = self._wake

    def begin(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[Any]]:
        running = [group.create_task(kubelet.run(), name=f"sim/{node}") for node, kubelet in self.kubelets.items()]
        if self.world.plan.health:
            return running + [
                group.create_task(one.renew_for_ever(), name=f"sim/{node}/lease") for node, one in self.kubelets.items()
            ]
        return [*running, group.create_task(self.hands.watch_health(), name="sim/health")]

    async def tend(self) -> None:
        await self.hands.tend()

    def complaints(self) -> Sequence[Complaint]:
        """Until its Node is there, nothing can be done on a node."""
        missing = [("no-node", f"{node} has no Node") for node in self.kubelets if node not in self.world.laws.nodes]
        return [*missing, *complaints(self.world, self.hands)]

    def storage(self) -> dict[str, Any]:
        mounted = {node: sorted(kubelet.mounted) for node, kubelet in self.kubelets.items()}
        return {
            "published": {handle: sorted(nodes) for handle, nodes in self.world.backend.published.items() if nodes},
            "mounted": mounted,
        }

    def _wake(self, node: str) -> None:
        for kubelet in [self.kubelets[node]] if node else self.kubelets.values():
            kubelet.wake()


async def run(stage: Living) -> None:
    await stage.hands.make_pod("pod0", [VOLUME.name], "node0")


async def stop(stage: Living) -> None:
    await stage.acts.delete_all()


async def move(stage: Living) -> None:
    """Deleted here, and made elsewhere at once."""
    await stage.acts.delete_all()
    await stage.hands.make_pod("pod1", [VOLUME.name], "node1")


async def die(stage: Living) -> None:
    """The machine has lost its power, somebody says so by the taint, and the pod comes to be on another node."""
    stage.kubelets["node0"].dies()
    await stage.hands.taint("node0")
    await stage.hands.make_pod("pod1", [VOLUME.name], "node1")


async def die_unsaid(stage: Living) -> None:
    """The same, and nobody says so: its pod is removed by force, and only time tells."""
    stage.kubelets["node0"].dies()
    await stage.acts._remove_pods_of("node0")
    await stage.hands.make_pod("pod1", [VOLUME.name], "node1")


async def remake_unheard(stage: Living) -> None:
    """The Node is deleted; its kubelet registers anew, and falls silent before it says what is mounted. Its pod is
    removed by force.
    """
    nodes = stage.world.laws.nodes
    before = nodes["node0"].made_at
    await stage.hands.delete(NODES, "node0")
    while nodes["node0"].made_at == before:
        await stage.world.clock.sleep(LOOK_S)
    stage.kubelets["node0"].is_cut()
    await stage.acts._remove_pods_of("node0")
    await stage.hands.make_pod("pod1", [VOLUME.name], "node1")


_world = world_of(PlaneWorld, PLAN)
_patient = world_of(PlaneWorld, PLAN, force_after_s=UNSAID_S * 3)
"""Force waits for longer than a Node that was made anew has time to say what is mounted."""
_healthy = world_of(PlaneWorld, PLAN, health=True)


def _script(name: str, about: str, make_world: Any, *acts: Any, dies: bool = False) -> Script:
    """dies: what a node that dies has said of its volumes before stays."""
    rest_s = UNNOTICED_S if dies else REST_S
    return Script(
        name,
        about,
        make_world,
        Living,
        acts,
        calm_s=CALM_S,
        rest_s=rest_s,
        early_is_same=not dies,
    )


SCRIPTS: Final = (
    _script("run-pod", "a pod is there, and its volume is attached to its node", _world, run),
    _script("stop-pod", "the pod goes, and its volume is detached", _world, run, stop),
    _script("move-pod", "the pod goes, and another one on another node has its volume", _world, run, move),
    _script("node-death", "a node dies and is tainted, and another one gets the volume", _healthy, run, die, dies=True),
    _script(
        "node-remade-silent",
        "a Node is made anew, and its kubelet falls silent",
        _patient,
        run,
        remake_unheard,
        dies=True,
    ),
    _script(
        "node-death-unsaid",
        "a node dies, and another one gets the volume when the time is over",
        _world,
        run,
        die_unsaid,
        dies=True,
    ),
)
