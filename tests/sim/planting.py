"""How bugs are planted, each of which the simulation must find."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any
from unittest import mock

from mooring.control.queue import WorkQueue


@dataclasses.dataclass(frozen=True, slots=True)
class Bug:
    """found_by: the invariants that may find it first. first_seed: where a search begins, for earlier seeds have not found it of late."""

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
    def at_once(self: WorkQueue[Any], key: Any) -> float:
        self.add_after(key, 0.0001)
        return 0.0001

    return mock.patch.object(WorkQueue, "retry", at_once)


def failures_are_final() -> contextlib.AbstractContextManager[Any]:
    """What failed is never tried again on its own account."""
    return mock.patch.object(WorkQueue, "retry", return_value=0.0)


def assert_found(run_seed: Callable[..., Any], bugs: Mapping[str, Bug], name: str, seeds_max: int) -> None:
    """Some seed shows the bug, by an invariant that tells of it, not by some crash. Raises AssertionError."""
    first = bugs[name].first_seed
    for seed in range(first, first + seeds_max):
        broken = run_seed(seed, bug=name).broken
        if broken is not None:
            assert broken.invariant in bugs[name].found_by, broken
            return
    raise AssertionError(f"not found in {seeds_max} seeds from {first} on")
