"""Serves a driver over gRPC on a unix socket, or on TCP for test suites."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError

from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.csi.capabilities import DRIVER_NAME
from mooring.csi.driver import RPCS, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.in_process import Method, carried_out
from mooring.driver.sdk import Plugin, segments_fault
from mooring.driver.steps import watched
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.server import Method as RpcMethod
from mooring.wire.grpc.server import listening, listening_on_tcp
from mooring.wire.grpc.serving.limits import ServerLimits
from mooring.wire.grpc.socket_file import check_length, make_room
from mooring.wire.grpc.stream import MESSAGE_BYTES_MAX

_log = logger(__name__)

LIMITS: Final = ServerLimits(connections=4_000, streams=1_000, message_bytes=MESSAGE_BYTES_MAX)
"""A kubelet has a connection for each call, a sidecar one with some hundreds of calls; messages may be as long as
our client takes them.
"""


@asynccontextmanager
async def serving(
    plugin: object, endpoint: str, *, socket_mode: int = 0o600, grace_s: float = 5.0
) -> AsyncGenerator[Path, None]:
    """The driver answers on the endpoint as long as the block runs; gives the socket's path.

    plugin: a `Plugin`, or any object with coroutine methods named as the port's, which then makes its own rules.
    endpoint: `unix:///path`, `unix:path` or a path. A socket that nobody answers on is replaced. grace_s: how long
    calls in flight may take to end afterwards; what is left then is cancelled. Raises ConfigError when the endpoint or
    the driver's name is no good.
    """
    check_identity(plugin)
    path = socket_path(endpoint)
    make_room(path)
    with watched():
        async with listening(_methods(plugin), path, mode=socket_mode, grace_s=grace_s, limits=LIMITS):
            _log.info(0, "Serving", driver=getattr(plugin, "name", ""), socket=str(path))
            yield path


@asynccontextmanager
async def serving_at(plugin: object, endpoint: str, *, grace_s: float = 5.0) -> AsyncGenerator[None, None]:
    """As `serving`, also on `tcp://host:port`: for test suites, since a lost driver can't be told from a slow one
    there.
    """
    scheme, _, address = endpoint.partition("://")
    if scheme.lower() != "tcp":
        async with serving(plugin, endpoint, grace_s=grace_s):
            yield
        return
    check_identity(plugin)
    if not re.fullmatch(r".+:\d+", address):
        raise ConfigError(f"endpoint {endpoint!r} names no address: give one, as in tcp://127.0.0.1:7654")
    async with listening_on_tcp(_methods(plugin), address, grace_s=grace_s, limits=LIMITS):
        _log.info(0, "Serving", driver=getattr(plugin, "name", ""), address=address)
        yield


def check_identity(plugin: object) -> None:
    """Raises ConfigError for a driver that no cluster could take. Only a `Plugin` is looked at."""
    if not isinstance(plugin, Plugin):
        return
    kind = type(plugin)
    if not plugin.name:
        raise ConfigError(f'{kind.__name__} has no name: set `name = "csi.example.com"` in the class')
    if not DRIVER_NAME.fullmatch(plugin.name):
        raise ConfigError(
            f"driver name {plugin.name!r} is not of the form a domain has, with 63 characters at the most"
        )
    if not plugin.serves("Node") or kind.node_get_info is not Plugin.node_get_info:
        return
    if not plugin.node_id:
        raise ConfigError(
            f"{kind.__name__} has no node_id: set it to what the driver calls this node, or override node_get_info"
        )
    if fault := segments_fault(plugin.node_segments, plugin.plugin_capabilities):
        raise ConfigError(f"{kind.__name__}.node_segments {fault}")


def socket_path(endpoint: str) -> Path:
    """The path of an endpoint. Raises ConfigError for one that is no unix socket's, or too long for one."""
    scheme, colon, rest = endpoint.partition(":")
    if not colon:
        rest = scheme
    elif scheme.lower() != "unix":
        raise ConfigError(f"endpoint {endpoint!r} is not supported: give a unix socket, as in unix:///run/csi/csi.sock")
    path = Path(re.sub("^//+", "/", rest)).absolute()
    if not rest.strip("/"):
        raise ConfigError(f"endpoint {endpoint!r} names no socket: give one, as in unix:///run/csi/csi.sock")
    return check_length(path)


def _methods(plugin: object) -> dict[str, RpcMethod]:
    """The calls that the driver has a method for, by their paths; the server answers Unimplemented to the others."""
    found = {rpc: getattr(plugin, rpc.attribute, None) for rpc in RPCS.values()}
    return {rpc.path: _method(rpc, method) for rpc, method in found.items() if method}


def _method(rpc: Rpc[Any, Any], method: Method) -> RpcMethod:
    async def answered(body: bytes) -> bytes:
        try:
            request = rpc.request_type.FromString(body)
        except DecodeError:
            raise DriverError(Code.INTERNAL, f"the request is no {rpc.request_type.DESCRIPTOR.name}") from None
        answer: bytes = (await carried_out(method, rpc, request)).SerializeToString()
        return answer

    return answered
