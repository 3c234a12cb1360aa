"""CustomResourceDefinitions: what may be one, and its life."""

from __future__ import annotations

import base64
import copy
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.conftest import Server
from tests.support.customkinds import (
    DEFINITIONS,
    GROUP,
    a_definition,
    a_version,
    an_object,
    changed,
    installed,
    path_of,
    spec_of,
)
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

INVALID, REQUIRED, FORBIDDEN, UNSUPPORTED = (
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueNotSupported",
)
DUPLICATE, TYPE = "FieldValueDuplicate", "FieldValueTypeInvalid"
SCHEMA = "spec.validation.openAPIV3Schema"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
OBJECT: dict[str, Any] = {"type": "object"}
Json = dict[str, Any]
Change = Callable[[Json], Any]


def plural_of(name: str) -> str:
    """A plural of this test alone."""
    return f"k{name.replace('-', '')}s"


def version(**fields: Any) -> Change:
    return lambda body: body["spec"]["versions"][0].update(fields)


def schema(value: Json) -> Change:
    return version(schema={"openAPIV3Schema": value})


def place(value: Json) -> Change:
    return schema({"type": "object", "properties": {"spec": value}})


def spec(**fields: Any) -> Change:
    return lambda body: body["spec"].update(fields)


def names(**fields: Any) -> Change:
    return lambda body: body["spec"]["names"].update(fields)


def column(**fields: Any) -> Change:
    return version(additionalPrinterColumns=[{"name": "X", "type": "string", "jsonPath": ".spec.x", **fields}])


def scale(**fields: Any) -> Change:
    return version(subresources={"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", **fields}})


def keyed(keys: list[str], items: Json) -> Json:
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}


def listed(kind: str, items: Json) -> Json:
    return {"type": "array", "x-kubernetes-list-type": kind, "items": items}


def protected(**annotations: str) -> Change:
    def change(body: Json) -> None:
        body["spec"]["group"] = "example.k8s.io"
        body["metadata"].update(name=f"{body['spec']['names']['plural']}.example.k8s.io", annotations=annotations)

    return change


