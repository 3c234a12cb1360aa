"""The server over HTTPS on loopback: what kubectl and Go clients talk to. The only door to aiohttp in this room.

Runs in the caller's loop. Requests are answered by `service.py` without waiting; here are the sockets, the limits, and the
watches, whose events are encoded once for all who read them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import traceback
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
from aiohttp import web

from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.housekeeping import Housekeeping
from mooring.apiserver.messages import JSON, Reply, Request, WatchReply, error_reply, status_of
from mooring.apiserver.rendered import RenderedLines
from mooring.apiserver.rendering import WHOLE
from mooring.apiserver.resource import Resource
from mooring.apiserver.service import Service, is_health
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored
from mooring.apiserver.tls import Identity
from mooring.apiserver.watch import Notice, WatchHub
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.kube.cluster import EventType
from mooring.kube.errors import ApiError, ServerError, TooLarge

_log = logger(__name__)

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
_DRAINED_BYTES_MAX: Final = 4 * BODY_BYTES_MAX  # read on and thrown away, so that the client gets to read its 413
_HEADER_BYTES_MAX: Final = 64 * 1024
SLOW_S_MAX: Final = 30.0
"""How long one write to a client, or the reading of its body, may take."""
_CLOSING_S_MAX: Final = 5.0
_SWEEP_S: Final = 10.0
_LINES_KEPT: Final = 512


class ApiServer:
    """A store, served. start() and close() in one event loop; port 0 takes a free one."""

    def __init__(
        self,
        store: ObjectStore,
        identity: Identity,
        *,
        clock: Clock,
        chance: Chance,
        host: str = "127.0.0.1",
        port: int = 0,
        slow_s_max: float = SLOW_S_MAX,
        durability: Durability | None = None,
    ) -> None:
        """Raises ConfigError for a host that others could reach."""
        if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise ConfigError(f"the embedded API server listens on this machine alone, not on '{host}': take 127.0.0.1 or ::1")
        self._store, self._identity, self._clock = store, identity, clock
        self._durability = durability or InMemory(store)
        self._service = Service(store, clock=clock, token=identity.token, durability=self._durability)
        self._hub = WatchHub(store, clock=clock, chance=chance, durability=self._durability)
        self._lines = _Lines()
        self._host, self._port, self._slow_s_max = host, port, slow_s_max
        self._runner: web.ServerRunner | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._housekeeping = Housekeeping(store, clock=clock)

    @property
    def url(self) -> str:
        """https://host:port, once it is started."""
        assert self._runner is not None, "the server has not been started"
        host, port = self._runner.addresses[0][:2]
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def write_kubeconfig(self, path: Path) -> None:
        """A kubeconfig for this server, readable by its owner alone."""
        self._identity.write_kubeconfig(path, self.url)

    async def start(self) -> None:
        """Raises ConfigError when the port is taken."""
        assert self._runner is None, "a server starts once"
        server = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            max_line_size=_HEADER_BYTES_MAX,
            max_field_size=_HEADER_BYTES_MAX,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_CLOSING_S_MAX)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=self._identity.context()).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(f"can't listen on {self._host}:{self._port}: {error}") from error
        self._runner = runner
        self._sweep()
        self._housekeeping.start()

    async def close(self) -> None:
        """Ends the watches, then the connections."""
        self._housekeeping.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._hub.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _sweep(self) -> None:
        self._store.sweep(self._clock.wall_s())
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            body = b""
            if http.body_exists:
                async with asyncio.timeout(self._slow_s_max):
                    body = await _body(http)
        except ApiError as error:
            return _response(error_reply(error))
        except TimeoutError:
            _log.warning("A client that sends its request too slowly was cut off", path=http.path)
            return _cut(http)
        try:
            request = _request(http, body)
            reply = self._service.answer(request)
            if self._store.version > self._durability.committed and not is_health(request):
                await self._durability.settled(self._store.version)
        except ApiError as error:
            return _response(error_reply(error))
        except Exception as error:
            trace = traceback.format_exc()
            _log.error("A request could not be answered", error=error, method=http.method, path=http.path, traceback=trace)
            return _response(error_reply(ServerError(f"Internal error occurred: {type(error).__name__}", reason="InternalError")))
        return await self._stream(http, reply) if isinstance(reply, WatchReply) else _response(reply)

    async def _stream(self, http: web.BaseRequest, watch: WatchReply) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        if http.version >= (1, 1):
            response.enable_chunked_encoding()
        try:
            await response.prepare(http)
            async for chunk in self._chunks(watch):
                async with asyncio.timeout(self._slow_s_max):
                    await response.write(chunk)
            await response.write_eof()
        except TimeoutError:
            _log.info(2, "A watcher that reads too slowly was cut off", resource=watch.resource.name)
            return _cut(http, response)
        except ConnectionError:
            pass  # the client has gone
        return response

    async def _chunks(self, watch: WatchReply) -> Any:
        """A watch's lines, as many at a time as are there."""
        lines = self._lines if watch.rendering is WHOLE else RenderedLines(watch.rendering, self._clock)
        try:
            async with contextlib.aclosing(self._hub.watch(watch.resource, watch.scope, watch.options)) as batches:
                async for notices in batches:
                    yield b"".join([lines.line(watch.resource, notice) for notice in notices])
        except ApiError as error:
            yield msgspec.json.encode({"type": "ERROR", "object": status_of(error)}) + b"\n"


