"""The points at which a recorder notes the order of a program's steps, and a replay sets it.

A program's course depends on its input, and on the order in which its tasks go on. The input passes the ports. The order shows where a
worker begins with a key, where a task gets a lock after a wait, and where a sleep ends. The flight recorder notes each of these; a replay
says when each may go on. `ORDER` is the program's own: every task that its work starts has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from mooring.api.meta import Kind
from mooring.kube.cache.informer import Informer

K = TypeVar("K", bound=Hashable)


class Order(Protocol):
    """directs: workers begin with the keys that `next_key` says, in place of the first of their queue."""

    @property
    def directs(self) -> bool: ...

    def named(self, controller: str, label: str) -> str:
        """The name of a controller that is being made, the same in each run and no other's: two may share a queue's name.

        label: what the controller calls its keys, mostly a kind.
        """
        ...

    async def next_key(self, queue: str, ready: Collection[K]) -> K | None:
        """The key that the calling worker begins with: one of those that are ready, or become so while it waits. None: it is to end."""
        ...

    def begun(self, queue: str, key: Hashable) -> None:
        """A worker has begun with a key."""

    def decided(self, controller: str, key: Hashable, what: object) -> None:
        """what: the Decision, or what another reconcile came to: a reason, a Result."""

    def came_to(self, controller: str, key: Hashable, failure: str) -> None:
        """The work on a key has ended: well (""), or with a failure."""

    async def resumed(self, what: str, key: Hashable) -> None:
        """A wait inside the program is over; what follows may be put off until it is its turn."""

    def caches(self, informer: Informer[Any]) -> None:
        """A cache begins to follow the API server."""

    def keeps(self, kind: Kind[Any], namespace: str, objects: Callable[[], Iterable[Any]]) -> None:
        """The program has all objects of this kind there that are its own: nobody else writes them, and no cache follows them."""


class Unheard:
    """An `Order` of which nobody hears, and that directs nothing: for those that hear some of it, or stand before nobody."""

    directs = False

    def __init__(self) -> None:
        self._names = Names()

    def named(self, controller: str, label: str) -> str:
        return self._names.of(controller)

    async def next_key(self, queue: str, ready: Collection[K]) -> K | None:
        raise AssertionError("it does not direct: the queue says it")

    def begun(self, queue: str, key: Hashable) -> None: ...

    def decided(self, controller: str, key: Hashable, what: object) -> None: ...

    def came_to(self, controller: str, key: Hashable, failure: str) -> None: ...

    async def resumed(self, what: str, key: Hashable) -> None: ...

    def caches(self, informer: Informer[Any]) -> None: ...

    def keeps(self, kind: Kind[Any], namespace: str, objects: Callable[[], Iterable[Any]]) -> None: ...


ORDER: Final[ContextVar[Order | None]] = ContextVar("mooring.order", default=None)


async def resumed(what: str, key: Hashable = "") -> None:
    """To be awaited where a wait inside the program is over that neither a port, a queue, a lock nor a sleep has ended."""
    order = ORDER.get()
    if order is not None:
        await order.resumed(what, key)


@contextmanager
def ordered(order: Order) -> Iterator[None]:
    """What is made in the block, and what it starts, belongs to this order."""
    token = ORDER.set(order)
    try:
        yield
    finally:
        ORDER.reset(token)


class Names:
    """Names for controllers, in the order in which they are made."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of(self, controller: str) -> str:
        """The name itself, with a number from the second time on."""
        count = self._counts[controller] = self._counts.get(controller, 0) + 1
        return controller if count == 1 else f"{controller}#{count}"


def task_name() -> str:
    """Names the running task, "" where nobody has named it."""
    task = asyncio.current_task()
    name = "" if task is None else task.get_name()
    return "" if name.startswith("Task-") else name
