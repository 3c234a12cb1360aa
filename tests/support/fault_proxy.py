"""A TLS proxy before an API server: it writes down every request, and fails those that a test says.

    async with fault_proxy(config, own_config) as proxy:                     # config: a kubeconfig with a token
        program(f"--kubeconfig={proxy.kubeconfig}")
        rule = proxy.fail("patch", "volumeattachments/status", Refuse(409, "Conflict"), times=2)
        ...
        assert rule.hits == 2
        assert [] == [request for request in proxy.requests if request.status == 403]

Who talks through it logs in with the token of the kubeconfig, which the proxy passes on. Its certificate is of a CA of
its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import ssl
import struct
import weakref
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import trustme
import yaml
from aiohttp import web

_HOP_HEADERS: Final = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "upgrade"}
_READ_ONLY: Final = {"list", "watch", "get"}


# -- what can go wrong


@dataclasses.dataclass(frozen=True)
class Refuse:
    """An answer of the proxy's own, the request does not get through."""

    code: int
    reason: str = ""
    message: str = "the test says no"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Answer:
    """Any bytes in place of an answer."""

    body: bytes
    content_type: str = "application/json"
    code: int = 200


@dataclasses.dataclass(frozen=True)
class Hang:
    """No answer until the client gives up, or until all is mended, when the request goes through."""


@dataclasses.dataclass(frozen=True)
class Reset:
    """The connection is reset. after: the request got through before, only its answer is lost. middle: in the midst of
    the answer.
    """

    after: bool = False
    middle: bool = False


Fault = Refuse | Answer | Hang | Reset


@dataclasses.dataclass
class Rule:
    """verb, resource, name: "" is any. times: None for all. passes: so many matching requests get through before."""

    verb: str
    resource: str
    fault: Fault
    times: int | None
    name: str = ""
    passes: int = 0
    hits: int = 0

    def takes(self, request: Request) -> bool:
        """True when this request is to fail; counts it."""
        wanted = (
            self.verb in ("", request.verb)
            and self.resource in ("", request.resource)
            and self.name in ("", request.name)
        )
        if not wanted or (self.times is not None and self.hits >= self.times):
            return False
        if self.passes > 0:
            self.passes -= 1
            return False
        self.hits += 1
        return True


@dataclasses.dataclass
class Request:
    """One request. resource: `volumeattachments/status`. status: of the answer, 0 while or because there is none."""

    verb: str
    resource: str
    namespace: str
    name: str
    path: str
    at_s: float
    status: int = 0


