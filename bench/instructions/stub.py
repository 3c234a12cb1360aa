"""The API server and the driver of a program that is counted: sockets without a loop, and never two words at a time."""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import trustme

from mooring.api.meta import Key
from mooring.apiserver.bodies.objects import FieldValidation, decode_object
from mooring.apiserver.bodies.patches import change_of
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.listing import ListScope, scope_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.apiserver.web.queries import delete_options
from mooring.base.randomness import Random
from mooring.kube.cluster import PatchType
from mooring.kube.errors import ApiError
from mooring.wire.grpc.serving.connection import ServerConnection
from mooring.wire.grpc.serving.events import Asked

Answerer = Callable[[bytes], bytes]
"""Makes a call's answer from its request, both as protobuf has them."""

_POLL_S: Final = 0.0001
_SETTLED_S_MAX: Final = 60.0
_READ_BYTES: Final = 256 * 1024


class _ApiConnection:
    """One connection to the API server, of requests one after the other or of a watch."""

    def __init__(self, stub: Stub, peer: ssl.SSLSocket) -> None:
        self._stub, self.peer, self._data = stub, peer, b""

    def received(self) -> bool:
        """Answer what has come. Returns False once the program has left."""
        while True:  # TLS may hold more than the socket shows
            data = self.peer.recv(_READ_BYTES)
            self._data += data
            if not data or not self.peer.pending():
                break
        while (request := self._next()) is not None:
            self._stub.asked(self, *request)
        return bool(data)

    def _next(self) -> tuple[str, str, dict[str, str], bytes] | None:
        head, end, rest = self._data.partition(b"\r\n\r\n")
        if not end:
            return None
        line, *others = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (other.partition(": ") for other in others)}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return None
        self._data = rest[length:]
        method, target, _ = line.split(" ")
        return method, target, headers, rest[:length]


class _DriverConnection:
    """One connection to the driver."""

    def __init__(self, stub: Stub, peer: socket.socket, answers: Mapping[str, Answerer]) -> None:
        self._stub, self.peer, self._answers = stub, peer, answers
        self._http2 = ServerConnection(now=lambda: 0.0)
        stub.say(self, self._http2.start())

    def received(self) -> bool:
        """Answer what has come. Returns False once the program has left."""
        data = self.peer.recv(_READ_BYTES)
        for event in self._http2.receive(data) if data else ():
            if isinstance(event, Asked):
                self._http2.answer(event.stream_id, self._answers[event.path.rpartition("/")[2]](event.message))
        if self._http2.has_to_send:
            self._stub.say(self, self._http2.to_send())
        return bool(data)


_Connection = _ApiConnection | _DriverConnection


@dataclasses.dataclass(frozen=True)
class _Watch:
    connection: _ApiConnection
    resource: Resource
    scope: ListScope


