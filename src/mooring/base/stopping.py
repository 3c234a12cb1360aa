"""The end of a command: SIGTERM or SIGINT, once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def terminals_end() -> tuple[signal.Signals, ...]:
    """The signal of a terminal that is closed; none where it is ignored, as under nohup(1)."""
    return () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)


@contextmanager
def stop_signals(*more: signal.Signals) -> Iterator[asyncio.Event]:
    """An event that SIGTERM, SIGINT or one more sets as long as the block runs. A second signal ends the process at
    once.
    """
    loop, stop, signals = asyncio.get_running_loop(), asyncio.Event(), (*_SIGNALS, *more)

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