class FaultProxy:
    """requests: all, in the order in which they came. kubeconfig: leads through the proxy."""

    def __init__(self, upstream: str, trusted: ssl.SSLContext, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.requests: list[Request] = []
        self._upstream, self._trusted = upstream, trusted
        self._rules: list[Rule] = []
        self._session: aiohttp.ClientSession | None = None
        self._connections: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()
        self._mended = asyncio.Event()

    def fail(
        self, verb: str, resource: str, fault: Fault, *, times: int | None = None, name: str = "", passes: int = 0
    ) -> Rule:
        """From now on such requests fail; earlier rules go first."""
        rule = Rule(verb, resource, fault, times, name, passes)
        self._rules.append(rule)
        return rule

    def mend(self) -> None:
        """Every rule is gone, and what hung goes through."""
        self._rules.clear()
        self._mended.set()
        self._mended = asyncio.Event()

    def cut(self) -> None:
        """Resets every connection, watches too."""
        for transport in list(self._connections):
            _reset(transport)

    def writes(self) -> list[Request]:
        return [request for request in self.requests if request.verb not in _READ_ONLY]

    def statuses(self) -> set[int]:
        return {request.status for request in self.requests}

    # -- one request

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        assert http.transport is not None
        self._connections.add(http.transport)
        request = _understood(http)
        self.requests.append(request)
        rule = next((rule for rule in self._rules if rule.takes(request)), None)
        fault = None if rule is None else rule.fault
        match fault:
            case Refuse():
                request.status = fault.code
                return _refusal(fault)
            case Answer():
                request.status = fault.code
                return web.Response(status=fault.code, body=fault.body, content_type=fault.content_type)
            case Hang():
                await self._mended.wait()
            case Reset(after=False, middle=False):
                return _reset(http.transport)
        return await self._pass_on(http, request, fault)

    async def _pass_on(self, http: web.BaseRequest, request: Request, fault: Fault | None) -> web.StreamResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False)
        headers = {name: value for name, value in http.headers.items() if name.lower() not in _HOP_HEADERS}
        body = await http.read()
        url = self._upstream + http.raw_path
        async with self._session.request(
            http.method, url, headers=headers, data=body or None, ssl=self._trusted
        ) as answer:
            request.status = answer.status
            if isinstance(fault, Reset) and fault.after:
                if request.verb != "watch":
                    await answer.read()
                return _reset(http.transport)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_HEADERS}
            response = web.StreamResponse(status=answer.status, headers=kept)
            with contextlib.suppress(ConnectionError):
                await response.prepare(http)
                async for chunk in answer.content.iter_any():
                    if isinstance(fault, Reset):
                        await response.write(chunk[: len(chunk) // 2])
                        return _reset(http.transport)
                    await response.write(chunk)
                await response.write_eof()
            return response

    async def close(self) -> None:
        """After the server's own end: a TLS connection would wait for its peer's last word, longer than the loop may
        live.
        """
        if self._session is not None:
            await self._session.close()
        for transport in list(self._connections):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        await asyncio.sleep(0)  # the sockets are closed in the loop's next turn


def _understood(http: web.BaseRequest) -> Request:
    parts = [part for part in http.path.split("/") if part]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource, name = (parts[0] if parts else ""), (parts[1] if len(parts) > 1 else "")
    if len(parts) > 2:
        resource = f"{resource}/{parts[2]}"
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
        http.method, "get" if name else "list"
    )
    if verb == "list" and http.query.get("watch") in ("1", "true"):
        verb = "watch"
    return Request(verb, resource, namespace, name, http.raw_path, asyncio.get_running_loop().time())


def _refusal(fault: Refuse) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": fault.message,
        "reason": fault.reason,
        "code": fault.code,
    }
    return web.Response(
        status=fault.code,
        body=json.dumps(status).encode(),
        content_type="application/json",
        headers=dict(fault.headers),
    )


def _reset(transport: asyncio.BaseTransport | None) -> web.Response:
    """The peer sees its connection reset, not closed."""
    if isinstance(transport, asyncio.Transport) and not transport.is_closing():
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.fileno() >= 0:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()


# -- around it


@contextlib.asynccontextmanager
async def fault_proxy(config: Path, kubeconfig: Path) -> AsyncIterator[FaultProxy]:
    """A proxy in this loop, before the server of a kubeconfig with one cluster and one user. kubeconfig: written, leads
    through it.
    """
    values: dict[str, Any] = _read(config)
    assert "token" in values["users"][0]["user"], (
        "the proxy passes a token on, and no client certificate: give it such a kubeconfig"
    )
    cluster = values["clusters"][0]["cluster"]
    trusted = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    proxy = FaultProxy(cluster["server"], trusted, kubeconfig)
    authority = trustme.CA(organization_name="fault proxy")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    runner = web.ServerRunner(web.Server(proxy.handle, access_log=None, handler_cancellation=True), shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        ca = b64encode(authority.cert_pem.bytes()).decode()
        values["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{runner.addresses[0][1]}",
            "certificate-authority-data": ca,
        }
        _write(kubeconfig, values)
        yield proxy
    finally:
        proxy.mend()
        await runner.cleanup()
        await proxy.close()


def _read(config: Path) -> Any:
    return yaml.safe_load(config.read_text())


def _write(kubeconfig: Path, values: Any) -> None:
    kubeconfig.write_text(json.dumps(values))
