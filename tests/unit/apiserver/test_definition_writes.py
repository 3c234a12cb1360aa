"""A write of a definition costs what it says, however many there are; what is long to make of a large one is made
beside the loop.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver import effort
from mooring.apiserver.bodies.objects import FieldValidation
from mooring.apiserver.bodies.patches import applied_change
from mooring.apiserver.custom import definitions
from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.effort import NeedsThread, in_the_loop
from mooring.apiserver.kinds import Kinds, version_order
from mooring.apiserver.resource import Resource
from mooring.apiserver.server_side_apply.apply import apply
from mooring.apiserver.server_side_apply.managed import Writer
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored
from tests.support.customkinds import GROUP, a_definition, a_version, spec_of
from tests.unit.apiserver.objects import NOW, a_store, create, patch
from tests.unit.apiserver.test_long_requests import Beside

Json = dict[str, Any]
TEXT = {"type": "string"}
VERSION = a_version(spec_of(a=TEXT))


def define(store: ObjectStore, plural: str, *versions: Json, **spec: Any) -> None:
    create(store, CUSTOM_RESOURCE_DEFINITIONS, a_definition(plural, *(versions or (VERSION,)), **spec))


def key(plural: str) -> Key:
    return Key("", f"{plural}.{GROUP}")


def status(store: ObjectStore, plural: str) -> Json:
    found: Json = store.get(CUSTOM_RESOURCE_DEFINITIONS, key(plural)).whole()["status"]
    return found


def served(store: ObjectStore, plural: str) -> Resource:
    found = store.resource(GROUP, "v1", plural)
    assert found is not None
    return found


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects that are decoded whole, or as far as a definition's head goes."""
    found: list[str] = []
    whole, head_of = Stored.whole, definitions.head_of

    def counted(stored: Stored) -> Json:
        found.append(stored.key.name)
        return whole(stored)

    def head(body: bytes) -> definitions.DefinitionHead:
        made = head_of(body)
        found.append(made.definition["metadata"]["name"])
        return made

    monkeypatch.setattr(Stored, "whole", counted)
    monkeypatch.setattr(definitions, "head_of", head)
    return found


def test_a_write_of_a_definition_reads_no_other_one(decodings: list[str]) -> None:
    store = a_store()
    for number in range(5):
        define(store, f"n{number}s")
    decodings.clear()
    define(store, "things")
    patch(store, CUSTOM_RESOURCE_DEFINITIONS, key("things"), {"metadata": {"labels": {"a": "b"}}})
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, key("things"), NOW)
    assert {f"things.{GROUP}"} == set(decodings)


def test_what_says_the_same_is_served_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    store, changes = a_store(), list[int]()
    define(store, "things", VERSION, a_version(spec_of(a=TEXT), "v2"))
    kind = served(store, "things")
    store.kinds.on_change(lambda: changes.append(1))
    patch(store, CUSTOM_RESOURCE_DEFINITIONS, key("things"), {"metadata": {"labels": {"a": "b"}}})
    assert kind is served(store, "things")
    assert not changes
    made: list[str] = []
    parts_of = definitions.parts_of
    monkeypatch.setattr(definitions, "parts_of", lambda version: made.append(version["name"]) or parts_of(version))
    versions = [VERSION, a_version(spec_of(a=TEXT, b=TEXT), "v2")]
    patch(store, CUSTOM_RESOURCE_DEFINITIONS, key("things"), {"spec": {"versions": versions}})
    assert ["v2"] == made, "only what is new"
    assert [1] == changes, "what goes and what comes are one change"


async def test_versions_are_made_where_their_writer_is(monkeypatch: pytest.MonkeyPatch) -> None:
    store, made = a_store(), list[tuple[str, int]]()
    parts_of = definitions.parts_of
    monkeypatch.setattr(
        definitions,
        "parts_of",
        lambda version: made.append((version["name"], threading.get_ident())) or parts_of(version),
    )
    await Beside().begin(lambda: define(store, "things", VERSION, a_version(spec_of(a=TEXT), "v2")))
    assert served(store, "things")
    assert ["v1", "v2"] == [name for name, _ in made], "once each"
    assert threading.get_ident() not in {thread for _, thread in made}


def test_rules_are_compiled_beside_the_loop_where_they_are_many() -> None:
    def define_with(plural: str, rules: int) -> None:
        schema = {**TEXT, "x-kubernetes-validations": [{"rule": f"self != '{number}'"} for number in range(rules)]}
        with effort.of_request(in_the_loop()):
            define(a_store(), plural, a_version(spec_of(a=schema)))

    define_with("things", 20)
    with pytest.raises(NeedsThread):
        define_with("others", 100)


def test_a_name_that_is_taken_is_free_when_its_holder_has_gone() -> None:
    store = a_store()
    short = {"kind": "Thing", "shortNames": ["th"]}
    define(store, "things", names={"plural": "things", **short})
    define(store, "others", names={"plural": "others", "singular": "thing", **short, "kind": "Other"})
    reasons = [found["reason"] for found in status(store, "others")["conditions"] if found["type"] == "NamesAccepted"]
    assert ["ShortNamesConflict"] == reasons
    assert {"plural": "others", "kind": "Other", "listKind": "OtherList"} == status(store, "others")["acceptedNames"]
    assert store.resource(GROUP, "v1", "others") is None
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, key("things"), NOW)
    assert ["th"] == status(store, "others")["acceptedNames"]["shortNames"]
    assert "thing" == served(store, "others").singular


def test_the_server_s_own_status_is_recorded_and_takes_nobody_s_fields() -> None:
    store = a_store()
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        **a_definition("things", VERSION),
    }

    def applied(obj: Json) -> Json:
        return apply(
            CUSTOM_RESOURCE_DEFINITIONS,
            obj,
            config=body,
            writer="me",
            now="2026-01-01T00:00:00Z",
            subresource="",
            force=False,
        )

    change = applied_change(CUSTOM_RESOURCE_DEFINITIONS, applied, body, [], FieldValidation.STRICT, [])
    store.patch(CUSTOM_RESOURCE_DEFINITIONS, key("things"), change, NOW, by=Writer("me", applies=True))
    entries = store.get(CUSTOM_RESOURCE_DEFINITIONS, key("things")).whole()["metadata"]["managedFields"]
    assert [("me", ""), ("mooring", "status")] == [
        (entry["manager"], entry.get("subresource", "")) for entry in entries
    ]
    assert {"f:spec"} == entries[0]["fieldsV1"].keys()
    assert {"f:status"} == entries[1]["fieldsV1"].keys()


def test_kinds_come_in_the_order_of_their_versions_then_of_their_coming() -> None:
    store = a_store()
    kinds = Kinds([])
    made = [
        Resource(
            group="g",
            version=version,
            kind="K",
            plural=plural,
            namespaced=False,
            message=CUSTOM_RESOURCE_DEFINITIONS.message,
        )
        for plural in ("b", "a")
        for version in ("v1beta1", "v2", "v1")
    ]
    kinds.put(made)
    kinds.replace([made[0].path, ("g", "v9", "none")], [made[1]])
    kinds.put([made[0]])
    left = [*made[1:], made[0]]
    assert kinds.served == tuple(sorted(left, key=lambda one: version_order(one.version)))
    assert store.resources
