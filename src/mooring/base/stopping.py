"""The end of a command: SIGTERM or SIGINT, once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals(*more: signal.Signals) -> Iterator[asyncio.Event]:
    """An event that SIGTERM, SIGINT or one more sets as long as the block runs; one more that is ignored, as SIGHUP is
    under nohup(1), still is. A second signal ends the process at once.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = (*_SIGNALS, *(one for one in more if signal.getsignal(one) is not signal.SIG_IGN))

    def on_signal() -> None:
        stop.set()
        for one in signals:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)

    for one in signals:
        loop.add_signal_handler(one, on_signal)
    try:
        yield stop
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


async def unless_stopped(work: Coroutine[Any, Any, None], *more: signal.Signals) -> bool:
    """Runs the work; SIGTERM, SIGINT or one more cancel it. True when it came to its end. Raises what it raises."""
    with stop_signals(*more) as stop:
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(work, name="cli/work")
                stopping = group.create_task(stop.wait(), name="cli/stop")
                await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                running.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
    return not running.cancelled()
