"""A client's connections to one server: idle ones are used again, the last used first; new ones are made a few at a
time.

A request without an idle connection waits and takes the first: one returned by another request, or a new one. A burst
of requests makes as many connections as it can use, and no more. Each in line has one begun, up to a bound: handshakes
cost the server more than requests do. One that hangs holds up only as many as have nothing else to wait for.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from mooring.wire.http1.connection import Closed, Connection, ConnectionOwner

IDLE_S: Final = 60.0
"""Below the 90 s after which an API server drops an idle connection, so that we seldom meet a closed one."""
DIALS_MAX: Final = 8
"""Connections that are being made at a time."""
DIAL_TIMEOUT_S: Final = 30.0
"""For the host's name, the way there, and all handshakes."""


class DialError(Exception):
    """No connection could be made. reason: an OSError (ssl.SSLError is one), a ValueError, ProxyRefused, or
    DialTimeout.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class DialTimeout(Exception):
    """A connection was not there in time."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """needs_new: a connection that has carried nothing yet."""

    connection: asyncio.Future[Connection]
    needs_new: bool


class Pool(ConnectionOwner):
    """Used inside one event loop. dial: makes a connection for an owner in its generation."""

    def __init__(self, dial: Callable[[ConnectionOwner, int], Awaitable[Connection]]) -> None:
        self._dial = dial
        self._generation = 0
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []  # the last used at the end
        self._waiters: deque[_Waiter] = deque()
        self._dials: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take(self) -> Connection | None:
        """An idle connection, or None: then `get`."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    async def get(self, *, needs_new: bool = False) -> Connection:
        """A connection, as soon as there is one. Raises DialError and Closed.

        One of before whose end came in the turn in which it was handed over is nobody's. A new one is given even so,
        for the request on it to fail, since a server that leaves whenever it is reached would be connected to without
        end.
        """
        while True:
            connection = await self._next(needs_new)
            if connection.is_usable or not connection.is_reused:
                return connection

    async def _next(self, needs_new: bool) -> Connection:
        if self._is_closed:
            raise Closed("the client is closed")
        waiter = _Waiter(asyncio.get_running_loop().create_future(), needs_new)
        self._waiters.append(waiter)
        if len(self._dials) < DIALS_MAX:
            self._begin_dial()
        try:
            return await waiter.connection
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    def give_back(self, connection: Connection) -> None:
        """The exchange on it is over, or was given up."""
        if not connection.finish():
            return
        if connection.generation == self._generation:
            self._serve(connection)
        else:
            connection.abort()

    def renew(self) -> None:
        """The connections' settings have changed: from now on only new ones are used."""
        self._generation += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    def close(self) -> None:
        """Breaks all connections, those that are being made too. Waiting requests get Closed."""
        self._is_closed = True
        for task in self._dials:
            task.cancel()
        while waiter := self._next_waiter():
            waiter.connection.set_exception(Closed("the client is closed"))
        self._idle.clear()
        for connection in tuple(self._connections):
            connection.close()
        if self._sweep is not None:
            self._sweep.cancel()

    async def ended(self) -> None:
        """Returns when no connection is being made any more; after `close`."""
        if self._dials:
            await asyncio.wait(self._dials)

    def lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    # the line

    def _serve(self, connection: Connection) -> None:
        """Gives a connection to the first who can use it; else it is idle."""
        waiter = self._next_waiter(can_be_new=not connection.is_reused)
        if waiter is not None:
            waiter.connection.set_result(connection)
            return
        loop = asyncio.get_running_loop()
        connection.idle_since, connection.is_reused = loop.time(), True
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._drop_idle)

    def _next_waiter(self, *, can_be_new: bool = True) -> _Waiter | None:
        """The first in line, taken out of it. can_be_new: False leaves out those who need a new connection."""
        for waiter in self._waiters:
            if (can_be_new or not waiter.needs_new) and not waiter.connection.done():
                self._waiters.remove(waiter)
                return waiter
        return None

    def _leave(self, waiter: _Waiter) -> None:
        """A waiter gave up. A connection got in the same turn goes to another; a dial that nobody waits for has hung
        the longest.
        """
        answered = waiter.connection
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif not answered.cancelled() and answered.exception() is None and answered.result().is_usable:
            self._serve(answered.result())
        if len(self._dials) > len(self._waiters):
            next(iter(self._dials)).cancel()

    def _drop_idle(self) -> None:
        """Closes connections that nobody has used for a while."""
        loop = asyncio.get_running_loop()
        while self._idle and loop.time() - self._idle[0].idle_since >= IDLE_S:
            self._idle.pop(0).abort()
        self._sweep = loop.call_at(self._idle[0].idle_since + IDLE_S, self._drop_idle) if self._idle else None

    # new connections

    def _begin_dial(self) -> None:
        task = asyncio.get_running_loop().create_task(self._dial_one(), name="http1/dial")
        self._dials[task] = None
        task.add_done_callback(self._dial_ended)

    def _dial_ended(self, task: asyncio.Task[None]) -> None:
        del self._dials[task]
        if len(self._dials) < len(self._waiters):
            self._begin_dial()

    async def _dial_one(self) -> None:
        """Makes a connection for the first in line; so is a failure the first's."""
        timeout = asyncio.timeout(DIAL_TIMEOUT_S)
        try:
            async with timeout:
                connection = await self._dial(self, self._generation)
        except Exception as error:
            waiter = self._next_waiter()
            if waiter is not None:
                waiter.connection.set_exception(DialError(DialTimeout() if timeout.expired() else error))
            return
        if connection.generation != self._generation:
            connection.abort()
        else:
            self._connections.add(connection)
            self._serve(connection)
