"""What a piece of work has done outside: writes to the API server and calls to a driver, noted by their clients.

Whoever works on something sets a list before it begins, and reads it afterwards: work that goes round is told from work
that goes on (`control/hot_keys.py`). Tasks that the work starts note theirs in the same list.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

UNSENT: Final = "unsent"
"""A call that went to no driver, since none was there. It has no effect, and yet it says why the work has failed."""

_NOTED: Final[ContextVar[list[object] | None]] = ContextVar("mooring.effects", default=None)


def begin() -> list[object]:
    """A list in which the effects of the running task are noted from now on, until it begins another one."""
    noted: list[object] = []
    _NOTED.set(noted)
    return noted


def is_noting() -> bool:
    """True where somebody wants to know."""
    return _NOTED.get() is not None


def note(effect: object) -> None:
    """Note what was asked, once it is answered without an error; it compares equal to that of the same request.
    UNSENT is noted where nothing was asked.
    """
    noted = _NOTED.get()
    if noted is not None:
        noted.append(effect)
