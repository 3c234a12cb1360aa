"""The end of a command: SIGTERM or SIGINT, once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM or SIGINT sets as long as the block runs. A second signal ends the process at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def on_signal() -> None:
        stop.set()
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)

    for one in _SIGNALS:
        loop.add_signal_handler(one, on_signal)
    try:
        yield stop
    finally:
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
