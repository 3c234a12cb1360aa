"""The servers that must agree: one test body, run against the embedded one and the real one."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mooring.apiserver.table import HistoryLimits
from tests.support.builders import a_va
from tests.support.control_plane import ADMIN_TOKEN, ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.kubectl_manifests import MANIFESTS
from tests.support.kubectl_pair import Life, assert_the_same_is_said, serve_berths
from tests.support.paths import VAS
from tests.support.rest import Rest
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

EMBEDDED_HISTORY = 200
_SERVERS = ["embedded", pytest.param("real", marks=[pytest.mark.real, pytest.mark.slow])]
_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class Server:
    """An API server under test. forget: gives the path of a kind of which it has forgotten version 1."""

    name: str
    api: Rest
    kubeconfig: Path
    forget: Callable[[], str]

    @property
    def is_real(self) -> bool:
        return self.name == "real"


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """One for all tests of a worker; its history is short."""
    limits = HistoryLimits(changes_max=EMBEDDED_HISTORY)
    with EmbeddedServer(tmp_path_factory.mktemp("embedded"), limits) as server:
        yield server


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Server]]:
    """Servers by name: embedded or real."""
    opened: list[Rest] = []

    def server(name: str) -> Server:
        if name == "real":
            plane: ControlPlane = request.getfixturevalue("control_plane")
            api = Rest(plane.server, plane.ca_file, ADMIN_TOKEN)
            found = Server(name, api, plane.token_kubeconfig(), lambda: _late_kind(api))
        else:
            embedded: EmbeddedServer = request.getfixturevalue("embedded_server")
            api = Rest(embedded.url, embedded.ca_file, embedded.identity.token)
            found = Server(name, api, embedded.kubeconfig, lambda: _flood(api))
        opened.append(api)
        return found

    yield server
    for api in opened:
        api.close()


@pytest.fixture(params=_SERVERS)
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    """The embedded server, then the real one."""
    return servers(request.param)


@pytest.fixture
def agree(
    servers: Callable[[str], Server], name: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Life], None]:
    """Types a life with kubectl on both servers; they must say the same."""

    def terminal(which: str) -> Terminal:
        server = servers(which)
        serve_berths(server.api)
        folder = tmp_path_factory.getbasetemp() / f"kubectl-{which}"
        folder.mkdir(exist_ok=True)
        return Terminal(server.kubeconfig, folder, MANIFESTS, name=name)

    return lambda life: assert_the_same_is_said(terminal("real"), terminal("embedded"), life)


@pytest.fixture
def api(server: Server) -> Rest:
    return server.api


@pytest.fixture
def api_alone(server: Server, request: pytest.FixtureRequest) -> Iterator[Rest]:
    """A server that no other test uses meanwhile: what is written there may concern all objects of others."""
    if not server.is_real:
        yield server.api  # a worker's own
        return
    plane: ControlPlane = request.getfixturevalue("new_control_plane")()
    with contextlib.closing(Rest(plane.server, plane.ca_file, ADMIN_TOKEN)) as api:
        yield api


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of this test alone, whatever server and worker it runs on."""
    worker = getattr(request.config, "workerinput", {}).get("workerid", "main")
    return f"t{next(_numbers)}-{worker}"


def _flood(api: Rest) -> str:
    """More attachments come and go than the embedded server remembers."""
    for number in range(EMBEDDED_HISTORY // 2 + 2):
        api.post(VAS, a_va(f"flood-{number}")).ok(201)
        api.delete(f"{VAS}/flood-{number}").ok()
    return VAS


def _late_kind(api: Rest) -> str:
    """A kind that is newer than version 1: its watch cache never knew that version."""
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": "mooring.test", "scope": "Cluster", "names": names, "versions": versions}
    made = api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": "things.mooring.test"}, "spec": spec},
    )
    assert made.status in (201, 409), made
    path = "/apis/mooring.test/v1/things"
    eventually(lambda: api.get(path).status == 200, 30, "the kind is served")
    return path
