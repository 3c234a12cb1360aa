"""How bugs are planted, each of which the simulation must find."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final
from unittest import mock

from mooring.control.hot_keys import HotKeys
from mooring.control.queue import WorkQueue
from mooring.kube.cache.reflector import Reflector
from mooring.kube.cache.store import Store
from mooring.kube.cluster import EventType, compare_versions

SEARCH_S: Final = 100.0
"""Of processor time, for one bug: it ends before the limit of a test, and a loaded machine searches no fewer lives."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bug:
    """found_by: the invariants that may find it first. first_seed: where a search begins, for earlier seeds have not
    found it of late.
    """

    plant: Callable[[], contextlib.AbstractContextManager[Any]]
    found_by: AbstractSet[str]
    first_seed: int = 0


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


def assert_found(part: Any, name: str, lives_max: int) -> None:
    """Some life of the first ones shows the part's bug, by an invariant that tells of it, not by some crash. Raises
    AssertionError.

    The search ends also after SEARCH_S: on a machine that does not do too much beside it this says which lives did not
    show the bug, and not the limit of a test, which tells nothing.
    """
    bug, end = part.bugs[name], time.process_time() + SEARCH_S
    for seed in range(bug.first_seed, bug.first_seed + lives_max):
        broken = part.run_seed(seed, bug=name).broken
        if broken is not None:
            assert broken.invariant in bug.found_by, f"{name}, seed {seed}: {broken}"
            return
        if time.process_time() > end:
            break
    raise AssertionError(
        f"{name}: not found in seeds {bug.first_seed} to {seed}; a first_seed near one that shows it keeps the search "
        f"short: .venv/bin/python -m tests.sim --part {part.name} --bug {name} --from {seed + 1}"
    )


def assert_all_found(search: Callable[[str], None], names: Iterable[str]) -> None:
    """Searches for each bug, also when one was not found. search: raises AssertionError. Raises AssertionError."""
    missed = []
    for name in names:
        try:
            search(name)
        except AssertionError as error:
            missed.append(str(error))
    assert not missed, "\n".join(missed)