class _Lines:
    """Watch lines, the latest kept: who comes second finds them encoded."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Stored, EventType], bytes] = OrderedDict()

    def line(self, resource: Resource, notice: Notice) -> bytes:
        if notice.stored is None:
            return _bookmark(resource, notice)
        key = (notice.stored, notice.type)  # (the same object for all who see it alike)
        line = self._kept.get(key)
        if line is None:
            line = b'{"type":"%s","object":%s}\n' % (notice.type.value.encode(), notice.stored.body)
            self._kept[key] = line
            if len(self._kept) > _LINES_KEPT:
                self._kept.popitem(last=False)
        return line


def _bookmark(resource: Resource, notice: Notice) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(notice.version), "creationTimestamp": None}
    if notice.initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def _request(http: web.BaseRequest, body: bytes) -> Request:
    path, _, query = http.raw_path.partition("?")
    parts = tuple(unquote(part) for part in path.removeprefix("/").removesuffix("/").split("/"))
    headers = {name.lower(): value for name, value in http.headers.items()}
    return Request(http.method, parts, dict(parse_qsl(query, keep_blank_values=True)) if query else {}, headers, body)


async def _body(http: web.BaseRequest) -> bytes:
    """Raises TooLarge once the client has sent it all, or more than it is worth."""
    chunks, size = [], 0
    async for chunk in http.content.iter_any():
        size += len(chunk)
        if size <= BODY_BYTES_MAX:
            chunks.append(chunk)
        elif size > _DRAINED_BYTES_MAX:
            break
    if size > BODY_BYTES_MAX:
        raise TooLarge(f"Request entity too large: limit is {BODY_BYTES_MAX}", reason="RequestEntityTooLarge")
    return b"".join(chunks)


def _response(reply: Reply) -> web.Response:
    response = web.Response(status=reply.status, body=reply.body, headers={"Content-Type": reply.content_type})
    response.headers["Cache-Control"] = "no-cache, private"
    for name, value in reply.headers:
        response.headers[name] = value
    for text in reply.warnings:
        response.headers.add("Warning", f'299 - "{_escaped(text)}"')
    if reply.retry_after_s is not None:
        response.headers["Retry-After"] = str(reply.retry_after_s)
    return response


def _escaped(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


def _cut(http: web.BaseRequest, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """Breaks the connection without another word."""
    if http.transport is not None:
        http.transport.abort()
    return response or web.Response(status=408)
