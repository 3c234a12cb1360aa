"""Scripts of snapshot controller and snapshotter: snapshots and groups of them are made, and go."""

from __future__ import annotations

from typing import Any, Final

from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage, act, without_faults, world_of
from tests.sim.snapshots import checkers
from tests.sim.snapshots.acts import Acts
from tests.sim.snapshots.life import controller, snapshotter
from tests.sim.snapshots.plan import CONTROLLER, SNAPSHOTTER, ClassPlan, plan_of
from tests.sim.snapshots.world import SnapshotWorld

PLAN: Final[Any] = without_faults(
    plan_of(0),
    classes=(ClassPlan("class0", "Delete", default=True, secret=True),),
    controllers=1,
    snapshotters=1,
    groups=False,
    lists=False,
    gets=False,
    cutting_s=3.0,
    judges_first=False,
    spells="same",
    lies=0.0,
)


class Snapping(Stage[SnapshotWorld]):
    checkers = checkers

    def __init__(self, world: SnapshotWorld, director: Director) -> None:
        super().__init__(world, director)
        controllers, snapshotters = self.keep(CONTROLLER, controller), self.keep(SNAPSHOTTER, snapshotter)
        self.acts = Acts(world, {CONTROLLER: [controllers], SNAPSHOTTER: [snapshotters]})

    async def prepare(self) -> None:
        """As in a life, without its first snapshot."""
        acts = self.acts
        await self.world.make_kinds()
        await acts.restore_secret()
        await acts._make_classes()
        for _ in range(2):
            await acts.make_claim()

    def storage(self) -> dict[str, Any]:
        return {"snapshots": sorted(self.world.backend.snapshots)}


snapshot = act("make_snapshot")
drop = act("drop_snapshot")
group = act("make_group")
drop_group = act("drop_group")


async def drop_content(stage: Snapping) -> None:
    """The administrator deletes the content of a snapshot that is gone by then."""
    await stage.acts.drop_content()


_world = world_of(SnapshotWorld, PLAN)
_listing = world_of(SnapshotWorld, PLAN, lists=True)
_retaining = world_of(SnapshotWorld, PLAN, classes=(ClassPlan("class0", "Retain", default=True, secret=False),))
_grouping = world_of(SnapshotWorld, PLAN, groups=True)


SCRIPTS: Final = (
    Script("snapshot", "a snapshot is made", _world, Snapping, (snapshot,), calm_s=400.0),
    Script(
        "snapshot-listed",
        "the same, of a driver that lists its snapshots",
        _listing,
        Snapping,
        (snapshot,),
        calm_s=400.0,
    ),
    Script("drop-snapshot", "it is deleted", _world, Snapping, (snapshot, drop), calm_s=400.0),
    Script(
        "keep-snapshot",
        "it is deleted, and its content is kept",
        _retaining,
        Snapping,
        (snapshot, drop),
        calm_s=400.0,
        early_is_same=False,
    ),
    Script(
        "drop-content",
        "then its content is deleted, too",
        _retaining,
        Snapping,
        (snapshot, drop, drop_content),
        calm_s=400.0,
    ),
    Script("group", "a group snapshot is made", _grouping, Snapping, (group,), calm_s=400.0),
    Script("drop-group", "it is deleted", _grouping, Snapping, (group, drop_group), calm_s=400.0),
)
