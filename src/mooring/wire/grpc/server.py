"""A gRPC server of our own for unary methods: a registrar's, on the kubelet's side, and that of every driver of the
SDK.

Each connection is a protocol of asyncio's over `serving/`, each call a task. While a client does not read, nothing more
is read from it, so that what waits for it stays small.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple, cast

from mooring.base.border import reason
from mooring.base.clock import ending_in
from mooring.base.diagnostics import listening_socket, split_address
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, ConnectionCut, RpcError
from mooring.wire.grpc.events import Gone
from mooring.wire.grpc.frames import READ_BYTES
from mooring.wire.grpc.serving.connection import ServerConnection
from mooring.wire.grpc.serving.events import Asked, Event
from mooring.wire.grpc.serving.limits import FEW, ServerLimits
from mooring.wire.grpc.socket_file import cannot_bind, permissions, removed_at_the_end

_log = logger(__name__)

SETTLED_S_MAX: Final = 10.0
"""From a connection's begin until its client has sent HTTP/2's preface; and from our last bytes until the client has
read them.
"""

ENDING_S_MAX: Final = 1.0
"""For calls that are cancelled at the end. One may wait for a thread that hangs: it ends with the process."""

_BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 64
"""New connections in one turn of asyncio's loop, which has one number for this and the backlog."""

_ERRORS: Final = frozenset(Code) - {Code.OK}

Method = Callable[[bytes], Awaitable[bytes]]
"""A request's bytes to an answer's. Raises RpcError, or ConnectionCut for no answer at all; is cancelled when the
caller waits no longer (`time_left_s` tells when).
"""


@asynccontextmanager
async def listening(
    methods: Mapping[str, Method], path: Path, *, mode: int = 0o600, grace_s: float = 5.0, limits: ServerLimits = FEW
) -> AsyncGenerator[Callable[[], None], None]:
    """The methods answer on the socket as long as the block runs. The place must be free (`make_room`). Gives what cuts
    all connections.

    methods: by path, as in `/csi.v1.Identity/Probe`. mode: of the socket file. grace_s: how long calls in flight may
    take to end afterwards; what is left then is cancelled. The socket file is removed at the end, unless another has
    taken its place. Raises ConfigError when the socket can't be bound.
    """
    clients = _Clients(methods, limits)
    listener = _bound(path, mode)
    with removed_at_the_end(path):
        server = await asyncio.get_running_loop().create_unix_server(
            clients.take, sock=listener, backlog=_ACCEPTED_AT_ONCE
        )
        listener.listen(_BACKLOG)
        try:
            yield clients.cut
        finally:
            server.close()
            await clients.end(grace_s)


@asynccontextmanager
async def listening_on_tcp(
    methods: Mapping[str, Method], address: str, *, grace_s: float = 5.0, limits: ServerLimits = FEW
) -> AsyncGenerator[int, None]:
    """The same on a TCP address, host:port; gives the port. Without encryption: for test suites, on a loopback
    address.
    """
    clients = _Clients(methods, limits)
    try:
        listener = await listening_socket(*split_address(address))
    except OSError as error:
        raise ConfigError(f"address {address!r} can't be bound: {error.strerror or error}") from None
    server = await asyncio.get_running_loop().create_server(clients.take, sock=listener, backlog=_ACCEPTED_AT_ONCE)
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()
        await clients.end(grace_s)


