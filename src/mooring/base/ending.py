"""Ends a program that others may hold up: in good order while that makes progress, else by force.

    ending = Ending()
    with ending.on_signals():
        return asyncio.run(work(ending))

The first SIGTERM, SIGINT or SIGHUP asks for the end. The end goes on while it makes progress: it may last STILL_S
without a finished step, and ENDING_S_MAX in all. Then, or at a second signal, a thread ends the process, after the work
that was given to `at_last`. It needs neither the event loop nor anybody's lock, since somebody else's code may hold
them. A third signal ends it at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

from mooring.base.stopping import terminals_end

STILL_S: Final = 0.5
ENDING_S_MAX: Final = 5.0
BY_FORCE_S: Final = 0.3
"""Seconds from the end of all patience to the last word: what is cancelled may unwind."""

LAST_S_MAX: Final = 2.0
"""How long the last word may take; what it has not done by then is left."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Ending:
    """exit_now: ends this process with an exit code."""

    def __init__(self, exit_now: Callable[[int], NoReturn] = os._exit) -> None:
        self._exit_now = exit_now
        self._asked_s: float | None = None
        self._moved_s = 0.0
        self._listeners: list[Callable[[], None]] = []
        self._last: list[Callable[[], None]] = []

    @property
    def is_asked(self) -> bool:
        return self._asked_s is not None

    @property
    def left_s(self) -> float:
        """How long the present step may take: ENDING_S_MAX while nobody has asked for the end, 0 from the moment that
        it took too long.
        """
        if self._asked_s is None:
            return ENDING_S_MAX
        return max(0.0, min(self._moved_s + STILL_S, self._asked_s + ENDING_S_MAX) - time.monotonic())

    def goes_on(self) -> None:
        """A step came to its end: the next one has its own time. It changes nothing after a step that took too long."""
        if self.left_s:
            self._moved_s = time.monotonic()

    def when_asked(self, tell: Callable[[], None]) -> None:
        """Calls `tell` as soon as the end is asked for, from any thread; at once if it was."""
        self._listeners.append(tell)
        if self.is_asked:
            tell()

    @contextlib.contextmanager
    def at_last(self, act: Callable[[], None]) -> Iterator[None]:
        """Work that must be done in any case: by the last word, should it come while the block runs. In a thread; the
        latest first.
        """
        self._last.append(act)
        try:
            yield
        finally:
            self._last.remove(act)

    def ask(self) -> None:
        """Ask for the end, as the first signal does."""
        if self._asked_s is None:
            self._asked_s = self._moved_s = time.monotonic()
            for tell in tuple(self._listeners):
                tell()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """The signals ask for the end as long as the block runs; not SIGHUP under nohup(1). In the main thread."""
        read_end, write_end = os.pipe()
        before = {number: signal.getsignal(number) for number in (*_SIGNALS, *terminals_end())}
        for number in before:
            signal.signal(number, _handler(write_end))
        listener = threading.Thread(target=self._listen, args=(read_end,), name="ending", daemon=True)
        listener.start()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(write_end)
            listener.join(BY_FORCE_S)

    def _listen(self, read_end: int) -> None:
        """Listen until the other end of the pipe is closed, or the process ends here."""
        try:
            if not os.read(read_end, 1):
                return
            self.ask()
            while patience_s := self._patience_s():
                ready, _, _ = select.select([read_end], [], [], patience_s)
                if ready and not os.read(read_end, 1):
                    return
                if ready:
                    break  # a second signal
        finally:
            os.close(read_end)
        self._end_by_force()

    def _patience_s(self) -> float:
        """The seconds until the last word."""
        assert self._asked_s is not None
        over_s = min(self._moved_s + STILL_S, self._asked_s + ENDING_S_MAX) + BY_FORCE_S
        return max(0.0, over_s - time.monotonic())

    def _end_by_force(self) -> None:
        doing = threading.Thread(target=self._do_last, name="ending/last", daemon=True)
        doing.start()
        doing.join(LAST_S_MAX)
        self._exit_now(0)

    def _do_last(self) -> None:
        for act in reversed(self._last):
            with contextlib.suppress(Exception):  # nobody is left who could be told, and the others come next
                act()


def _handler(pipe: int) -> Callable[[int, FrameType | None], None]:
    """Says into the pipe that there was a signal, and no more: it may have interrupted whoever holds a lock."""
    count = 0

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        os.write(pipe, b".")
        if count > 1:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)

    return on_signal