SPEC = f"{SCHEMA}.properties[spec]"
COLUMN, SCALE, FIELD = (
    "spec.additionalPrinterColumns[0]",
    "spec.subresources.scale",
    "spec.selectableFields[0].jsonPath",
)
APPROVAL = "metadata.annotations[api-approved.kubernetes.io]"
REFUSED: dict[str, tuple[Change, tuple[str, str], str]] = {
    "no_group": (spec(group=""), (REQUIRED, "spec.group"), "Required value"),
    "group_without_dot": (spec(group="kit"), (INVALID, "spec.group"), "should be a domain with at least one dot"),
    "scope": (spec(scope="World"), (UNSUPPORTED, "spec.scope"), 'supported values: "Cluster", "Namespaced"'),
    "other_name": (
        lambda body: body["metadata"].update(name="a.b.c"),
        (INVALID, "metadata.name"),
        'spec.names.plural+"."+spec.group',
    ),
    "plural": (names(plural="A"), (INVALID, "spec.names.plural"), "DNS-1035"),
    "no_kind": (names(kind=""), (REQUIRED, "spec.names.kind"), "Required value"),
    "kind": (names(kind="A B"), (INVALID, "spec.names.kind"), "may have mixed case"),
    "short_name": (names(shortNames=["a", "B"]), (INVALID, "spec.names.shortNames[1]"), "DNS-1035"),
    "category": (names(categories=["A"]), (INVALID, "spec.names.categories[0]"), "DNS-1035"),
    "no_versions": (spec(versions=[]), (INVALID, "spec.versions"), "exactly one version marked as storage version"),
    "no_storage": (version(storage=False), (INVALID, "spec.versions"), "exactly one version marked as storage version"),
    "two_alike": (
        spec(versions=[a_version(OBJECT), a_version(OBJECT, storage=False)]),
        (INVALID, "spec.versions"),
        "unique version names",
    ),
    "version_name": (version(name="V1"), (INVALID, "spec.versions[0].name"), "DNS-1035"),
    "no_schema": (version(schema={}), (REQUIRED, "spec.versions[0].schema.openAPIV3Schema"), "Required value"),
    "old_ways": (spec(preserveUnknownFields=True), (INVALID, "spec.preserveUnknownFields"), "cannot set to true"),
    "conversion": (
        spec(conversion={"strategy": "Magic"}),
        (UNSUPPORTED, "spec.conversion.strategy"),
        '"None", "Webhook"',
    ),
    "unapproved_group": (protected(), (REQUIRED, APPROVAL), "protected groups must have approval annotation"),
    "badly_approved": (
        protected(**{"api-approved.kubernetes.io": "yes"}),
        (INVALID, APPROVAL),
        'either a URL or a reason starting with "unapproved"',
    ),
    "warning_of_nothing": (
        version(deprecationWarning="x"),
        (INVALID, "spec.versions[0].deprecationWarning"),
        "only be set for deprecated",
    ),
    "column_without_name": (column(name=""), (REQUIRED, f"{COLUMN}.name"), "Required value"),
    "column_type": (
        column(type="text"),
        (INVALID, f"{COLUMN}.type"),
        "must be one of boolean,date,integer,number,string",
    ),
    "column_format": (column(format="x"), (INVALID, f"{COLUMN}.format"), "must be one of byte,date"),
    "column_path": (
        column(jsonPath="x"),
        (INVALID, f"{COLUMN}.JSONPath"),
        "must be a simple json path starting with .",
    ),
    "scale_elsewhere": (
        scale(specReplicasPath=".a"),
        (INVALID, f"{SCALE}.specReplicasPath"),
        "should be a json path under .spec",
    ),
    "scale_nowhere": (scale(statusReplicasPath=""), (REQUIRED, f"{SCALE}.statusReplicasPath"), "Required value"),
    "field_that_is_not_there": (
        version(selectableFields=[{"jsonPath": ".spec.x"}]),
        (INVALID, FIELD),
        "does not refer to a valid field",
    ),
    "root_without_type": (schema({"properties": {}}), (REQUIRED, f"{SCHEMA}.type"), "must not be empty at the root"),
    "root_of_another_type": (schema(TEXT), (INVALID, f"{SCHEMA}.type"), "must be object at the root"),
    "root_may_be_null": (
        schema({**OBJECT, "nullable": True}),
        (FORBIDDEN, f"{SCHEMA}.nullable"),
        "nullable cannot be true at the root",
    ),
    "field_without_type": (place({}), (REQUIRED, f"{SPEC}.type"), "must not be empty for specified object fields"),
    "item_without_type": (
        place({"type": "array", "items": {}}),
        (REQUIRED, f"{SPEC}.items.type"),
        "for specified array items",
    ),
    "list_without_items": (place({"type": "array"}), (REQUIRED, f"{SPEC}.items"), "must be specified"),
    "type": (place({"type": "text"}), (UNSUPPORTED, f"{SPEC}.type"), '"array", "boolean", "integer"'),
    "both_maps": (
        place({**OBJECT, "properties": {"a": TEXT}, "additionalProperties": TEXT}),
        (FORBIDDEN, f"{SPEC}.additionalProperties"),
        "mutual exclusive",
    ),
    "reference": (place({**OBJECT, "$ref": "#/x"}), (FORBIDDEN, f"{SPEC}.$ref"), "$ref is not supported"),
    "unique_items": (
        place({"type": "array", "items": TEXT, "uniqueItems": True}),
        (FORBIDDEN, f"{SPEC}.uniqueItems"),
        "quadratic",
    ),
    "pattern": (place({**TEXT, "pattern": "("}), (INVALID, f"{SPEC}.pattern"), "must be a valid regular expression"),
    "default_of_another_type": (place({**TEXT, "default": 1}), (TYPE, f"{SPEC}.default"), "must be of type string"),
    "default_with_odd_fields": (
        place({**OBJECT, "default": {"x": 1}}),
        (INVALID, f"{SPEC}.default"),
        "must not have unknown fields",
    ),
    "type_below_anyof": (
        place({**OBJECT, "anyOf": [OBJECT]}),
        (FORBIDDEN, f"{SPEC}.anyOf[0].type"),
        "must be empty to be structural",
    ),
    "default_below_not": (
        place({**OBJECT, "not": {"default": 1}}),
        (FORBIDDEN, f"{SPEC}.not.default"),
        "must be undefined to be structural",
    ),
    "rules_below_allof": (
        place({**OBJECT, "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]}),
        (FORBIDDEN, f"{SPEC}.allOf[0].x-kubernetes-validations"),
        "must be empty to be structural",
    ),
    "rules_of_a_property_below_allof": (
        place(
            {
                **OBJECT,
                "properties": {"a": TEXT},
                "allOf": [{"properties": {"a": {"x-kubernetes-validations": [{"rule": "true"}]}}}],
            }
        ),
        (FORBIDDEN, f"{SPEC}.allOf[0].properties[a].x-kubernetes-validations"),
        "must be empty to be structural",
    ),
    "empty_object": (
        place({**OBJECT, "x-kubernetes-embedded-resource": True}),
        (REQUIRED, f"{SPEC}.properties"),
        "must not be empty if",
    ),
    "list_type": (
        place(listed("bag", TEXT)),
        (UNSUPPORTED, f"{SPEC}.x-kubernetes-list-type"),
        '"atomic", "set", "map"',
    ),
    "set_of_maps": (
        place(listed("set", OBJECT)),
        (INVALID, f"{SPEC}.items.x-kubernetes-map-type"),
        "must be atomic as item of a list",
    ),
    "no_keys": (place(listed("map", OBJECT)), (REQUIRED, f"{SPEC}.x-kubernetes-list-map-keys"), "must not be empty"),
    "key_that_may_miss": (
        place(keyed(["k"], {**OBJECT, "properties": {"k": TEXT}})),
        (REQUIRED, f"{SPEC}.items.properties[k].default"),
        "so it must have a default or be a required property",
    ),
    "key_that_is_not_there": (
        place(keyed(["k"], OBJECT)),
        (INVALID, f"{SPEC}.x-kubernetes-list-map-keys"),
        "names of item properties",
    ),
    "metadata": (
        schema({**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"labels": OBJECT}}}}),
        (FORBIDDEN, f"{SCHEMA}.properties[metadata]"),
        "must not specify anything other than name and generateName",
    ),
}


