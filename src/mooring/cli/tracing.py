"""The traces of a program: switched on by a flag, made beside each term of its work, and sent until its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.cli.process import Setup
from mooring.control.program.terms import LeasedWorks
from mooring.control.runtime import Runtime

if TYPE_CHECKING:
    from mooring.control.tracing.spans import Spans
    from mooring.csi.driver import Driver

Make = Callable[[Runtime, "Driver | None"], LeasedWorks]
"""Makes the works of a program on these ports."""

CLOSE_S_MAX: Final = 2.0
"""How long the end of a program waits until what is left is sent."""


class Traces:
    """name: of the program, the service of its spans. clock: its own."""

    def __init__(self, name: str, setup: Setup[Any], clock: Clock) -> None:
        self._name, self._setup, self._clock = name, setup, clock
        self._spans: Spans | None = None

    def start(self) -> None:
        """Raises ConfigError where traces are on and can't be made."""
        if self._setup.flags.tracing:
            self._spans = _spans_of(self._name)

    def beside(self, make: Make, driver_name: str = "") -> Make:
        """The maker of works, with traces beside each of them; itself where traces are off."""
        spans = self._spans
        if spans is None:
            return make

        def make_traced(runtime: Runtime, driver: Driver | None) -> LeasedWorks:
            from mooring.control.tracing.ports import TracingDriver, on_traced_ports
            from mooring.control.tracing.steps import Tracing

            tracing = Tracing(spans, self._clock)
            called = None if driver is None else TracingDriver(driver, tracing, driver_name)
            return make(on_traced_ports(runtime, tracing), called)

        return make_traced

    async def close(self) -> None:
        """Sends what is left, for a moment at the most."""
        if self._spans is None:
            return
        from mooring.control.tracing.spans import closed_beside

        loop, done = asyncio.get_running_loop(), asyncio.Event()
        closed_beside(self._spans, lambda: _tell(loop, done))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S_MAX):
                await done.wait()


def _spans_of(name: str) -> Spans:
    try:
        from mooring.control.tracing.spans import spans_over_http
    except ImportError as error:
        raise ConfigError(
            f"tracing: needs a package that is not there ({error}): pip install 'mooring[otel]'"
        ) from None
    return spans_over_http(name)


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the program has ended meanwhile
        loop.call_soon_threadsafe(done.set)
