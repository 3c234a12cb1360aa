"""The time that a driver's methods take from the event loop: a method that keeps it for long is named, since nothing
else is answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import mooring
from mooring.base.log import logger

_log = logger(__name__)

LONG_S: Final = 1.0
"""For a step from one `await` to the next."""
TICK_S: Final = 2.0
"""One that goes on after two of them is told while it lasts."""

ADVICE: Final = "use blocking() of mooring.driver.blocking for what takes time"
_OURS: Final = f"{Path(mooring.__file__).parent}{os.sep}"
_PYTHONS: Final = f"{sysconfig.get_path('stdlib')}{os.sep}"
_LOOP: Final = asyncio.BaseEventLoop.run_forever.__code__


class _Step:
    """A step of the method with this name. ticks: how often the watch has seen it."""

    __slots__ = ("name", "ticks")

    def __init__(self, name: str) -> None:
        self.name, self.ticks = name, 0


_running: Final[dict[int, _Step]] = {}
"""By the thread that is in it."""


@types.coroutine
def measured(work: Coroutine[Any, Any, Any], name: str, now: Callable[[], float]) -> Generator[Any, Any, Any]:
    """The result of the work. name: of the method that it is. now: seconds that only grow."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            with _step(name, now):
                waits_for = work.send(value) if error is None else work.throw(error)
        except StopIteration as end:
            return end.value
        value = error = None
        try:
            value = yield waits_for
        except BaseException as thrown:  # it is the work's to handle
            error = thrown


@contextlib.contextmanager
def _step(name: str, now: Callable[[], float]) -> Iterator[None]:
    began, thread = now(), threading.get_ident()
    before = _running.get(thread)  # a driver built on another may call that, in one step
    _running[thread] = _Step(name)
    try:
        yield
    finally:
        if before is None:
            del _running[thread]
        else:
            _running[thread] = before
        if before is None and (took := now() - began) >= LONG_S:
            _log.warning(f"Blocked the event loop for {took:.1f} s in {name}: {ADVICE}")


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """A thread says of a step that does not end where it is, as long as the block runs."""
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(over,), name="driver/watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch(over: threading.Event) -> None:
    while not over.wait(TICK_S):
        for thread, step in tuple(_running.items()):
            step.ticks += 1
            if step.ticks == 2:
                _log.warning(
                    f"Blocks the event loop in {step.name}{where(thread)}, and nothing else is answered "
                    f"meanwhile: {ADVICE}"
                )


def where(thread: int) -> str:
    """The place in a driver's own code that this thread's event loop is at, as in " at driver.py:61"; "" for none.

    The caller beneath the loop has started it, and does not hold it.
    """
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not _LOOP:
        if _is_theirs(frame.f_code.co_filename):
            return f" at {frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_theirs(file: str) -> bool:
    """Whether it is the author's, or a package that the author has installed."""
    return not file.startswith((_OURS, "<")) and (not file.startswith(_PYTHONS) or "-packages" in file)
