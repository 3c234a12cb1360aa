"""Runs a program of Mooring and writes down each turn of its event loop that took long.

python -m bench.scale.turns FILE PROGRAM [ARGUMENT …]

A turn is all that runs between two looks at the sockets, in processor time of the loop's thread: a busy machine makes
turns longer, but not dearer. Each line of the file has the moment on the monotonic clock and the turn's length, both in
seconds. uvloop's turns can't be seen from here, so asyncio's own loop runs.
"""

from __future__ import annotations

import asyncio.base_events
import dataclasses
import functools
import runpy
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LONG_S = 0.01


@dataclasses.dataclass(frozen=True)
class Turn:
    """at: on the monotonic clock. long_s: processor seconds."""

    at: float
    long_s: float


def read(file: Path) -> list[Turn]:
    """The long turns so far; none of a program that has no such file."""
    if not file.exists():
        return []
    return [Turn(*map(float, line.split())) for line in file.read_text().splitlines()]


def longest_s(turns: Iterable[Turn], began: float, ended: float) -> float:
    """Of those that ended within this time; 0 when none was long."""
    return max((turn.long_s for turn in turns if began <= turn.at < ended), default=0.0)


def _meter(file: Path) -> None:
    run_once = asyncio.base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]
    out = file.open("a", buffering=1)

    @functools.wraps(run_once)
    def metered(self: Any) -> None:
        before = time.thread_time()
        run_once(self)
        took = time.thread_time() - before
        if took >= LONG_S:
            out.write(f"{time.monotonic():.3f} {took:.4f}\n")

    asyncio.base_events.BaseEventLoop._run_once = metered  # type: ignore[attr-defined]


def main() -> None:
    file, *sys.argv = sys.argv[1:]
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    _meter(Path(file))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
