"""Writes to the API server that were not answered, and so may yet be carried out: until when, by what they are about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from mooring.base.clock import Clock, Instant
from mooring.control.decision import Failed
from mooring.kube.errors import LATE_S, ApiError, ServerError, Unreachable

K = TypeVar("K")

KEYS_MAX: Final = 20_000
"""Keys of which such a write is remembered; one that is forgotten for a newer one is not waited for."""


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


def is_unanswered(error: Exception) -> bool:
    """True for a write that may still be carried out. An answer that is a refusal says that nothing was written."""
    return isinstance(error, Unreachable | ServerError) or (isinstance(error, Failed) and error.is_unanswered)