@each_row("row", REFUSED)
def test_a_definition_that_can_not_be_one_is_refused(api: Rest, name: str, row: str) -> None:
    change, cause, says = REFUSED[row]
    body = a_definition(plural_of(name), a_version({"type": "object"}))
    change(body)
    api.post(DEFINITIONS, body, dryRun="All").refused(422, "Invalid", cause, says=says)


def test_what_a_definition_leaves_out_is_filled_in(api: Rest, name: str) -> None:
    plural = plural_of(name)
    body = a_definition(plural, a_version(OBJECT))
    body["spec"]["names"] = {"plural": plural, "kind": "Kind"}
    made = api.post(DEFINITIONS, body, dryRun="All").ok(201)
    assert {"plural": plural, "singular": "kind", "kind": "Kind", "listKind": "KindList"} == made["spec"]["names"]
    assert {"strategy": "None"} == made["spec"]["conversion"]
    assert (["v1"], 1) == (made["status"]["storedVersions"], made["metadata"]["generation"])


def test_a_whole_number_is_one_however_it_is_written(api: Rest, name: str) -> None:
    plural = plural_of(name)
    odd = {"x-kubernetes-int-or-string": True, "default": 3.0}
    body = a_definition(
        plural, a_version(spec_of(a={**WHOLE, "default": 1.0, "minimum": 1.0, "enum": [1.0, 2.0]}, b=odd))
    )
    things = installed(api, body)
    shown = api.get(f"{DEFINITIONS}/{plural}.{GROUP}").body.decode()
    assert [] == [text for text in ("1.0", "2.0", "3.0") if text in shown]
    api.post(things, an_object(plural, "x", spec={"c": 4.0})).ok(201)
    assert b'"spec":{"a":1,"b":3}' in api.get(f"{things}/x").body.replace(b" ", b"")


FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["zz", ""]),
    "byte": (["YQ==", "YWJj"], ["", "YQ", "YW\nJj", "_-_-"]),
    "cidr": (["010.0.0.0/08", "::1/64", "00001::/64"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0"]),
    "creditcard": (["4111 1111 1111 1111", "34-0000000000009"], ["4111 1111 1111 1112", "1"]),
    "date": (["2024-02-29", "0000-01-01"], ["2023-02-29", "2024-w01-1".upper(), ""]),
    "date-time": (["2024-01-01t00:00:00.1+01:00", "2024-01-01T00:00:00ZTx"], ["2024-01-01", "2024-01-01T24:00:00Z"]),
    "duration": (["1h2.5m", "22 nanos", "a 3 WEEKS", "-0"], ["", "1", "1 fortnight", "9999999999.h"]),
    "email": (["a@b", '"A B" <a@[::1]> (c)', "g: a@b;"], ["a", "a@", "a@b, c@d", "a..b@c", "a@[x]"]),
    "hexcolor": (["#fff", "ABCDEF"], ["#ffff", "zz"]),
    "hostname": (
        ["a-b", "x.my-host.com", "ü.öö", "☃.com"],
        ["", "ab-c", "a.b", "a_b.com", "a.com.", f"{'x' * 64}.com"],
    ),
    "ipv4": (["01.2.3.4", "::ffff:1.2.3.4"], ["1.2.3", "256.1.1.1", "::"]),
    "ipv6": (["::", "1:2:3:4:5:6:7::"], ["1.2.3.4", "00001::", "::1%eth0"]),
    "isbn": (["0321751043", "978-0321751041"], ["zz", "0321751044"]),
    "isbn10": (["0-8044-2957-X"], ["978-0321751041"]),
    "isbn13": (["978-0321751041"], ["0321751043", "978-0321751042"]),
    "k8s-long-name": (["a.b-c"], ["A", "a..b", f"{'x' * 254}"]),
    "k8s-short-name": (["a-b"], ["a.b", "-a", f"{'x' * 64}"]),
    "mac": (["01-23-45-67-89-ab", "0123.4567.89ab", "0123456789ab"], ["01:23-45:67:89:ab", "01:23:45"]),
    "password": (["", "x"], []),
    "rgbcolor": (["rgb( 255,0 ,9)"], ["rgb(256,0,0)", "rgb(01,0,0)"]),
    "ssn": (["123-45 6789"], ["123456789", "1"]),
    "uri": (["/", "mailto:a", "http://u:p@[::1%25x]:80/?%zz", "*"], ["", "a", "http://a b", "/%zz", "http://a:1:2/"]),
    "uuid": (["123E4567e89b-12d3-a456-426614174000"], ["123e4567"]),
    "uuid3": (["123e4567-e89b-32d3-0456-426614174000"], ["123e4567-e89b-42d3-a456-426614174000"]),
    "uuid4": (["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-42d3-c456-426614174000"]),
    "uuid5": (["123e4567-e89b-52d3-b456-426614174000"], ["123e4567-e89b-52d3-0456-426614174000"]),
}
"""Texts that each format takes, and texts that it refuses."""


def test_formats_are_checked(api: Rest) -> None:
    lists = {name: {"type": "array", "items": {**TEXT, "format": name}} for name in FORMATS}
    things = installed(api, a_definition("formatted", a_version(spec_of(**lists))))
    taken = {name: good for name, (good, _) in FORMATS.items()}
    api.post(things, an_object("formatted", "x", spec=taken), dryRun="All").ok(201)
    texts = {name: good + bad for name, (good, bad) in FORMATS.items()}
    refused = api.post(things, an_object("formatted", "x", spec=texts), dryRun="All").refused(422, "Invalid")
    wrong = {
        f"spec.{name}[{len(good) + number}]" for name, (good, bad) in FORMATS.items() for number in range(len(bad))
    }
    assert wrong == {cause["field"] for cause in refused["details"]["causes"]}


def test_formats_of_numbers_are_checked(api: Rest) -> None:
    kinds = {"int32": "integer", "int64": "integer", "float": "number", "double": "number"}
    fields = {name: {"type": kind, "format": name} for name, kind in kinds.items()}
    things = installed(api, a_definition("numbered", a_version(spec_of(**fields, text={**TEXT, "format": "int32"}))))
    most = {"int32": 2**31 - 1, "int64": 2**63 - 1, "float": 3.4e38, "double": 1e300, "text": "x"}
    api.post(things, an_object("numbered", "x", spec=most), dryRun="All").ok(201)
    more = an_object("numbered", "x", spec={"int32": 2**31, "float": -3.5e38})
    status = api.post(things, more, dryRun="All").refused(
        422, "Invalid", says="integer with format int32 in spec.int32"
    )
    assert 2 == len(status["details"]["causes"])
    assert "number with format float in spec.float" in status["message"]


UNCHECKED = [("string", "odd"), ("string", "int32"), ("integer", "double"), ("number", "int64"), ("boolean", "date")]


def test_a_format_that_nobody_checks_earns_a_warning(api: Rest, name: str) -> None:
    fields = {f"x{place}": {"type": kind, "format": form} for place, (kind, form) in enumerate(UNCHECKED)}
    body = a_definition(plural_of(name), a_version(spec_of(**fields, known={**TEXT, "format": "date"})))
    wanted = [f'299 - "unrecognized format \\"{form}\\""' for _, form in UNCHECKED]
    assert sorted(wanted) == sorted(api.post(DEFINITIONS, body, dryRun="All").warnings)


# -- its life


def conditions_of(body: Json) -> dict[str, tuple[str, str]]:
    return {found["type"]: (found["status"], found["reason"]) for found in body["status"]["conditions"] or []}


def test_a_name_belongs_to_one_definition_at_a_time(api: Rest, name: str) -> None:
    plural, twin = plural_of(name), f"twin{plural_of(name)}"
    first, second = (a_definition(each, a_version(OBJECT)) for each in (plural, twin))
    for part in ("singular", "kind"):
        second["spec"]["names"][part] = first["spec"]["names"][part]
    installed(api, first)
    api.post(DEFINITIONS, second).ok(201)
    place = f"{DEFINITIONS}/{twin}.{GROUP}"
    status = eventually(
        lambda: api.get(place).ok() if api.get(place).ok()["status"]["conditions"] else None, 30, "names are judged"
    )
    assert {"NamesAccepted": ("False", "ListKindConflict"), "Established": ("False", "NotAccepted")} == conditions_of(
        status
    )
    assert 404 == api.get(path_of(twin)).status
    api.delete(f"{DEFINITIONS}/{plural}.{GROUP}").ok()
    eventually(lambda: conditions_of(api.get(place).ok())["Established"][0] == "True", 60, "the name is free")
    eventually(lambda: api.get(path_of(twin)).status == 200, 30, "the second one is served")
    assert conditions_of(api.get(place).ok())["NamesAccepted"] == ("True", "NoConflicts")
    api.delete(place).ok()


def test_objects_go_before_their_definition(api: Rest, name: str) -> None:
    plural = plural_of(name)
    things = installed(api, a_definition(plural, a_version(OBJECT)))
    place = f"{DEFINITIONS}/{plural}.{GROUP}"
    api.post(things, an_object(plural, "free")).ok(201)
    held = an_object(plural, "held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(things, held).ok(201)
    deleted = api.delete(place).ok()
    assert (1, None) == (deleted["metadata"]["generation"], deleted["metadata"].get("deletionGracePeriodSeconds"))
    assert ["customresourcecleanup.apiextensions.k8s.io"] == deleted["metadata"]["finalizers"]
    assert ("True", "InstanceDeletionPending") == conditions_of(deleted)["Terminating"]
    eventually(
        lambda: ["held"] == [item["metadata"]["name"] for item in api.get(things).ok()["items"]],
        30,
        "the free one is gone",
    )
    eventually(
        lambda: conditions_of(api.get(place).ok())["Terminating"][1] == "InstanceDeletionInProgress", 30, "it waits"
    )
    api.post(things, an_object(plural, "new")).refused(
        403, "Forbidden", says="create not allowed while custom resource definition is termin"
    )
    api.patch(f"{things}/held", {"metadata": {"finalizers": None}}).ok()
    eventually(lambda: api.get(place).status == 404, 60, "the definition is gone")
    eventually(lambda: api.get(things).status == 404, 30, "the path is gone")


def test_a_definition_that_others_hold_says_that_its_objects_are_gone(api: Rest, name: str) -> None:
    plural = plural_of(name)
    body = a_definition(plural, a_version(OBJECT))
    body["metadata"]["finalizers"] = ["example.com/hold"]
    installed(api, body)
    place = f"{DEFINITIONS}/{plural}.{GROUP}"
    marked = api.delete(place, {"propagationPolicy": "Foreground"}).ok()["metadata"]
    assert ["example.com/hold", "customresourcecleanup.apiextensions.k8s.io"] == marked["finalizers"]
    eventually(
        lambda: ["example.com/hold"] == api.get(place).ok()["metadata"]["finalizers"], 30, "its objects are gone"
    )
    assert ("False", "InstanceDeletionCompleted") == conditions_of(api.get(place).ok())["Terminating"]
    api.patch(place, {"metadata": {"finalizers": None}}).ok()


def test_a_watch_ends_with_its_kind(server: Server, name: str) -> None:
    api, plural = server.api, plural_of(name)
    things = installed(api, a_definition(plural, a_version(OBJECT)))
    api.post(things, an_object(plural, "x")).ok(201)
    with api.watch(things, resourceVersion="0") as watch:
        assert "ADDED" == watch.take(1)[0]["type"]
        api.delete(f"{DEFINITIONS}/{plural}.{GROUP}").ok()
        assert "DELETED" == watch.take(1)[0]["type"]
        assert watch.next() is None


FROZEN: dict[str, tuple[Change, str]] = {
    "scope": (spec(scope="Namespaced"), "spec.scope"),
    "kind": (names(kind="Other", listKind="OtherList"), "spec.names.kind"),
    "plural": (names(plural="others"), "spec.names.plural"),
    "group": (spec(group="other.example.com"), "spec.group"),
}


@each_row("row", FROZEN)
def test_what_objects_depend_on_stays(api: Rest, row: str) -> None:
    change, field = FROZEN[row]
    installed(api, a_definition("stayers", a_version(OBJECT)))
    changed(api, f"stayers.{GROUP}", change).refused(422, "Invalid", (INVALID, field), says="field is immutable")


def test_a_version_that_objects_may_be_stored_in_stays(api: Rest, name: str) -> None:
    plural = plural_of(name)
    old, new = a_version(spec_of(a=TEXT, b=WHOLE)), a_version(spec_of(a=TEXT, c={**TEXT, "default": "x"}), "v2")
    installed(api, a_definition(plural, old, new))
    place = f"{plural}.{GROUP}"
    moved = [{**old, "storage": False}, {**new, "storage": True}]
    answer = changed(api, place, lambda body: body["spec"].update(versions=moved)).ok()
    assert (["v1", "v2"], 2) == (answer["status"]["storedVersions"], answer["metadata"]["generation"])
    left = changed(api, place, lambda body: body["spec"].update(versions=moved[1:]))
    left.refused(
        422,
        "Invalid",
        (INVALID, "status.storedVersions[0]"),
        says="must remain in spec.versions until a storage migration",
    )
    api.patch(f"{DEFINITIONS}/{place}/status", {"status": {"storedVersions": ["v2"]}}).ok()
    changed(api, place, lambda body: body["spec"].update(versions=moved[1:])).ok()
    eventually(lambda: api.get(path_of(plural)).status == 404, 30, "the old version is not served any more")
    api.delete(f"{DEFINITIONS}/{place}").ok()


def test_an_object_keeps_what_the_version_knows_that_it_is_stored_in(api: Rest, name: str) -> None:
    plural, default = plural_of(name), {**TEXT, "default": "new"}
    old, new = a_version(spec_of(a=TEXT, b=TEXT)), a_version(spec_of(a=TEXT, c=default), "v2")
    one, place = installed(api, a_definition(plural, old, new)), f"{plural}.{GROUP}"
    two, given = path_of(plural, "v2"), {"a": "1", "b": "2"}
    for each in ("left", "written", "migrated"):
        api.post(one, an_object(plural, each, spec=given)).ok(201)

    def stored_in(**storage: bool) -> None:
        versions = [{**version, "storage": storage[version["name"]]} for version in (old, new)]
        changed(api, place, lambda body: body["spec"].update(versions=versions)).ok()

    stored_in(v1=False, v2=True)
    # (A written object tells which version the server stores in: it takes up the change when it has read it.)
    eventually(lambda: _rewritten(api, plural), 30, "objects are stored as v2")
    (kind,) = [found for found in api.get(f"/apis/{GROUP}/v1").ok()["resources"] if plural == found["name"]]
    stored_as = hashlib.sha256(f"{GROUP}/v2/{kind['kind']}".encode()).digest()[:8]
    assert base64.b64encode(stored_as).decode() == kind["storageVersionHash"]
    assert [given, given] == [api.get(f"{one}/{each}").ok()["spec"] for each in ("left", "migrated")]
    assert {"a": "1"} == api.get(f"{two}/left").ok()["spec"], "defaults are those of the version that it is stored in"
    api.patch(f"{two}/written", {"metadata": {"labels": {"x": "y"}}}).ok()
    before = api.get(f"{two}/migrated").ok()
    after = api.put(f"{two}/migrated", before).ok()
    assert before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"], "it is stored as v2 now"
    assert [{"a": "1", "c": "new"}] * 2 == [api.get(f"{two}/{each}").ok()["spec"] for each in ("written", "migrated")]
    stored_in(v1=True, v2=False)
    assert [given, {"a": "1"}] == [api.get(f"{one}/{each}").ok()["spec"] for each in ("left", "written")]
    api.delete(f"{DEFINITIONS}/{place}").ok()


def _rewritten(api: Rest, plural: str) -> bool:
    """Whether a new object is stored as v2, which fills in a default that v1 does not know."""
    probe = f"{path_of(plural, 'v2')}/probe"
    api.delete(probe)
    api.post(path_of(plural), an_object(plural, "probe", spec={"b": "lost"})).ok(201)
    return api.get(f"{path_of(plural)}/probe").ok()["spec"] == {}


# -- several versions, and the scale


@pytest.fixture
def versioned(api: Rest) -> str:
    """The plural of a kind with a deprecated second version, a scale and a selectable field."""
    schema_one = spec_of(a=TEXT, n=WHOLE, d={**TEXT, "default": "d1"})
    schema_one["properties"]["status"] = {"type": "object", "properties": {"n": WHOLE, "s": TEXT}}
    paths = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}
    one = a_version(schema_one, subresources={"status": {}, "scale": paths}, selectableFields=[{"jsonPath": ".spec.a"}])
    two = a_version(spec_of(a=TEXT), "v1beta1", deprecated=True)
    installed(api, a_definition("formers", one, two))
    return "formers"


def test_every_version_shows_the_same_objects(api: Rest, versioned: str, name: str) -> None:
    one, two = path_of(versioned), path_of(versioned, "v1beta1")
    api.post(one, an_object(versioned, name, spec={"a": "x", "n": 2})).ok(201)
    shown = api.get(f"{two}/{name}").ok()
    assert (f"{GROUP}/v1beta1", {"a": "x"}) == (shown["apiVersion"], shown["spec"])
    listed_there = api.get(two, fieldSelector=f"metadata.name={name}").ok()
    assert [(f"{GROUP}/v1beta1", {"a": "x"})] == [(item["apiVersion"], item["spec"]) for item in listed_there["items"]]
    assert (f"{GROUP}/v1beta1", "FormerList") == (listed_there["apiVersion"], listed_there["kind"])
    api.patch(f"{two}/{name}", {"spec": {"a": "y"}}).ok()
    assert {"a": "y", "d": "d1"} == api.get(f"{one}/{name}").ok()["spec"], (
        "what the other version does not know is lost in a write"
    )
    with api.watch(two, resourceVersion="0", fieldSelector=f"metadata.name={name}") as watch:
        assert f"{GROUP}/v1beta1" == watch.take(1)[0]["object"]["apiVersion"]


def test_a_deprecated_version_warns(api: Rest, versioned: str, name: str) -> None:
    one, two = path_of(versioned), path_of(versioned, "v1beta1")
    warning = f'299 - "{GROUP}/v1beta1 Former is deprecated; use {GROUP}/v1 Former"'
    body = an_object(versioned, name, "v1beta1")
    assert [[warning]] * 3 == [
        answer.warnings for answer in (api.post(two, body), api.get(two), api.get(f"{two}/none"))
    ]
    assert [] == api.get(one).warnings


def test_a_field_is_selectable_where_its_version_says_so(api: Rest, versioned: str, name: str) -> None:
    one, two = path_of(versioned), path_of(versioned, "v1beta1")
    api.post(one, an_object(versioned, name, spec={"a": name})).ok(201)
    found = api.get(one, fieldSelector=f"spec.a={name}").ok()["items"]
    assert [name] == [item["metadata"]["name"] for item in found]
    assert [] == api.get(one, fieldSelector=f"spec.a={name},metadata.name=other").ok()["items"]
    for path, field in ((one, "spec.n"), (two, "spec.a")):
        api.get(path, fieldSelector=f"{field}=1").refused(400, "BadRequest", says=f"field label not supported: {field}")


def test_a_scale_is_a_part_of_its_object(api: Rest, versioned: str, name: str) -> None:
    path = f"{path_of(versioned)}/{name}"
    api.post(path_of(versioned), an_object(versioned, name, spec={"a": "x", "n": 2})).ok(201)
    api.patch(f"{path}/status", {"status": {"n": 1, "s": "app=x"}}).ok()
    shown = api.get(f"{path}/scale").ok()
    assert ("autoscaling/v1", "Scale", name) == (shown["apiVersion"], shown["kind"], shown["metadata"]["name"])
    assert ({"replicas": 2}, {"replicas": 1, "selector": "app=x"}) == (shown["spec"], shown["status"])
    assert {"replicas": 5} == api.patch(f"{path}/scale", {"spec": {"replicas": 5}}).ok()["spec"]
    after = api.get(path).ok()
    assert ({"a": "x", "n": 5, "d": "d1"}, 2) == (after["spec"], after["metadata"]["generation"])
    api.put(f"{path}/scale", shown).refused(409, "Conflict", says="the object has been modified")
    fresh = copy.deepcopy(shown)
    del fresh["metadata"]["resourceVersion"]
    assert {"replicas": 2} == api.put(f"{path}/scale", fresh).ok()["spec"]
    fresh["spec"]["replicas"] = -1
    api.put(f"{path}/scale", fresh).refused(
        422, "Invalid", (INVALID, ".spec.n"), says="should be a non-negative integer"
    )
    assert [404, 404] == [
        api.get(f"{path_of(versioned)}/none/scale").status,
        api.get(f"{path_of(versioned, 'v1beta1')}/{name}/scale").status,
    ]
    assert 405 == api.delete(f"{path}/scale").status


def test_discovery_knows_names_and_sub_resources(api: Rest, versioned: str) -> None:
    group = api.get(f"/apis/{GROUP}").ok()
    assert "v1" == group["preferredVersion"]["version"]
    found = {entry["name"]: entry for entry in api.get(f"/apis/{GROUP}/v1").ok()["resources"]}
    assert ("Former", "former", False) == tuple(
        found[versioned][part] for part in ("kind", "singularName", "namespaced")
    )
    assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} == set(
        found[versioned]["verbs"]
    )
    assert ["get", "patch", "update"] == sorted(found[f"{versioned}/status"]["verbs"])
    told = found[f"{versioned}/scale"]
    assert ("autoscaling", "v1", "Scale") == tuple(told[part] for part in ("group", "version", "kind"))
