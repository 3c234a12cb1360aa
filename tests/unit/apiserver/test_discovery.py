"""What the server says of itself: discovery in both forms, OpenAPI, kept until kinds come or go."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.apiserver.codecs import protowire
from mooring.apiserver.codecs.schema import Message
from mooring.apiserver.discovery import groups
from mooring.apiserver.discovery.fieldwords import words_for
from mooring.apiserver.discovery.groups import HEALTH
from mooring.apiserver.resource import Custom, Resource
from mooring.apiserver.rules import LEASES, RESOURCES
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web import about as about_module
from mooring.apiserver.web.about import About
from mooring.apiserver.web.messages import HttpReply, HttpRequest
from mooring.base.randomness import Random
from tests.support.applying import SHAPE_KIND
from tests.support.rows import each_row
from tests.unit.apiserver.objects import a_store

AGGREGATED = f"{groups.AGGREGATED},application/json"
Json = dict[str, Any]


@pytest.fixture
def store() -> ObjectStore:
    return a_store()


@pytest.fixture
def about(store: ObjectStore) -> About:
    return About(store)


def ask(about: About, path: str, **headers: str) -> HttpReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = about.answer(HttpRequest("GET", tuple(path.strip("/").split("/")), {}, named))
    assert reply is not None, path
    return reply


def told(about: About, path: str, **headers: str) -> Json:
    found: Json = json.loads(ask(about, path, **headers).body)
    return found


@each_row(
    ("accept", "wanted"),
    [
        (AGGREGATED, True),
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", True),
        ("application/json, application/json; g=apidiscovery.k8s.io; v=v2; as=APIGroupDiscoveryList", True),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_the_aggregated_form_is_for_who_asks_for_it(about: About, accept: str, wanted: bool) -> None:
    reply = ask(about, "/apis", accept=accept)
    assert ("APIGroupDiscoveryList" if wanted else "APIGroupList") == json.loads(reply.body)["kind"]
    assert (groups.AGGREGATED if wanted else "application/json") == reply.content_type


def test_both_forms_tell_the_same(about: About) -> None:
    items = told(about, "/api", accept=AGGREGATED)["items"] + told(about, "/apis", accept=AGGREGATED)["items"]
    for group in items:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            plain = told(about, f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}")[
                "resources"
            ]
            found = {}
            for resource in version["resources"]:
                found[resource["resource"]] = (resource["responseKind"]["kind"], resource["verbs"])
                for below in resource.get("subresources", []):
                    found[f"{resource['resource']}/{below['subresource']}"] = (
                        below["responseKind"]["kind"],
                        below["verbs"],
                    )
            assert {one["name"]: (one["kind"], one["verbs"]) for one in plain} == found


@each_row(
    ("path", "name", "value"),
    [
        ("/api/v1", "pods", "xPOwRZ+Yhw8="),
        ("/api/v1", "events", "r2yiGXH7wu8="),
        ("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8="),
        ("/apis/apps/v1", "deployments", "8aSe+NMegvE="),
        ("/api/v1", "pods/status", None),
    ],
)
def test_a_kind_says_by_a_hash_as_what_it_is_stored(about: About, path: str, name: str, value: str | None) -> None:
    """The values are those of every real cluster."""
    (found,) = [one for one in told(about, path)["resources"] if one["name"] == name]
    assert value == found.get("storageVersionHash")


def test_a_client_that_has_the_answer_is_told_so(about: About) -> None:
    for path in ("/apis", "/openapi/v3", "/api/v1"):
        reply = ask(about, path)
        tag = dict(reply.headers)["ETag"]
        again = ask(about, path, if_none_match=tag)
        assert (304, b"", tag) == (again.status, again.body, dict(again.headers)["ETag"])
        assert 200 == ask(about, path, if_none_match='"other"').status


def test_kinds_that_come_are_told_and_those_that_go_are_not(about: About, store: ObjectStore) -> None:
    before = ask(about, "/apis").body
    store.serve([SHAPE_KIND])
    assert ["shapes"] == [one["name"] for one in told(about, "/apis/mooring.test/v1")["resources"]]
    kind = told(about, "/apis", accept=AGGREGATED)["items"][-1]["versions"][0]["resources"][0]["responseKind"]
    assert {"group": "mooring.test", "version": "v1", "kind": "Shape"} == kind
    assert "apis/mooring.test/v1" in told(about, "/openapi/v3")["paths"]
    store.withdraw([SHAPE_KIND])
    assert before == ask(about, "/apis").body
    assert None is about.answer(HttpRequest("GET", ("openapi", "v3", "apis", "mooring.test", "v1"), {}, {}))


class Restless(ObjectStore):
    """Its kinds change right after somebody has read them, as the loop's may under a thread."""

    then: Callable[[], None] | None = None

    @property
    def resources(self) -> tuple[Resource, ...]:
        found = super().resources
        if (then := self.then) is not None:
            self.then = None
            then()
        return found


@each_row("path", ["/apis", "/openapi/v2", "/openapi/v3"])
def test_what_was_made_of_former_kinds_is_not_kept(path: str) -> None:
    store = Restless(RESOURCES, Random(1))
    about = About(store)
    store.then = lambda: store.serve([SHAPE_KIND])
    before = ask(about, path).body
    assert SHAPE_KIND.group.encode() not in before
    assert SHAPE_KIND.group.encode() in ask(about, path).body


@each_row("kind", [SHAPE_KIND, dataclasses.replace(LEASES, group="mooring.test")], ids=["custom", "built-in"])
def test_an_index_is_told_though_a_kind_goes_meanwhile(kind: Resource) -> None:
    store = Restless(RESOURCES, Random(1))
    about = About(store)
    store.serve([kind])
    store.then = lambda: store.withdraw([kind])
    assert told(about, "/openapi/v3")["paths"]
    assert not [root for root in told(about, "/openapi/v3")["paths"] if kind.group in root]