def _bound(path: Path, mode: int) -> socket.socket:
    """Raises ConfigError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with permissions(mode):
            listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise cannot_bind(path, reason(error)) from None
    return listener


class _Clients:
    """All connections of a server."""

    def __init__(self, methods: Mapping[str, Method], limits: ServerLimits) -> None:
        self.methods, self.limits = methods, limits
        self.buffer = bytearray(READ_BYTES)
        """One buffer for all connections: what was read into it is taken in before anybody reads again."""
        self._open: set[_Client] = set()
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    def take(self) -> _Client:
        """The protocol of a new connection."""
        return _Client(self)

    def takes(self, client: _Client) -> bool:
        """False for one too many."""
        if len(self._open) >= self.limits.connections:
            _log.info(0, "Too many connections, one was cut", limit=self.limits.connections)
            return False
        self._open.add(client)
        self._all_gone.clear()
        return True

    def gone(self, client: _Client) -> None:
        """Its socket is closed."""
        self._open.discard(client)
        if not self._open:
            self._all_gone.set()

    def cut(self) -> None:
        """Breaks all connections off."""
        for client in list(self._open):
            client.cut()

    async def end(self, grace_s: float) -> None:
        """Lets calls in flight end, for so long; then cancels them. Nobody connects any more."""
        for client in list(self._open):
            client.leave()
        try:
            async with asyncio.timeout(grace_s):
                await self._all_gone.wait()
        except TimeoutError:
            pass
        finally:
            calls = [call for client in list(self._open) for call in client.close()]
            await self._all_gone.wait()
            if calls:
                await asyncio.wait(calls, timeout=ENDING_S_MAX)


class _Client(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, clients: _Clients) -> None:
        self._clients = clients
        self._loop = asyncio.get_running_loop()
        self._connection = ServerConnection(now=self._loop.time, limits=clients.limits)
        self._calls: dict[int, asyncio.Task[_Answer]] = {}
        self._is_paused = self._is_flushing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._timer = self._loop.call_later(SETTLED_S_MAX, self._too_late)
        if self._clients.takes(self):
            self._transport.write(self._connection.start())
        else:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._clients.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._carry_out(self._connection.receive(bytes(memoryview(self._clients.buffer)[:nbytes])))
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._carry_out(self._connection.lost())
        self._clients.gone(self)

    def pause_writing(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self._flush()

    def leave(self) -> None:
        """Takes no more calls."""
        self._carry_out(self._connection.leave())
        self._flush()

    def close(self) -> Collection[asyncio.Task[_Answer]]:
        """Breaks the connection off; gives the calls that have to end yet."""
        calls = list(self._calls.values())
        self._carry_out(self._connection.close())
        self._transport.abort()
        return calls

    def cut(self) -> None:
        """Breaks the connection off, without a word."""
        self._transport.abort()
        self._carry_out(self._connection.close())

    def _too_late(self) -> None:
        if not self._connection.is_settled or self._transport.is_closing():
            self._transport.abort()

    def _flush_soon(self) -> None:
        """In the next turn of the loop, so that calls which end in this one are answered together."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if not self._is_paused and not self._transport.is_closing() and self._connection.has_to_send:
            self._transport.write(self._connection.to_send())

    # -- what the connection says

    def _carry_out(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Asked):
                self._begin(event)
            elif isinstance(event, Gone):
                self._end(event)
            elif (call := self._calls.get(event.stream_id)) is not None:
                _give_up(call)

    def _begin(self, asked: Asked) -> None:
        method = self._clients.methods.get(asked.path)
        if method is None:
            self._carry_out(self._connection.refuse(asked.stream_id, Code.UNIMPLEMENTED, self._unknown(asked.path)))
        elif self._is_late(asked):
            self._carry_out(self._connection.refuse(asked.stream_id, Code.DEADLINE_EXCEEDED, DEADLINE_TEXT))
        else:
            left_s = None if asked.deadline is None else asked.deadline - self._loop.time()
            call = self._loop.create_task(_answer(method, asked, left_s), name=f"served{asked.path}")
            timer = None if left_s is None else self._loop.call_later(left_s, _give_up, call)
            self._calls[asked.stream_id] = call
            call.add_done_callback(lambda _: self._ended(asked, call, timer))

    def _is_late(self, asked: Asked) -> bool:
        return asked.deadline is not None and asked.deadline <= self._loop.time()

    def _ended(self, asked: Asked, call: asyncio.Task[_Answer], timer: asyncio.TimerHandle | None) -> None:
        """A call is over; one that was cancelled may not even have begun."""
        if timer is not None:
            timer.cancel()
        del self._calls[asked.stream_id]
        if not call.cancelled():
            answer = call.result()
            if answer is _NONE:
                self.cut()
                return
        elif self._is_late(asked):
            answer = _Answer(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT)
        else:
            answer = _Answer(Code.CANCELED, "the call was cancelled")
        if answer.code == Code.OK:
            self._carry_out(self._connection.answer(asked.stream_id, answer.message))
        else:
            self._carry_out(self._connection.refuse(asked.stream_id, answer.code, answer.text))
        self._flush_soon()

    def _unknown(self, path: str) -> str:
        service, _, name = path.removeprefix("/").rpartition("/")
        if any(one.startswith(f"/{service}/") for one in self._clients.methods):
            return f"unknown method {name} for service {service}"
        return f"unknown service {service}"

    def _end(self, event: Gone) -> None:
        if event.broken:
            _log.warning("A client's bytes are no HTTP/2, or too many: ending the connection", reason=event.text)
        if self._transport.is_closing():
            return
        self._transport.write(self._connection.to_send())
        self._transport.close()
        self._timer.cancel()
        self._timer = self._loop.call_later(SETTLED_S_MAX, self._too_late)


class _Answer(NamedTuple):
    code: int
    text: str = ""
    message: bytes = b""


_NONE: Final = _Answer(Code.UNAVAILABLE)
"""In place of an answer: the connection is to be cut."""


def _give_up(call: asyncio.Task[_Answer]) -> None:
    """Cancels a call that nobody waits for: once, for whatever reasons. Work that blocks takes a second time for the
    process's end.
    """
    if not call.cancelling():
        call.cancel()


async def _answer(method: Method, asked: Asked, left_s: float | None) -> _Answer:
    """The answer for the caller, whatever the method does."""
    try:
        with ending_in(left_s):
            return _Answer(Code.OK, message=await method(asked.message))
    except ConnectionCut:
        return _NONE
    except RpcError as error:
        return _Answer(error.code if error.code in _ERRORS else Code.UNKNOWN, error.message)
    except Exception as error:  # the top of a call's work
        _log.error("A call failed", error=error, method=asked.path)
        return _Answer(Code.UNKNOWN, f"unexpected {type(error).__name__}: {error}")
