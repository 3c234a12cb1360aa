"""Asks a driver whether it lives, each time over a new connection, as Go's livenessprobe does: an old one would go on
after the socket was removed or replaced, when nobody else reaches the driver any more. And shows that as metrics.

The metrics are those of Go's livenessprobe: durations of calls to the driver, and the start of the process. They are
written by hand, in the text format 0.0.4: prometheus_client, which all other programs here use, brings an HTTP server,
a mail parser and TLS along, a fifth of this program's memory for two families of metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.csi.address import socket_path, trouble
from mooring.csi.call_counts import HELP, NAME, CallCounts, CallObserver
from mooring.csi.driver_socket import DriverSocket
from mooring.csi.errors import DriverError
from mooring.csi.identity import Identity
from mooring.wire.grpc.errors import DEADLINE_TEXT

_log = logger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

START: Final = "process_start_time_seconds"
_START_HELP: Final = "[ALPHA] Start time of the process since unix epoch in seconds."

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_DIGITS_MAX: Final = 6
"""The most digits before the point: Go writes larger numbers with an exponent."""

NOT_READY: str = "driver responded but is not ready"


class Prober:
    """One driver's health. timeout_s: of one question, the connection included. metrics: None counts no calls."""

    def __init__(self, address: str, *, clock: Clock, timeout_s: float, metrics: CallObserver | None = None) -> None:
        self._path = socket_path(address)
        self._clock, self._timeout_s, self._metrics = clock, timeout_s, metrics
        self._introduced: DriverSocket | None = None

    @property
    def is_connected(self) -> bool:
        """True while the driver is connected that is to introduce itself."""
        return self._introduced is not None and self._introduced.is_connected

    async def introduce(self) -> str:
        """The driver's name, however long it takes to come and to answer. Raises DriverError, and ConfigError for an
        empty name.
        """
        async with self._connected(None) as driver:
            self._introduced = driver.socket
            name = await driver.name(_WITHOUT_LIMIT_S)
        if not name:
            raise ConfigError("driver name is empty")
        return name

    async def health(self) -> tuple[int, str]:
        """HTTP status and text: 200 when the driver says that it is ready, or does not say that it isn't."""
        began = self._clock.now()
        try:
            async with self._connected(self._timeout_s) as driver:
                left_s = max(0.001, self._timeout_s - (self._clock.now() - began))
                is_ready = await driver.is_ready(left_s)
        except (DriverError, ConfigError) as error:
            _log.error("health check failed", error=error)
            return 500, str(error)
        except TimeoutError:
            reason = trouble(self._path) or DEADLINE_TEXT
            _log.error("health check failed", reason=reason)
            return 500, f"no connection to the CSI driver at {self._path!r}: {reason}"
        if not is_ready:
            _log.error(NOT_READY)
            return 500, NOT_READY
        return 200, "ok"

    async def close(self) -> None:
        """Ends the connection of an introduction."""
        if self._introduced is not None:
            await self._introduced.close()

    @contextlib.asynccontextmanager
    async def _connected(self, timeout_s: float | None) -> AsyncIterator[Identity]:
        """The driver, over a connection of its own. timeout_s: None waits without end. Raises TimeoutError."""
        socket = DriverSocket(self._path)
        try:
            async with asyncio.timeout(timeout_s):
                await socket.connect(_WITHOUT_LIMIT_S)
            yield Identity(socket, clock=self._clock, metrics=self._metrics)
        finally:
            await socket.close()


_WITHOUT_LIMIT_S = 100 * 365 * 86_400.0


def metrics_page(calls: CallCounts, started_s: float | None) -> bytes:
    """The page. started_s: the start of the process, since the epoch; None where it can't be known."""
    return "".join(f"{line}\n" for line in _lines(calls, started_s)).encode()


def _lines(calls: CallCounts, started_s: float | None) -> Iterator[str]:
    samples = list(calls.samples())
    if samples:
        yield from (f"# HELP {NAME} {HELP}", f"# TYPE {NAME} histogram")
    for suffix, labels, value in samples:
        yield f"{NAME}{suffix}{{{_labels(labels)}}} {go_number(value)}"
    if started_s is not None:
        yield from (f"# HELP {START} {_START_HELP}", f"# TYPE {START} gauge", f"{START} {go_number(started_s)}")


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def go_number(value: float) -> str:
    """The number as Go writes it: 3, 0.25, 5e-05, 1.79525001628e+09. Not negative."""
    text = repr(float(value)).removesuffix(".0")
    whole, _, fraction = text.partition(".")
    if len(whole) <= _DIGITS_MAX or "e" in text:
        return text
    return f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".") + f"e+{len(whole) - 1:02d}"


def process_started_s() -> float | None:
    """The start of this process, since the epoch, as the kernel has it; None where there is no /proc."""
    if not Path("/proc/self/stat").exists():
        return None
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
