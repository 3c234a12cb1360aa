"""The server over HTTPS on loopback, for kubectl and Go clients.

Runs in the caller's loop, without a task of its own. A connection's bytes go through `tls_transport.py` (TLS),
`connection.py` (HTTP), `dispatch.py` and `service.py`; watches through `streams.py`. This module has the socket, the
sweep of deadlines, and the shutdown.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import resource as process
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.identity.tls import ServerIdentity, signer_of
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.watch import WatchHub
from mooring.apiserver.web.connection import Connection
from mooring.apiserver.web.dispatch import Dispatcher
from mooring.apiserver.web.limits import ConnectionLimits
from mooring.apiserver.web.metrics import ServerMetrics
from mooring.apiserver.web.service import Service
from mooring.apiserver.web.streams import Streams
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.kube.client import kubeconfig
from mooring.wire.http1.tls_transport import READ_BYTES, TlsTransport

_log = logger(__name__)

LOOPBACK: Final = "127.0.0.1"
ANY_PORT: Final = (LOOPBACK, 0)
_CLOSING_S_MAX: Final = 5.0
_SWEEP_S: Final = 10.0
_LOOK_S: Final = 1.0
_RENEW_S: Final = 60.0
"""Between two looks at whether the certificates have to be renewed."""
_BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 64
"""New connections in one turn of asyncio's loop, which has one number for this and the backlog."""
_FILES_KEPT: Final = 128
"""Open files that are not for connections."""
_CONNECTIONS_LEAST: Final = 32


class ApiServer:
    """A store, served. start() and close() in one event loop. address: host and port, 0 for a free one."""

    def __init__(
        self,
        store: ObjectStore,
        identity: ServerIdentity,
        *,
        clock: Clock,
        randomness: Random,
        address: tuple[str, int] = ANY_PORT,
        limits: ConnectionLimits | None = None,
        durability: Durability | None = None,
    ) -> None:
        """Raises ConfigError for a host that others could reach."""
        host, port = address
        if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise ConfigError(
                f"the embedded API server listens on this machine alone, not on '{host}': take 127.0.0.1 or ::1"
            )
        self._store, self._identity, self._clock, self._host, self._port = store, identity, clock, host, port
        durability = durability or InMemory(store)
        limits = limits or ConnectionLimits()
        limits = msgspec.structs.replace(limits, connections=min(limits.connections, connections_max()))
        service = Service(store, clock=clock, token=identity.token, durability=durability, tokens=signer_of(identity))
        self._hub = WatchHub(store, clock=clock, randomness=randomness, durability=durability)
        metrics = ServerMetrics(store)
        self._streams = Streams(self._hub, metrics)
        self._dispatcher = Dispatcher(service, store, durability, self._streams, metrics, clock=clock, limits=limits)
        self._housekeeping = Housekeeping(store, clock=clock)
        self._server: asyncio.Server | None = None
        self._kubeconfig: Path | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def url(self) -> str:
        """https://host:port, once it is started."""
        assert self._server is not None, "the server has not been started"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    @property
    def connection_count(self) -> int:
        return len(self._dispatcher.connections)

    @property
    def watch_count(self) -> int:
        return len(self._streams)

    def write_kubeconfig(self, path: Path) -> None:
        """A kubeconfig for this server, readable by its owner alone. It is kept true while the server runs."""
        self._identity.write_kubeconfig(path, self.url)
        self._kubeconfig = path

    async def start(self) -> None:
        """Raises ConfigError when the port is taken."""
        assert self._server is None, "a server starts once"
        context, buffer = self._identity.context(), memoryview(bytearray(READ_BYTES))

        def link() -> TlsTransport:
            connection = Connection(self._dispatcher)
            return TlsTransport(context, connection, buffer, line=connection.line)

        def renew() -> None:
            try:
                self._identity, before = self._identity.renewed(self._clock.wall_s()), self._identity
                if self._identity is not before:
                    self._identity.load_into(context)
                    if self._kubeconfig is not None:
                        self.write_kubeconfig(self._kubeconfig)
            except ConfigError as error:
                _log.error("The server's certificates could not be renewed", error=error)
            self._later("renew", _RENEW_S, renew)

        try:
            self._server = await asyncio.get_running_loop().create_server(
                link, self._host, self._port, backlog=_ACCEPTED_AT_ONCE
            )
            for listener in self._server.sockets:
                with socket.socket(fileno=os.dup(listener.fileno())) as same:
                    same.listen(_BACKLOG)
        except OSError as error:
            raise ConfigError(f"can't listen on {self._host}:{self._port}: {_in_words(error)}") from error
        self._look()
        self._sweep()
        self._later("renew", _RENEW_S, renew)
        self._housekeeping.start()

    async def close(self) -> None:
        """Ends the watches, then the connections."""
        self._housekeeping.close()
        for timer in self._timers.values():
            timer.cancel()
        if self._server is None:
            return
        self._server.close()
        self._dispatcher.look()
        self._hub.close()
        self._streams.end_all()
        gone = asyncio.Event()
        self._dispatcher.when_quiet(gone.set)
        for connection in list(self._dispatcher.connections):
            connection.close_soon()
        try:
            async with asyncio.timeout(_CLOSING_S_MAX):
                await gone.wait()
        except TimeoutError:
            for connection in list(self._dispatcher.connections):
                connection.abort()
            await gone.wait()
        finally:
            self._dispatcher.close()

    def _look(self) -> None:
        self._dispatcher.look()
        self._later("look", min(_LOOK_S, self._dispatcher.limits.slow_s / 4), self._look)

    def _sweep(self) -> None:
        is_clean = self._store.sweep(self._clock.wall_s())
        self._later("sweep", _SWEEP_S if is_clean else 0.0, self._sweep)

    def _later(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, call)


def _in_words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is taken; --port 0 takes a free one"
    return os.strerror(error.errno) if error.errno else str(error)


def connections_max() -> int:
    """How many connections this process may have open, once it has asked for all the files it can get, as Go programs
    do. Raises ConfigError where these are too few.
    """
    soft, hard = process.getrlimit(process.RLIMIT_NOFILE)
    if soft < hard:
        process.setrlimit(process.RLIMIT_NOFILE, (hard, hard))
    if hard == process.RLIM_INFINITY:
        return sys.maxsize
    if hard < _FILES_KEPT + _CONNECTIONS_LEAST:
        raise ConfigError(
            f"{hard} open files are too few for an API server: raise the limit to "
            f"{_FILES_KEPT + _CONNECTIONS_LEAST} or more (ulimit -n)"
        )
    return hard - _FILES_KEPT


def last_port(path: Path) -> int:
    """The server's port in the kubeconfig that it wrote; 0 where there is none that can be read."""
    try:
        return urlsplit(kubeconfig.load(str(path), {}).server).port or 0
    except (ConfigError, ValueError):
        return 0


def is_free(port: int) -> bool:
    """Asked as the server will ask for it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
