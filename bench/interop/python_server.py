"""The server of bench/interop on grpcio. Usage: python -m bench.interop.python_server (sync | asyncio) SOCKET. See
`check.py`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any, ClassVar

import grpc
import grpc.aio

from bench.interop.check import TEXT

# Without a limit of calls at once: gRPC's core refuses a call that begins while it still clears away the last one's
# stream, whoever calls.
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
GRACE_S = 5.0


class Answers:
    """What each method says, but for those that wait. Raises KeyError for them and for unknown ones."""

    def __init__(self) -> None:
        self.given_up = 0

    def now(self, method: str, request: bytes, context: Any) -> bytes | tuple[grpc.StatusCode, str]:
        return self._methods[method](self, request, context)

    _methods: ClassVar[dict[str, Callable[[Answers, bytes, Any], bytes | tuple[grpc.StatusCode, str]]]] = {
        "Probe": lambda self, request, context: b"",
        "ControllerModifyVolume": lambda self, request, context: request,
        "DeleteVolume": lambda self, request, context: (grpc.StatusCode.NOT_FOUND, TEXT),
        "DeleteSnapshot": lambda self, request, context: (grpc.StatusCode.INTERNAL, "x" * 100_000),
        "GetCapacity": lambda self, request, context: number(self.given_up),
        "ControllerExpandVolume": lambda self, request, context: number(int(context.time_remaining() * 1000)),
    }


def number(value: int) -> bytes:
    """A message whose first field is this number."""
    out = bytearray(b"\x08")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Handlers(grpc.GenericRpcHandler):
    """handle: of one call, by its method's name."""

    def __init__(self, handle: Callable[[str, bytes, Any], Any]) -> None:
        self._handle = handle

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(self._made(method))

    def _made(self, method: str) -> Callable[[bytes, Any], Any]:
        def handle(request: bytes, context: Any) -> Any:
            return self._handle(method, request, context)

        async def handle_async(request: bytes, context: Any) -> Any:
            return await self._handle(method, request, context)

        return handle_async if asyncio.iscoroutinefunction(self._handle) else handle


def serve_in_threads(path: str) -> None:
    answers, ended = Answers(), threading.Event()

    def handle(method: str, request: bytes, context: Any) -> bytes:
        if method == "ControllerUnpublishVolume":
            gone = threading.Event()
            context.add_callback(gone.set)
            gone.wait()
            answers.given_up += 1
            return b""
        if method == "CreateSnapshot":
            time.sleep(0.3)
            return b""
        try:
            answer = answers.now(method, request, context)
        except KeyError:
            answer = grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}"
        if isinstance(answer, tuple):
            context.abort(*answer)
        return answer

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=20), options=OPTIONS)
    server.add_generic_rpc_handlers((Handlers(handle),))
    server.add_insecure_port(f"unix:{path}")
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    print("ready", flush=True)
    ended.wait()
    server.stop(GRACE_S).wait()


async def serve_in_a_loop(path: str) -> None:
    answers, ended = Answers(), asyncio.Event()

    async def handle(method: str, request: bytes, context: Any) -> bytes:
        if method == "ControllerUnpublishVolume":
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                answers.given_up += 1
        if method == "CreateSnapshot":
            await asyncio.sleep(0.3)
            return b""
        try:
            answer = answers.now(method, request, context)
        except KeyError:
            answer = grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}"
        if isinstance(answer, tuple):
            await context.abort(*answer)
        return answer

    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((Handlers(handle),))
    server.add_insecure_port(f"unix:{path}")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await server.start()
    print("ready", flush=True)
    await ended.wait()
    await server.stop(GRACE_S)


if __name__ == "__main__":
    if sys.argv[1] == "sync":
        serve_in_threads(sys.argv[2])
    else:
        asyncio.run(serve_in_a_loop(sys.argv[2]))
