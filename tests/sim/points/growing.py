"""Scripts of the resizer: a volume grows, with a part for its node and without one, grows again, and gets another
class.
"""

from __future__ import annotations

from typing import Any, Final

from tests.sim.growth import checkers
from tests.sim.growth.acts import Acts
from tests.sim.growth.life import resizer
from tests.sim.growth.plan import CLASSES, plan_of
from tests.sim.growth.world import GrowthWorld
from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage, act, without_faults, world_of

PLAN: Final[Any] = without_faults(
    plan_of(0),
    on_node=False,
    node_share=0.0,
    offline=False,
    modifies=True,
    wants_secret=True,
    annotates=True,
    in_use_errors=True,
    granularity=1,
    workers=2,
    lies=0.0,
    kubelet_fails=0.0,
)


class Growing(Stage[GrowthWorld]):
    checkers = checkers

    def __init__(self, world: GrowthWorld, director: Director) -> None:
        super().__init__(world, director)
        self.acts = Acts(world, self.keep("resizer", resizer))

    def storage(self) -> dict[str, Any]:
        backend = self.world.backend
        return {"sizes": backend.sizes, "systems": backend.systems, "classes": backend.classes}


grow = act("grow")


async def modify(stage: Growing) -> None:
    await stage.acts._choose_class(next(iter(stage.world.laws.claims.values())), CLASSES[0])


async def modify_again(stage: Growing) -> None:
    await stage.acts._choose_class(next(iter(stage.world.laws.claims.values())), CLASSES[1])


_world = world_of(GrowthWorld, PLAN)
_with_node = world_of(GrowthWorld, PLAN, node_share=1.0)
_on_node = world_of(GrowthWorld, PLAN, on_node=True, modifies=False)


SCRIPTS: Final = (
    Script("grow", "a volume grows in the storage", _world, Growing, (grow,)),
    Script("grow-twice", "it grows, and grows again", _with_node, Growing, (grow, grow)),
    Script("expand", "it grows in the storage and on its node", _with_node, Growing, (grow,)),
    Script("expand-on-node", "it grows on its node alone", _on_node, Growing, (grow,)),
    Script("modify", "it gets a class", _world, Growing, (modify,)),
    Script("modify-again", "it gets another class", _world, Growing, (modify, modify_again)),
)
