"""The caches of one program: one watch per kind and selection, however many of its controllers read it.

    caches = Caches(runtime)
    volumes = caches.of(PERSISTENT_VOLUMES, keeps=always(slim(spec=slim("csi"))), indexes={"handle": ...})

Each reader says which fields it needs and by which indexes it looks things up; the cache keeps what all of them together need. So several
controllers of one program cost one watch and one copy of each object.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from mooring.api.meta import Kind, Object
from mooring.control.runtime import Runtime
from mooring.control.slim import WHOLE, Keeps, Part, always, joined
from mooring.kube.cache.index import IndexFunction
from mooring.kube.cache.informer import Informer, obstacles
from mooring.kube.cluster import EVERYTHING, Selection

T = TypeVar("T", bound=Object)


class _Shared:
    """One informer, and the fields that its readers need."""

    def __init__(self) -> None:
        self.choices: list[Keeps[Any]] = []
        self.prune: Callable[[Any], Any] = joined(self.choices)
        self.informer: Informer[Any] | None = None
        self.awaited = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """Names one informer: two selections of one kind are two watches."""

    resource: str
    version: str
    selection: Selection


class Caches:
    """name: the prefix of the names of tasks, and in logs."""

    def __init__(self, runtime: Runtime, name: str = "cache") -> None:
        self._runtime, self._name = runtime, name
        self._shared: dict[_Kept, _Shared] = {}

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

        keeps: which fields of an object, None for the whole object. indexes: an index of a name is one function for all readers.
        resync_s: the shortest wish counts, 0 is never. may_be_missing: a kind that is not served counts as one without objects, unless
        another reader needs it. awaited: False for a reader that waits for it by itself, while all others work.
        """
        shared = self._shared.setdefault(_Kept(kind.resource, kind.version, selection), _Shared())
        choice = _everything if keeps is None else keeps
        if choice not in shared.choices:
            shared.choices.append(choice)
        shared.awaited |= awaited
        if shared.informer is None:
            runtime = self._runtime
            shared.informer = Informer(
                runtime.cluster,
                kind,
                clock=runtime.clock,
                randomness=runtime.randomness,
                selection=selection,
                prune=shared.prune,
                may_be_missing=may_be_missing,
                name=f"{self._name}/{kind.plural}",
            )
        informer: Informer[T] = shared.informer
        informer.also(indexes or {}, resync_s, may_be_missing=may_be_missing)
        return informer

    @property
    def has_synced(self) -> bool:
        """True while every awaited cache follows the API server and has listed everything."""
        return all(informer.has_synced for informer in self._awaited)

    @property
    def obstacle(self) -> str:
        """The obstacles to following the API server, "" for none that is known."""
        return obstacles(self.informers)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return tuple(one.informer for one in self._shared.values() if one.informer is not None)

    @property
    def _awaited(self) -> tuple[Informer[Any], ...]:
        return tuple(one.informer for one in self._shared.values() if one.informer is not None and one.awaited)

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """The tasks that follow the API server; cancel them to end."""
        return [group.create_task(informer.run(), name=informer.name) for informer in self.informers]

    async def synced(self) -> None:
        """Returns once every awaited cache is filled."""
        for informer in self._awaited:
            await informer.synced()


_everything: Final[Callable[[Any], Part]] = always(WHOLE)
