"""Scripts of the node agent: a pod gets its volume and lets it go, with a file system and as a raw device."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from tests.sim.checkers import Complaint
from tests.sim.node import checkers
from tests.sim.node.acts import Acts
from tests.sim.node.checkers import complaints, leftovers
from tests.sim.node.controller import AttachDetach
from tests.sim.node.disk import NodeLoop
from tests.sim.node.groups import GROUPS, Json, Wishes
from tests.sim.node.habits import Habits
from tests.sim.node.life import agent_on
from tests.sim.node.plan import RWO, RWOP, DiskFaults, DriverPlan, VolumePlan, plan_of
from tests.sim.node.world import NodeWorld
from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage, without_faults, world_of
from tests.sim.standing import WorldGroup
from tests.support.node_habits import NodeHabits

DRIVER: Final = "d0.example.com"
NODE: Final = "node0"
VOLUME: Final = VolumePlan(
    "pv0", "handle0", DRIVER, RWO, block=False, bound_late=False, stage_secret="pv0-stage", publish_secret=""
)
STAGES: Final = DriverPlan(
    DRIVER, attaches=True, stages=True, inline=False, asks_again=False, pod_info=True, leaves_folders=False
)
GROUPED: Final = dataclasses.replace(STAGES, habits=NodeHabits(group_policy="File"))
PLAN: Final[Any] = without_faults(
    plan_of(0),
    drivers=(STAGES,),
    volumes=(VOLUME,),
    nodes=(NODE,),
    timeout_s=plan_of(0).timeout_s,
    disk=DiskFaults(0.0, 0.0),
    half=0.0,
    lies=0.0,
    impatient=0.0,
    step_s=0.0,
    verbosity=0,
)
CALM_S: Final = 900.0
MOMENT_S: Final = 20.0


class Owner(Wishes):
    """Who is content with a folder that is right."""

    def put_into(self, pod: Json) -> Json:
        pod["spec"]["securityContext"] = {"fsGroup": GROUPS[0], "fsGroupChangePolicy": "OnRootMismatch"}
        return pod


class Mounting(Stage[NodeWorld]):
    """is_over: the pods are deleted, and nothing may be left."""

    checkers = checkers

    def __init__(self, world: NodeWorld, director: Director) -> None:
        super().__init__(world, director)
        keepers = {name: self.keep(name, agent_on(machine)) for name, machine in world.backend.machines.items()}
        self.acts, self.controller, self.is_over = Acts(world, keepers), AttachDetach(world), False

    def begin(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[Any]]:
        return [group.create_task(self.controller.run(), name="sim/controller")]

    def complaints(self) -> Sequence[Complaint]:
        judged = leftovers if self.is_over else complaints
        return judged(self.world, self.controller)

    def storage(self) -> dict[str, Any]:
        return {
            name: {
                "mounts": sorted(machine.short(point) for point in machine.mounts),
                "staged": sorted(machine.staged),
                "published": sorted(map(machine.short, machine.published)),
                "files": sorted(machine.files()),
            }
            for name, machine in self.world.backend.machines.items()
        }


async def mount(stage: Mounting) -> None:
    await stage.acts.make_pod_of(stage.world.plan.volumes, NODE)


async def own(stage: Mounting) -> None:
    """A pod that wants its files to belong to a group."""
    stage.acts.wishes = Owner(stage.world.plan)
    await mount(stage)


async def unmount(stage: Mounting) -> None:
    stage.is_over = True
    await stage.acts.delete_all()


async def share(stage: Mounting) -> None:
    """A second pod on the node gets the volume, too."""
    await stage.acts.make_pod_of(stage.world.plan.volumes, NODE)


async def leave(stage: Mounting) -> None:
    """The first of two pods goes."""
    await stage.acts.delete(next(pod for pod in stage.world.laws.pods.values() if pod["metadata"]["name"] == "pod1"))


async def hand_over_torn(stage: Mounting) -> None:
    """A second pod waits until the first one lets the volume go, which is torn off the node meanwhile, and attached to
    it anew.
    """
    clock = stage.world.clock
    await share(stage)
    await clock.sleep(MOMENT_S)
    stage.controller.tear(VOLUME.name, NODE)
    await clock.sleep(MOMENT_S)
    await leave(stage)


_world = world_of(NodeWorld, PLAN)
_block = world_of(NodeWorld, PLAN, volumes=(dataclasses.replace(VOLUME, block=True),))
_owned = world_of(NodeWorld, PLAN, drivers=(GROUPED,), habits=Habits(groups=True))


def _unstaged(group: WorldGroup) -> NodeWorld:
    driver, volume = dataclasses.replace(STAGES, stages=False), dataclasses.replace(VOLUME, mode=RWOP, stage_secret="")
    return NodeWorld(dataclasses.replace(PLAN, drivers=(driver,), volumes=(volume,)), group)


def _script(name: str, about: str, make_world: Any, *acts: Any) -> Script:
    return Script(name, about, make_world, Mounting, acts, calm_s=CALM_S, make_loop=NodeLoop)


SCRIPTS: Final = (
    _script("mount", "a pod gets its volume", _world, mount),
    _script("unmount", "the pod goes, and lets its volume go", _world, mount, unmount),
    _script("mount-device", "a pod gets its volume as a raw device", _block, mount),
    _script("unmount-device", "the pod goes, and lets its device go", _block, mount, unmount),
    _script("mount-owned", "a pod gets its volume, and its group gets the files", _owned, own),
    _script(
        "hand-over-torn", "a volume is torn off its pod, and the next pod gets it", _unstaged, mount, hand_over_torn
    ),
    _script("leave", "one of two pods goes, and the other keeps the volume", _world, mount, share, leave),
)
