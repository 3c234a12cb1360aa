"""The two servers, and steps carried out on them."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from tests.differential.schemas import Schemas
from tests.differential.steps import JSON, MERGE_PATCH, Step
from tests.differential.subjects import DEFINITIONS, DEFINITIONS_PATH, SPACES, SUBJECTS, Subject, read_before
from tests.support.control_plane import ADMIN_TOKEN, ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.stalls import StallMeter
from tests.support.waiting import eventually

_QUIET_S: Final = 0.03
_EVENTS_S_MAX: Final = 3.0
_TIMEOUT_S: Final = 15.0


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a server said. value: the body as JSON values, else as text. status: 0 for a connection that was cut."""

    status: int
    value: Any
    warnings: tuple[str, ...] = ()
    events: tuple[Any, ...] = ()


class Target:
    """A server, and what it has answered in this sequence."""

    def __init__(self, name: str, url: str, ca_file: Path, token: str) -> None:
        self.name = name
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        self._host, self._port = place.hostname, place.port
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "fuzz/1"}
        self._connection = self._connect()
        self._answers: dict[int, Any] = {}

    def begin(self) -> None:
        self._answers.clear()

    def send(self, step: Step) -> http.client.HTTPSConnection | None:
        """The request goes off. None when it is not even taken."""
        live = self._live(step)
        before = read_before(step)
        if before:
            self.request("GET", before)
        body = step.resolved_body(self._answers, live)
        query = step.resolved_query(self._answers)
        target = step.path + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        headers = {**self._headers, "Accept": JSON, **dict(step.headers)}
        if body is not None:
            headers["Content-Type"] = step.content_type
        connection = self._connect() if step.watches else self._connection
        try:
            connection.request(step.method, target, body, headers)
        except (OSError, http.client.HTTPException):
            self._renew()
            return None
        return connection

    def receive(self, step: Step, connection: http.client.HTTPSConnection | None, events: int = 0) -> Answer:
        """events: for a watch, how many the other one has given."""
        if connection is None:
            return Answer(0, "the request was not taken")
        try:
            response = connection.getresponse()
            if step.watches and response.status == 200:
                answer = Answer(200, None, events=tuple(_events(connection, response, events)))
            else:
                answer = _answer(response)
        except (OSError, http.client.HTTPException) as error:
            self._renew()
            return Answer(0, f"{type(error).__name__}: {error}")
        finally:
            if step.watches:
                connection.close()
        self._answers[step.number] = answer.value
        return answer

    def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> tuple[int, Any]:
        """One beside the sequence."""
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, {**self._headers, "Accept": JSON, "Content-Type": content_type})
        answer = _answer(self._connection.getresponse())
        return answer.status, answer.value

    def schemas(self) -> Schemas:
        """Those of all subjects, as this server tells them."""
        wanted = {(subject.api, subject.kind) for subject in SUBJECTS}

        def all_of_them() -> Schemas | None:
            found = Schemas.of_server(lambda path: self.request("GET", path)[1], {api for api, _ in wanted})
            return found if wanted <= found.kinds else None

        return eventually(all_of_them, 30, "the schemas of custom kinds are published")

    def prepare(self) -> None:
        """What all sequences take for granted."""
        for space in SPACES:
            assert self.request("POST", "/api/v1/namespaces", {"metadata": {"name": space}})[0] in (201, 409)
        for definition in DEFINITIONS:
            assert self.request("POST", DEFINITIONS_PATH, definition)[0] in (201, 409)
        for subject in SUBJECTS:
            eventually(
                lambda subject=subject: self.request("GET", subject.everywhere())[0] == 200,
                30,
                f"{subject.plural} are served",
            )  # type: ignore[misc]
        self.clean(SUBJECTS)

    def clean(self, subjects: Iterator[Subject] | tuple[Subject, ...]) -> None:
        """Nothing is left of these kinds."""
        for subject in subjects:
            for space in SPACES if subject.namespaced else SPACES[:1]:
                if not subject.dry:
                    self._empty(subject.collection(space))

    def _empty(self, collection: str) -> None:
        answers: list[Any] = []
        for _ in range(5):
            found = self.request("GET", collection)[1].get("items")
            if not found:
                return
            options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
            answers.clear()
            for item in found:
                path = f"{collection}/{quote(item['metadata']['name'])}"
                if item["metadata"].get("finalizers"):
                    answers.append(self.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH))
                    if answers[-1][0] == 422:  # (what a create lets through may stand against every update)
                        self.request("PATCH", f"{path}/status", {"status": None}, MERGE_PATCH)
                answers.append(self.request("DELETE", path, options))
        raise AssertionError(f"{self.name} keeps {collection}: {found}; its last answers: {answers}")

    def close(self) -> None:
        self._connection.close()

    def _live(self, step: Step) -> Any:
        if not step.live:
            return None
        status, value = self.request("GET", step.live)
        return value if status == 200 else {}

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_S, context=self._tls)

    def _renew(self) -> None:
        self._connection.close()
        self._connection = self._connect()


def _answer(response: http.client.HTTPResponse) -> Answer:
    body = response.read()
    try:
        value = json.loads(body)
    except ValueError:
        value = body.decode(errors="replace")
    warnings = tuple(response.headers.get_all("Warning") or ())
    return Answer(response.status, value, warnings)


def _events(connection: http.client.HTTPSConnection, response: http.client.HTTPResponse, count: int) -> Iterator[Any]:
    """As many as the other has given, and what comes at once after them."""
    assert connection.sock is not None
    given, deadline = 0, time.monotonic() + _EVENTS_S_MAX
    while True:
        connection.sock.settimeout(max(deadline - time.monotonic(), _QUIET_S) if given < count else _QUIET_S)
        try:
            line = response.readline()
        except TimeoutError:
            return
        if not line:
            return
        given += 1
        yield json.loads(line)


@contextlib.contextmanager
def embedded_alone(folder: Path, meter: StallMeter | None = None) -> Iterator[Target]:
    """The embedded server, prepared. meter: for its loop."""
    with (
        EmbeddedServer(folder, meter=meter) as embedded,
        _prepared(embedded.url, embedded.ca_file, embedded.identity.token, "embedded") as target,
    ):
        yield target


@contextlib.contextmanager
def both(folder: Path, plane: ControlPlane) -> Iterator[tuple[Target, Target]]:
    """The embedded server and the real one, prepared."""
    with embedded_alone(folder) as ours, _prepared(plane.server, plane.ca_file, ADMIN_TOKEN, "real") as theirs:
        yield ours, theirs


@contextlib.contextmanager
def _prepared(url: str, ca_file: Path, token: str, name: str) -> Iterator[Target]:
    target = Target(name, url, ca_file, token)
    try:
        target.prepare()
        yield target
    finally:
        target.close()
