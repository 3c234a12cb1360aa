"""The caches of one process: one watch per kind and selection, whoever reads it.

    caches = Caches(runtime)
    volumes = caches.of(PERSISTENT_VOLUMES, keeps=always(slim(spec=slim("csi"))), indexes={"handle": ...})

Each reader says which fields it needs and by which indexes it looks things up; the cache keeps what all of them together need. So several
controllers in one process cost one watch and one copy of each object.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from mooring.api.meta import Kind, Object
from mooring.control.runtime import Runtime
from mooring.control.slim import WHOLE, Keeps, Part, always, joined
from mooring.kube.cluster import EVERYTHING, Selection
from mooring.kube.index import IndexFunction
from mooring.kube.informer import Informer

T = TypeVar("T", bound=Object)

OPTIONAL_S_MAX: Final = 5.0
"""How long the start waits for a kind that the cluster may lack."""


class _Shared:
    """One informer with the wishes of its readers."""

    def __init__(self) -> None:
        self.choices: tuple[Keeps[Any], ...] = ()
        self.prune: Callable[[Any], Any] = joined(())
        self.informer: Informer[Any] | None = None
        self.optional = True

    def also_keeps(self, keeps: Keeps[Any]) -> None:
        if keeps not in self.choices:
            self.choices = (*self.choices, keeps)
            self.prune = joined(self.choices)


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """Names one informer: two selections of one kind are two watches."""

    resource: str
    version: str
    selection: Selection


class Caches:
    """name: stands before the kind in the names of tasks and in logs."""

    def __init__(self, runtime: Runtime, name: str = "cache") -> None:
        self._runtime = runtime
        self._name = name
        self._shared: dict[_Kept, _Shared] = {}

    def of(
        self,
        kind: Kind[T],
        *,
        keeps: Keeps[T] | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        selection: Selection = EVERYTHING,
        resync_s: float = 0.0,
        optional: bool = False,
    ) -> Informer[T]:
        """The cache of a kind, the same at each call; call it before the caches run.

        keeps: which fields of an object, None for the whole object. indexes: an index of a name is one function for all readers.
        resync_s: the shortest wish counts, 0 is never. optional: the cluster may lack the kind, and nobody waits for it then.
        """
        shared = self._shared.setdefault(_Kept(kind.resource, kind.version, selection), _Shared())
        shared.also_keeps(_everything if keeps is None else keeps)
        shared.optional = shared.optional and optional
        if shared.informer is None:
            runtime = self._runtime
            shared.informer = Informer(
                runtime.cluster,
                kind,
                clock=runtime.clock,
                chance=runtime.chance,
                selection=selection,
                prune=lambda obj: shared.prune(obj),
                name=f"{self._name}/{kind.plural}",
            )
        informer: Informer[T] = shared.informer
        informer.also(indexes or {}, resync_s)
        return informer

    @property
    def has_synced(self) -> bool:
        """True while every cache that is not optional follows the API server and has listed everything."""
        return not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the caches that are not filled yet, without the optional ones."""
        return tuple(one.informer.name for one in self._all() if not one.optional and one.informer and not one.informer.has_synced)

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """The tasks that follow the API server; cancel them to end."""
        return [group.create_task(one.informer.run(), name=one.informer.name) for one in self._all() if one.informer]

    async def synced(self) -> None:
        """Returns once every cache is filled; an optional one is waited for only for a while."""
        for one in self._all():
            assert one.informer is not None
            try:
                async with asyncio.timeout(OPTIONAL_S_MAX if one.optional else None):
                    await one.informer.synced()
            except TimeoutError:
                pass

    def _all(self) -> tuple[_Shared, ...]:
        return tuple(self._shared.values())


_everything: Final[Callable[[Any], Part]] = always(WHOLE)
