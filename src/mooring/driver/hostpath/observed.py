"""A driver's calls observed from outside: faults on purpose, a log of calls, metrics, and a page of its state."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from prometheus_client import CollectorRegistry, Histogram

from mooring.base.border import refused_as
from mooring.base.clock import Clock, LoopClock
from mooring.base.diagnostics import HEALTHZ, TEXT, Diagnostics, Reply
from mooring.base.json_text import from_json
from mooring.base.log import logger
from mooring.base.metrics import CONTENT_TYPE, Metrics
from mooring.csi.call_counts import BUCKETS_S
from mooring.csi.driver import RPCS, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.redact import redacted
from mooring.driver.hostpath.faults import Faults
from mooring.driver.server import socket_path
from mooring.wire.grpc.codes import Code, go_name

_log = logger(__name__)

METRIC: Final = "csi_driver_operations_seconds"


class Observation:
    """Use it as a context manager. faults, call_log: files, "" for none. secrets: whether the log shows them."""

    def __init__(
        self, faults: str = "", call_log: str = "", *, secrets: bool = False, clock: Clock | None = None
    ) -> None:
        self._clock = clock or LoopClock()
        self._faults = Faults(Path(faults), self._clock) if faults else None
        self._path, self._secrets = call_log, secrets
        self._log: IO[str] | None = None
        self._metrics = Metrics()
        self._durations = self._metrics.once(_durations)

    async def __aenter__(self) -> Self:
        if self._path:
            with refused_as(f"call-log: {self._path!r} can't be written"):
                self._log = await asyncio.to_thread(open, self._path, "a", encoding="utf-8", buffering=1)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._log is not None:
            with contextlib.suppress(OSError):  # what is left in its buffer has failed before
                self._log.close()
            self._log = None

    def of(self, plugin: object, endpoint: str) -> object:
        """An object that answers as the plugin does, to be served on the endpoint."""
        return _Observed(self, plugin, endpoint)

    @asynccontextmanager
    async def told_on(self, address: str, state: Callable[[], bytes]) -> AsyncGenerator[int, None]:
        """An HTTP server for metrics and state as long as the block runs; gives its port. Raises ConfigError."""

        async def metrics() -> Reply:
            return Reply(200, self._metrics.page(), CONTENT_TYPE)

        async def dump() -> Reply:
            return Reply(200, state(), "application/json")

        async def health() -> Reply:
            return Reply(200, "ok", TEXT)

        server = Diagnostics({"/metrics": metrics, "/state": dump, HEALTHZ: health})
        _, port = await server.start(address)
        try:
            yield port
        finally:
            await server.close()

    async def call(
        self, rpc: Rpc[Any, Any], method: Callable[[Any], Any], request: Message, endpoint: str
    ) -> Message | None:
        """The answer of one call. Raises DriverError, CancelledError."""
        since, start = self._clock.now(), self._clock.wall_s()
        answer: Message | None = None
        error: DriverError | None = None
        try:
            if self._faults is None:
                answer = await method(request)
            else:
                answer = await self._faults.carry_out(rpc.name, request, method, lambda: cut_connections(endpoint))
            return answer
        except DriverError as failure:
            error = failure
            raise
        except asyncio.CancelledError:
            error = DriverError(Code.CANCELED, "the caller gave up")
            raise
        finally:
            code = "OK" if error is None else go_name(error.code)
            self._durations.labels(rpc.name, code).observe(self._clock.now() - since)
            self._write(rpc.name, request, answer, code, "" if error is None else error.message, start)

    def _write(
        self, method: str, request: Message, answer: Message | None, code: str, message: str, start: float
    ) -> None:
        if self._log is None:
            return
        entry = {
            "method": method,
            "request": self._shown(request),
            "response": None if answer is None else self._shown(answer),
            "code": code,
            "error": message,
            "start": start,
            "end": self._clock.wall_s(),
        }
        try:
            self._log.write(json.dumps(entry, ensure_ascii=False) + "\n")
        except OSError as error:  # the call itself was carried out
            _log.error("The log of calls ends here: it can't be written", error=error, file=self._path)
            self._close()

    def _shown(self, message: Message) -> Any:
        if self._secrets:
            return MessageToDict(message, preserving_proto_field_name=True)
        return from_json(redacted(message))


class _Observed:
    """The plugin's methods, each through the observation."""

    def __init__(self, observation: Observation, plugin: object, endpoint: str) -> None:
        self.name = getattr(plugin, "name", "")
        for rpc in RPCS.values():
            if method := getattr(plugin, rpc.attribute, None):
                setattr(self, rpc.attribute, _through(observation, rpc, method, endpoint))


def _through(
    observation: Observation, rpc: Rpc[Any, Any], method: Callable[[Any], Any], endpoint: str
) -> Callable[[Message], Any]:
    async def call(request: Message) -> Message | None:
        return await observation.call(rpc, method, request, endpoint)

    return call


def cut_connections(endpoint: str) -> None:
    """Shuts down what is connected to a unix socket of this process."""
    path = str(socket_path(endpoint))
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), contextlib.closing(_same_socket(int(name))) as found:
            if found.getsockname() == path and not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.shutdown(socket.SHUT_RDWR)


def _same_socket(descriptor: int) -> socket.socket:
    """The socket behind a descriptor that somebody else closes. Raises OSError for anything that is none."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _durations(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        METRIC,
        "Duration of the driver's calls",
        ["method_name", "grpc_status_code"],
        buckets=BUCKETS_S,
        registry=registry,
    )
