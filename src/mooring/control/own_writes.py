"""Whether a change is news to a controller that writes to the object itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from mooring.api.meta import Object, is_deleting
from mooring.kube.cache.informer import Cause, Change


class Specified(Object, Protocol):
    @property
    def spec(self) -> Any: ...


T = TypeVar("T", bound=Specified)


def is_news(change: Change[T], also: Callable[[T], object] = lambda obj: None) -> bool:
    """False for a write of our own, unless its answer shows that others have changed the object: no event will bring that any more.

    also: a part of the status that others write.
    """
    if change.cause is not Cause.OWN_WRITE:
        return True
    old, new = change.old, change.new
    return old is not None and new is not None and _facts(old, also) != _facts(new, also)


def _facts(obj: T, also: Callable[[T], object]) -> tuple[object, ...]:
    return obj.metadata.uid, is_deleting(obj), obj.spec, also(obj)
