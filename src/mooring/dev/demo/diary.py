"""A file that somebody writes to, line after line, as a pod would."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from mooring.base.clock import Clock

NAME: Final = "diary.txt"
_PAUSE_S: Final = 0.005


class Diary:
    """lines: so many were written; each has its number."""

    def __init__(self, clock: Clock) -> None:
        self.lines = 0
        self._clock = clock

    @contextlib.asynccontextmanager
    async def kept(self, folder: Path) -> AsyncGenerator[None, None]:
        """It is written to as long as the block runs. Raises OSError when that fails."""
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write(folder / NAME), name="demo/diary")
            yield
            writing.cancel()

    async def more(self, count: int) -> None:
        """Returns when so many more lines are written."""
        wanted = self.lines + count
        while self.lines < wanted:
            await self._clock.sleep(_PAUSE_S)

    def is_in(self, folder: Path) -> bool:
        """True when every line is there, and nothing else."""
        path = folder / NAME
        return path.exists() and path.read_text(encoding="utf-8").split() == [str(number + 1) for number in range(self.lines)]

    async def _write(self, path: Path) -> None:
        with path.open("a", encoding="utf-8") as file:
            while True:
                file.write(f"{self.lines + 1}\n")
                file.flush()
                self.lines += 1
                await self._clock.sleep(_PAUSE_S)
