"""How bugs are planted, for the simulation to find: `make sim-bugs` counts how many of them it does find."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any
from unittest import mock

from mooring.control.hot_keys import HotKeys
from mooring.control.queue import WorkQueue
from mooring.kube.cache.reflector import Reflector
from mooring.kube.cache.store import Store
from mooring.kube.cluster import EventType, compare_versions


@dataclasses.dataclass(frozen=True, slots=True)
class Bug:
    """A defect that was once there, or might be: the simulation is measured by how many of them it finds."""

    plant: Callable[[], contextlib.AbstractContextManager[Any]]
    #: The invariants that tell of it.
    found_by: AbstractSet[str]
    #: Whether it is looked for in lives whose queues have no order.
    disorderly: bool = False


@contextlib.contextmanager
def planted_of(bugs: Mapping[str, Bug], name: str | None) -> Iterator[None]:
    """Plants the bug for a while; None plants nothing."""
    if name is None:
        yield
        return
    with bugs[name].plant():
        yield


@contextlib.contextmanager
def both(*patches: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
    """One bug in several places: where one guard stands behind another, both have to go."""
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def no_back_off() -> contextlib.AbstractContextManager[Any]:
    """What failed is tried again at once, and the kit does not hold back a key that goes round."""

    def at_once(self: WorkQueue[Any], key: Any) -> float:
        self.add_after(key, 0.0001)
        return 0.0001

    return both(mock.patch.object(WorkQueue, "retry", at_once), keys_are_not_held())


def keys_are_not_held() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(HotKeys, "ended", return_value=0)


def failures_are_final() -> contextlib.AbstractContextManager[Any]:
    """What failed is never tried again on its own account."""
    return mock.patch.object(WorkQueue, "retry", return_value=0.0)


def set_backs_are_not_noticed() -> contextlib.AbstractContextManager[Any]:
    """A watch goes on from its version, also where the server has yet to reach that, whatever it answers."""
    take = Reflector._take

    def unasked(self: Reflector[Any], event: Any) -> None:
        if event.type is not EventType.BOOKMARK or compare_versions(event.resource_version, self._version) >= 0:
            take(self, event)

    async def trusted(self: Reflector[Any]) -> None:
        self._proved_at = math.inf

    return both(
        mock.patch.object(Reflector, "_take", unasked),
        mock.patch.object(Reflector, "_check_version", trusted),
        answers_show_nothing(),
    )


def answers_show_nothing() -> contextlib.AbstractContextManager[Any]:
    """An answer to a write, or a read, that denies what the cache knows is not looked at."""
    return mock.patch.object(Store, "is_of_before", return_value=False)
