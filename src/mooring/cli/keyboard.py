"""Enter on the terminal that a command runs in."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Final, TextIO

_READ_BYTES: Final = 4096


@contextlib.contextmanager
def on_enter(terminal: TextIO | None, act: Callable[[], None]) -> Iterator[bool]:
    """Calls act at each Enter as long as the block runs. Gives False where nobody can press it: no terminal, or in its background.

    A process in the background that reads is stopped by the kernel (SIGTTIN), so nothing is read there; nor after Ctrl-D.
    """
    if terminal is None or not terminal.isatty() or not _is_in_front(terminal.fileno()):
        yield False
        return
    loop, descriptor = asyncio.get_running_loop(), terminal.fileno()

    def read() -> None:
        if _is_in_front(descriptor) and _line(descriptor):
            act()
        else:
            loop.remove_reader(descriptor)

    loop.add_reader(descriptor, read)
    try:
        yield True
    finally:
        loop.remove_reader(descriptor)


def _is_in_front(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # not the terminal that rules over this process


def _line(descriptor: int) -> bytes:
    """b"" at its end. A terminal gives whole lines."""
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return b""
