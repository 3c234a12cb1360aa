"""The resizer's line to the API server: as a provisioner's; the laws are told which changes are its own."""

from __future__ import annotations

import json
from typing import Any

from mooring.api.meta import Kind
from mooring.kube.cluster import Request, Verb
from mooring.kube.errors import ApiError
from tests.sim.laws import WRITING, Write
from tests.sim.line import Fate, what_of
from tests.sim.mortal import Mortal
from tests.sim.provisioning.line import WritingLine


class GrowthLine(WritingLine):
    def __init__(self, world: Any, mortal: Mortal) -> None:
        super().__init__(world, mortal)
        world.laws.line = self
        self.on_shown = world.laws.shown
        classes = ("volumeattributesclasses",) if world.plan.modifies else ()
        self.watched = ("persistentvolumeclaims", "persistentvolumes", *classes)

    async def _asked(self, what: str, request: Request | None, kind: Kind[Any] | None = None) -> Fate:
        try:
            return await super()._asked(what, request, kind)
        except ApiError:
            if request is not None and request.kind.plural == "events":
                self._world.laws.unheard.add(request.name.rpartition(".")[0])
            raise

    async def ask(self, request: Request) -> Any:
        if not request.writes:
            return await super().ask(request)
        if request.verb is Verb.PATCH and request.kind.plural != "events":
            self._tell(f"means to {what_of(request)} {json.dumps(request.body.body)}")
        token = WRITING.set(
            Write(self._mortal.number, lambda: self._mortal.alive, what_of(request), request.name, excused=False)
        )
        try:
            return await super().ask(request)
        finally:
            WRITING.reset(token)
