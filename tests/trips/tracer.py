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
    """files: the functions that ran, by file below `src/mooring`."""

    def __init__(self) -> None:
        self.files: defaultdict[str, set[str]] = defaultdict(set)
        self._test: asyncio.Task[Any] | None = None

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """All tasks of the loop but the caller's own, and what the loop runs without a task."""
        assert sys.getprofile() is None, "somebody else follows what runs"
        self._test = asyncio.current_task()
        sys.setprofile(self._happens)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _happens(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event != "call"
            or not code.co_filename.startswith(SOURCE)
            or code.co_filename == LOOP
            or asyncio.current_task() is self._test
        ):
            return
        if not any(one.f_code.co_filename.startswith(BESIDE) for one in _callers(frame)):
            self.files[code.co_filename.removeprefix(SOURCE)].add(code.co_qualname)


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame, and those that wait for it."""
    while frame is not None:
        yield frame
        frame = frame.f_back
