"""The snapshot controller's own writes: what their answers show of changes by others, and which writes no cache shows yet.

One that was not answered may be carried out for a while, which is known by what the write is about.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from mooring.api.meta import Key, is_deleting
from mooring.base.clock import Clock, Instant
from mooring.control.decision import Failed
from mooring.kube.cache.informer import Cause, Change
from mooring.kube.errors import LATE_S, ApiError, ServerError, Unreachable

K = TypeVar("K")

KEYS_MAX: Final = 20_000
"""Keys of which such a write is remembered; one that is forgotten for a newer one is not waited for."""
LOOK_S: Final = 1.0
"""How often a claim is looked at while a content of it is on its way: one that arrives wakes it anyway."""


class UnansweredWrites(Generic[K]):
    """By key, until when the last write that was not answered may be carried out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[K, Instant] = {}

    def note(self, key: K) -> None:
        """One was not answered just now."""
        if key not in self._until and len(self._until) >= KEYS_MAX:
            del self._until[next(iter(self._until))]
        self._until[key] = self._clock.now() + LATE_S

    def wait_s(self, key: K) -> float | None:
        """How long until none can come any more; None where none was lost."""
        until = self._until.get(key)
        return None if until is None else max(0.0, until - self._clock.now())

    def forget(self, key: K) -> None:
        """Nothing is asked about it any more."""
        self._until.pop(key, None)


class LostWrites(UnansweredWrites[str]):
    """By the uid of a snapshot, or of a group."""

    @contextlib.contextmanager
    def noted(self, uid: str) -> Iterator[None]:
        """Around such a write for this uid."""
        try:
            yield
        except (ApiError, Failed) as error:
            if is_unanswered(error):
                self.note(uid)
            raise

    def inherit(self, uid: str) -> None:
        """A former process may have sent such a write."""
        if len(self._until) < KEYS_MAX:
            self._until[uid] = self._clock.now() + LATE_S


class ComingContents:
    """Contents that this process is making, and those of which it does not know whether it has made them, by the claims that they need.

    Their snapshot shows that the claim is needed, as long as it is there: but it may be torn away meanwhile, and a group that is deleted
    speaks for its claims no more.
    """

    def __init__(self, clock: Clock) -> None:
        self._begun: Counter[Key] = Counter()
        self._unanswered: UnansweredWrites[Key] = UnansweredWrites(clock)

    @contextlib.contextmanager
    def of(self, claims: Sequence[Key]) -> Iterator[None]:
        """While a content of these claims is being made."""
        self._begun.update(claims)
        try:
            yield
        finally:
            self._begun -= Counter(claims)

    def refused(self, claims: Sequence[Key], error: Exception) -> None:
        """The creation of a content of these claims has failed: where that was no answer, it may still be carried out."""
        if is_unanswered(error):
            for claim in claims:
                self._unanswered.note(claim)

    def wait_s(self, claim: Key) -> float | None:
        """Until the next look at the claim, as long as a content of it may come; None where none does."""
        if claim in self._begun:
            return LOOK_S
        left_s = self._unanswered.wait_s(claim)
        if not left_s:
            self._unanswered.forget(claim)
            return None
        return left_s


def is_unanswered(error: Exception) -> bool:
    """True for a write that may still be carried out. An answer that is a refusal says that nothing was written."""
    return isinstance(error, Unreachable | ServerError) or (isinstance(error, Failed) and error.is_unanswered)


def is_news(change: Change[Any], also: Callable[[Any], object] = lambda obj: None) -> bool:
    """False for a write of our own, unless its answer shows that others have changed the object: no event will bring that any more.

    also: a part of the status that others write.
    """
    old, new = change.old, change.new
    if change.cause is not Cause.OWN_WRITE:
        return True
    return old is not None and new is not None and _facts(old, also) != _facts(new, also)


class Found:
    """Tells which objects a write of our own has found under the name of another one: it has not made them, and no event will bring them
    any more.
    """

    def __init__(self) -> None:
        self._ended: Key | None = None

    def by(self, change: Change[Any]) -> bool:
        """To be asked about each change. The cache tells of the end of the former object just before."""
        ended, is_own = self._ended, change.cause is Cause.OWN_WRITE
        self._ended = change.key if is_own and change.new is None else None
        return is_own and change.old is None and change.key == ended


def _facts(obj: Any, also: Callable[[Any], object]) -> tuple[object, ...]:
    return obj.metadata.uid, is_deleting(obj), obj.spec, also(obj)
