"""A driver that is somebody's program: starts it, shows its output, starts it again when it ends, and ends it with the
plane.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final

from mooring.base import supervisor
from mooring.base.clock import Clock
from mooring.base.ending import Ending
from mooring.base.errors import ConfigError
from mooring.base.last_words import LastWords
from mooring.base.text import visible
from mooring.dev.story import Story

KILLED_S_MAX: Final = 5.0
"""How long the output of a program is read that was killed: a child that left its group may keep it open."""

AGAIN_S: Final = 1.0
AGAIN_EARLY_S: Final = 2.0
"""For one that ended before HEALTHY_S. It does not grow, as a kubelet's does: the author is at work on the program,
and waits for it.
"""
HEALTHY_S: Final = 10.0

LEFT_SOCKET: Final = "if it could not listen: an earlier run has left its socket, which a driver removes first"
"""It would be there after a crash in a pod, too: a kubelet's folders outlive containers."""

_CHUNK_BYTES: Final = 65536


class DriverProgram:
    """start() once, then mind() until cancelled; close() ends the program."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        socket: Path,
        story: Story,
        clock: Clock,
        ending: Ending,
    ) -> None:
        self._words, self._environment, self._story, self._clock = tuple(words), dict(environment), story, clock
        self._socket = socket
        self._ending = ending
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline = -1  # our end of the supervisor's input: without it the supervisor ends the program
        self._last = LastWords()
        self.is_up = False
        """Set by who has met the driver: an end before that is a failed start."""

    async def start(self) -> None:
        """Starts the program, in a process group that ends with this process (`supervisor.py`)."""
        theirs, self._lifeline = os.pipe()
        self._last = LastWords()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(Path(supervisor.__file__)), *self._words),
                stdin=theirs,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        finally:
            os.close(theirs)

    async def mind(self) -> None:
        """Tells the output, and starts the program again when it has ended. Raises ConfigError when it ends before it
        was up.
        """
        before = None
        while True:
            began_s = self._clock.now()
            code = await self._ended()
            self._cut()
            if not self.is_up:
                raise ConfigError(
                    f"driver: {self._words[0]} ended with exit code {code} before it answered{self._words_of_it()}"
                )
            delay_s = AGAIN_S if self._clock.now() - began_s > HEALTHY_S else AGAIN_EARLY_S
            hint = f"; {LEFT_SOCKET}" if before is not None and before == _file(self._socket) else ""
            what = f"the driver ended with exit code {code}"
            text = f"{what}: started again in {delay_s:g} s{hint}"
            self._story.happened("warning", text, same=f"{self._socket} {text}", name=what)
            await self._clock.sleep(delay_s)
            before = _file(self._socket)
            await self.start()

    async def close(self) -> None:
        """Asks the program to end; when the time for that is over it is killed, with all that it has started."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._ending.left_s):
                    await self._ended()
        self._cut()  # kills what is left
        await process.wait()

    async def kill(self) -> None:
        """Ends the program at once, with all that it has started. Not while somebody minds it."""
        if self._process is None:
            return
        self._cut()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_S_MAX):
                await self._ended()

    def kill_now(self) -> None:
        """As kill(), from any thread: it needs no event loop. Blocks until the program has ended; what it has started
        was killed with it.
        """
        if self._process is None:
            return
        self._cut()
        with contextlib.suppress(OSError):  # it is gone already
            gone = os.pidfd_open(self._process.pid)
            select.select([gone], [], [], KILLED_S_MAX)

    def _cut(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)

    async def _ended(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in _lines(self._process.stdout):
            self._last.append(line)
            self._story.printed(line)
        return await self._process.wait()

    def _words_of_it(self) -> str:
        return "".join(f"\n  {line}" for line in self._last.lines) if self._last.lines else "; it said nothing"


def _file(path: Path) -> tuple[int, int] | None:
    """Which one is there."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


async def _lines(stream: asyncio.StreamReader) -> AsyncGenerator[str, None]:
    """The text may have any length; bytes that are no UTF-8, and control characters that could upset a terminal, are
    made visible.
    """
    rest = b""
    while data := await stream.read(_CHUNK_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield _shown(line)
    if rest:
        yield _shown(rest)


def _shown(line: bytes) -> str:
    return visible(line.decode(errors="backslashreplace").rstrip("\r").expandtabs(4))
