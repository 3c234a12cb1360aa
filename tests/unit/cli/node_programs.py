"""A driver beside the programs of a node that a test starts."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from mooring.driver.server import serving
from tests.support.scripted_driver import ScriptedDriver


@contextlib.contextmanager
def driver_on(path: Path, driver: object | None = None) -> Iterator[None]:
    """A driver in a thread of its own."""
    loop, ready, done = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(driver or ScriptedDriver(), str(path), grace_s=0.0):
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()
