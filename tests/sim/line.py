"""The attacher's line to the API server, with everything that can go wrong on it.

Requests are refused before they do anything, or their answer is lost after they have; both ways take time. Watch events
come late, each watch at its own pace; watches are cut, and versions forgotten. Before and after each write the attacher
can be killed.

The doors of the server's other habits stand here, too, for every program: `habits.py` says what there is and how a part
turns them on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.kube.cluster import EVERYTHING, Cluster, Page, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError, Conflict, Forbidden, Gone, Invalid, ServerError, TooManyRequests, Unreachable
from tests.sim.doors import Doors
from tests.sim.laws import WRITING, Write
from tests.sim.mortal import Mortal
from tests.sim.standing import WorldGroup
from tests.sim.world import SimWorld

T = TypeVar("T")

SLOW_S_MAX: Final = 2.0
WATCHED: Final = ("volumeattachments", "persistentvolumes", "csinodes")


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """How a request goes. refused: before it takes effect. lost: after it."""

    before_s: float = 0.0
    after_s: float = 0.0
    refused: ApiError | None = None
    lost: ApiError | None = None


_VERBS: Final = {Verb.REPLACE: "update", Verb.POST: "create", Verb.SERVES: "discovery of"}


def what_of(request: Request) -> str:
    """As stories and laws call it: `patch volumeattachments/status va-1`; a creation whose name the server gives has
    none.
    """
    verb = _VERBS.get(request.verb, request.verb.value)
    part = f"/{request.subresource}" if request.subresource and request.verb is not Verb.REPLACE else ""
    name = "" if request.verb is Verb.POST else request.name
    return f"{verb} {request.kind.plural}{part} {name}".rstrip()


class Line(Cluster):
    """The API server for one incarnation of the attacher. watched: the kinds whose changes it waits to be shown."""

    watched = WATCHED

    def __init__(self, world: SimWorld, mortal: Mortal) -> None:
        self._world, self._mortal = world, mortal
        self._randomness, self._faults = world.randomness["line"], world.plan.api
        self._doors = Doors(world, mortal)
        world.server.on_set_back.append(self._was_set_back)
        self._writing: list[str] = []
        self._seen: dict[str, int] = {}  # per kind, the newest version that lists and watches have shown
        self._seen_before: dict[
            str, tuple[float, int]
        ] = {}  # per kind, the moment of the newest version, and the one before that moment
        self.on_shown: Callable[[str, int], None] = lambda plural, version: None
        self._lost: dict[tuple[str, str], int] = {}  # per object, the version of the newest write whose answer was lost

    @property
    def mortal(self) -> Mortal:
        return self._mortal

    @property
    def group(self) -> WorldGroup:
        """Owns what goes on without the process."""
        return self._world.group

    def unsettled(self) -> list[str]:
        """What is still on its way: writes, and kinds whose newest change the attacher has not been shown yet."""
        return [
            *self._writing,
            *(plural for plural in self.watched if self._seen.get(plural, -1) < self._world.truth.newest(plural)),
        ]

    def shown(self, plural: str) -> int:
        """The newest version of the kind that lists and watches have shown."""
        return self._seen.get(plural, 0)

    def shown_before_now(self, plural: str) -> int:
        """The same before this very moment: an object that is shown while a call begins may have come after the
        decision to make it.
        """
        at_s, before = self._seen_before.get(plural, (0.0, 0))
        return before if at_s >= self._world.clock.now() else self.shown(plural)

    # -- reads

    async def ask(self, request: Request) -> Any:
        match request.verb:
            case Verb.LIST:
                return await self._list(request)
            case Verb.GET:
                return await self._get(request)
            case Verb.PATCH:
                return await self._patch(request)
        self._world.fail("foreign-touched", f"the attacher does not {what_of(request)}")
        raise AssertionError(request)

    async def _list(self, request: Request) -> Page[Any]:
        what = what_of(request)
        fate = await self._asked(what, request)
        limit = min(request.limit, self._world.plan.list_limit or request.limit)
        page: Page[Any] = await self._world.cluster.ask(msgspec.structs.replace(request, limit=limit))
        await self._answered(fate)
        await self._doors.grow_old(what)
        self._tell(
            f"{what}: {len(page.items)} at {page.resource_version}{', more to come' if page.continue_token else ''}"
        )
        if not page.continue_token and request.limit != 1:  # a list of one asks for the server's version alone
            self._has_seen(request.kind, page.resource_version)
        return page

    async def _get(self, request: Request) -> Any:
        what = what_of(request)
        fate = await self._asked(what, request)
        try:
            answer = await self._world.cluster.ask(request)
        except ApiError as error:
            self._tell(f"{what}: {error}")
            raise
        await self._answered(fate)
        self._tell(what)
        return answer

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        await self._asked(f"watch {kind.plural}", None, kind)
        if self._doors.is_folded(kind) or (self._world.faulty and self._randomness.happens(self._faults.gone)):
            self._tell(f"watch {kind.plural} from {resource_version}: gone")
            raise Gone(f"too old resource version: {resource_version}", reason="Expired")
        lag_s, began = self._doors.lag_s(), self._world.server.set_back_count
        self._tell(f"watch {kind.plural} from {resource_version}{f', {lag_s:.3f} s behind' if lag_s else ''}")
        watch = self._world.cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                if await self._doors.is_held_up(event, kind, lag_s) or await self._is_cut(kind):
                    return
                if self._world.server.set_back_count != began:
                    raise Unreachable("connection reset")
                self._has_seen(kind, event.resource_version)
                yield event

    async def _is_cut(self, kind: Kind[T]) -> bool:
        """Before an event: it may come late, or never on this watch. Raises Unreachable for the hard way."""
        faults, randomness = self._faults, self._randomness
        if not self._world.faulty:
            return False
        if randomness.happens(faults.stale):
            await self._world.clock.sleep(randomness.uniform(0.0, faults.stale_s))
        if not randomness.happens(faults.cut):
            return False
        self._tell(f"watch {kind.plural}: cut")
        if randomness.happens(0.5):
            raise Unreachable("connection reset")
        return True

    # -- writes

    async def _patch(self, request: Request) -> Any:
        what, plural, name = what_of(request), request.kind.plural, request.name
        seen = self.shown(plural)
        unknown = self._lost.get((plural, name), 0) > seen or self._world.laws.born(plural, name) > seen
        write = Write(
            self._mortal.number, lambda: self._mortal.alive, what, name, excused=unknown, body=request.body.body
        )
        self._writing.append(what)
        try:
            return await self._patched(write, request)
        except ApiError:
            self._world.laws.failed(write)
            raise
        finally:
            self._writing.remove(what)

    async def _patched(self, write: Write, request: Request) -> Any:
        truth, what, kind, name = self._world.truth, write.what, request.kind, request.name
        uid = truth.uid(kind, name)
        write.excused = write.excused or name in self._world.server.late_names
        fate = await self._asked(what, request)
        if (
            self._world.meddle is not None
            and self._world.faulty
            and self._randomness.happens(self._world.plan.meddling)
        ):
            await self._world.meddle(kind, name)
        write.excused = write.excused or uid != truth.uid(kind, name)
        self._tell(f"{what} {json.dumps(request.body.body)}")
        token = WRITING.set(write)
        try:
            answer = await self._world.cluster.ask(request)
        except ApiError as error:
            self._tell(f"{what}: {error}")
            raise
        finally:
            WRITING.reset(token)
        if fate.lost is not None:
            self._tell(f"{what}: done, the answer is lost")
            self._lost[kind.plural, name] = self._world.store.version if write.change is None else write.change.rv
        await self._mortal.point(f"after {what}")
        await self._answered(fate)
        self._world.laws.answered(write)
        return answer

    # -- how a request goes

    async def _asked(self, what: str, request: Request | None, kind: Kind[Any] | None = None) -> Fate:
        """The way there. request: None for a watch of the kind. Raises ApiError when it never arrives, or not now."""
        await self._mortal.point(f"before {what}")
        self._world.laws.done(self._mortal.number, what, self._world.clock.now())
        writes = request is not None and request.writes
        fate, server = self._fate(writes), self._world.server
        began, was_away = server.set_back_count, server.is_away
        await self._world.clock.sleep(fate.before_s)
        refused = fate.refused or self._doors.refusal(request, kind)
        if was_away or server.set_back_count != began:  # no connection is made meanwhile, and none outlives it
            refused = Unreachable("connection reset")
        if refused is not None:
            self._tell(f"{what}: refused, {type(refused).__name__}")
            raise refused
        if request is not None and writes:
            self._doors.give_up(what, request)
        return fate

    async def _answered(self, fate: Fate) -> None:
        """The way back. Raises ApiError when the answer is lost."""
        await self._world.clock.sleep(fate.after_s)
        if fate.lost is not None:
            raise fate.lost

    def _fate(self, writes: bool) -> Fate:
        faults, randomness = self._faults, self._randomness
        if not self._world.faulty:
            return Fate()
        before_s = randomness.uniform(0.0, SLOW_S_MAX) if randomness.happens(faults.slow) else 0.0
        after_s = randomness.uniform(0.0, SLOW_S_MAX) if randomness.happens(faults.slow) else 0.0
        refused = self._refusal(writes) if randomness.happens(faults.refused) else None
        lost = None
        if randomness.happens(faults.lost):
            lost = (
                Unreachable("connection reset")
                if randomness.happens(0.5)
                else ServerError("etcdserver: request timed out", code=500)
            )
        return Fate(before_s, after_s, refused, lost)

    def _refusal(self, writes: bool) -> ApiError:
        errors: list[ApiError] = [
            Unreachable("connection refused"),
            ServerError("internal error", code=500),
            TooManyRequests("too many requests", reason="TooManyRequests", retry_after_s=1.0),
            Forbidden("not now", reason="Forbidden"),
        ]
        if writes:
            errors += [
                Conflict("the object has been modified", reason="Conflict"),
                Invalid("not like this", reason="Invalid"),
            ]
        return errors[self._randomness.below(len(errors))]

    def _has_seen(self, kind: Kind[Any], version: str) -> None:
        now = self._world.clock.now()
        if self._seen_before.get(kind.plural, (-1.0, 0))[0] < now:
            self._seen_before[kind.plural] = now, self.shown(kind.plural)
        self._seen[kind.plural] = max(self.shown(kind.plural), int(version))
        self.on_shown(kind.plural, self._seen[kind.plural])

    def _was_set_back(self, version: int) -> None:
        """What was shown is no measure any more: all has to be listed again."""
        self._seen = dict.fromkeys(self._seen, -1)
        self._seen_before.clear()
        self._lost.clear()

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)
