"""How bugs are planted, each of which the simulation must find."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Bug:
    """found_by: the invariants that may find it first."""

    plant: Callable[[], contextlib.AbstractContextManager[Any]]
    found_by: AbstractSet[str]


@contextlib.contextmanager
def planted_of(bugs: Mapping[str, Bug], name: str | None) -> Iterator[None]:
    """Plants the bug for a while; None plants nothing."""
    if name is None:
        yield
        return
    with bugs[name].plant():
        yield