def test_the_index_makes_no_document_of_a_custom_kind(
    about: About, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be thousands of them."""
    made: list[str] = []
    document = about_module.openapi_document
    monkeypatch.setattr(
        about_module, "openapi_document", lambda root, kinds: made.append(root) or document(root, kinds)
    )
    store.serve([SHAPE_KIND])
    address = told(about, "/openapi/v3")["paths"]["apis/mooring.test/v1"]["serverRelativeURL"]
    assert "apis/mooring.test/v1" not in made
    tag = dict(ask(about, "/openapi/v3/apis/mooring.test/v1").headers)["ETag"]
    assert address.endswith(f"?hash={tag.strip(chr(34))}")


class Counting(ObjectStore):
    """Counts how often all its kinds are gone through."""

    reads = 0

    @property
    def resources(self) -> tuple[Resource, ...]:
        self.reads += 1
        return super().resources


@each_row("accept", ["", AGGREGATED])
def test_all_groups_are_told_after_one_look_at_all_kinds(accept: str) -> None:
    store = Counting(RESOURCES, Random(1))
    about = About(store)
    store.serve([dataclasses.replace(SHAPE_KIND, group=f"g{number}.test") for number in range(9)])
    store.reads = 0
    assert 9 <= len(told(about, "/apis", accept=accept).get("items") or told(about, "/apis")["groups"])
    assert 1 == store.reads


def test_the_address_of_a_document_changes_with_it(about: About, store: ObjectStore) -> None:
    assert SHAPE_KIND.custom is not None
    store.serve([SHAPE_KIND])
    addresses = told(about, "/openapi/v3")["paths"]
    other = Custom(definition="x", stored_in="v1", singular="shape", list_kind="ShapeList", schema={"type": "object"})
    store.serve([dataclasses.replace(SHAPE_KIND, custom=other)])
    changed = {path for path, found in told(about, "/openapi/v3")["paths"].items() if found != addresses[path]}
    assert {"apis/mooring.test/v1"} == changed


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set[str]().union(*map(references, value)) if isinstance(value, list) else set()


def test_documents_refer_to_nothing_that_they_do_not_hold(about: About, store: ObjectStore) -> None:
    store.serve([SHAPE_KIND])
    for root in told(about, "/openapi/v3")["paths"]:
        document = told(about, f"/openapi/v3/{root}")
        held = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert references(document) <= held
        assert document["paths"]


def test_every_stored_kind_has_a_schema_and_a_patch_that_knows_field_validation(about: About) -> None:
    for resource in RESOURCES:
        root = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
        document = told(about, f"/openapi/v3/{root}")
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        schemas = document["components"]["schemas"].values()
        assert any(gvk in schema.get("x-kubernetes-group-version-kind", []) for schema in schemas), resource.name
        if resource.answer is None:
            patches = [path["patch"] for path in document["paths"].values() if "patch" in path]
            own = [patch for patch in patches if patch["x-kubernetes-group-version-kind"] == gvk]
            assert own, resource.name
            assert all("fieldValidation" in [one["name"] for one in patch["parameters"]] for patch in own)


def test_words_are_about_fields_that_there_are() -> None:
    messages = _messages(RESOURCES)
    for name in ("PersistentVolumeSpec", "StorageClass", "VolumeAttachmentStatus", "ObjectMeta"):
        assert words_for(name)
    for name, message in messages.items():
        assert set(words_for(name)) - {""} <= set(message.fields), name


def _messages(resources: tuple[Resource, ...]) -> dict[str, Message]:
    found: dict[str, Message] = {}
    for resource in resources:
        for name, message in resource.message.messages.items():
            if name not in found or len(message.fields) > len(found[name].fields):
                found[name] = message
    return found


def test_the_index_names_what_is_served(about: About) -> None:
    paths = told(about, "/")["paths"]
    assert {"/api/v1", "/apis/storage.k8s.io", "/apis/storage.k8s.io/v1", "/openapi/v3", "/readyz", "/version"} <= set(
        paths
    )
    for path in paths:
        if path.strip("/") not in ("metrics", *HEALTH):  # (those are answered elsewhere)
            ask(about, path)


def test_openapi_v2_tells_that_fields_are_validated(about: About) -> None:
    """kubectl looks for it before it takes a manifest that is a List."""
    patch = told(about, "/openapi/v2")["paths"]["/api/v1/namespaces/{name}"]["patch"]
    assert {"group": "", "version": "v1", "kind": "Namespace"} == patch["x-kubernetes-group-version-kind"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]


def within(data: bytes, *numbers: int) -> list[bytes]:
    """What a protobuf message holds in these fields, one in another."""
    if not numbers:
        return [data]
    inner = [data[start:end] for number, _, start, end in protowire.fields(data, 0, len(data)) if number == numbers[0]]
    return [found for part in inner for found in within(part, *numbers[1:])]


def test_both_forms_of_openapi_v2_tell_the_same(about: About) -> None:
    """Numbers as in openapi.v2.Document: Go clients read nothing else."""
    reply = ask(about, "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" == reply.content_type
    packed = {}
    for path in within(reply.body, 8, 2):
        [name], [patch] = within(path, 1), within(path, 2, 8)
        [kind] = within(patch, 13, 2, 2)
        packed[name.decode()] = (json.loads(kind), [found.decode() for found in within(patch, 8, 1, 2, 3, 4)])
    plain = {path: item["patch"] for path, item in told(about, "/openapi/v2")["paths"].items()}
    assert packed == {
        path: (patch["x-kubernetes-group-version-kind"], [found["name"] for found in patch["parameters"]])
        for path, patch in plain.items()
    }
