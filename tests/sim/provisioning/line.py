"""A line to the API server with the attacher's faults, for processes that create and delete, too."""

from __future__ import annotations

import json
import zlib
from typing import Any, TypeVar

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.kube.cluster import Request, Verb
from mooring.kube.errors import ApiError, BadRequest, Forbidden, Invalid, ServerError, TooLarge, Unreachable
from tests.sim.laws import WRITING, Write
from tests.sim.line import Fate, Line, what_of
from tests.sim.mortal import Mortal
from tests.sim.world import SimWorld

T = TypeVar("T")


def is_forbidden(plan: Any, pv_name: str) -> bool:
    """True where a policy takes no PersistentVolume of this name, however often it is asked. Names are told apart by
    their digest.
    """
    share: float = plan.saves.forbidden
    return share > 0 and zlib.crc32(pv_name.encode()) % 1000 < 1000 * share


class WritingLine(Line):
    """watched: what provisioner and binder both follow."""

    watched = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")
    faulty = True

    def __init__(self, world: SimWorld, mortal: Mortal) -> None:
        super().__init__(world, mortal)
        self._lost_saves: set[str] = set()  # the PersistentVolumes that were stored without an answer

    async def ask(self, request: Request) -> Any:
        return await self._write(request) if request.writes else await super().ask(request)

    def _saving(self, request: Request) -> None:
        """The creation of a PersistentVolume begins."""

    async def _save(self, request: Request) -> Any:
        """The creation of a PersistentVolume, as the plan has it: also one that was stored may be denied the next
        time.
        """
        faults = self._world.plan.saves
        if is_forbidden(self._world.plan, request.name):
            raise Forbidden('admission webhook "policy" denied the request', reason="Forbidden")
        if self._happens(faults.denied_then if request.name in self._lost_saves else faults.denied):
            raise self._denial()
        made = await self._world.cluster.ask(request)
        if self._happens(faults.lost):
            self._lost_saves.add(request.name)
            raise Unreachable("the answer is lost")
        return made

    def _happens(self, share: float) -> bool:
        return self.faulty and self._world.faulty and self._randomness.happens(share)

    def _denial(self) -> ApiError:
        """Of a policy, a quota, a webhook, or one that does not answer."""
        errors: list[ApiError] = [
            Invalid("not such a volume", reason="Invalid"),
            BadRequest("denied the request", reason="BadRequest"),
            TooLarge("too large", reason="RequestEntityTooLarge"),
            Forbidden("exceeded quota", reason="Forbidden"),
            ServerError("failed calling webhook", code=500),
        ]
        return errors[self._randomness.below(len(errors))]

    async def _write(self, request: Request) -> Any:
        what = what_of(request)
        saves = request.verb is Verb.CREATE and request.kind.plural == PERSISTENT_VOLUMES.plural
        self._writing.append(what)
        if saves:
            self._saving(request)
        try:
            fate = await self._asked(what, request)
            try:
                answer = await (self._save(request) if saves else self._world.cluster.ask(request))
            except ApiError as error:
                self._tell(f"{what}: {error}")
                raise
            self._tell(f"{what}{': done, the answer is lost' if fate.lost else ''}")
            await self._mortal.point(f"after {what}")
            await self._answered(fate)
            return answer
        finally:
            self._writing.remove(what)

    def _fate(self, writes: bool) -> Fate:
        return super()._fate(writes) if self.faulty else Fate()


class MarkingLine(WritingLine):
    """The laws are told which changes are its own, and which Events it could not write."""

    async def ask(self, request: Request) -> Any:
        if not request.writes:
            return await super().ask(request)
        if request.verb is Verb.PATCH and request.kind.plural != "events":
            self._tell(f"means to {what_of(request)} {json.dumps(request.body.body)}")
            self._patching(request)
        write = Write(self._mortal.number, lambda: self._mortal.alive, what_of(request), request.name, excused=False)
        token = WRITING.set(write)
        try:
            return await self._marked(request)
        finally:
            WRITING.reset(token)

    def _patching(self, request: Request) -> None:
        """A patch begins."""

    async def _marked(self, request: Request) -> Any:
        return await super().ask(request)

    async def _asked(self, what: str, request: Request | None, kind: Kind[Any] | None = None) -> Fate:
        try:
            fate = await super()._asked(what, request, kind)
            self._deny(what)
        except ApiError:
            if request is not None and request.kind.plural == "events":
                self._world.laws.unheard.add(request.name.rpartition(".")[0])  # type: ignore[attr-defined]
            raise
        return fate

    def _deny(self, what: str) -> None:
        """Raises ApiError for a request that is denied for good."""


class QuietLine(WritingLine):
    """Without faults of its own; its process can be killed all the same."""

    faulty = False

    async def _is_cut(self, kind: Kind[T]) -> bool:
        return False
