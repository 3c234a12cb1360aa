"""Requests into answers, without sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.apiserver.effort import Effort
from mooring.apiserver.web.messages import HttpReply, HttpRequest, WatchReply
from mooring.apiserver.web.negotiation import wanted
from mooring.apiserver.web.queries import route_of
from mooring.apiserver.web.service import Service
from mooring.base.clock import LoopClock
from mooring.kube.errors import NotAcceptable
from tests.support.builders import a_va
from tests.support.paths import VAS
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, a_store

TOKEN = "secret-token"


class StoppedClock(LoopClock):
    def wall_s(self) -> float:
        return NOW


class Client:
    """A service and its token."""

    def __init__(self) -> None:
        self.store = a_store()
        self.service = Service(self.store, clock=StoppedClock(), token=TOKEN)

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "", **more: Any) -> HttpReply:
        """more: headers, query."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": content_type, **more.get("headers", {})}
        parts = tuple(path.removeprefix("/").split("/"))
        reply = self.answer(HttpRequest(method, parts, more.get("query", {}), headers, data))
        assert isinstance(reply, HttpReply), reply
        return reply

    def answer(self, request: HttpRequest) -> HttpReply | WatchReply:
        return self.service.refusal(request) or self.service.answer(
            request, route_of(request.path, self.store), Effort()
        )


@pytest.fixture
def client() -> Client:
    return Client()


@each_row("authorization", ["", "Bearer", "Bearer wrong", f"Bearer  {TOKEN}", f"Basic {TOKEN}", TOKEN, "Bearer \udcff"])
def test_whoever_shows_no_token_is_unauthorized(client: Client, authorization: str) -> None:
    for path in ("/api/v1/nodes", "/version", "/apis", "/no/such"):
        reply = client.ask("GET", path, headers={"authorization": authorization})
        assert (401, "Unauthorized") == (reply.status, json.loads(reply.body)["message"])


@each_row("authorization", [f"bearer {TOKEN}", f"BEARER {TOKEN} ", f"  Bearer {TOKEN} more"])
def test_a_token_is_read_as_kube_apiserver_reads_it(client: Client, authorization: str) -> None:
    """The scheme in any case, and no more than two words."""
    assert 200 == client.ask("GET", "/version", headers={"authorization": authorization}).status


@each_row("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez/log"])
def test_health_is_for_everybody(client: Client, path: str) -> None:
    reply = client.ask("GET", path, headers={"authorization": ""})
    assert (200, b"ok") == (reply.status, reply.body)


def test_a_deletion_warns_also_where_nothing_is_left(client: Client) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    assert 201 == client.ask("POST", jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}).status
    reply = client.ask("DELETE", f"{jobs}/j")
    assert ("Status", True) == (json.loads(reply.body)["kind"], "child pods are preserved" in "".join(reply.warnings))


NO_NUMBER, OUT_OF_RANGE = "invalid syntax", "value out of range"


@each_row(
    ("limit", "why"),
    [
        ("0" * 5000, ""),
        ("+" + "0" * 5000 + "1", ""),
        ("-1", ""),
        (str(2**63 - 1), ""),
        (str(2**63), OUT_OF_RANGE),
        ("-" + "9" * 5000, OUT_OF_RANGE),
        ("", NO_NUMBER),
        ("+", NO_NUMBER),
        ("0" * 5000 + "x", NO_NUMBER),
        ("--1", NO_NUMBER),
        ("\u0661", NO_NUMBER),
    ],
)
def test_a_number_is_read_as_go_reads_it(client: Client, limit: str, why: str) -> None:
    reply = client.ask("GET", VAS, query={"limit": limit})
    assert (400 if why else 200) == reply.status
    assert not why or json.loads(reply.body)["message"].endswith(why)


def test_what_only_lists_know_is_not_read_where_one_object_is_asked_for(client: Client) -> None:
    assert 201 == client.ask("POST", VAS, a_va("one")).status
    wrong = {"limit": "many", "timeoutSeconds": "x", "continue": "x", "resourceVersionMatch": "x"}
    assert (200, 400) == (
        client.ask("GET", f"{VAS}/one", query=wrong).status,
        client.ask("GET", VAS, query=wrong).status,
    )
    assert 504 == client.ask("GET", f"{VAS}/one", query={"resourceVersion": str(10**9)}).status


