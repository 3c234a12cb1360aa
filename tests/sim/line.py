"""The attacher's line to the API server, with everything that can go wrong on it.

Requests are refused before they do anything, or their answer is lost after they have; both ways take time. Watch events come late, each
watch at its own pace; watches are cut, and versions forgotten. Before and after each write the attacher can be killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, TypeVar

from mooring.api.meta import Kind
from mooring.kube.cluster import EVERYTHING, Page, Patch, Selection, WatchEvent
from mooring.kube.errors import ApiError, Conflict, Forbidden, Gone, Invalid, ServerError, TooManyRequests, Unreachable
from tests.sim.laws import WRITING, Write
from tests.sim.mortal import Mortal
from tests.sim.world import World

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


class Line:
    """Implements Cluster for one incarnation of the attacher. watched: the kinds whose changes it waits to be shown."""

    watched = WATCHED

    def __init__(self, world: World, mortal: Mortal) -> None:
        self._world, self._mortal = world, mortal
        self._chance, self._faults = world.chances["line"], world.plan.api
        self._writing: list[str] = []
        self._seen: dict[str, int] = {}  # per kind, the newest version that lists and watches have shown
        self.on_shown: Callable[[str, int], None] = lambda plural, version: None
        self._lost: dict[tuple[str, str], int] = {}  # per object, the version of the newest write whose answer was lost

    def unsettled(self) -> list[str]:
        """What is still on its way: writes, and kinds whose newest change the attacher has not been shown yet."""
        return [*self._writing, *(plural for plural in self.watched if self._seen.get(plural, -1) < self._world.truth.newest(plural))]

    def shown(self, plural: str) -> int:
        """The newest version of the kind that lists and watches have shown."""
        return self._seen.get(plural, 0)

    # -- reads

    async def list(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, limit: int = 0, continue_token: str = "", resource_version: str = ""
    ) -> Page[T]:
        what = f"list {kind.plural}"
        fate = await self._asked(what, writes=False)
        limit = min(limit, self._world.plan.list_limit or limit)
        page = await self._world.cluster.list(
            kind, selection, limit=limit, continue_token=continue_token, resource_version=resource_version
        )
        await self._answered(fate)
        self._tell(f"{what}: {len(page.items)} at {page.resource_version}{', more to come' if page.continue_token else ''}")
        if not page.continue_token:
            self._has_seen(kind, page.resource_version)
        return page

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        fate = await self._asked(f"get {kind.plural} {name}", writes=False)
        try:
            answer = await self._world.cluster.get(kind, name, namespace)
        except ApiError as error:
            self._tell(f"get {kind.plural} {name}: {error}")
            raise
        await self._answered(fate)
        self._tell(f"get {kind.plural} {name}")
        return answer

    async def serves(self, kind: Kind[Any]) -> bool:
        raise self._never(f"discovery of {kind.plural}")

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        await self._asked(f"watch {kind.plural}", writes=False)
        if self._world.faulty and self._chance.happens(self._faults.gone):
            self._tell(f"watch {kind.plural} from {resource_version}: gone")
            raise Gone(f"too old resource version: {resource_version}", reason="Expired")
        self._tell(f"watch {kind.plural} from {resource_version}")
        watch = self._world.cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                if await self._is_cut(kind):
                    return
                self._has_seen(kind, event.resource_version)
                yield event

    async def _is_cut(self, kind: Kind[T]) -> bool:
        """Before an event: it may come late, or never on this watch. Raises Unreachable for the hard way."""
        faults, chance = self._faults, self._chance
        if not self._world.faulty:
            return False
        if chance.happens(faults.stale):
            await self._world.clock.sleep(chance.uniform(0.0, faults.stale_s))
        if not chance.happens(faults.cut):
            return False
        self._tell(f"watch {kind.plural}: cut")
        if chance.happens(0.5):
            raise Unreachable("connection reset")
        return True

    # -- writes

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        what = f"patch {kind.plural}{'/' if subresource else ''}{subresource} {name}"
        seen = self.shown(kind.plural)
        unknown = self._lost.get((kind.plural, name), 0) > seen or self._world.laws.born(kind.plural, name) > seen
        write = Write(self._mortal.number, lambda: self._mortal.alive, what, name, excused=unknown, body=patch.body)
        self._world.laws.begins(write)
        self._writing.append(what)
        try:
            return await self._patch(write, kind, name, patch, subresource)
        except ApiError:
            self._world.laws.failed(write)
            raise
        finally:
            self._writing.remove(what)

    async def _patch(self, write: Write, kind: Kind[T], name: str, patch: Patch, subresource: str) -> T:
        truth, what = self._world.truth, write.what
        uid = truth.uid(kind, name)
        fate = await self._asked(what, writes=True)
        if self._world.meddle is not None and self._world.faulty and self._chance.happens(self._world.plan.meddling):
            await self._world.meddle(kind, name)
        write.excused = write.excused or uid != truth.uid(kind, name)
        self._tell(f"{what} {json.dumps(patch.body)}")
        token = WRITING.set(write)
        try:
            answer = await self._world.cluster.patch(kind, name, patch, subresource=subresource)
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

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        raise self._never(f"create {kind.plural}")

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        raise self._never(f"replace {kind.plural}")

    async def post(self, kind: Kind[T], name: str, subresource: str, body: Mapping[str, Any], namespace: str = "") -> None:
        raise self._never(f"create {kind.plural}/{subresource}")

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, uid: str = "", grace_period_s: int | None = None, propagation: str = ""
    ) -> None:
        raise self._never(f"delete {kind.plural} {name}")

    def _never(self, what: str) -> AssertionError:
        self._world.fail("foreign-touched", f"the attacher does not {what}")
        return AssertionError(what)

    # -- how a request goes

    async def _asked(self, what: str, *, writes: bool) -> Fate:
        """The way there. Raises ApiError when it never arrives."""
        await self._mortal.point(f"before {what}")
        self._world.laws.done(self._mortal.number, what, self._world.clock.now())
        fate = self._fate(writes)
        await self._world.clock.sleep(fate.before_s)
        if fate.refused is not None:
            self._tell(f"{what}: refused, {type(fate.refused).__name__}")
            raise fate.refused
        return fate

    async def _answered(self, fate: Fate) -> None:
        """The way back. Raises ApiError when the answer is lost."""
        await self._world.clock.sleep(fate.after_s)
        if fate.lost is not None:
            raise fate.lost

    def _fate(self, writes: bool) -> Fate:
        faults, chance = self._faults, self._chance
        if not self._world.faulty:
            return Fate()
        before_s = chance.uniform(0.0, SLOW_S_MAX) if chance.happens(faults.slow) else 0.0
        after_s = chance.uniform(0.0, SLOW_S_MAX) if chance.happens(faults.slow) else 0.0
        refused = self._refusal(writes) if chance.happens(faults.refused) else None
        lost = None
        if chance.happens(faults.lost):
            lost = Unreachable("connection reset") if chance.happens(0.5) else ServerError("etcdserver: request timed out", code=500)
        return Fate(before_s, after_s, refused, lost)

    def _refusal(self, writes: bool) -> ApiError:
        errors: list[ApiError] = [
            Unreachable("connection refused"),
            ServerError("internal error", code=500),
            TooManyRequests("too many requests", reason="TooManyRequests", retry_after_s=1.0),
            Forbidden("not now", reason="Forbidden"),
        ]
        if writes:
            errors += [Conflict("the object has been modified", reason="Conflict"), Invalid("not like this", reason="Invalid")]
        return errors[self._chance.below(len(errors))]

    def _has_seen(self, kind: Kind[Any], version: str) -> None:
        self._seen[kind.plural] = max(self.shown(kind.plural), int(version))
        self.on_shown(kind.plural, self._seen[kind.plural])

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)
