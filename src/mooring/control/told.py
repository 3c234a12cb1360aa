"""The failures that this process has told by Events."""

from __future__ import annotations

from typing import Final

from mooring.base.clock import Instant
from mooring.control.events import REPEAT_S

TOLD_MAX: Final = 50_000


class Told:
    """By the uid of an object, the text of its last failure, and when it was told.

    A failure that stands in a status is told by each process: the one that wrote it may have died before its Event was sent. It is told
    again while it lasts.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, Instant]] = {}

    def note(self, uid: str, text: str, now: Instant) -> bool:
        """True when this process has not told it lately; from now on it has. Beyond `TOLD_MAX` objects nothing is new."""
        before, told_at = self._texts.get(uid, ("", now))
        if (before == text and now - told_at < REPEAT_S) or (uid not in self._texts and len(self._texts) >= TOLD_MAX):
            return False
        self._texts[uid] = text, now
        return True

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._texts.pop(uid, None)
