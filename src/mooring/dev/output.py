"""A text stream whose writer never waits for its reader.

A pager that was left alone, or a terminal after Ctrl-S, takes nothing more; a plane that waited for it would stand
still with it. So a thread passes on what is written, to the descriptor itself: one that hung in a buffered stream would
keep Python from ending.
"""

from __future__ import annotations

import io
import os
import select
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from mooring.dev.screen import TerminalStream

WAITING_MAX: Final = 4 * 2**20
"""Bytes that wait for a reader; what is written beyond them is left out, and a line says so."""
_SETTLED_S: Final = 0.2
"""How long it is waited for by a process that ends by force."""
_LAST_S: Final = 1.0
"""At the end: how long a reader that takes nothing is waited for."""


class Output:
    """Implements `TerminalStream`. Writing raises the stream's own error once that has failed, as after its reader has
    gone.
    """

    def __init__(self, stream: TextIO, waiting_max: int = WAITING_MAX) -> None:
        stream.flush()
        self._stream, self._waiting_max = stream, waiting_max
        self._descriptor = stream.fileno()
        self.encoding = stream.encoding
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = self._left_out = 0
        self._is_busy = self._is_over = False
        self._failure: OSError | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._pass_on, name="output", daemon=True).start()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> int:
        """Never waits. A text is passed on as a whole or left out. Raises OSError."""
        data = text.encode(self.encoding, self._stream.errors or "strict")
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if self._waiting_bytes + len(data) > self._waiting_max:
                self._left_out += 1
                return len(text)
            if self._left_out:
                data = f"... {self._left_out} lines are left out here: nobody read them\n".encode() + data
                self._left_out = 0
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def settle(self, timeout_s: float) -> bool:
        """Waits until all is passed on; False after this time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._failure is not None or not (self._waiting or self._is_busy), timeout_s
            )

    def close(self) -> None:
        """Waits for a slow reader, not for one that takes nothing."""
        while True:
            before = self._waiting_bytes
            if self.settle(_LAST_S) or self._waiting_bytes == before:
                break
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _pass_on(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._is_over)
                if not self._waiting:
                    return
                data, self._is_busy = self._waiting.popleft(), True
            try:
                self._write_all(data)
            except OSError as error:
                with self._changed:
                    self._failure = error
                    self._waiting.clear()
                    self._changed.notify_all()
                return
            with self._changed:
                self._waiting_bytes -= len(data)

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # somebody else who has the terminal set it so
                select.select([], [self._descriptor], [])


def settle(stream: TerminalStream) -> None:
    """Written lines are passed on, unless their reader takes nothing. In any thread."""
    if isinstance(stream, Output):
        stream.settle(_SETTLED_S)


@contextmanager
def passed_on(stream: TextIO) -> Iterator[TerminalStream]:
    """The stream through an output, which is closed at the end. A stream in memory has no reader, and stays as it
    is.
    """
    try:
        output = Output(stream)
    except io.UnsupportedOperation:
        yield stream
        return
    try:
        yield output
    finally:
        output.close()
