"""One text for all equal ones, for as long as anybody has it: names and uids stand in many objects of many kinds.

Python's own table of interned texts holds none of them: a text leaves it with its last user. It costs some thirty bytes
for each text, a second copy of a name about ninety.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

RECENT_MAX: Final = 4096

INTERNED_END: Final = not (3, 12) <= sys.version_info < (3, 12, 7)
"""False where Python keeps interned texts for ever (https://github.com/python/cpython/issues/113993)."""


class RecentTexts:
    """Remembers texts, and forgets those not met again for a while. size_max: per generation; there are two."""

    def __init__(self, size_max: int = RECENT_MAX) -> None:
        self._size_max = size_max
        self._young: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def shared(self, text: str) -> str:
        found = self._young.get(text)
        if found is None:
            found = self._young[text] = self._old.get(text, text)
            if len(self._young) >= self._size_max:
                self._old, self._young = self._young, {}
        return found


shared: Final[Callable[[str], str]] = sys.intern if INTERNED_END else RecentTexts().shared
"""The text itself, or an equal one that was here before. text: of no subclass."""
