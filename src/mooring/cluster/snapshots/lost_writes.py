"""Writes that give a content to a snapshot, or to a group, and that nobody has answered: each may still be carried out.

A content that comes, or is bound, after its snapshot has gone stays behind for ever, and a driver makes its snapshot. So a snapshot that is
to go waits until the API server has surely given such a write up. Nobody knows the lost writes of a former process: an object that exists
when this one begins, and has no content yet, may have lost one. Only what is to go already then is not held up: it goes at once, as with
upstream's controller, and a write that the former process lost in its last minute may leave a content behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from mooring.base.clock import Clock, Instant
from mooring.kube.errors import LATE_S, ServerError, Unreachable

LOST_MAX: Final = 20_000
"""Snapshots of which such a write is remembered; a forgotten one is not waited for."""


class LostWrites:
    """By the uid of a snapshot, or of a group, until when the last such write may be carried out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, Instant] = {}

    @contextlib.contextmanager
    def noted(self, uid: str) -> Iterator[None]:
        """Around such a write for this uid. An answer that is a refusal says that nothing was written."""
        try:
            yield
        except (Unreachable, ServerError):
            if uid not in self._until and len(self._until) >= LOST_MAX:
                del self._until[next(iter(self._until))]
            self._until[uid] = self._clock.now() + LATE_S
            raise

    def inherit(self, uid: str) -> None:
        """A former process may have sent such a write."""
        if len(self._until) < LOST_MAX:
            self._until[uid] = self._clock.now() + LATE_S

    def wait_s(self, uid: str) -> float | None:
        """How long until none can come any more; None where none was lost."""
        until = self._until.get(uid)
        return None if until is None else max(0.0, until - self._clock.now())

    def forget(self, uid: str) -> None:
        """The snapshot, or the group, is gone."""
        self._until.pop(uid, None)
