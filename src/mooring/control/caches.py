"""The caches of one program: one watch per kind and selection, however many of its controllers read it.

    caches = Caches(runtime)
    volumes = caches.of(PERSISTENT_VOLUMES, keeps=always(slim(spec=slim("csi"))), indexes={"handle": ...})

Each reader says which fields it needs and by which indexes it looks things up; the cache keeps what all of them
together need. So several controllers of one program cost one watch and one copy of each object.

Managers that come and go on their own take a share each. A share is used as caches of one's own are: its handlers see
changes of the fields that it asked for, its writes are its own alone, and it waits for its own kinds. Which kinds,
fields and indexes there are has to be known before the caches run; a share that comes later asks for some of these, and
gets what is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.meta import Kind, Object
from mooring.control.runtime import Runtime
from mooring.control.slim import WHOLE, Keeps, Part, Pruner, always
from mooring.kube.cache.informer import Informer, obstacles
from mooring.kube.cache.store import IndexFunction
from mooring.kube.cache.watch_metrics import WatchMetrics
from mooring.kube.cluster import EVERYTHING, Selection

T = TypeVar("T", bound=Object)


class _Kept(msgspec.Struct, frozen=True):
    """Names one informer: two selections of one kind are two watches."""

    resource: str
    version: str
    selection: Selection


class _Fields:
    """The fields that the readers of an informer need; they may grow until the first object comes."""

    def __init__(self) -> None:
        self.choices: list[Keeps[Any]] = []
        self.prune: Pruner[Any] = Pruner(self.choices)

    def add(self, choice: Keeps[Any]) -> None:
        if choice not in self.choices:
            self.choices.append(choice)


class _Whole(msgspec.Struct, frozen=True):
    """One informer, whatever shares it has."""

    informer: Informer[Any]
    fields: _Fields


class _Own(msgspec.Struct):
    """One informer as these caches have it: itself, or a share."""

    informer: Informer[Any]
    fields: _Fields
    awaited: bool = False


class Caches:
    """name: the prefix of the names of tasks, and in logs."""

    def __init__(self, runtime: Runtime, name: str = "cache") -> None:
        self._runtime, self._name = runtime, name
        self._wholes: dict[_Kept, _Whole] = {}
        self._own: dict[_Kept, _Own] = {}
        self._wanted = asyncio.Event()
        self._undecided: set[Caches] = set()  # shares that have neither started nor begun to follow
        self._is_share = self._is_muted = False

    def share(self) -> Caches:
        """A share of these caches, for one manager of several; `follow` runs the caches."""
        assert not self._is_share
        assert not self._own, "shared caches have no reader of their own"
        share = Caches(self._runtime, self._name)
        share._wholes, share._wanted, share._undecided, share._is_share = (
            self._wholes,
            self._wanted,
            self._undecided,
            True,
        )
        self._undecided.add(share)
        return share

    def of(
        self,
        kind: Kind[T],
        *,
        keeps: Keeps[T] | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        selection: Selection = EVERYTHING,
        resync_s: float = 0.0,
        may_be_missing: bool = False,
        awaited: bool = True,
    ) -> Informer[T]:
        """The cache of a kind, the same at each call; call it before the caches run.

        keeps: which fields of an object, None for the whole object. indexes: an index of a name is one function for all
        readers. resync_s: the shortest wish counts, 0 is never. may_be_missing: a kind that is not served counts as one
        without objects, unless another reader needs it. awaited: False for a reader that waits for it by itself, while
        all others work.
        """
        kept = _Kept(kind.resource, kind.version, selection)
        whole = self._wholes.get(kept) or self._begun(kept, kind, may_be_missing)
        choice = _everything if keeps is None else keeps
        assert choice in whole.fields.choices or not whole.informer.is_running, (
            f"these fields of {kind.plural} come late"
        )
        whole.fields.add(choice)
        informer: Informer[T] = whole.informer
        informer.also(indexes or {}, resync_s, may_be_missing=may_be_missing)
        own = self._own.get(kept) or self._taken(kept, whole)
        own.fields.add(choice)
        own.awaited |= awaited
        if resync_s > 0:
            own.informer.wants_resyncs()
        return own.informer

    def _begun(self, kept: _Kept, kind: Kind[T], may_be_missing: bool) -> _Whole:
        runtime, fields = self._runtime, _Fields()
        informer = Informer(
            runtime.cluster,
            kind,
            clock=runtime.clock,
            randomness=runtime.randomness,
            selection=kept.selection,
            prune=fields.prune,
            may_be_missing=may_be_missing,
            name=f"{self._name}/{kind.plural}",
        )
        runtime.metrics.once(WatchMetrics).show(informer)
        assert not any(whole.informer.is_running for whole in self._wholes.values()), f"{kind.plural} come late"
        whole = self._wholes[kept] = _Whole(informer, fields)
        return whole

    def _taken(self, kept: _Kept, whole: _Whole) -> _Own:
        fields = _Fields() if self._is_share else whole.fields
        informer = whole.informer.share(fields.prune) if self._is_share else whole.informer
        own = self._own[kept] = _Own(informer, fields)
        return own

    @property
    def has_synced(self) -> bool:
        """True while every awaited cache follows the API server and has listed everything, and its readers know it, or
        look first.
        """
        return all(informer.has_synced for informer in self._awaited)

    @property
    def obstacle(self) -> str:
        """The obstacles to following the API server, "" for none that is known."""
        return obstacles(self.informers)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return tuple(own.informer for own in self._own.values())

    @property
    def _awaited(self) -> tuple[Informer[Any], ...]:
        return tuple(own.informer for own in self._own.values() if own.awaited)

    def start(self, group: asyncio.TaskGroup, *, telling: bool = True) -> list[asyncio.Task[None]]:
        """The tasks that follow the API server; cancel them to end. Where something follows it already, they end by
        themselves.

        telling: False where the readers look by themselves at what is there, and say so by `begin_looks`. Until then
        they are told of changes alone, and of what is no more.
        """
        if not telling:
            for informer in self.informers:
                informer.looks_first()
        if not self._is_share and not self._is_muted:
            return self._run_all(group)
        self._undecided.discard(self)
        self._wanted.set()
        if not telling:
            return []
        to_tell = [informer for informer in self.informers if informer.join()]
        return [group.create_task(informer.tell_all(), name=f"{informer.name}/tell") for informer in to_tell]

    def begin_looks(self) -> None:
        """The readers are about to look at what is there: they are told of objects that come from now on."""
        for informer in self.informers:
            informer.begin_looks()

    def end(self) -> None:
        """A share that was started follows no more changes."""
        for informer in self.informers if self._is_share else ():
            informer.leave()

    async def follow(self, *, at_once: bool = False) -> None:
        """Follows the API server until cancelled: for all shares from the first start of one, or at once.

        Caches without shares tell their readers nothing before they start. A share has the whole follow, once the last
        one wants it: a share that is about to start would otherwise have to catch up with what is being listed.
        """
        if self._is_share:
            self._undecided.discard(self)
            if not self._undecided:
                self._wanted.set()
            return
        if not at_once:
            await self._wanted.wait()
        if self._own:
            self._is_muted = True
            for informer in self.informers:
                informer.leave()
        async with asyncio.TaskGroup() as group:
            self._run_all(group)

    async def caught_up(self) -> None:
        """Returns once every awaited cache has shown all that the API server has now."""
        await asyncio.gather(*(informer.caught_up() for informer in self._awaited))

    def _run_all(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        informers = [whole.informer for whole in self._wholes.values()]
        return [group.create_task(informer.run(), name=informer.name) for informer in informers]

    async def filled(self) -> None:
        """Returns once every awaited cache is filled; its readers may not know all of it yet."""
        for informer in self._awaited:
            await informer.filled()

    async def synced(self) -> None:
        """Returns once every awaited cache is filled, and its readers know it, or look first."""
        for informer in self._awaited:
            await informer.synced()


_everything: Final[Callable[[Any], Part]] = always(WHOLE)
