"""The snapshot controller's own writes: what their answers show of changes by others, and those that no cache shows
yet.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from mooring.api.meta import Key, is_deleting
from mooring.base.clock import Clock, Instant
from mooring.control.decision import Failed
from mooring.kube.cache.informer import Cause, Change
from mooring.kube.errors import LATE_S, ApiError, ServerError, Unreachable

Needy: TypeAlias = str | Key
"""A snapshot or a group by its uid, or a claim."""

KEYS_MAX: Final = 20_000
"""Keys with unanswered writes at most; a write that is forgotten for a newer one is not waited for."""
LOOK_S: Final = 1.0
"""How often a claim is looked at while a content of it is on its way: one that arrives wakes it anyway."""


class UnseenWrites:
    """Writes that give a content to a snapshot or to a group, and that no cache shows yet.

    | the write                   | its snapshot or group              | a claim that its content needs       |
    |-----------------------------|------------------------------------|--------------------------------------|
    | under way                   | is busy with it                    | stays held                           |
    | answered, also by a refusal | the cache shows all                | the cache shows all                  |
    | not answered, for LATE_S    | does not go                        | stays held                           |
    | not answered, after that    | goes after a look past the cache   | the cache shows all                  |
    | perhaps of a former process | as one that was not answered       | is held by its snapshot              |

    The snapshot itself shows that a claim is needed, but it may be torn away meanwhile, and a group that is deleted
    speaks for its claims no more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: Counter[Key] = Counter()
        self._until: dict[Needy, Instant] = {}

    @contextlib.contextmanager
    def under_way(self, *claims: Key) -> Iterator[None]:
        """Hold these claims while a content of them is being made."""
        self._under_way.update(claims)
        try:
            yield
        finally:
            self._under_way -= Counter(claims)

    @contextlib.contextmanager
    def noted(self, *needy: Needy) -> Iterator[None]:
        """Note a write for a snapshot and its claims, if it gets no answer."""
        try:
            yield
        except (ApiError, Failed) as error:
            if is_unanswered(error):
                for one in needy:
                    self.note(one)
            raise

    def note(self, needy: Needy) -> None:
        """Note that a write was not answered just now, or may have been sent by a former process."""
        if needy not in self._until and len(self._until) >= KEYS_MAX:
            del self._until[next(iter(self._until))]
        self._until[needy] = self._clock.now() + LATE_S

    def wait_s(self, needy: Needy) -> float | None:
        """Seconds until the next look: 0 after an unanswered write that can't come any more, None without one."""
        if isinstance(needy, Key) and needy in self._under_way:
            return LOOK_S
        until = self._until.get(needy)
        return None if until is None else max(0.0, until - self._clock.now())

    def forget(self, needy: Needy) -> None:
        """Forget a snapshot, group or claim that is gone."""
        self._until.pop(needy, None)


def is_unanswered(error: Exception) -> bool:
    """True for a write that may still be carried out. An answer that is a refusal says that nothing was written."""
    return isinstance(error, Unreachable | ServerError) or (isinstance(error, Failed) and error.is_unanswered)


def is_news(change: Change[Any], also: Callable[[Any], object] = lambda obj: None) -> bool:
    """False for a write of our own, unless its answer shows that others have changed the object, or put another one in
    its place: no event will bring that any more.

    also: a part of the status that others write.
    """
    old, new = change.old, change.new
    if change.cause is not Cause.OWN_WRITE:
        return True
    return new is not None and (old is None or _facts(old, also) != _facts(new, also))


def _facts(obj: Any, also: Callable[[Any], object]) -> tuple[object, ...]:
    return obj.metadata.uid, is_deleting(obj), obj.spec, also(obj)
