"""The event loop of a program: uvloop where it is installed (the extra `fast`), asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_FILES: Final = 16
"""More open files than a loop begins with."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop factory for `asyncio.Runner`, None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on the quickest loop there is. Raises OSError where too few files may be open for one."""
    try:
        with contextlib.ExitStack() as files:  # (uvloop can't even be closed where its own are refused)
            for _ in range(_FILES):
                files.enter_context(open(os.devnull))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(main)
    finally:
        main.close()
