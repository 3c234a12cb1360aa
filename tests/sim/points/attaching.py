"""Scripts of the attacher: a volume is attached, detached, moved, attached again under the same name, and deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from mooring.api.storage import VOLUME_ATTACHMENTS
from tests.sim import checkers
from tests.sim.actor import Actor
from tests.sim.checkers import Complaint, complaints
from tests.sim.hands import Hands
from tests.sim.life import attacher
from tests.sim.plan import TWIN, VolumePlan, plan_of
from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage, without_faults, world_of
from tests.sim.world import SimWorld

VOLUME: Final = VolumePlan("pv0", "handle0", "ReadWriteOnce", secret=True, inline=False)
TWIN_NAME: Final = f"{TWIN}{VOLUME.name}-node0"
PLAN: Final[Any] = without_faults(
    plan_of(0),
    volumes=(VOLUME,),
    nodes=("node0", "node1"),
    lists_published=False,
    single_node_multi_writer=False,
    page_size=0,
    reconcile_s=60.0,
    hasty=0.0,
    meddling=0.0,
    inherits=False,
)


class Attaching(Stage[SimWorld]):
    checkers = checkers

    def __init__(self, world: SimWorld, director: Director) -> None:
        super().__init__(world, director)
        self.hands = Hands(world)
        self.actor = Actor(world, self.hands)
        self.keep("attacher", attacher)

    async def prepare(self) -> None:
        await self.actor.prepare()

    async def tend(self) -> None:
        await self.actor.tend()

    def complaints(self) -> Sequence[Complaint]:
        """A twin that is wanted is none."""
        found = complaints(self.world, self.actor)
        return [
            one for one in found if one[0] != "unwanted-left" or not any(twin in one[1] for twin in self.actor.twins)
        ]

    def storage(self) -> dict[str, Any]:
        return {"published": {handle: sorted(nodes) for handle, nodes in self.world.backend.published.items()}}


async def attach(stage: Attaching) -> None:
    stage.actor.wanted = {(VOLUME.name, "node0")}
    await stage.actor.tend()


async def detach(stage: Attaching) -> None:
    stage.actor.wanted = set()
    await stage.actor.tend()


async def move(stage: Attaching) -> None:
    stage.actor.wanted = {(VOLUME.name, "node1")}
    await stage.actor.tend()


async def hasten(stage: Attaching) -> None:
    """The attachment elsewhere is there before the first one is gone."""
    stage.actor.wanted = {(VOLUME.name, "node1")}
    await stage.hands.create_attachment(f"va-{VOLUME.name}-node1", VOLUME.name, "node1")
    await stage.actor.tend()


async def share(stage: Attaching) -> None:
    stage.actor.wanted = {(VOLUME.name, "node0"), (VOLUME.name, "node1")}
    await stage.actor.tend()


async def tear(stage: Attaching) -> None:
    """The attachment is torn away, and another node gets the volume."""
    stage.actor.wanted = {(VOLUME.name, "node1")}
    await remake(stage)


async def remake(stage: Attaching) -> None:
    """An administrator deletes the attachment with its finalizers, and detaches what is attached by hand; what is
    wanted comes anew.
    """
    world, hands = stage.world, stage.hands
    for found in world.truth.attachments():
        await hands.delete_attachment(found.name)
        await hands.merge(VOLUME_ATTACHMENTS, found.name, {"metadata": {"finalizers": None}})
        world.laws.tears.torn(found)
        if found.attached:
            world.backend.take_away(found.handle, found.node_id)
    await stage.actor.tend()


async def twin(stage: Attaching) -> None:
    """A second attachment of the volume to its node, under another name."""
    stage.actor.twins.add(TWIN_NAME)
    await stage.hands.create_attachment(TWIN_NAME, VOLUME.name, "node0")


async def end_twin(stage: Attaching) -> None:
    stage.actor.twins.clear()
    await stage.actor.tend()


async def again(stage: Attaching) -> None:
    """Deleted, and made anew under the same name as soon as that is free."""
    await stage.hands.delete_attachment(f"va-{VOLUME.name}-node0")


async def drop(stage: Attaching) -> None:
    """The volume goes with its attachment."""
    stage.actor.wanted = set()
    stage.actor.present.clear()
    await stage.hands.delete_volume(VOLUME.name)
    await stage.actor.tend()


_world = world_of(SimWorld, PLAN)
_listing = world_of(SimWorld, PLAN, lists_published=True)
"""Who is shown the former attachment of a name unpublishes the volume: nobody would see that of a driver that lists
    nothing.
    """
_shared = world_of(SimWorld, PLAN, volumes=(dataclasses.replace(VOLUME, mode="ReadWriteMany"),))


SCRIPTS: Final = (
    Script("attach", "a volume is attached to a node", _world, Attaching, (attach,)),
    Script("detach", "it is detached again", _world, Attaching, (attach, detach)),
    Script("move", "it goes to another node", _world, Attaching, (attach, move)),
    Script(
        "hasten",
        "its attachment to another node is there before the first one is gone",
        _world,
        Attaching,
        (attach, hasten),
    ),
    Script("tear", "its attachment is torn away, and another node gets it", _world, Attaching, (attach, tear)),
    Script(
        "remake", "its attachment is torn away, and comes anew under the same name", _world, Attaching, (attach, remake)
    ),
    Script("twin", "it gets a second attachment to its node", _world, Attaching, (attach, twin)),
    Script(
        "end-twin", "the second attachment goes, and the first one stays", _world, Attaching, (attach, twin, end_twin)
    ),
    Script("share", "it is attached to two nodes at once", _shared, Attaching, (share,)),
    Script("unshare", "it is detached from one of two nodes", _shared, Attaching, (share, attach)),
    Script(
        "reattach", "its attachment is deleted, and made anew under the same name", _listing, Attaching, (attach, again)
    ),
    Script("drop", "its PersistentVolume is deleted while it is attached", _world, Attaching, (attach, drop)),
)