def test_a_watch_is_handed_back_with_its_options(client: Client) -> None:
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "7",
        "resourceVersion": "0",
        "labelSelector": "a",
    }
    reply = client.answer(HttpRequest("GET", tuple(VAS[1:].split("/")), query, {"authorization": f"Bearer {TOKEN}"}))
    assert isinstance(reply, WatchReply)
    assert (True, 7.0, "0") == (reply.options.bookmarks, reply.options.timeout_s, reply.options.resource_version)
    assert reply.scope.selects


@each_row(
    ("accept", "chosen"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"),
        ("application/vnd.kubernetes.protobuf, */*", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/json;q=0.1, application/yaml;q=0.2", "application/yaml"),
        ("application/json;q=x, application/yaml", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
    ],
)
def test_of_what_a_client_can_read_the_best_is_chosen(accept: str, chosen: str) -> None:
    assert chosen == wanted(accept).media_type


@each_row("accept", ["text/html", "application/*", "application/cbor", "application/json;as=Table"])
def test_nothing_fits(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        wanted(accept)


def test_bodies_and_answers_may_be_yaml(client: Client) -> None:
    body = yaml.safe_dump(a_va("va", annotations={"a": "2024-01-02"})).encode()
    reply = client.ask("POST", VAS, body, "application/yaml", headers={"accept": "application/yaml"})
    assert (201, "application/yaml") == (reply.status, reply.content_type)
    assert "va" == yaml.safe_load(reply.body)["metadata"]["name"]


def test_what_looks_like_a_date_in_yaml_stays_text(client: Client) -> None:
    body = (
        b"metadata: {name: va, annotations: {a: 2024-01-02}}\nspec: {attacher: d, nodeName: n1, source: "
        b"{persistentVolumeName: p}}\n"
    )
    made = json.loads(client.ask("POST", VAS, body, "application/yaml").body)
    assert {"a": "2024-01-02"} == made["metadata"]["annotations"]


BOMB = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (letter, letter, b",".join([b"*%c" % (letter - 1)] * 10))
    for letter in range(ord("b"), ord("k"))
)

YAML_BUT_NOT_JSON = [b"?", b"~: 1", b"null: x", b"!!bool x: 1", b"a: !!bool x", b'a: !!int ""', b"a: !!timestamp x"]


@each_row(
    ("body", "content_type"),
    [
        (b"[" * 100_000, "application/json"),
        (b'{"a":' * 100_000, "application/json"),
        (b'{"metadata": {"name": "\\ud800"}}', "application/json"),
        (b"NaN", "application/json"),
        (b"{'a': 1}", "application/json"),
        (BOMB, "application/yaml"),
        (b"[" * 1_000_000, "application/yaml"),
        (b"a: " + b"x" * 2**21, "application/yaml"),
        (b"? [a]\n: b\n", "application/yaml"),
        (b"a: !!python/object:os.system x", "application/yaml"),
        (b"\x00", "application/yaml"),
        *((body, "application/yaml") for body in YAML_BUT_NOT_JSON),
    ],
    ids=[
        *("lists", "maps", "surrogate", "nan", "quotes"),
        *("yaml_bomb", "yaml_lists", "yaml_long", "yaml_key", "yaml_object", "yaml_null"),
        *(body.decode() for body in YAML_BUT_NOT_JSON),
    ],
)
def test_hostile_bodies_are_bad_requests(client: Client, body: bytes, content_type: str) -> None:
    reply = client.ask("POST", VAS, body, content_type)
    assert (400, "BadRequest") == (reply.status, json.loads(reply.body)["reason"])
    assert len(reply.body) < 2000


def test_a_patch_nested_too_deeply_is_a_bad_request(client: Client) -> None:
    client.ask("POST", VAS, a_va("va"))
    for depth in (200, 400, 900):
        value = b'{"a":' * depth + b"1" + b"}" * depth
        body = b'[{"op":"add","path":"/metadata/labels","value":' + value + b"}]"
        assert client.ask("PATCH", f"{VAS}/va", body, "application/json-patch+json").status in (400, 422)


@pytest.mark.slow
@given(st.binary(max_size=60))
@example(b"?")
@example(b"~: 1")
@example(b"null: x")
@example(b"true: 1")
def test_any_bytes_are_an_object_or_a_clean_refusal(body: bytes) -> None:
    client = Client()
    for content_type in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        assert client.ask("POST", VAS, body, content_type).status in (400, 415, 422)


@pytest.mark.slow
@given(
    path=st.lists(st.text(max_size=6), max_size=7),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "ODD"]),
)
@example(path=["", "", "", ""], method="DELETE")
def test_any_path_and_method_get_an_answer(path: list[str], method: str) -> None:
    client = Client()
    known = ["api", "v1", "namespaces", "default", "secrets"]
    for parts in (path, [*known[: len(path)], *path]):
        stays = method == "DELETE" and "/".join(parts).rstrip("/") == "api/v1/namespaces/default"
        assert client.ask(method, "/" + "/".join(parts)).status in ((403,) if stays else (200, 400, 404, 405, 415))


