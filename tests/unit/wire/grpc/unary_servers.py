"""Servers of unary methods, ours and grpcio's, and clients of four kinds: what is said of one in a test holds for
each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import hpack

from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.dial import dial
from mooring.wire.grpc.server import Method, listening
from tests.unit.csi.servers import STATUS
from tests.unit.wire.grpc import talk

SERVICE = "mooring.test.Echo"


class Echo:
    """A service. began: calls of Hang so far; cancelled: those of them that were ended from outside; most: of all calls
    at once.
    """

    def __init__(self) -> None:
        self.began = self.cancelled = self.running = self.most = 0
        self.go_on = asyncio.Event()

    def methods(self) -> dict[str, Method]:
        named = {"Say": self.say, "Fail": self.fail, "Hang": self.hang, "Wait": self.wait, "Break": self.break_}
        return {f"/{SERVICE}/{name}": method for name, method in named.items()}

    async def say(self, message: bytes) -> bytes:
        return message

    async def fail(self, message: bytes) -> bytes:
        """message: a code, a space, a text."""
        code, text = message.decode().split(" ", 1)
        raise DriverError(int(code), text)

    async def hang(self, _: bytes) -> bytes:
        self.began += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def wait(self, message: bytes) -> bytes:
        self.began += 1
        await self.go_on.wait()
        return message

    async def break_(self, message: bytes) -> bytes:
        raise (TimeoutError if message == b"late" else ValueError)(message.decode())


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods

    def service(self, handler_call_details: Any) -> Any:
        method = self._methods.get(handler_call_details.method)
        if method is None:
            return None

        async def handle(request: bytes, context: Any) -> bytes:
            try:
                return await method(request)
            except DriverError as error:
                await context.abort(STATUS[error.code], error.message)
                raise

        return grpc.unary_unary_rpc_method_handler(handle)


@asynccontextmanager
async def on_grpcio(methods: Mapping[str, Method], path: Path, *, grace_s: float = 0.0) -> AsyncIterator[None]:
    """As `listening`."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handlers(methods),))
    server.add_insecure_port(f"unix://{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace_s)


SERVERS: dict[str, Callable[..., Any]] = {"ours": listening, "grpcio": on_grpcio}

Ask = Callable[..., Awaitable[bytes]]
"""A call: name of the method, message, timeout_s. Raises DriverError."""


@asynccontextmanager
async def _grpcio(path: Path) -> AsyncIterator[Ask]:
    async with grpc.aio.insecure_channel(f"unix://{path}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:

        async def ask(name: str, message: bytes = b"", timeout_s: float = 20.0) -> bytes:
            try:
                answer: bytes = await channel.unary_unary(f"/{SERVICE}/{name}")(message, timeout=timeout_s)
            except grpc.aio.AioRpcError as error:
                raise DriverError(error.code().value[0], error.details() or "") from None
            return answer

        yield ask


@asynccontextmanager
async def _grpcio_in_threads(path: Path) -> AsyncIterator[Ask]:
    with grpc.insecure_channel(f"unix://{path}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:

        async def ask(name: str, message: bytes = b"", timeout_s: float = 20.0) -> bytes:
            call = channel.unary_unary(f"/{SERVICE}/{name}").future(message, timeout=timeout_s)
            ended = asyncio.Event()
            loop = asyncio.get_running_loop()
            call.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
            try:
                await ended.wait()
            except asyncio.CancelledError:
                call.cancel()
                raise
            if call.code() is not grpc.StatusCode.OK:
                raise DriverError(call.code().value[0], call.details() or "")
            answer: bytes = call.result()
            return answer

        yield ask


@asynccontextmanager
async def over(path: Path) -> AsyncIterator[Ask]:
    """Our own client."""
    link = await dial(str(path), 20.0)

    async def ask(name: str, message: bytes = b"", timeout_s: float = 20.0) -> bytes:
        answer = await link.call(f"/{SERVICE}/{name}", message, timeout_s)
        if answer.code != Code.OK:
            raise DriverError(answer.code, answer.text)
        assert answer.payload is not None
        return answer.payload

    try:
        yield ask
    finally:
        link.close()


CLIENTS: dict[str, Callable[[Path], Any]] = {"ours": over, "grpcio": _grpcio, "grpcio in threads": _grpcio_in_threads}


# -- bytes


SAY = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", f"/{SERVICE}/Say"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


AFTER_COUNT = 20


async def fate(path: Path, received: bytes, stream: int = 1) -> str:
    """What becomes of a stream, and of the connection, when a server gets these bytes after a good beginning.

    Good calls come after them, one by one: a server that has answered all of these has nothing more to say about the
    stream.
    """
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(talk.PREFACE + talk.settings() + received)
    decoder, ends, fields = hpack.Decoder(), dict[int, str](), dict[int, dict[str, str]]()
    connection = "alive"
    try:
        for after in range(99, 99 + 2 * AFTER_COUNT, 2):
            writer.write(talk.headers(after, SAY) + talk.data(after, talk.message(b"after"), end=True))
            while after not in ends:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                number = int.from_bytes(head[5:])
                if head[3] == talk.HEADERS:
                    fields.setdefault(number, {}).update(
                        (str(name), str(value)) for name, value in decoder.decode(payload)
                    )
                    if head[4] & talk.END_STREAM:
                        ends.setdefault(number, _status(fields[number]))
                elif head[3] == talk.RST_STREAM:
                    ends.setdefault(number, f"reset {int.from_bytes(payload)}")
                elif head[3] == talk.GOAWAY:
                    connection = f"ended {int.from_bytes(payload[4:8])}"
                    raise EOFError
            ends.pop(after, None)
    except (EOFError, OSError):
        connection = connection.replace("alive", "ended")
    finally:
        writer.close()
    return f"{ends.get(stream, 'nothing')}, {connection}"


def _status(fields: Mapping[str, str]) -> str:
    http = "" if fields[":status"] == "200" else f"http {fields[':status']} "
    return f"{http}status {fields.get('grpc-status')}"
