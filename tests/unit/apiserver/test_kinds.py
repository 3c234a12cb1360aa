"""Kinds that come and go, and several that show the same objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver.api_errors import no_such_resource
from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.kinds import version_order
from mooring.apiserver.listing import ListScope
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules.event import EVENTS, NEW_EVENTS
from mooring.apiserver.store import ObjectStore
from mooring.kube.errors import BadRequest, Invalid, NotServed
from tests.support.customkinds import GROUP, a_definition, a_version, an_object, spec_of
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, create, decoded, patch

Json = dict[str, Any]
TEXT = {"type": "string"}


def served(store: ObjectStore, plural: str = "things", version: str = "v1") -> Resource:
    found = store.resource(GROUP, version, plural)
    if found is None:
        raise no_such_resource()
    return found


def define(store: ObjectStore, *versions: Json, plural: str = "things") -> None:
    create(store, CUSTOM_RESOURCE_DEFINITIONS, a_definition(plural, *versions))


def redefine(store: ObjectStore, *versions: Json, plural: str = "things") -> None:
    key = Key("", f"{plural}.{GROUP}")
    patch(store, CUSTOM_RESOURCE_DEFINITIONS, key, {"spec": {"versions": list(versions)}})


def test_versions_are_ordered_as_kubernetes_prefers_them() -> None:
    mixed = ["v3beta1", "foo10", "v1", "v12alpha1", "v10", "v11beta2", "foo1", "v2", "v11alpha2", "v10beta3"]
    wanted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    assert wanted == sorted(mixed, key=version_order)


def test_a_kind_is_there_when_its_definition_has_been_answered(store: ObjectStore) -> None:
    before = store.resources
    define(store, a_version(spec_of(a=TEXT)))
    assert "Thing" == served(store).kind
    assert before != store.resources, "who keeps what it made of the kinds can see that they are others"
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", f"things.{GROUP}"), NOW)
    assert store.resource(GROUP, "v1", "things") is None
    assert before == store.resources


def test_a_kind_that_is_not_served_keeps_its_objects(store: ObjectStore) -> None:
    version = a_version(spec_of(a=TEXT))
    define(store, version)
    create(store, served(store), an_object("things", "x"))
    redefine(store, {**version, "served": False})
    with pytest.raises(NotServed):
        served(store)
    assert ["x"] == [
        stored.key.name for kind in store.kinds.storing() if kind.custom for stored in store.table(kind).items()
    ]
    redefine(store, version)
    assert ["x"] == [stored.key.name for stored in store.list(served(store), ListScope()).items]


def test_each_place_of_objects_is_gone_through_once(store: ObjectStore) -> None:
    define(store, a_version(spec_of(a=TEXT)), a_version(spec_of(a=TEXT), "v2"))
    places = [kind.storage for kind in store.kinds.storing()]
    assert len(places) == len(set(places))
    assert 1 == places.count(EVENTS.storage) == places.count((GROUP, "", "things"))


def test_a_kind_that_comes_again_has_forgotten_everything(store: ObjectStore) -> None:
    """A watcher of the first one must not resume at the second, as if nothing had happened."""
    define(store, a_version(spec_of(a=TEXT)))
    create(store, served(store), an_object("things", "x"))
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", f"things.{GROUP}"), NOW)
    before = store.version
    define(store, a_version(spec_of(a=TEXT)))
    assert () == store.list(served(store), ListScope()).items
    assert before <= store.table(served(store)).history.floor


def test_objects_are_shown_as_the_schema_is_now(store: ObjectStore) -> None:
    define(store, a_version(spec_of(a=TEXT, b=TEXT)))
    create(store, served(store), an_object("things", "x", spec={"a": "1", "b": "2"}))
    redefine(store, a_version(spec_of(a=TEXT, c={**TEXT, "default": "new"})))
    key = Key("", "x")
    shown = store.get(served(store), key)
    assert {"a": "1", "c": "new"} == shown.whole()["spec"]
    assert shown is store.get(served(store), key), "made once, and encoded once for all who read it"
    stored = store.table(served(store)).get(key)
    assert stored is not None
    assert {"a": "1", "b": "2"} == stored.whole()["spec"], "nobody has written it yet"
    patch(store, served(store), key, {})
    written = store.table(served(store)).get(key)
    assert written is not None
    assert {"a": "1", "c": "new"} == written.whole()["spec"], "any write brings it up to date"


def test_what_is_shown_as_it_is_stored_is_not_kept_twice(store: ObjectStore) -> None:
    define(store, a_version(spec_of(a=TEXT)))
    create(store, served(store), an_object("things", "x", spec={"a": "1"}))
    assert store.get(served(store), Key("", "x")) is store.table(served(store)).get(Key("", "x"))


def test_an_event_is_the_same_object_through_both_apis(store: ObjectStore) -> None:
    body = {
        "involvedObject": {"namespace": "default", "name": "p"},
        "message": "m",
        "metadata": {"name": "e", "namespace": "default"},
    }
    create(store, EVENTS, body, "default")
    shown = store.get(NEW_EVENTS, Key("default", "e")).whole()
    assert ("m", {"namespace": "default", "name": "p"}) == (shown["note"], shown["regarding"])
    old = store.get(EVENTS, Key("default", "e")).whole()
    assert old == NEW_EVENTS.encoded(copy.deepcopy(shown)), "there and back again, nothing is lost"
    assert shown["metadata"] == old["metadata"]


def nested(depth: int, wrap: str) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(depth):
        schema = {
            "properties": {"type": "object", "properties": {"a": schema}},
            "items": {"type": "array", "items": schema},
            "additionalProperties": {"type": "object", "additionalProperties": schema},
            "not": {"type": "object", "not": {"not": schema}},
        }[wrap]
    return schema


@pytest.mark.parametrize("wrap", ["properties", "items", "additionalProperties", "not"])
def test_a_schema_has_a_limit_to_its_depth(store: ObjectStore, wrap: str) -> None:
    with pytest.raises(BadRequest, match=r"more than 50 levels|nested"):
        define(store, a_version(spec_of(a=nested(60, wrap))))
    assert store.resource(GROUP, "v1", "things") is None


@pytest.mark.parametrize("wrap", ["properties", "items", "additionalProperties"])
def test_a_schema_at_that_limit_works(store: ObjectStore, wrap: str) -> None:
    define(store, a_version(spec_of(a=nested(45, wrap))))
    value: Any = "x"
    for _ in range(45):
        value = [value] if wrap == "items" else {"a": value}
    made = create(store, served(store), an_object("things", "x", spec={"a": value}))
    assert {"a": value} == made["spec"]


@each_row(
    ("part", "value"),
    [
        ("items", "x"),
        ("items", 1),
        ("additionalProperties", "x"),
        ("enum", "abc"),
        ("enum", {}),
        ("default", None),
        ("minimum", True),
    ],
)
def test_parts_of_a_schema_are_of_their_type(part: str, value: Any) -> None:
    """Whatever is in there, it is refused or harmless."""
    body = a_definition("things", a_version(spec_of(a={"type": "string", part: value})))
    if part in ("default", "items"):
        assert part not in str(decoded(CUSTOM_RESOURCE_DEFINITIONS, body))
        return
    with pytest.raises(BadRequest, match=r"cannot unmarshal|boolean or JSON schema expected"):
        decoded(CUSTOM_RESOURCE_DEFINITIONS, body)


def test_what_can_not_be_compiled_is_never_stored(store: ObjectStore) -> None:
    schema = spec_of(a={**TEXT, "x-kubernetes-validations": [{"rule": "url(self).getHost() == 'a'"}]})
    with pytest.raises(Invalid, match="undeclared reference to 'url'"):
        define(store, a_version(schema))
    assert not len(store.table(CUSTOM_RESOURCE_DEFINITIONS))
