"""Notes which functions of the source run, and for whom."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import mooring

SOURCE: Final = f"{Path(mooring.__file__).parent}/"
BESIDE: Final = f"{SOURCE}apiserver/"
"""Stands in for what is another process in a cluster; so does whatever it calls."""
LOOP: Final = f"{SOURCE}base/virtual_loop.py"
"""Stands in for asyncio's own loop, which is on nobody's way."""


class Tracer:
    """Follows all tasks of the loop but the one that begins to follow, and what the loop runs without a task."""

    def __init__(self) -> None:
        #: The names of the functions that ran, by file below `src/mooring`.
        self.files: defaultdict[str, set[str]] = defaultdict(set)
        #: How often a function was entered. A coroutine that goes on after a wait counts as once more.
        self.calls = 0
        #: Those of the calls that came from another file of the source.
        self.crossings = 0
        self._test: asyncio.Task[Any] | None = None

    @property
    def functions(self) -> int:
        return sum(map(len, self.files.values()))

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        assert sys.getprofile() is None, "somebody else follows what runs"
        self._test = asyncio.current_task()
        sys.setprofile(self._happens)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _happens(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not _is_followed(frame) or asyncio.current_task() is self._test:
            return
        callers = list(_callers(frame.f_back))
        if any(one.f_code.co_filename.startswith(BESIDE) for one in callers):
            return
        self.files[code.co_filename.removeprefix(SOURCE)].add(code.co_qualname)
        self.calls += 1
        caller = next((one for one in callers if _is_followed(one)), None)
        self.crossings += caller is not None and caller.f_code.co_filename != code.co_filename


def _is_followed(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(SOURCE) and not file.startswith(BESIDE) and file != LOOP


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frame, and those that wait for it."""
    while frame is not None:
        yield frame
        frame = frame.f_back
