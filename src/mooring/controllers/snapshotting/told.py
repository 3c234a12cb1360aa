"""The failures that this process has told by Events."""

from __future__ import annotations

from typing import Final

TOLD_MAX: Final = 50_000


class Told:
    """By the uid of an object, the text of its last failure.

    A failure that stands in a status is told once by each process: the one that wrote it may have died before its Event was sent.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def note(self, uid: str, text: str) -> bool:
        """True when this process has not told it yet; from now on it has. Beyond `TOLD_MAX` objects nothing is new."""
        if self._texts.get(uid) == text or (uid not in self._texts and len(self._texts) >= TOLD_MAX):
            return False
        self._texts[uid] = text
        return True

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._texts.pop(uid, None)
