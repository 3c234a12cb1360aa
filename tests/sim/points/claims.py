"""Scripts of provisioner and binder: a claim gets its volume, also on a node that the scheduler chose, and goes with
it.
"""

from __future__ import annotations

from typing import Any, Final

from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage, act, without_faults, world_of
from tests.sim.provisioning import checkers
from tests.sim.provisioning.acts import Acts
from tests.sim.provisioning.life import binder, provisioner
from tests.sim.provisioning.plan import ClassPlan, SaveFaults, plan_of
from tests.sim.provisioning.world import ClaimWorld

PLAN: Final[Any] = without_faults(
    plan_of(0),
    classes=(ClassPlan("class0", "Delete", waits=False, secret=True),),
    publishes=True,
    binder_faults=True,
    saves=SaveFaults(0.0, 0.0, 0.0),
)


class Claiming(Stage[ClaimWorld]):
    checkers = checkers

    def __init__(self, world: ClaimWorld, director: Director) -> None:
        super().__init__(world, director)
        self.acts = Acts(world, self.keep("provisioner", provisioner), self.keep("binder", binder))

    def storage(self) -> dict[str, Any]:
        backend: Any = self.world.backend
        return {"volumes": sorted(backend.volumes)}


provision = act("make_claim")
drop = act("drop_claim")


async def keep(stage: Claiming) -> None:
    """The administrator keeps the volume, whatever becomes of its claim."""
    await stage.acts.keep_volume()


_world = world_of(ClaimWorld, PLAN)
_waiting = world_of(ClaimWorld, PLAN, classes=(ClassPlan("class0", "Delete", waits=True, secret=False),))


SCRIPTS: Final = (
    Script("provision", "a claim gets its volume", _world, Claiming, (provision,), calm_s=600.0),
    Script("delete", "the claim is deleted, and its volume with it", _world, Claiming, (provision, drop), calm_s=600.0),
    Script(
        "place",
        "a claim gets its volume on the node that the scheduler chose",
        _waiting,
        Claiming,
        (provision,),
        calm_s=600.0,
    ),
    Script(
        "retain",
        "the claim is deleted, and its volume is kept",
        _world,
        Claiming,
        (provision, keep, drop),
        calm_s=600.0,
    ),
)
