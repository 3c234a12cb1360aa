"""Scripts of the resizer: a volume grows, with a part for its node and without one, grows again, and gets another class."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from tests.sim.checkers import Complaint
from tests.sim.growth.acts import Acts
from tests.sim.growth.checkers import complaints, fingerprint
from tests.sim.growth.life import resizer
from tests.sim.growth.plan import CLASSES, plan_of
from tests.sim.growth.world import GrowthWorld
from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage, without_faults
from tests.sim.standing import WorldGroup

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
    def __init__(self, world: GrowthWorld, director: Director) -> None:
        super().__init__(world, director)
        self.acts = Acts(world, self.keep("resizer", resizer))

    async def prepare(self) -> None:
        await self.acts.prepare()

    async def tend(self) -> None:
        await self.acts.tend()

    def complaints(self) -> Sequence[Complaint]:
        return complaints(self.world)

    def fingerprint(self) -> object:
        return fingerprint(self.world)

    def storage(self) -> dict[str, Any]:
        backend = self.world.backend
        return {"sizes": backend.sizes, "systems": backend.systems, "classes": backend.classes}


async def grow(stage: Growing) -> None:
    await stage.acts.grow()


async def modify(stage: Growing) -> None:
    await stage.acts._choose_class(next(iter(stage.world.laws.claims.values())), CLASSES[0])


async def modify_again(stage: Growing) -> None:
    await stage.acts._choose_class(next(iter(stage.world.laws.claims.values())), CLASSES[1])


def _world(group: WorldGroup) -> GrowthWorld:
    return GrowthWorld(PLAN, group)


def _with_node(group: WorldGroup) -> GrowthWorld:
    return GrowthWorld(dataclasses.replace(PLAN, node_share=1.0), group)


def _on_node(group: WorldGroup) -> GrowthWorld:
    return GrowthWorld(dataclasses.replace(PLAN, on_node=True, modifies=False), group)


SCRIPTS: Final = (
    Script("grow", "a volume grows in the storage", _world, Growing, (grow,)),
    Script("grow-twice", "it grows, and grows again", _with_node, Growing, (grow, grow)),
    Script("expand", "it grows in the storage and on its node", _with_node, Growing, (grow,)),
    Script("expand-on-node", "it grows on its node alone", _on_node, Growing, (grow,)),
    Script("modify", "it gets a class", _world, Growing, (modify,)),
    Script("modify-again", "it gets another class", _world, Growing, (modify, modify_again)),
)
