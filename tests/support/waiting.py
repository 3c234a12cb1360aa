"""Waiting for programs of others. Our own code is never waited for by looking: its tests run on virtual time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T | None], timeout_s: float, what: str, every_s: float = 0.05) -> T:
    """The first truthy answer of check. Raises AssertionError naming `what` when there was none in time.

    check: may raise AssertionError to say what it saw; the last one is shown.
    """
    deadline = time.monotonic() + timeout_s
    seen: AssertionError | None = None
    while True:
        try:
            if answer := check():
                return answer
            seen = None
        except AssertionError as error:
            seen = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}" + (f" ({seen})" if seen else ""))
        time.sleep(every_s)
