"""A plain client for an API server: one request, one answer, everything visible. For tests of servers, not of our
client.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_TIMEOUT_S = 30.0


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer, and the request it is for."""

    request: str
    status: int
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        return self.headers.get_all("Warning") or []

    def ok(self, status: int = 200) -> dict[str, Any]:
        """The body; the status must be this one."""
        assert status == self.status, self
        value: dict[str, Any] = self.json
        return value

    def refused(self, status: int, reason: str, *causes: tuple[str, str], says: str = "") -> dict[str, Any]:
        """The Status body. causes: (reason, field), each must be there. says: part of the message."""
        assert (status, reason) == (self.status, self.json.get("reason")), self
        found: dict[str, Any] = self.json
        assert found["kind"] == "Status"
        assert found["metadata"] == {}
        assert says in found["message"], self
        given = [(cause.get("reason"), cause.get("field")) for cause in found.get("details", {}).get("causes", [])]
        assert [] == [cause for cause in causes if cause not in given], self
        return found

    def invalid(self, *causes: tuple[str, str, str]) -> dict[str, Any]:
        """The Status body of a 422 with exactly these causes in this order. causes: (reason, field, part of the
        message).
        """
        status = self.refused(422, "Invalid")
        told = [(cause["reason"], cause["field"], cause["message"]) for cause in status["details"]["causes"]]
        assert [(reason, field) for reason, field, _ in causes] == [(reason, field) for reason, field, _ in told], self
        assert [] == [
            text for (_, _, text), (_, _, message) in zip(causes, told, strict=True) if text not in message
        ], self
        return status

    def __repr__(self) -> str:
        return f"{self.request} -> {self.status} {self.body[:1500].decode(errors='replace')}"


class Rest:
    """Requests with a bearer token; a connection per thread, kept between requests."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self._place = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": JSON} if token else {"Accept": JSON}
        self._local = threading.local()

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, headers: Any = (), **query: Any
    ) -> Answer:
        """body: bytes as they are, anything else as JSON. query: values as text; None is left out."""
        target = path + _query(query)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**self._headers, **({"Content-Type": content_type} if data is not None else {}), **dict(headers)}
        connection = self._connection()
        try:
            connection.request(method, target, data, sent)
            response = connection.getresponse()
            return Answer(f"{method} {target}", response.status, response.headers, response.read())
        except (http.client.HTTPException, OSError):
            connection.close()
            raise

    def get(self, path: str, **query: Any) -> Answer:
        return self.request("GET", path, **query)

    def post(self, path: str, body: Any, **query: Any) -> Answer:
        return self.request("POST", path, body, **query)

    def put(self, path: str, body: Any, **query: Any) -> Answer:
        return self.request("PUT", path, body, **query)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **query: Any) -> Answer:
        return self.request("PATCH", path, body, content_type, **query)

    def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return self.request("DELETE", path, body, **query)

    @contextlib.contextmanager
    def watch(self, path: str, headers: Any = (), **query: Any) -> Iterator[Watch]:
        """A watch that answers 200; its connection is closed at the end."""
        connection = self._connect()
        try:
            connection.request(
                "GET", path + _query({"watch": "true", **query}), headers={**self._headers, **dict(headers)}
            )
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert connection.sock is not None or response.fp is not None
            yield Watch(response)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
        connection: http.client.HTTPSConnection = self._local.connection
        return connection

    def _connect(self) -> http.client.HTTPSConnection:
        assert self._place.hostname is not None
        return http.client.HTTPSConnection(
            self._place.hostname, self._place.port, timeout=_TIMEOUT_S, context=self._tls
        )

    def close(self) -> None:
        """Closes this thread's connection."""
        if hasattr(self._local, "connection"):
            self._local.connection.close()
            del self._local.connection


class Watch:
    """Events one by one. The connection's time-out ends a wait that is too long."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self) -> dict[str, Any] | None:
        """The next event; None when the server has ended the watch."""
        line = self._response.readline()
        return json.loads(line) if line else None

    def take(self, count: int) -> list[dict[str, Any]]:
        """So many events; the watch must not end before."""
        events: list[dict[str, Any]] = []
        for _ in range(count):
            event = self.next()
            assert event is not None, f"the watch ended after {events}"
            events.append(event)
        return events

    def rest(self) -> list[dict[str, Any]]:
        """Everything until the server ends the watch."""
        return [json.loads(line) for line in iter(self._response.readline, b"")]


def _query(parameters: dict[str, Any]) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given, quote_via=quote)}" if given else ""
