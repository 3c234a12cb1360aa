"""The resizer's line to the API server."""

from __future__ import annotations

from typing import Any

from tests.sim.mortal import Mortal
from tests.sim.provisioning.line import MarkingLine


class GrowthLine(MarkingLine):
    def __init__(self, world: Any, mortal: Mortal) -> None:
        super().__init__(world, mortal)
        world.laws.line = self
        self.on_shown = world.laws.shown
        classes = ("volumeattributesclasses",) if world.plan.modifies else ()
        self.watched = ("persistentvolumeclaims", "persistentvolumes", *classes)
