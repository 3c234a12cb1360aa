"""The time that is left for the call that is being answered, known to everything that works for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_ENDS: Final[ContextVar[float | None]] = ContextVar("mooring.csi.deadline", default=None)


@contextmanager
def ending_in(seconds: float | None) -> Iterator[None]:
    """While the block runs, the call ends that soon; None for a call without a deadline."""
    token = _ENDS.set(None if seconds is None else asyncio.get_running_loop().time() + seconds)
    try:
        yield
    finally:
        _ENDS.reset(token)


def time_left_s() -> float | None:
    """Seconds until the caller gives up, 0 at the least; None where it waits without end. Ask on the event loop."""
    ends = _ENDS.get()
    return None if ends is None else max(0.0, ends - asyncio.get_running_loop().time())