class Stub:
    """Serves in `settle` alone. folder: for the kubeconfig and the driver's socket. answers: of the driver, by method.

    pid: of the program, set once that has started.
    """

    def __init__(self, folder: Path, answers: Mapping[str, Answerer]) -> None:
        self.kubeconfig, self.socket, self.pid = folder / "kubeconfig", folder / "csi.sock", 0
        self.store = new_store(Random(1), time.time())
        self.store.on_change(self._changed)
        #: What the program has asked for so far: methods and paths.
        self.requests: list[str] = []
        self._answers = answers
        self._due: deque[tuple[_Connection, bytes]] = deque()
        self._watches: list[_Watch] = []
        self._connections: list[_Connection] = []
        self._selector = selectors.DefaultSelector()
        authority = trustme.CA()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self._tls)
        self._api = socket.create_server(("127.0.0.1", 0))
        self._driver = socket.socket(socket.AF_UNIX)
        self._driver.bind(str(self.socket))
        self._driver.listen()
        for listener in (self._api, self._driver):
            self._selector.register(listener, selectors.EVENT_READ)
        authority.cert_pem.write_to_path(folder / "ca.crt")
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self._api.getsockname()[1], folder / "ca.crt")))

    def close(self) -> None:
        for peer in (self._api, self._driver, *(connection.peer for connection in self._connections)):
            peer.close()

    # -- what happens in the cluster

    def write(self, path: str, method: str, body: Any = None) -> None:
        """Do what another client asks the API server for. Raises ApiError. A PATCH is a merge patch."""
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        self._answer(method, path, content_type, b"" if body is None else msgspec.json.encode(body))

    def read(self, path: str) -> dict[str, Any]:
        """Return an object. Raises NotFound."""
        found: dict[str, Any] = msgspec.json.decode(self._answer("GET", path, "", b""))
        return found

    def names(self, path: str) -> set[str]:
        """Return the names of all objects of a kind, by the path of its list."""
        resource, namespace, *_ = self._resource(path)
        found = self.store.list(resource, _scope(resource, namespace, {}))
        return {stored.key.name for stored in found.items}

    @property
    def watched(self) -> set[str]:
        """The plurals of the kinds that the program watches now."""
        return {watch.resource.plural for watch in self._watches}

    def settle(self, is_done: Callable[[], bool] = lambda: True) -> None:
        """Serve until the program has done it, and has nothing more to do.

        It hears one thing at a time, and the next once it sleeps: first all that it asked for is taken in, in the
        order of its connections, then one answer or event is sent. So the program wakes as often in every run.
        """
        until = time.monotonic() + _SETTLED_S_MAX
        while True:
            assert time.monotonic() < until, "the program does not do it, or does not come to rest"
            if not _sleeps(self.pid):
                time.sleep(_POLL_S)
                continue
            ready = {key.fileobj for key, _ in self._selector.select(0)}
            if self._driver in ready:
                self._join(_DriverConnection(self, self._driver.accept()[0], self._answers))
            elif self._api in ready:
                self._join(_ApiConnection(self, self._tls.wrap_socket(self._api.accept()[0], server_side=True)))
            elif speaker := next((one for one in self._connections if one.peer in ready), None):
                if not speaker.received():
                    self._leave(speaker)
            elif self._due:
                connection, data = self._due.popleft()
                if connection in self._connections:
                    connection.peer.sendall(data)
            elif is_done():
                return
            else:
                time.sleep(_POLL_S)  # the program waits for a timer of its own

    # -- what connections do

    def say(self, connection: _Connection, data: bytes) -> None:
        """Send this after all that is due before."""
        self._due.append((connection, data))

    def asked(self, connection: _ApiConnection, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        """Answer a request; what it changes is told after that."""
        url = urlsplit(target)
        self.requests.append(f"{method} {url.path}")
        query = dict(parse_qsl(url.query))
        if query.get("watch") == "true":
            resource, namespace, *_ = self._resource(url.path)
            self._watches.append(_Watch(connection, resource, _scope(resource, namespace, query)))
            self.say(connection, _head(200, "Transfer-Encoding: chunked"))
            return
        place, status = len(self._due), 201 if method == "POST" else 200
        try:
            answer = self._answer(method, url.path, headers.get("content-type", ""), body, query)
        except ApiError as error:
            status, answer = error.code, _status(error)
        self._due.insert(place, (connection, _head(status, f"Content-Length: {len(answer)}") + answer))

    def _join(self, connection: _Connection) -> None:
        self._connections.append(connection)
        self._selector.register(connection.peer, selectors.EVENT_READ)

    def _leave(self, connection: _Connection) -> None:
        self._connections.remove(connection)
        self._selector.unregister(connection.peer)
        self._watches = [watch for watch in self._watches if watch.connection is not connection]
        connection.peer.close()

    # -- the API server

    def _changed(self, resource: Resource, change: StoredChange) -> None:
        for watch in self._watches:
            if watch.resource.storage == resource.storage:
                seen = change.seen_by(watch.scope.matches)
                if seen is not None:
                    line = b'{"type":"%b","object":%b}\n' % (seen[0].value.encode(), seen[1].body)
                    self._due.append((watch.connection, b"%x\r\n%b\r\n" % (len(line), line)))

    def _resource(self, path: str) -> tuple[Resource, str, str, str]:
        """The kind, the namespace, the name and the sub-resource of a URL's path, "" for what it does not have."""
        _, root, *parts = path.split("/")
        group = "" if root == "api" else parts.pop(0)
        version, *parts = parts
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            _, namespace, *parts = parts
        plural, name, subresource = (*map(unquote, parts), "", "")[:3]
        resource = self.store.resource(group, version, plural)
        assert resource is not None, path
        return resource, namespace, name, subresource

    def _answer(
        self, method: str, path: str, content_type: str, body: bytes, query: Mapping[str, str] = MappingProxyType({})
    ) -> bytes:
        """The body of the answer. Raises ApiError."""
        if len(path.split("/")) <= (3 if path.startswith("/api/") else 4):
            return self._discovery(path)
        resource, namespace, name, subresource = self._resource(path)
        key, value, now = Key(namespace, name), msgspec.json.decode(body) if body else None, time.time()
        match method:
            case "GET" if name:
                return self.store.get(resource, key).body
            case "GET":
                found = self.store.list(resource, _scope(resource, namespace, query))
                items = b",".join(stored.body for stored in found.items)
                return b'{"metadata":{"resourceVersion":"%d"},"items":[%b]}' % (found.version, items)
            case "POST":
                decoded, _ = decode_object(resource, value, FieldValidation.WARN, [])
                return self.store.create(resource, decoded, namespace, now).stored.body
            case "PUT":
                decoded, _ = decode_object(resource, value, FieldValidation.WARN, [])
                return self.store.update(resource, key, decoded, now, subresource=subresource).stored.body
            case "PATCH":
                change = change_of(resource, PatchType(content_type), value, FieldValidation.WARN)
                return self.store.patch(resource, key, change, now, subresource=subresource).stored.body
            case "DELETE":
                return self.store.delete(resource, key, now, delete_options({}, value)).stored.body
        raise AssertionError(f"{method} {path}")

    def _discovery(self, path: str) -> bytes:
        group, version = ("", path.split("/")[2]) if path.startswith("/api/") else path.split("/")[2:4]
        names = [
            {"name": resource.plural}
            for resource in self.store.resources
            if (resource.group, resource.version) == (group, version)
        ]
        return msgspec.json.encode({"kind": "APIResourceList", "resources": names})


def _scope(resource: Resource, namespace: str, query: Mapping[str, str]) -> ListScope:
    return scope_of(resource, namespace or None, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _head(status: int, length: str) -> bytes:
    """What an API server sends before each answer, in its usual size."""
    return (
        f"HTTP/1.1 {status} OK\r\nAudit-Id: 3c5ed7cd-9f6c-4f6a-a1c0-0f5a0f1a2b3c\r\n"
        "Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
        "X-Kubernetes-Pf-Flowschema-Uid: 11111111-2222-3333-4444-555555555555\r\n"
        "X-Kubernetes-Pf-Prioritylevel-Uid: 11111111-2222-3333-4444-555555555555\r\n"
        f"Date: Fri, 20 Nov 2026 10:00:00 GMT\r\n{length}\r\n\r\n"
    ).encode()


def _status(error: ApiError) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": str(error),
            "reason": error.reason,
            "details": error.details,
            "code": error.code,
        }
    )


def _kubeconfig(port: int, ca_file: Path) -> dict[str, Any]:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stub",
        "clusters": [{"name": "stub", "cluster": cluster}],
        "users": [{"name": "stub", "user": {"token": "x" * 900}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
    }


def _sleeps(pid: int) -> bool:
    """True while no thread of the process runs, or waits for a disk. The second look is for a thread that was started
    during the first.
    """
    first = _times(pid)
    return first is not None and first == _times(pid)


def _times(pid: int) -> dict[str, str] | None:
    """The processor's time of each thread so far; None unless all of them sleep."""
    times = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            state = Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]
            times[thread] = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None  # the thread has just ended
        assert state not in "ZX", "the program has ended"
        if state not in "SI":
            return None
    return times
