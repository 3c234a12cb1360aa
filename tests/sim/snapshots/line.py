"""The programs' lines to the API server: as a provisioner's; the laws are told which changes are theirs, and what they
have been shown.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from mooring.api.meta import Kind
from mooring.kube.cluster import Patch, PatchType, Request
from mooring.kube.errors import ApiError, BadRequest, Forbidden, Invalid, ServerError, TooLarge
from tests.sim.laws import WRITING
from tests.sim.line import Fate, what_of
from tests.sim.mortal import Mortal
from tests.sim.provisioning.line import MarkingLine
from tests.sim.snapshots.objects import CONTENTS

LATENCY_S: Final = 0.05
"""Of each write, where two processes with different views undo each other's work as long as one's watch is late."""
REFUSALS: Final = (BadRequest, Invalid, TooLarge)
"""Of what is written itself."""
SAVES: Final = ("patch volumesnapshotcontents/status", "patch volumegroupsnapshotcontents/status")
"""What the driver has answered is saved by these."""
OF_CONTENTS: Final = ("volumesnapshotcontents", "volumesnapshotclasses")
OF_SNAPSHOTS: Final = ("volumesnapshots", "persistentvolumeclaims", "persistentvolumes", *OF_CONTENTS)
OF_GROUP_CONTENTS: Final = ("volumegroupsnapshotcontents", "volumegroupsnapshotclasses")
OF_GROUPS: Final = ("volumegroupsnapshots", *OF_GROUP_CONTENTS)


def _denial(error: str) -> ApiError:
    match error:
        case "Invalid":
            return Invalid(
                "not such an object",
                reason="Invalid",
                details={"causes": [{"field": "spec", "message": "not such a one"}]},
            )
        case "TooLarge":
            return TooLarge("too large", reason="RequestEntityTooLarge")
        case "Forbidden":
            return Forbidden("no right to that", reason="Forbidden")
    return ServerError("failed calling webhook", code=500)


def _lets_go(patch: Patch) -> bool:
    """True where it removes a finalizer."""
    steps = patch.body if patch.type is PatchType.JSON else ()
    return any(step["op"] == "remove" and step["path"].startswith("/metadata/finalizers") for step in steps)


class SnapshotLine(MarkingLine):
    """watched: the kinds that the program follows."""

    def __init__(self, world: Any, mortal: Mortal, watched: tuple[str, ...]) -> None:
        super().__init__(world, mortal)
        self.watched = watched
        world.laws.lines[mortal.who] = self
        self.on_shown = functools.partial(world.laws.shown, mortal.who)
        self._odd, self._crossing = world.randomness["odd"], world.randomness["crossing"]

    def _patching(self, request: Request) -> None:
        if request.kind.plural == CONTENTS and _lets_go(request.body):
            self._world.laws.release_begins(self._mortal.who, request.name)

    async def _marked(self, request: Request) -> Any:
        if not self._world.laws.is_single:
            await self._world.clock.sleep(LATENCY_S)
        try:
            return await super()._marked(request)
        except REFUSALS:
            if what_of(request).startswith(SAVES):
                self._world.laws.unsaved.add(request.name)
            raise

    async def _asked(self, what: str, request: Request | None, kind: Kind[Any] | None = None) -> Fate:
        fate = await super()._asked(what, request, kind)
        if request is not None and request.writes:
            habits, world = self._world.plan.habits, self._world
            for randomness, share, meddle in (
                (self._odd, habits.meddling, world.meddle_with),
                (self._crossing, habits.crossing, world.cross),
            ):
                if world.faulty and randomness.happens(share):
                    token = WRITING.set(None)
                    try:
                        await meddle(what)
                    finally:
                        WRITING.reset(token)
        return fate

    def _deny(self, what: str) -> None:
        """Raises ApiError for a write that is denied for good, from the middle of the chaos on."""
        denied = self._world.plan.habits.denied
        if denied is None or not self._world.backend.stubborn or self._world.clock.now() < self._world.plan.chaos_s / 2:
            return
        if what == denied.write or what.startswith(f"{denied.write} "):
            self._tell(f"{what}: denied, {denied.error}")
            raise _denial(denied.error)