def test_a_field_said_twice_is_told_by_its_path(client: Client) -> None:
    spec = b'{"attacher":"x","attacher":"d","nodeName":"n","source":{"persistentVolumeName":"p"}}'
    body = b'{"metadata":{"name":"va","name":"va"},"spec":' + spec + b"}"
    reply = client.ask("POST", VAS, body)
    assert "d" == json.loads(reply.body)["spec"]["attacher"], "the last one counts"
    assert ('duplicate field "metadata.name"', 'duplicate field "spec.attacher"') == reply.warnings
    strict = client.ask("POST", VAS, body.replace(b'"va"', b'"vb"'), query={"fieldValidation": "Strict"})
    assert 400 == strict.status
    assert 'strict decoding error: duplicate field \\"metadata.name\\"' in strict.body.decode()


@each_row(
    ("path", "kind"),
    [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/storage.k8s.io", "APIGroup"),
        ("/api/v1", "APIResourceList"),
        ("/apis/coordination.k8s.io/v1", "APIResourceList"),
    ],
)
def test_discovery(client: Client, path: str, kind: str) -> None:
    assert kind == json.loads(client.ask("GET", path).body)["kind"]


def test_discovery_names_each_kind_with_its_verbs(client: Client) -> None:
    found = {resource["name"]: resource for resource in json.loads(client.ask("GET", "/api/v1").body)["resources"]}
    assert {
        "persistentvolumes",
        "persistentvolumes/status",
        "secrets",
        "events",
        "nodes",
        "nodes/status",
        "namespaces",
    } < set(found)
    pv = found["persistentvolumes"]
    assert ("PersistentVolume", "persistentvolume", False, ["pv"]) == (
        pv["kind"],
        pv["singularName"],
        pv["namespaced"],
        pv["shortNames"],
    )
    assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} == set(pv["verbs"])
    assert "deletecollection" not in found["namespaces"]["verbs"]


def test_openapi_says_that_patches_know_field_validation(client: Client) -> None:
    index = json.loads(client.ask("GET", "/openapi/v3").body)["paths"]
    document = json.loads(
        client.ask("GET", index["apis/storage.k8s.io/v1"]["serverRelativeURL"].partition("?")[0]).body
    )
    operation = document["paths"]["/apis/storage.k8s.io/v1/volumeattachments/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in operation["parameters"]]


def test_the_root_names_the_paths_that_there_are(client: Client) -> None:
    paths = json.loads(client.ask("GET", "/").body)["paths"]
    assert {"/api/v1", "/apis/storage.k8s.io/v1", "/openapi/v3", "/healthz", "/metrics", "/version"} <= set(paths)


@each_row(
    "path",
    [
        "/apis/none",
        "/api/v2",
        "/apis/none/v1",
        "/openapi/v3/apis/none/v1",
        "/apis//v1",
        "/apis//v1/nodes",
        "/metrics/x",
    ],
)
def test_what_is_not_served_is_404(client: Client, path: str) -> None:
    assert 404 == client.ask("GET", path).status
