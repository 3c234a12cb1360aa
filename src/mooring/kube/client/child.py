"""Runs a program to its end and takes its output, without waiting for other programs that it has started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_OUT, _ERR = 1, 2
OUTPUT_BYTES_MAX: Final = 2**20
"""Kept of each stream, its end: so the program never waits for us."""
HELD_S_MAX: Final = 1.0
"""After the program's end, for the streams': one that it has started may hold them for ever."""


class Printed(NamedTuple):
    """code: as `subprocess` has it, below 0 for a signal."""

    code: int
    output: bytes
    errors: bytes


async def printed(command: Sequence[str], environment: Mapping[str, str], *, with_terminal: bool) -> Printed:
    """Runs the program. with_terminal: it has our standard input and error. Raises OSError, ValueError for what can't be started.

    When this returns or raises, cancelled too, the program is gone, and what it has started in its session, unless it has ours.
    """
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    transport, child = await asyncio.get_running_loop().subprocess_exec(
        _Child,
        *command,
        stdin=None if with_terminal else none,
        stdout=pipe,
        stderr=None if with_terminal else pipe,
        env=environment,
        start_new_session=not with_terminal,
    )
    try:
        try:
            await child.ended.wait()
        finally:
            _kill(transport, whole_session=not with_terminal)
            await child.ended.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELD_S_MAX):
                await child.closed.wait()
    finally:
        transport.close()
    code = transport.get_returncode()
    assert code is not None
    return Printed(code, bytes(child.kept[_OUT]), bytes(child.kept[_ERR]))


def _kill(transport: asyncio.SubprocessTransport, *, whole_session: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if whole_session:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        else:
            transport.kill()


class _Child(asyncio.SubprocessProtocol):
    """ended: the program has. closed: its streams are."""

    def __init__(self) -> None:
        self.kept = {_OUT: bytearray(), _ERR: bytearray()}
        self.ended, self.closed = asyncio.Event(), asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.kept[fd]
        kept += data
        if len(kept) > 2 * OUTPUT_BYTES_MAX:
            del kept[:-OUTPUT_BYTES_MAX]

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """All streams are closed, and the program has ended."""
        for kept in self.kept.values():
            del kept[:-OUTPUT_BYTES_MAX]
        self.closed.set()
