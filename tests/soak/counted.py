"""Runs a program of Mooring and writes down, each few seconds, how much it has in hand:
`python -m tests.soak.counted FILE PROGRAM …`.

Each line is a `Count` in JSON. Blocks are those of Python's allocator: they show a leak long before the process grows.
What the collector would free is freed before they are counted: else they rise between two of its full runs, which may
be long apart.
"""

from __future__ import annotations

import asyncio.tasks
import dataclasses
import gc
import json
import runpy
import sys
import threading
import time
from pathlib import Path

EVERY_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """at_s: on the monotonic clock. tasks: that are not done. blocks: in use."""

    at_s: float
    tasks: int
    blocks: int


def read(file: Path) -> list[Count]:
    """The counts so far; none of a program that has only begun."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Count(**json.loads(line)) for line in lines]


def tasks_count() -> int:
    """Of the process' loops, not done. The loop goes on meanwhile, so the set may change under our hands."""
    while True:
        try:
            return sum(not task.done() for task in list(asyncio.tasks._all_tasks))  # type: ignore[attr-defined]
        except RuntimeError:
            continue


def _count(file: Path) -> None:
    with file.open("a", buffering=1) as out:
        while True:
            gc.collect()
            count = Count(round(time.monotonic(), 2), tasks_count(), sys.getallocatedblocks())
            print(json.dumps(dataclasses.asdict(count)), file=out)
            time.sleep(EVERY_S)


def main() -> None:
    file, *sys.argv = sys.argv[1:]
    threading.Thread(target=_count, args=(Path(file),), name="soak/count", daemon=True).start()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
