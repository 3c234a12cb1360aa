"""A gRPC server on a unix socket: what makes room for its socket, who may connect, and whose socket is removed at the end."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.base.errors import ConfigError
from mooring.csi.address import PATH_BYTES_MAX, target
from mooring.csi.grpc_logging import quiet_core

with quiet_core():
    import grpc
    import grpc.aio


@asynccontextmanager
async def listening(
    handlers: Sequence[grpc.GenericRpcHandler], path: Path, *, mode: int = 0o600, grace_s: float = 5.0
) -> AsyncGenerator[None, None]:
    """The handlers answer on the socket as long as the block runs. The place must be free (`make_room`).

    mode: of the socket file. grace_s: how long calls in flight may take to end afterwards; what is left then is cancelled. The socket
    file is removed at the end, unless another has taken its place. Raises ConfigError when the socket can't be bound.
    """
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(handlers))
    _bind(server, path, mode)
    await server.start()
    inode = _inode(path)
    try:
        yield
    finally:
        await server.stop(grace_s)
        if _inode(path) == inode:
            os.unlink(path)


@asynccontextmanager
async def listening_on_tcp(handlers: Sequence[grpc.GenericRpcHandler], address: str, *, grace_s: float = 5.0) -> AsyncGenerator[int, None]:
    """The same on a TCP address, host:port; gives the port. Without encryption: for test suites, on a loopback address."""
    server = grpc.aio.server()
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


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def check_length(path: Path) -> Path:
    """The path. Raises ConfigError for one that is too long for a socket."""
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise ConfigError(f"socket path {str(path)!r} is longer than the {PATH_BYTES_MAX} bytes that the system allows: give a shorter one")
    return path


def make_room(path: Path, *, even_alive: bool = False) -> None:
    """Removes a socket that nobody answers on; with even_alive also one that somebody answers on.

    Raises ConfigError when anything else is in its place, or its folder is missing.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ConfigError(f"the folder of socket {str(path)!r} does not exist") from None
        return
    except OSError as error:
        raise ConfigError(f"socket {str(path)!r} can't be used: {error.strerror}") from None
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{str(path)!r} exists and is not a socket: choose another path, or move it away")
    if not even_alive and _is_alive(path):
        raise ConfigError(f"socket {str(path)!r} is in use: another driver answers on it")
    path.unlink()


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full backlog is an answer too
        return probe.connect_ex(str(path)) != errno.ECONNREFUSED


def _bind(server: grpc.aio.Server, path: Path, mode: int) -> None:
    """Binds the socket with its permissions from the first moment. Raises ConfigError."""
    others = os.umask(0o777 & ~mode)  # no await below: nothing else of ours makes files meanwhile
    try:
        server.add_insecure_port(target(str(path)))
    except RuntimeError as error:
        raise ConfigError(f"socket {str(path)!r} can't be bound: {error}") from None
    finally:
        os.umask(others)
