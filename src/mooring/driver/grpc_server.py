"""A gRPC server on a unix socket, by grpcio; on TCP for test suites."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.csi.address import target
from mooring.csi.grpc_logging import quiet_core
from mooring.csi.socket_file import cannot_bind, permissions, removed_at_the_end

with quiet_core():
    import grpc
    import grpc.aio

STREAMS_MAX: Final = 1_000
"""Calls at once of one connection, as its client hears: gRPC's core has no bound. Sidecars make some hundreds."""

OPTIONS: Final = (("grpc.max_concurrent_streams", STREAMS_MAX),)


@asynccontextmanager
async def listening(
    handlers: Sequence[grpc.GenericRpcHandler], path: Path, *, mode: int = 0o600, grace_s: float = 5.0
) -> AsyncGenerator[None, None]:
    """The handlers answer on the socket as long as the block runs. The place must be free (`make_room`).

    mode: of the socket file. grace_s: how long calls in flight may take to end afterwards; what is left then is cancelled. The socket
    file is removed at the end, unless another has taken its place. Raises ConfigError when the socket can't be bound.
    """
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers(tuple(handlers))
    try:
        with permissions(mode):
            server.add_insecure_port(target(str(path)))
    except RuntimeError as error:
        raise cannot_bind(path, error) from None
    await server.start()
    with removed_at_the_end(path):
        try:
            yield
        finally:
            await server.stop(grace_s)


@asynccontextmanager
async def listening_on_tcp(handlers: Sequence[grpc.GenericRpcHandler], address: str, *, grace_s: float = 5.0) -> AsyncGenerator[int, None]:
    """The same on a TCP address, host:port; gives the port. Without encryption: for test suites, on a loopback address."""
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers(tuple(handlers))
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigError(f"address {address!r} can't be bound: {error}") from None
    await server.start()
    try:
        yield port
    finally:
        await server.stop(grace_s)
