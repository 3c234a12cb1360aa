"""What random requests have shown to matter: both servers give the same answer."""

from __future__ import annotations

import copy
import json
import time
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.applying import APPLY_PATCH, SHAPE_DEFINITION, SHAPES
from tests.support.builders import a_class, a_job, a_node, a_pod, a_secret, a_va, a_workload
from tests.support.paths import CSI_DRIVERS, EVENTS, JOBS, LEASES, NODES, PODS, PVCS, PVS, SECRETS, STORAGE_CLASSES, VAS
from tests.support.rest import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Rest
from tests.support.rows import each_row
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.waiting import eventually

INVALID, FORBIDDEN, UNSUPPORTED = "FieldValueInvalid", "FieldValueForbidden", "FieldValueNotSupported"
TYPE, DUPLICATE = "FieldValueTypeInvalid", "FieldValueDuplicate"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MATCH = "resourceVersionMatch"


@pytest.fixture
def shapes(api: Rest) -> str:
    """The path of a custom kind."""
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", SHAPE_DEFINITION)
    eventually(lambda: api.get(SHAPES).status == 200, 30, "the kind is served")
    return SHAPES


def a_shape(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "mooring.test/v1", "kind": "Shape", "metadata": {"name": name}, **fields}


# -- queries


def test_all_that_is_wrong_with_a_match_is_told(api: Rest) -> None:
    status = api.get(SECRETS, resourceVersionMatch="x", fieldSelector="x=y", **{"continue": "x"}).refused(
        422, "Invalid"
    )
    told = [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]]
    assert [(FORBIDDEN, MATCH), (FORBIDDEN, MATCH), (UNSUPPORTED, MATCH)] == told


@each_row("query", ["limit", "timeoutSeconds"])
def test_an_empty_number_is_no_number(api: Rest, query: str) -> None:
    api.get(SECRETS, **{query: ""}).refused(400, "BadRequest", says='strconv.ParseInt: parsing "": invalid syntax')


def test_an_empty_dry_run_is_none_that_is_known(api: Rest, name: str) -> None:
    api.post(SECRETS, a_secret(name), dryRun="").refused(422, "Invalid", (UNSUPPORTED, "dryRun"))


def test_selectors_are_read_before_the_options_of_a_deletion(api: Rest) -> None:
    api.delete(SECRETS, labelSelector="=", gracePeriodSeconds="x").refused(
        400, "BadRequest", says="found '=', expected: !, identifier"
    )


def test_a_field_selector_of_nothing_selects_all(api: Rest) -> None:
    api.get(SECRETS, fieldSelector="=").ok()


def test_nodes_are_not_selected_by_namespaces(api: Rest) -> None:
    api.get(NODES, fieldSelector="metadata.namespace=x").refused(
        400, "BadRequest", says="field label not supported: metadata.namespace"
    )


def test_custom_objects_outside_of_namespaces_are_not_selected_by_them(api: Rest, shapes: str) -> None:
    api.get(shapes, fieldSelector="metadata.namespace=x").refused(
        400, "BadRequest", says="field label not supported: metadata.namespace"
    )


# -- paths


@each_row(("segment", "why"), [("a%25b", "may not contain '%'"), ("%2e", "may not be '.'")])
@each_row("method", ["GET", "DELETE", "PUT"])
def test_a_name_that_cannot_be_one_is_refused_at_once(api: Rest, method: str, segment: str, why: str) -> None:
    name = unquote(segment)
    body = a_secret(name) if method == "PUT" else None
    api.request(method, f"{SECRETS}/{segment}", body).refused(
        400, "BadRequest", says=f'Name parameter invalid: "{name}": {why}'
    )


def test_a_slash_at_the_end_means_nothing(api: Rest, name: str) -> None:
    api.post(SECRETS, a_secret(name)).ok(201)
    assert name == api.get(f"{SECRETS}/{name}/").ok()["metadata"]["name"]


def test_slashes_at_the_end_mean_nothing_to_a_deletion_either(api: Rest) -> None:
    api.delete("/api/v1/namespaces/default////").refused(403, "Forbidden", says="this namespace may not be deleted")


def test_a_part_that_a_custom_kind_has_not_is_not_found(api: Rest, shapes: str, name: str) -> None:
    assert {"name": name, "group": "mooring.test", "kind": "shapes"} == api.get(f"{shapes}/{name}/none").refused(
        404, "NotFound"
    )["details"]


# -- patches


def test_a_patch_of_what_is_not_there_is_not_read(api: Rest, name: str) -> None:
    api.patch(f"{SECRETS}/{name}", b"\xff").refused(404, "NotFound")


def test_a_patch_of_no_known_type_is_refused_before_anything_else(api: Rest, name: str) -> None:
    status = api.patch(f"{SECRETS}/{name}", {}, "application/json").refused(
        415, "UnsupportedMediaType", says="415: Unsupported Media Type"
    )
    assert {} == status["details"]


@each_row("body", [{"provisioner": 5}, {"noSuchField": 1}])
def test_what_a_patch_makes_unreadable_names_no_object(api: Rest, name: str, body: dict[str, Any]) -> None:
    api.post(STORAGE_CLASSES, a_class(name)).ok(201)
    status = api.patch(f"{STORAGE_CLASSES}/{name}", body, fieldValidation="Strict").refused(
        422, "Invalid", (INVALID, "patch")
    )
    assert ["causes"] == list(status["details"])


def test_an_item_needs_its_key_only_where_a_list_is(api: Rest, name: str) -> None:
    api.post(NODES, a_node(name)).ok(201)
    conditions = [{"type": "x", "status": "1"}, {"type": "x", "status": "2"}]
    patched = api.patch(f"{NODES}/{name}/status", {"status": {"conditions": conditions}}, STRATEGIC_PATCH).ok()
    assert ["1", "2"] == [condition["status"] for condition in patched["status"]["conditions"]]


def test_warnings_come_with_a_refusal_too(api: Rest, name: str) -> None:
    refused = api.post(SECRETS, {**a_secret(name), "noSuchField": 1, "type": "Opaque", "data": {"/": ""}})
    refused.refused(422, "Invalid")
    assert ['299 - "unknown field \\"noSuchField\\""'] == refused.warnings


def test_an_unknown_field_that_is_there_twice_is_told_once(api: Rest, name: str) -> None:
    body = b'{"metadata":{"name":"%s"},"x":1,"x":2}' % name.encode()
    assert ['299 - "unknown field \\"x\\""'] == api.post(SECRETS, body, dryRun="All").warnings


@each_row("kind", [JSON_PATCH, STRATEGIC_PATCH])
def test_a_patch_of_null_changes_nothing(api: Rest, name: str, kind: str) -> None:
    made = api.post(SECRETS, a_secret(name)).ok(201)
    assert (
        made["metadata"]["resourceVersion"]
        == api.patch(f"{SECRETS}/{name}", b"null", kind).ok()["metadata"]["resourceVersion"]
    )


@each_row("kind", [MERGE_PATCH, STRATEGIC_PATCH])
def test_what_a_patch_says_twice_is_told(api: Rest, name: str, kind: str) -> None:
    api.post(SECRETS, a_secret(name)).ok(201)
    patch = b'{"type":"Opaque","type":"Opaque"}'
    assert ['299 - "duplicate field \\"type\\""'] == api.patch(f"{SECRETS}/{name}", patch, kind).warnings
    assert [] == api.patch(f"{SECRETS}/{name}", patch, kind, fieldValidation="Ignore").warnings
    api.patch(f"{SECRETS}/{name}", patch, kind, fieldValidation="Strict").refused(
        422, "Invalid", (INVALID, "patch"), says='duplicate field "type"'
    )


LONG = "9" * 400


@each_row(
    ("kind", "patch", "wrong"),
    [
        (JSON_PATCH, "5", "number into Go value of type []handlers.jsonPatchOp"),
        (JSON_PATCH, "[5]", "number into Go value of type handlers.jsonPatchOp"),
        (JSON_PATCH, '[null,{"op":5}]', "number into Go struct field jsonPatchOp.op of type string"),
        (JSON_PATCH, '[{"op":"add","path":true}]', "bool into Go struct field jsonPatchOp.path of type string"),
        (
            JSON_PATCH,
            '[{"op":"add","path":"/x","from":{}}]',
            "object into Go struct field jsonPatchOp.from of type string",
        ),
        (
            JSON_PATCH,
            '[{"op":"test","path":"/x","value":[1e400]}]',
            "number 1e400 into Go struct field jsonPatchOp.value of type float64",
        ),
        (
            JSON_PATCH,
            f'[{{"op":"x"}},{{"op":"add","path":"/x","value":{LONG}}}]',
            f"number {LONG} into Go struct field jsonPatchOp.value of type float64",
        ),
        (MERGE_PATCH, "[]", "array into Go value of type map[string]interface {}"),
        (MERGE_PATCH, '{"x":{"y":-1e400}}', "number -1e400 into Go value of type float64"),
        (STRATEGIC_PATCH, '"x"', "string into Go value of type map[string]interface {}"),
        (STRATEGIC_PATCH, f'{{"x":{LONG}}}', f"number {LONG} into Go value of type float64"),
    ],
)
def test_a_patch_is_read_before_it_is_applied(api: Rest, name: str, kind: str, patch: str, wrong: str) -> None:
    """Also where the patch could not be applied, or all of it is unknown."""
    api.post(SECRETS, a_secret(name)).ok(201)
    told = f"{'' if kind == STRATEGIC_PATCH else 'error decoding patch: '}json: cannot unmarshal {wrong}"
    for validation in (None, "Warn", "Strict"):
        answer = api.patch(f"{SECRETS}/{name}", patch.encode(), kind, fieldValidation=validation)
        assert told == answer.refused(400, "BadRequest")["message"]


@each_row(
    ("kind", "patch", "status"),
    [
        (JSON_PATCH, '[{"op":"test","path":"/x","value":1e400}]', 422),
        (JSON_PATCH, '[{"op":"test","path":"/x","from":5}]', 200),
        (MERGE_PATCH, '{"x":1e400}', 200),
        (STRATEGIC_PATCH, '{"x":1e400}', 400),
    ],
)
def test_a_patch_whose_fields_are_not_validated_is_applied_as_it_is(
    api: Rest, name: str, kind: str, patch: str, status: int
) -> None:
    api.post(SECRETS, a_secret(name)).ok(201)
    assert status == api.patch(f"{SECRETS}/{name}", patch.encode(), kind, fieldValidation="Ignore").status


def test_members_that_no_operation_has_are_told(api: Rest, name: str) -> None:
    api.post(SECRETS, a_secret(name)).ok(201)
    patch = (
        b'[{"op":"test","path":"/x"},{"op":"test","op":"test","path":"/x","x":1e400},{"op":"test","path":"/y","OP":""}]'
    )
    told = [
        'json patch duplicate field "[1].op"',
        'json patch unknown field "[1].x"',
        'json patch unknown field "[2].OP"',
    ]
    found = api.patch(f"{SECRETS}/{name}", patch, JSON_PATCH)
    assert ["299 - " + json.dumps(text) for text in told] == found.warnings
    api.patch(f"{SECRETS}/{name}", patch, JSON_PATCH, fieldValidation="Strict").refused(
        422, "Invalid", (INVALID, "patch"), says=f"strict decoding error: {', '.join(told)}"
    )


def test_mistakes_of_a_patch_and_of_its_object_are_told_together(api: Rest, name: str) -> None:
    api.post(SECRETS, a_secret(name)).ok(201)
    patch = b'{"type":"Opaque","type":"Opaque","x":1,"x":2}'
    says = 'strict decoding error: duplicate field "type", duplicate field "x", unknown field "x"'
    answer = api.patch(f"{SECRETS}/{name}", patch, MERGE_PATCH, fieldValidation="Strict")
    answer.refused(422, "Invalid", (INVALID, "patch"), says=says)
    answer = api.patch(f"{SECRETS}/{name}", b'{"type":"Opaque","type":5}', MERGE_PATCH, fieldValidation="Strict")
    answer.refused(422, "Invalid", (INVALID, "patch"), says="json: cannot unmarshal number into Go struct field ")


# -- apply


def test_an_apply_that_cannot_be_typed_names_the_kind(api: Rest, name: str) -> None:
    config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "x": 1}
    message = api.patch(f"{SECRETS}/{name}", config, APPLY_PATCH, fieldManager="m").json["message"]
    assert (
        f"failed to create typed patch object (/{name}; /v1, Kind=Secret): .x: field not declared in schema" == message
    )


def test_an_apply_that_owns_nothing_writes_nothing(api: Rest, name: str) -> None:
    made = api.post(NODES, a_node(name)).ok(201)
    config = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"podCIDR": "10.0.0.0/24"}}
    applied = api.patch(f"{NODES}/{name}/status", config, APPLY_PATCH, fieldManager="m").ok()
    assert made["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]


def test_what_an_apply_expects_of_values(api: Rest, name: str) -> None:
    spec = {"renewTime": [], "holderIdentity": [], "leaseTransitions": []}
    config = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
    message = api.patch(f"{LEASES}/{name}", config, APPLY_PATCH, fieldManager="m").json["message"]
    assert ".spec.renewTime: expected any scalar, got " in message
    assert ".spec.holderIdentity: expected string, got " in message
    assert ".spec.leaseTransitions: expected numeric (int or float), got " in message


def test_items_with_keys_are_maps(api: Rest, name: str) -> None:
    omits = 'has an element that omits all key fields ["name"] (and doesn\'t have default values for any key fields)'
    for item, why in (("x", "may not have non-map elements"), (None, "may not have a null element"), ({}, omits)):
        config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, "secrets": [item]}
        message = api.patch(f"{ACCOUNTS}/{name}", config, APPLY_PATCH, fieldManager="m").json["message"]
        assert message.endswith(f".secrets: element 0: associative list with keys {why}"), message


@each_row(
    ("item", "why"),
    [
        ({"a": "b"}, "associative list without keys has an element that's a map type"),
        (["a"], "not supported: associative list with lists as elements"),
        (None, "associative list without keys has an element that's an explicit null"),
    ],
)
def test_items_of_sets_are_values(api: Rest, name: str, item: Any, why: str) -> None:
    config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "finalizers": [item]}}
    message = api.patch(f"{SECRETS}/{name}", config, APPLY_PATCH, fieldManager="m").json["message"]
    assert message.endswith(f".metadata.finalizers: element 0: {why}"), message


def test_an_apply_that_creates_names_no_uid(api: Rest, name: str) -> None:
    config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "uid": "x"}}
    refused = api.patch(f"{SECRETS}/{name}", config, APPLY_PATCH, fieldManager="m")
    refused.refused(
        409, "Conflict", says="uid mismatch: the provided object specified uid x, and no existing object was found"
    )


# -- deletions


@each_row("condition", ["uid", "resourceVersion"])
def test_an_empty_precondition_is_one(api: Rest, name: str, condition: str) -> None:
    api.post(SECRETS, a_secret(name)).ok(201)
    api.delete(f"{SECRETS}/{name}", {"preconditions": {condition: ""}}).refused(409, "Conflict", says="precondition ()")


def test_all_that_is_wrong_with_a_policy_is_told(api: Rest, name: str) -> None:
    status = api.delete(f"{SECRETS}/{name}", {"propagationPolicy": "Never", "orphanDependents": False}).refused(
        422, "Invalid"
    )
    assert [INVALID, UNSUPPORTED] == [cause["reason"] for cause in status["details"]["causes"]]


def test_events_of_both_apis_are_one_kind_to_preconditions(api: Rest, name: str) -> None:
    api.post(EVENTS, {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}}).ok(201)
    status = api.delete(f"{NEW_EVENTS}/{name}", {"preconditions": {"uid": "x"}}).refused(
        409, "Conflict", says=f'on Event "{name}"'
    )
    assert {"name": name, "kind": "Event"} == status["details"]


def test_new_finalizers_are_told_in_order(api: Rest, name: str) -> None:
    api.post(SECRETS, a_secret(name, finalizers=["a.b/z"])).ok(201)
    api.delete(f"{SECRETS}/{name}")
    refused = api.patch(f"{SECRETS}/{name}", {"metadata": {"finalizers": ["a.b/z", "a.b/y", "a.b/x"]}})
    refused.refused(422, "Invalid", (FORBIDDEN, "metadata.finalizers"), says='[]string{"a.b/x", "a.b/y"}')
    api.patch(f"{SECRETS}/{name}", {"metadata": {"finalizers": None}}).ok()


# -- kinds


def test_the_swap_of_a_node_is_more_than_none_but_in_its_status(api: Rest, name: str) -> None:
    status = {"nodeInfo": {"swap": {"capacity": 0}}}
    wrong = (INVALID, "metadata.nodeSwapStatus.capacity", "must be greater than zero")
    api.post(NODES, {**a_node(name), "status": status}).invalid(wrong)
    api.post(NODES, {**a_node(name), "status": {"nodeInfo": {"swap": {}}}}).ok(201)
    api.patch(f"{NODES}/{name}/status", {"status": status}).ok()
    api.patch(f"{NODES}/{name}", {"metadata": {"labels": {"a": "b"}}}).invalid(wrong)


def test_the_key_of_an_item_may_come_with_a_point(api: Rest, shapes: str, name: str) -> None:
    api.patch(
        f"{shapes}/{name}", a_shape(name, spec={"items": [{"port": 1, "name": "a"}]}), APPLY_PATCH, fieldManager="a"
    ).ok(201)
    for items in ([{"port": 1.0, "name": "b"}], [{"port": 2.0}, {"port": 1.0}]):
        stored = api.patch(f"{shapes}/{name}", {"spec": {"items": items}}, fieldManager="b").ok()
    assert [{"port": 2, "protocol": "TCP"}, {"port": 1, "protocol": "TCP"}] == stored["spec"]["items"]
    owned = {each["manager"]: [*each["fieldsV1"]["f:spec"]["f:items"]] for each in stored["metadata"]["managedFields"]}
    first, second = (f'k:{{"port":{port},"protocol":"TCP"}}' for port in (1, 2))
    assert {"a": [first], "b": [second]} == owned


def test_an_item_that_is_null_has_no_keys(api: Rest, shapes: str, name: str) -> None:
    """And of what is there several times the second is told alone."""
    null = (TYPE, "spec.items[0]", 'must be of type object: "null"')
    api.post(shapes, a_shape(name, spec={"items": [None]})).invalid(null)
    items = [
        {"port": 1},
        {"port": 1},
        {"port": 1},
        {"port": 2},
        {"port": 1, "protocol": "TCP"},
        {"port": 2, "protocol": "UDP"},
    ]
    api.post(shapes, a_shape(name, spec={"items": items})).invalid((DUPLICATE, "spec.items[1]", "Duplicate value"))
    api.post(shapes, a_shape(name, spec={"set": ["a", "b", "a", "a", "b"]})).invalid(
        *[(DUPLICATE, f"spec.set[{number}]", "Duplicate value") for number in (2, 4)]
    )


def test_the_long_name_of_a_feature_is_told_of_its_length(api: Rest, name: str) -> None:
    wrong = api.post(NODES, {**a_node(name), "status": {"declaredFeatures": ["a" * 254]}})
    wrong.invalid((INVALID, "status.declaredFeatures[0]", "must be no more than 253 characters"))


@each_row(
    ("image", "policy"),
    [
        ("a" * 247, "Always"),
        ("a" * 248, "IfNotPresent"),
        ("a/" + "b" * 253, "Always"),
        ("a.b/" + "c" * 255, "Always"),
        ("a.b/" + "c" * 256, "IfNotPresent"),
        ("docker.io/" + "a" * 248, "IfNotPresent"),
    ],
    ids=len,
)
def test_the_path_of_an_image_has_a_largest_length(api: Rest, name: str, image: str, policy: str) -> None:
    made = api.post(PODS, a_pod(name, containers=[{"name": "c", "image": image}]), dryRun="All").ok(201)
    assert policy == made["spec"]["containers"][0]["imagePullPolicy"]


def test_null_is_no_amount(api: Rest, name: str) -> None:
    made = api.post(NODES, a_node(name, capacity={"cpu": None}), dryRun="All").ok(201)
    assert {"cpu": "0"} == made["status"]["capacity"]


@each_row(("text", "place"), [("AAEC=", 4), ("AA==AA==", 4), ("AAE", 0), ("AA EC", 2)])
def test_base64_ends_where_it_ends(api: Rest, name: str, text: str, place: int) -> None:
    wrong = api.post(SECRETS, {**a_secret(name), "data": {"a": text}})
    wrong.refused(400, "BadRequest", says=f"illegal base64 data at input byte {place}")


def test_the_name_of_a_volume_is_looked_at_beside_another_source(api: Rest, name: str) -> None:
    inline = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "../x", "inlineVolumeSpec": inline}}
    found = api.post(VAS, {"metadata": {"name": name}, "spec": spec})
    field = "spec.source.persistentVolumeName"
    found.invalid(
        (FORBIDDEN, "spec.source", "exactly one"), (INVALID, field, "a lowercase RFC 1123 subdomain must consist")
    )


def test_owners_without_a_version(api: Rest, name: str) -> None:
    owners = [{"kind": "x", "name": "x", "uid": "1"}, {"apiVersion": "/", "kind": "x", "name": "x", "uid": "2"}]
    wrong = api.post(SECRETS, a_secret(name, ownerReferences=owners))
    wrong.invalid(*[(INVALID, "metadata.ownerReferences.apiVersion", "version must not be empty")] * 2)


@each_row(
    ("path", "obj"),
    [(LEASES, {"spec": {"holderIdentity": "a"}}), (EVENTS, {"involvedObject": {"namespace": "default"}})],
)
def test_finalizers_without_a_prefix_where_they_are_taken(api: Rest, name: str, path: str, obj: dict[str, Any]) -> None:
    api.post(path, {"metadata": {"name": name, "finalizers": ["x"]}, **obj}, dryRun="All").ok(201)
    wrong = api.post(path, {"metadata": {"name": name, "finalizers": ["a/b/c"]}, **obj}, dryRun="All")
    wrong.invalid((INVALID, "metadata.finalizers", "a valid label key must consist of"))


def test_accounts_keep_the_names_of_their_secrets(api: Rest, name: str) -> None:
    api.post(ACCOUNTS, {"metadata": {"name": name}, "secrets": [{"name": "a", "kind": "x"}]}).ok(201)
    changed = api.put(
        f"{ACCOUNTS}/{name}", {"metadata": {"name": name}, "secrets": [{"name": "a", "namespace": "x"}, {"kind": "x"}]}
    ).ok()
    assert [{"name": "a"}, {}] == changed["secrets"]


@each_row(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("A.com/x", "Always"),
        ("a:latest@sha256:" + "a" * 64, "Always"),
        ("a@sha256:" + "a" * 64, "IfNotPresent"),
        ("a:1", "IfNotPresent"),
        ("/x", "IfNotPresent"),
        ("X", "IfNotPresent"),
        ("x y", "IfNotPresent"),
        ("a:", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("x/" + "y" * 254, "IfNotPresent"),
    ],
)
def test_when_images_are_pulled(api: Rest, name: str, image: str, policy: str) -> None:
    pod = api.post(
        PODS, {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": image}]}}, dryRun="All"
    ).ok(201)
    assert policy == pod["spec"]["containers"][0]["imagePullPolicy"]


@each_row("part", ["matchLabelKeys", "mismatchLabelKeys"])
def test_keys_of_labels_that_pods_are_matched_by(api: Rest, name: str, part: str) -> None:
    terms = [{"topologyKey": "z", part: ["a"]}, {"topologyKey": "z", "labelSelector": {}, part: ["a b"]}]
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    }
    field = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    api.post(PODS, {"metadata": {"name": name}, "spec": spec}).invalid(
        (FORBIDDEN, f"{field}[0].{part}", "must not be specified when labelSelector is not set"),
        (INVALID, f"{field}[1].{part}[0]", "name part must consist of"),
    )


def test_what_is_wrong_with_a_pod_is_told_before_what_admission_has_against_it(api: Rest, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "overhead": {"cpu": "1"}, "activeDeadlineSeconds": -1}
    api.post(PODS, {"metadata": {"name": name}, "spec": spec}).invalid(
        (INVALID, "spec.activeDeadlineSeconds", "must be between 1 and")
    )
    del spec["activeDeadlineSeconds"]
    api.post(PODS, {"metadata": {"name": name}, "spec": spec}, dryRun="All").refused(
        403, "Forbidden", says="Pod Overhead set without"
    )


def test_an_apply_gives_a_number_or_a_text_to_its_owner_whatever_it_is(api: Rest, shapes: str, name: str) -> None:
    """Before it is validated."""
    api.post(shapes, a_shape(name, spec={"size": 1})).ok(201)
    given = a_shape(name, spec={"size": []})
    api.patch(f"{shapes}/{name}", given, APPLY_PATCH, fieldManager="two").refused(
        409, "Conflict", ("FieldManagerConflict", ".spec.size")
    )
    status = api.patch(f"{shapes}/{name}", given, APPLY_PATCH, fieldManager="two", force="true").refused(422, "Invalid")
    assert ["spec.size"] == [cause["field"] for cause in status["details"]["causes"]]


def test_keys_of_labels_that_pods_are_spread_by(api: Rest, name: str) -> None:
    base = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    selector = {"matchLabels": {"a": "x"}}
    spread = [
        {**base, "topologyKey": "x", "matchLabelKeys": ["a b"]},
        {**base, "topologyKey": "y", "matchLabelKeys": ["a b", "a", "b", "b"], "labelSelector": selector},
        {**base, "topologyKey": "z", "nodeAffinityPolicy": "honor", "nodeTaintsPolicy": ""},
    ]
    metadata = {"name": name, "labels": {"a": "x", "b": "y"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "topologySpreadConstraints": spread}
    field = "spec.topologySpreadConstraints"
    api.post(PODS, {"metadata": metadata, "spec": spec}).invalid(
        (FORBIDDEN, f"{field}[0].matchLabelKeys", "must not be specified when labelSelector is not set"),
        (INVALID, f"{field}[1].matchLabelKeys[0]", "name part must consist of"),
        (INVALID, f"{field}[1][1]", "exists in both matchLabelKeys and labelSelector"),
        (INVALID, f"{field}[1][3]", "exists in both matchLabelKeys and labelSelector"),
        (UNSUPPORTED, f"{field}[2].nodeAffinityPolicy", 'supported values: "Honor", "Ignore"'),
        (UNSUPPORTED, f"{field}[2].nodeTaintsPolicy", 'supported values: "Honor", "Ignore"'),
    )


def test_labels_of_a_new_pod_go_into_its_selectors_by_their_keys(api: Rest, name: str) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "ScheduleAnyway",
        "matchLabelKeys": ["b", "none"],
        "labelSelector": {},
    }
    term = {
        "topologyKey": "z",
        "labelSelector": {"matchLabels": {"a": "x"}},
        "matchLabelKeys": ["b"],
        "mismatchLabelKeys": ["a"],
    }
    affinity = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    }
    spec = {"containers": [{"name": "c", "image": "i"}], "topologySpreadConstraints": [spread], "affinity": affinity}
    made = api.post(PODS, {"metadata": {"name": name, "labels": {"a": "x", "b": "y"}}, "spec": spec}).ok(201)["spec"]
    wanted = {"key": "b", "operator": "In", "values": ["y"]}
    added = {"key": "a", "operator": "NotIn", "values": ["x"]}
    merged = {**term["labelSelector"], "matchExpressions": [wanted, added]}  # type: ignore[dict-item]
    assert {"matchExpressions": [wanted]} == made["topologySpreadConstraints"][0]["labelSelector"]
    near = made["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
    far = made["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert [merged, merged] == [near["labelSelector"], far["labelSelector"]]
    api.patch(f"{PODS}/{name}", {"metadata": {"labels": {"c": "d"}}}).ok()


def test_keys_of_labels_that_are_to_match_and_not_to_match(api: Rest, name: str) -> None:
    term = {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b", "a"]}
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }
    field = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]"
    wrong = (INVALID, field, "exists in both matchLabelKeys and mismatchLabelKeys")
    api.post(PODS, {"metadata": {"name": name}, "spec": spec}).invalid(wrong)


def test_a_volume_without_a_name_has_no_claim_of_a_wrong_name(api: Rest, name: str) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}],
    }
    api.post(PODS, {"metadata": {"name": name}, "spec": spec}).invalid(
        ("FieldValueRequired", "spec.volumes[0].name", "Required")
    )


def test_nodes_are_chosen_by_names_that_they_can_have(api: Rest, name: str) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A b"]}]}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    wrong = api.post(
        PVS, {"metadata": {"name": name}, "spec": {**spec, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}
    )
    field = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchFields[0].values[0]"
    wrong.invalid((INVALID, field, "a lowercase RFC 1123 subdomain must consist"))


def test_null_is_an_object_with_nothing_in_it(api: Rest) -> None:
    api.post(SECRETS, b"null").refused(422, "Invalid", ("FieldValueRequired", "metadata.name"))


def test_nobody_keeps_the_configuration_of_nodes(api: Rest, name: str) -> None:
    source = {"configMap": {"name": "n", "namespace": "n", "kubeletConfigKey": "k"}}
    made = api.post(NODES, {**a_node(name, config={"active": source}), "spec": {"configSource": source}}).ok(201)
    assert "config" not in made["status"]
    assert "configSource" not in made["spec"]


@each_row(
    ("features", "wrong"),
    [
        (["A", "A/b", "B1"], []),
        (["B", "A"], [(INVALID, "status.declaredFeatures[1]", "list must be sorted alphabetically")]),
        (["A", "A"], [("FieldValueDuplicate", "status.declaredFeatures[1]", "Duplicate")]),
        (["a.b"], [(INVALID, "status.declaredFeatures[0]", "must start with an UpperCamelCase segment")]),
        (["A/1"], [(INVALID, "status.declaredFeatures[0]", "must start with an UpperCamelCase segment")]),
    ],
)
def test_features_that_a_node_declares(
    api: Rest, name: str, features: list[str], wrong: list[tuple[str, str, str]]
) -> None:
    answer = api.post(NODES, a_node(name, declaredFeatures=features), dryRun="All")
    if wrong:
        answer.invalid(*wrong)
    else:
        answer.ok(201)


def test_a_definition_without_versions_is_told_all(api: Rest, name: str) -> None:
    made = {"metadata": {"name": name}, "spec": {**SHAPE_DEFINITION["spec"], "versions": []}}
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made, dryRun="All").refused(
        422,
        "Invalid",
        (INVALID, "metadata.name"),
        (INVALID, "spec.versions"),
        (INVALID, "status.storedVersions"),
    )


def test_the_plural_of_a_kind_has_63_characters(api: Rest) -> None:
    names = {**SHAPE_DEFINITION["spec"]["names"], "plural": "a" * 64}
    made = {"metadata": {"name": f"{'a' * 64}.mooring.test"}, "spec": {**SHAPE_DEFINITION["spec"], "names": names}}
    wrong = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made, dryRun="All")
    wrong.refused(422, "Invalid", (INVALID, "spec.names.plural"), says="must be no more than 63 characters")


def test_tokens_in_secrets_need_requests(api: Rest, name: str) -> None:
    wrong = api.post(CSI_DRIVERS, {"metadata": {"name": name}, "spec": {"serviceAccountTokenInSecrets": True}})
    wrong.invalid(
        (
            INVALID,
            "spec.serviceAccountTokenInSecrets",
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        )
    )


def test_items_of_maps_are_objects(api: Rest, shapes: str, name: str) -> None:
    found = api.post(shapes, a_shape(name, spec={"items": ["x"]}))
    found.invalid(
        ("FieldValueTypeInvalid", "spec.items[0]", "type object"),
        (INVALID, "spec.items[0]", "must be an object for an array"),
    )


def test_the_first_item_of_a_map_that_is_no_object_is_told(api: Rest, shapes: str, name: str) -> None:
    items = [{"port": 1}, "a", {"port": 1}, "b"]
    told = api.post(shapes, a_shape(name, spec={"items": items})).refused(422, "Invalid")["details"]["causes"]
    assert ["spec.items[1]"] == [cause["field"] for cause in told if "must be an object" in cause["message"]]
    assert "Duplicate" not in str(told)


@each_row("spec", [{"size": 2**63}, {"items": [{"port": 2**63}]}, {"text": 2**63}])
def test_whole_numbers_of_custom_objects_have_64_bits(api: Rest, shapes: str, name: str, spec: dict[str, Any]) -> None:
    status = api.post(shapes, a_shape(name, spec=spec)).refused(422, "Invalid", says='"number"')
    assert "FieldValueTypeInvalid" == status["details"]["causes"][0]["reason"]


def test_the_status_of_a_custom_object_writes_no_metadata(api: Rest, shapes: str, name: str) -> None:
    api.post(shapes, a_shape(name)).ok(201)
    change = {"metadata": {"uid": "x", "labels": {"a": "b"}, "generation": 7}}
    changed = api.patch(f"{shapes}/{name}/status", change, MERGE_PATCH).ok()["metadata"]
    assert "labels" not in changed
    assert 1 == changed["generation"]


def test_rules_wait_for_a_value_that_is_one_of_those_there_are(api: Rest, name: str) -> None:
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", SNAPSHOT_CRDS[2])
    path = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"
    eventually(lambda: api.get(path).status == 200, 30, "the kind is served")
    spec = {"deletionPolicy": "x", "driver": "d", "source": {"snapshotHandle": "h"}, "volumeSnapshotRef": {"name": "s"}}
    obj = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": spec,
    }
    unchecked = (INVALID, "<nil>", "some validation rules were not checked")
    api.post(path, obj).invalid((UNSUPPORTED, "spec.deletionPolicy", 'supported values: "Delete", "Retain"'), unchecked)


def test_bookmarks_are_empty_objects_of_the_kind(api: Rest) -> None:
    with api.watch(
        CSI_DRIVERS,
        allowWatchBookmarks="true",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        timeoutSeconds=1,
    ) as watch:
        last = watch.rest()[-1]
    assert "BOOKMARK" == last["type"]
    assert {"kind", "apiVersion", "metadata", "spec"} == set(last["object"])
    assert {"resourceVersion", "annotations"} >= set(last["object"]["metadata"])


@each_row("number", [1.5, 2**63, -(2**63) - 1, 1e20])
def test_a_number_that_is_no_integer_of_64_bits_is_told_twice(api: Rest, shapes: str, name: str, number: float) -> None:
    wrong = ("FieldValueTypeInvalid", "spec.items[0].port"), (INVALID, "<nil>")
    api.post(shapes, a_shape(name, spec={"items": [{"port": number}]})).refused(422, "Invalid", *wrong)


def test_the_overhead_of_a_template_is_made_of_resources(api: Rest, name: str) -> None:
    body = a_workload("ReplicaSet", name, replicas=0)
    body["spec"]["template"]["spec"]["overhead"] = {"a": "-1"}
    wrong = [(INVALID, "spec.template.spec.overhead.limits[a]")] * 3
    api.post("/apis/apps/v1/namespaces/default/replicasets", body).refused(422, "Invalid", *wrong)


BARE, CONTAINERS = "must be a standard resource type or fully qualified", "must be a standard resource for containers"
EXTENDED = "doesn't follow extended resource name standard"


@each_row(
    ("resource", "amount", "wrong"),
    [
        ("/a", "100m", ["prefix part must be non-empty", EXTENDED]),
        ("A B", "1", ["name part must consist of", CONTAINERS]),
        ("thing", "1", [BARE, CONTAINERS]),
        ("requests.cpu", "1", [CONTAINERS]),
        ("services.nodeports", "500m", [CONTAINERS, "must be an integer"]),
        ("requests.example.com/x", "500m", [EXTENDED]),
        ("example.com/x", "500m", ["must be an integer"]),
        ("kubernetes.io/x", "500m", []),
        (f"{'a' * 250}/x", "1", [EXTENDED]),
    ],
)
def test_names_of_resources(api: Rest, name: str, resource: str, amount: str, wrong: list[str]) -> None:
    """What one of a device's driver is called a quota must be able to name, and it is counted in whole ones."""
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {resource: amount}}}]}
    answer = api.post(PODS, {"metadata": {"name": name}, "spec": spec}, dryRun="All")
    if not wrong:
        answer.ok(201)
        return
    causes = answer.refused(422, "Invalid")["details"]["causes"]
    found = [
        cause["message"] for cause in causes if cause["field"] == f"spec.containers[0].resources.limits[{resource}]"
    ]
    assert len(wrong) == len(found), found
    assert all(text in message for text, message in zip(wrong, found, strict=True)), found


OF_MANY = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"
FAILED, PARALLEL = "spec.maxFailedIndexes", "spec.parallelism"


@each_row(
    ("spec", "wrong"),
    [
        (
            {"completions": 3, "maxFailedIndexes": 4},
            [
                ("FieldValueRequired", "spec.backoffLimitPerIndex", "when maxFailed"),
                (INVALID, FAILED, "or equal to completions"),
            ],
        ),
        (
            {"completions": 3, "maxFailedIndexes": 4, "backoffLimitPerIndex": 1},
            [(INVALID, FAILED, "or equal to completions")],
        ),
        (
            {"completions": 200_000, "maxFailedIndexes": 100_001, "backoffLimitPerIndex": 1},
            [(INVALID, FAILED, "100001: must be less than or equal to 100000"), (INVALID, FAILED, OF_MANY)],
        ),
        (
            {"completions": 200_000, "backoffLimitPerIndex": 1, "parallelism": 10_001},
            [("FieldValueRequired", FAILED, "when completions is above 100000"), (INVALID, PARALLEL, OF_MANY)],
        ),
        (
            {"completions": 100_001, "backoffLimitPerIndex": 1, "parallelism": 2, "maxFailedIndexes": 10_001},
            [(INVALID, FAILED, OF_MANY)],
        ),
        (
            {"completions": 200_000, "parallelism": 100_001},
            [(INVALID, PARALLEL, "or equal to 100000 when completion mode is Indexed")],
        ),
    ],
)
def test_how_many_indexes_of_a_job_may_fail(
    api: Rest, name: str, spec: dict[str, Any], wrong: list[tuple[str, str, str]]
) -> None:
    api.post(JOBS, a_job(name, completionMode="Indexed", **spec)).invalid(*wrong)


def test_an_item_may_leave_out_a_key_that_has_a_default(api: Rest, name: str) -> None:
    body = a_pod(name)
    body["spec"]["imagePullSecrets"] = [{}]
    api.patch(f"{PODS}/{name}", body, APPLY_PATCH, fieldManager="one").ok(201)


def test_conditions_of_a_job_have_one_owner(api: Rest, name: str) -> None:
    twice = [{"type": "a.example/x", "status": "True"}, {"type": "a.example/x", "status": "False"}]
    api.patch(f"{JOBS}/{name}", {**a_job(name), "status": {"conditions": twice}}, APPLY_PATCH, fieldManager="one").ok(
        201
    )


def test_an_attachment_of_a_local_volume_says_on_which_node(api: Rest, name: str) -> None:
    inline = {"local": {"path": "/x"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain"}
    body = a_va(name)
    body["spec"]["source"] = {"inlineVolumeSpec": inline}
    api.post(VAS, body).refused(422, "Invalid", ("FieldValueRequired", "spec.source.inlineVolumeSpec.nodeAffinity"))


def test_a_status_that_is_applied_first_leaves_the_spec_to_who_wrote_it(api: Rest, name: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/replicasets/{name}"
    body = a_workload("ReplicaSet", name, replicas=0)
    api.post("/apis/apps/v1/namespaces/default/replicasets", body)
    status = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "status": {"replicas": 0}}
    api.patch(f"{path}/status", status, APPLY_PATCH, fieldManager="two").ok()
    mine = {**body, "spec": {**body["spec"], "minReadySeconds": 7, "replicas": 0}}
    mine["spec"]["template"]["metadata"]["annotations"] = {"a": "b"}
    api.patch(path, mine, APPLY_PATCH, fieldManager="two").ok()
    mine["spec"]["replicas"] = 1
    api.patch(path, mine, APPLY_PATCH, fieldManager="three").refused(
        409, "Conflict", ("FieldManagerConflict", ".spec.replicas")
    )
    fresh = {**mine, "spec": {**mine["spec"], "replicas": 3}}
    api.patch(path, fresh, APPLY_PATCH, fieldManager="two").refused(
        409, "Conflict", ("FieldManagerConflict", ".spec.replicas")
    )


CONTENTS = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"


@pytest.fixture
def contents(api: Rest) -> str:
    """The path of the snapshots' kind with the most rules."""
    for definition in SNAPSHOT_CRDS:
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    eventually(lambda: api.get(CONTENTS).status == 200, 30, "the kind is served")
    return CONTENTS


def a_raw_content(name: str, kind: str = "VolumeSnapshotContent", **spec: Any) -> dict[str, Any]:
    full = {
        "driver": "d",
        "source": {"snapshotHandle": "h"},
        "deletionPolicy": "Retain",
        "volumeSnapshotRef": {"name": "s", "namespace": "n"},
    }
    meta = {"name": name}
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": kind, "metadata": meta, "spec": {**full, **spec}}


def test_another_kind_is_told_with_the_rules_that_are_broken_and_nothing_else(
    api: Rest, contents: str, name: str
) -> None:
    told = api.post(contents, a_raw_content(name, "Node", volumeSnapshotRef={})).invalid(
        (INVALID, "kind", "must be VolumeSnapshotContent"), (INVALID, "spec.volumeSnapshotRef", "must be set")
    )
    worse = a_raw_content("UPPER", "Node", driver=5)
    worse["metadata"]["labels"] = {"-": "-"}
    api.post(contents, worse).invalid((INVALID, "kind", "must be VolumeSnapshotContent"))
    assert ("Node", "snapshot.storage.k8s.io") == (told["details"]["kind"], told["details"]["group"])
    api.post(contents, a_raw_content(name)).ok(201)
    api.patch(f"{contents}/{name}", {"kind": "Node"}, MERGE_PATCH).invalid(
        (INVALID, "kind", "must be VolumeSnapshotContent")
    )
    body = {**api.get(f"{contents}/{name}").ok(), "kind": "Node"}
    api.put(f"{contents}/{name}", body).invalid((INVALID, "kind", "must be VolumeSnapshotContent"))
    body["metadata"]["resourceVersion"] = "1"
    api.put(f"{contents}/{name}", body).refused(409, "Conflict")


@each_row(
    ("time", "wrong"),
    [([{}], ""), ([], ""), (5, '"int64"'), (True, '""'), ({}, '""'), ("x", '"x"'), (5.5, '"float64"')],
)
def test_a_list_passes_for_a_text_with_a_format(api: Rest, contents: str, name: str, time: Any, wrong: str) -> None:
    api.post(contents, a_raw_content(name)).ok(201)
    tried = {"dryRun": "All"}  # (nobody can read such an object as the kind that it is)
    answer = api.patch(f"{contents}/{name}/status", {"status": {"error": {"time": time}}}, MERGE_PATCH, **tried)
    if wrong:
        status = answer.refused(422, "Invalid")
        assert status["details"]["causes"][0]["message"].endswith(f"in body must be of type date-time: {wrong}")
    else:
        assert time == answer.ok()["status"]["error"]["time"]


@each_row(("size", "found"), [("x", "string"), (True, ""), ({}, ""), ([], "array"), (1.5, "float64")])
def test_a_number_with_a_format_is_told_with_it(api: Rest, contents: str, name: str, size: Any, found: str) -> None:
    api.post(contents, a_raw_content(name)).ok(201)
    status = api.patch(f"{contents}/{name}/status", {"status": {"restoreSize": size}}, MERGE_PATCH).refused(
        422, "Invalid"
    )
    wanted = "integer" if isinstance(size, str | list) else "int64"
    assert status["details"]["causes"][0]["message"].endswith(f'must be of type {wanted}: "{found}"'), status


@each_row("how", ["POST", "apply"])
def test_a_schema_of_null_is_an_empty_one(api: Rest, name: str, how: str) -> None:
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"status": None}}}
    names = {"plural": "nulls", "singular": "null", "kind": "Null", "listKind": "NullList"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nulls.mooring.test"},
    }
    body["spec"] = {"group": "mooring.test", "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = (
        api.post(path, body)
        if how == "POST"
        else api.patch(f"{path}/nulls.mooring.test", body, APPLY_PATCH, fieldManager="one")
    )
    answer.refused(422, "Invalid", ("FieldValueRequired", "spec.validation.openAPIV3Schema.properties[status].type"))


REQUESTS, SUPPORTED = "must match one of the container's resource requests", '"Healthy", "Unhealthy", "Unknown"'


@each_row(("operator", "supported"), [("Lt", '"Equal", "Exists", "Lt", "Gt"'), ("Less", '"Equal", "Exists"')])
def test_what_a_toleration_may_be_is_told(api: Rest, name: str, operator: str, supported: str) -> None:
    body = copy.deepcopy(a_pod(name))
    body["spec"]["tolerations"] = [{"key": "a", "operator": operator, "value": "5"}]
    status = api.post(PODS, body).refused(422, "Invalid", (UNSUPPORTED, "spec.tolerations[0].operator"))
    assert status["message"].endswith(f"supported values: {supported}")


NEGATIVE = 'terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"'


def test_a_negative_grace_of_a_pod_becomes_one_second_and_that_of_a_template_stays(api: Rest, name: str) -> None:
    body = copy.deepcopy(a_pod(name))
    body["spec"]["terminationGracePeriodSeconds"] = -5
    made = api.post(PODS, body)
    assert (1, []) == (made.ok(201)["spec"]["terminationGracePeriodSeconds"], made.warnings)
    workload = copy.deepcopy(a_workload("ReplicaSet", name))
    workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = -5
    path = "/apis/apps/v1/namespaces/default/replicasets"
    made = api.post(path, workload)
    assert (-5, [f'299 - "spec.template.spec.{NEGATIVE}']) == (
        made.ok(201)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
        made.warnings,
    )


@each_row("image", [" ", " x", "x\t"])
def test_an_image_with_space_around_it_is_refused_in_a_pod_and_not_in_a_template(
    api: Rest, name: str, image: str
) -> None:
    body = copy.deepcopy(a_pod(name))
    body["spec"]["containers"][0]["image"] = image
    api.post(PODS, body).invalid((INVALID, "spec.containers[0].image", "must not have leading or trailing whitespace"))
    workload = copy.deepcopy(a_workload("Deployment", name))
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = image
    api.post("/apis/apps/v1/namespaces/default/deployments", workload).ok(201)


def test_shares_that_are_none_count_as_zero(api: Rest, name: str) -> None:
    workload = copy.deepcopy(a_workload("Deployment", name))
    workload["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "a", "maxSurge": "b"}}
    field = "spec.strategy.rollingUpdate"
    api.post("/apis/apps/v1/namespaces/default/deployments", workload).invalid(
        (INVALID, f"{field}.maxUnavailable", "a valid percent string"),
        (INVALID, f"{field}.maxSurge", "a valid percent string"),
        (INVALID, f"{field}.maxUnavailable", "may not be 0 when `maxSurge` is 0"),
    )


def test_the_scheduling_group_of_pods_is_dropped(api: Rest, name: str) -> None:
    """Its feature is off: with it the template changes nothing."""
    body, group = copy.deepcopy(a_pod(name)), {"podGroupName": "25%"}
    body["spec"]["schedulingGroup"] = group
    assert "schedulingGroup" not in api.post(PODS, body).ok(201)["spec"]
    path = "/apis/apps/v1/namespaces/default/replicasets"
    workload = api.post(path, a_workload("ReplicaSet", name)).ok(201)
    workload["spec"]["template"]["spec"]["schedulingGroup"] = group
    assert 1 == api.put(f"{path}/{name}", workload).ok()["metadata"]["generation"]


@each_row("how", ["POST", "apply"])
@each_row("items", ["x", 5, True, []])
def test_items_that_are_no_schema_are_none(api: Rest, name: str, items: Any, how: str) -> None:
    by_name = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    schema = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": items}, "map": {"type": "array", "items": items, **by_name}},
    }
    names = {"plural": "lists", "singular": "list", "kind": "List", "listKind": "ListList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "lists.mooring.test"},
    }
    body["spec"] = {"group": "mooring.test", "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = (
        api.post(path, body)
        if how == "POST"
        else api.patch(f"{path}/lists.mooring.test", body, APPLY_PATCH, fieldManager="one")
    )
    field = "spec.validation.openAPIV3Schema.properties"
    answer.refused(422, "Invalid", ("FieldValueRequired", f"{field}[list].items"), (INVALID, f"{field}[map].items"))


@each_row(
    ("kind", "parts"),
    [
        ("ReplicaSet", ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
        ("Deployment", ["updatedReplicas", "readyReplicas", "availableReplicas"]),
        ("StatefulSet", ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]),
    ],
)
def test_the_counts_of_a_kind_are_held_against_its_replicas(api: Rest, name: str, kind: str, parts: list[str]) -> None:
    path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
    api.post(path, a_workload(kind, name)).ok(201)
    causes = [(INVALID, f"status.{part}", "cannot be greater than status.replicas") for part in parts]
    answer = api.patch(f"{path}/{name}/status", {"status": {"replicas": -1}}, MERGE_PATCH)
    answer.invalid((INVALID, "status.replicas", "must be greater than or equal to 0"), *causes)


@each_row("kind", ["Deployment", "StatefulSet"])
def test_a_count_of_collisions_only_grows(api: Rest, name: str, kind: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
    api.post(path, a_workload(kind, name)).ok(201)
    api.patch(f"{path}/{name}/status", {"status": {"collisionCount": 2}}, MERGE_PATCH).ok()
    for count in (1, None):
        answer = api.patch(f"{path}/{name}/status", {"status": {"collisionCount": count}}, MERGE_PATCH)
        answer.invalid((INVALID, "status.collisionCount", "cannot be decremented"))


def test_a_pod_has_observed_no_generation_below_zero(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    answer = api.patch(f"{PODS}/{name}/status", {"status": {"observedGeneration": -1}}, MERGE_PATCH)
    answer.invalid((INVALID, "status.observedGeneration", "must be a non-negative integer"))


def a_container_status(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0, **fields}


RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [5]}}


@each_row(
    ("part", "policy", "fields", "code", "comes_back"),
    [
        ("containerStatuses", "Always", {}, 0, True),
        ("containerStatuses", "Never", {}, 1, False),
        ("containerStatuses", "OnFailure", {}, 0, False),
        ("containerStatuses", "OnFailure", {}, 1, True),
        ("containerStatuses", "Always", {"restartPolicy": "Never"}, 1, False),
        ("containerStatuses", "Never", {"restartPolicy": "OnFailure"}, 1, True),
        ("containerStatuses", "Never", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 5, True),
        ("containerStatuses", "Never", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 6, False),
        (
            "containerStatuses",
            "Never",
            {"restartPolicy": "Never", "restartPolicyRules": [{**RULE, "action": "RestartAllContainers"}]},
            6,
            True,
        ),
        ("ephemeralContainerStatuses", "Always", {}, 1, False),
        ("initContainerStatuses", "Always", {}, 1, False),
    ],
)
def test_a_container_that_has_ended_for_good_stays_so(
    api: Rest, name: str, part: str, policy: str, fields: dict[str, Any], code: int, comes_back: bool
) -> None:
    body = copy.deepcopy(a_pod(name, restartPolicy=policy))
    body["spec"]["containers"][0] |= fields
    made = api.post(PODS, body).ok(201)
    container = made["spec"]["containers"][0]["name"]
    ended = a_container_status(container, state={"terminated": {"exitCode": code}})
    api.patch(f"{PODS}/{name}/status", {"status": {part: [ended]}}, MERGE_PATCH).ok()
    again = a_container_status(container, state={"running": {}})
    answer = api.patch(f"{PODS}/{name}/status", {"status": {part: [again]}}, MERGE_PATCH)
    if comes_back:
        answer.ok()
    else:
        answer.invalid((FORBIDDEN, f"status.{part}[0].state", "may not be transitioned to non-terminated state"))


@each_row("how", ["POST", "apply"])
@each_row("part", ["additionalProperties", "additionalItems"])
@each_row("value", ["x", 5, [None]])
def test_others_are_said_by_a_boolean_or_a_schema(api: Rest, name: str, part: str, value: Any, how: str) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", part: value}}}
    names = {"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "others.mooring.test"},
    }
    body["spec"] = {"group": "mooring.test", "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = (
        api.post(path, body)
        if how == "POST"
        else api.patch(f"{path}/others.mooring.test", body, APPLY_PATCH, fieldManager="one")
    )
    assert (400 if how == "POST" else 500) == answer.status
    assert answer.json["message"].endswith(": boolean or JSON schema expected")


@each_row("items", ["x", [], None])
def test_items_of_a_text_that_are_no_schema_are_dropped(api: Rest, name: str, items: Any) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "string", "items": items}}}
    names = {"plural": "texts", "singular": "text", "kind": "Text", "listKind": "TextList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "texts.mooring.test"},
    }
    body["spec"] = {"group": "mooring.test", "scope": "Cluster", "names": names, "versions": [version]}
    made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, dryRun="All").ok(201)
    assert {"type": "string"} == made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


@each_row("endpoint", ["", "/status"])
def test_a_node_may_begin_with_one_address_twice_but_not_go_on_so(api: Rest, name: str, endpoint: str) -> None:
    address = {"type": "InternalIP", "address": "10.0.0.1"}
    api.post(NODES, a_node(name) | {"status": {"addresses": [address, address]}}).ok(201)
    answer = api.patch(f"{NODES}/{name}{endpoint}", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    answer.invalid((DUPLICATE, "status.addresses[1]", 'Duplicate value: {"Type":"InternalIP","Address":"10.0.0.1"}'))
    api.patch(f"{NODES}/{name}/status", {"status": {"addresses": None}}, MERGE_PATCH).ok()


ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


@each_row(
    ("before", "after", "same"),
    [(OLD_ZONE, ZONE, True), (ZONE, OLD_ZONE, False), (OLD_ZONE, OLD_ZONE, True), ("a", "b", False), ("a", "", True)],
)
def test_only_the_beta_labels_of_a_volumes_places_get_new_names(
    api: Rest, name: str, before: str, after: str, *, same: bool
) -> None:
    def places(key: str) -> dict[str, Any]:
        expressions = [{"key": key, "operator": "In", "values": ["a"]}, {"key": OLD_ZONE, "operator": "Exists"}]
        return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}

    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d.example.com", "volumeHandle": name},
    }
    made = api.post(PVS, {"metadata": {"name": name}, "spec": {**spec, "nodeAffinity": places(before)}}).ok(201)
    changed = {**made, "spec": {**made["spec"], "nodeAffinity": places(after)}}
    changed["metadata"].pop("resourceVersion")
    answer = api.put(f"{PVS}/{name}", changed)
    text = "except for updating from beta label to GA"
    assert (text in answer.json.get("message", "")) is not same


def test_ephemeral_containers_of_a_template_are_looked_at_before_they_are_refused(api: Rest, name: str) -> None:
    body = a_workload("ReplicaSet", name)
    body["spec"]["template"]["spec"]["ephemeralContainers"] = [{"name": "A"}]
    field = "spec.template.spec.ephemeralContainers"
    refused = api.post("/apis/apps/v1/namespaces/default/replicasets", body)
    wrong = (INVALID, f"{field}[0].name", "a lowercase RFC 1123 label must consist")
    refused.invalid(
        wrong,
        ("FieldValueRequired", f"{field}[0].image", "Required"),
        (FORBIDDEN, field, "not allowed in pod template"),
    )


@each_row(
    ("fields", "why"),
    [
        (
            {"resources": {"limits": {"ephemeral-storage": "1"}}},
            [
                (
                    UNSUPPORTED,
                    "spec.resources.limits[ephemeral-storage]",
                    'supported values: "cpu", "hugepages-", "memory"',
                )
            ],
        ),
        (
            {"resources": {"limits": {"/a": "1"}}},
            [(INVALID, "spec.resources.limits[/a]", "prefix part must be non-empty")],
        ),
    ],
)
def test_a_pods_own_resources(api: Rest, name: str, fields: dict[str, Any], why: list[tuple[str, str, str]]) -> None:
    body = a_pod(name)
    body["spec"] |= fields
    api.post(PODS, body).invalid(*why)


def test_the_status_of_a_pod_says_nothing_of_its_end(api: Rest, name: str) -> None:
    made = api.post(PODS, a_pod(name)).ok(201)
    # Of any version: another test's scheduler may say meanwhile that it found no node.
    ended = {**made["metadata"], "resourceVersion": "", "deletionTimestamp": "2024-01-02T03:04:05Z"}
    told = api.put(f"{PODS}/{name}/status", {**made, "metadata": ended}).ok()
    assert "deletionTimestamp" not in told["metadata"]
    api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE_PATCH).ok()
    ending = api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 30}).ok()["metadata"]["deletionTimestamp"]
    told = api.patch(
        f"{PODS}/{name}/status", {"metadata": {"deletionTimestamp": None}, "status": {"phase": "Running"}}, MERGE_PATCH
    ).ok()
    assert told["metadata"]["deletionTimestamp"] == ending
    api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH).ok()


def test_a_strategic_patch_replaces_the_pods_that_are_not_counted(api: Rest, name: str) -> None:
    api.post(JOBS, a_job(name)).ok(201)
    for failed in (["a"], ["b", "c"]):
        patch = {"status": {"uncountedTerminatedPods": {"failed": failed}}}
        told = api.patch(f"{JOBS}/{name}/status", patch, STRATEGIC_PATCH).ok()
        assert {"failed": failed} == told["status"]["uncountedTerminatedPods"]


def test_nobody_owns_an_object_with_an_item_that_has_no_key(api: Rest, name: str) -> None:
    path, head = f"{ACCOUNTS}/{name}", {"apiVersion": "v1", "kind": "ServiceAccount"}
    labelled = {**head, "metadata": {"name": name, "labels": {"a": "b"}}, "automountServiceAccountToken": True}
    assert api.patch(path, labelled, APPLY_PATCH, fieldManager="a").ok(201)["metadata"]["managedFields"]
    assert "managedFields" not in api.patch(path, {"secrets": [{"resourceVersion": "1"}]}).ok()["metadata"]
    assert "managedFields" not in api.patch(path, {"secrets": [{"name": "s"}]}).ok()["metadata"]
    applied = api.patch(
        path, {**head, "metadata": {"name": name}, "secrets": [{"name": "s"}]}, APPLY_PATCH, fieldManager="a"
    ).ok()
    assert ({"a": "b"}, True) == (applied["metadata"].get("labels"), applied.get("automountServiceAccountToken"))
    assert {"a", "before-first-apply"} == {each["manager"] for each in applied["metadata"]["managedFields"]}


def test_each_label_of_a_job_of_another_uid_is_named(api: Rest, name: str) -> None:
    api.post(JOBS, a_job(name)).ok(201)
    status = api.patch(f"{JOBS}/{name}", {"metadata": {"uid": "x"}}).refused(422, "Invalid")
    labels = [
        f"spec.template.metadata.labels[{key}]" for key in ("controller-uid", "batch.kubernetes.io/controller-uid")
    ]
    assert {"metadata.uid", *labels, "spec.selector"} == {cause["field"] for cause in status["details"]["causes"]}


@each_row(("said", "stored"), [("Guaranteed", "Guaranteed"), ("", "BestEffort")])
def test_a_creation_may_say_the_quality_of_a_pod(api: Rest, name: str, said: str, stored: str) -> None:
    status = {"phase": "Running", "qosClass": said}
    answer = api.post(PODS, {**a_pod(name), "status": status}).ok(201)
    assert {"phase": "Pending", "qosClass": stored} == answer["status"]


@each_row(
    ("path", "value", "agrees"),
    [("/spec/replicas", 1, True), ("/spec/replicas", 1.0, False), ("/spec", {"replicas": 1.0}, False)],
)
def test_a_number_of_a_test_is_compared_as_it_is_written(
    api: Rest, name: str, path: str, value: Any, agrees: bool
) -> None:
    sets, stored = "/apis/apps/v1/namespaces/default/statefulsets", a_workload("StatefulSet", name, replicas=1)
    spec = api.post(sets, stored).ok(201)["spec"]
    wanted = {**spec, **value} if path == "/spec" else value
    answer = api.patch(f"{sets}/{name}", [{"op": "test", "path": path, "value": wanted}], JSON_PATCH)
    if agrees:
        answer.ok()
    else:
        answer.refused(422, "Invalid", says="the server rejected our request due to an error in our request")


@each_row(
    ("field", "value"),
    [
        *(("generation", 1.5), ("deletionGracePeriodSeconds", 1.5)),
        *((part, value) for part in ("creationTimestamp", "deletionTimestamp") for value in ("1.5", "", 5, True)),
    ],
)
def test_metadata_that_cannot_be_read_in_an_apply(api: Rest, shapes: str, name: str, field: str, value: Any) -> None:
    """Custom objects drop it; others can't be converted."""
    created = api.patch(
        f"{shapes}/{name}", a_shape(name) | {"metadata": {"name": name, field: value}}, APPLY_PATCH, fieldManager="m"
    ).ok(201)
    assert created["metadata"].get(field) != value
    applied = api.patch(
        f"{shapes}/{name}", a_shape(name) | {"metadata": {"name": name, field: value}}, APPLY_PATCH, fieldManager="m"
    ).ok()
    assert created["metadata"].get(field) == applied["metadata"].get(field)
    config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, field: value}}
    refused = api.patch(f"{SECRETS}/{name}", config, APPLY_PATCH, fieldManager="m")
    assert refused.status == 500
    assert refused.json["message"].startswith(
        f"failed to convert new object (/{name}; /v1, Kind=Secret) to proper version"
    )


@each_row("entries", ["x", 5, {}, {"a": "b"}, ["x"], [None]])
def test_what_is_no_record_in_an_apply(api: Rest, name: str, entries: Any) -> None:
    """A null among the entries is no record either, but has no wrong type."""
    config = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "managedFields": entries},
        "type": "Opaque",
    }
    answer = api.patch(f"{SECRETS}/{name}", config, APPLY_PATCH, fieldManager="m")
    if entries == [None]:
        assert {"m"} == {each["manager"] for each in answer.ok(201)["metadata"]["managedFields"]}
    else:
        assert answer.status == 500
        wanted = "[0]: expected map" if isinstance(entries, list) else ": expected list"
        assert f".metadata.managedFields{wanted}, got " in answer.json["message"]


@each_row("entries", [[], [{}], [{"manager": "x"}]])
def test_an_apply_brings_no_record(api: Rest, name: str, entries: Any) -> None:
    config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "managedFields": entries}}
    answer = api.patch(f"{SECRETS}/{name}", config, APPLY_PATCH, fieldManager="m")
    answer.refused(400, "BadRequest", says="metadata.managedFields must be nil")


@each_row(
    ("metadata", "called"),
    [
        ({"generateName": "a-"}, "a-"),
        ({"generateName": "A"}, "A"),
        ({}, "Unknown"),
        ({"name": "b", "generateName": "a-"}, "b"),
    ],
)
@each_row(
    ("spec", "why"),
    [
        ({"preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never) must not be provided"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided"),
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
    ],
)
def test_what_a_pod_without_a_name_is_called(
    api: Rest, metadata: dict[str, str], called: str, spec: dict[str, Any], why: str
) -> None:
    """Names are made up after this."""
    body = {**a_pod("x"), "metadata": metadata}
    status = api.post(PODS, {**body, "spec": {**body["spec"], **spec}}, dryRun="All").refused(
        403, "Forbidden", says=why
    )
    assert {"name": called, "kind": "pods"} == status["details"]


@each_row("query", ["newest", "not older", "exact", "legacy"])
@each_row(
    ("selected", "limit", "pages"),
    [
        ({"labelSelector": "kind={name}"}, 1, [["a"], ["c"], []]),
        ({"labelSelector": "kind={name}"}, 2, [["a", "c"], []]),
        ({"labelSelector": "kind={name}"}, 3, [["a", "c"]]),
        ({"labelSelector": "last={name}"}, 1, [["d"]]),
        ({"fieldSelector": "spec.schedulerName={name}"}, 1, [["b"], []]),
        ({"fieldSelector": "spec.nodeName={name}"}, 1, [["b"], []]),
        ({"fieldSelector": "spec.nodeName={name}"}, 2, [["b"]]),
    ],
    ids=str,
)
def test_a_page_that_is_full_does_not_know_what_follows(
    api: Rest, name: str, selected: dict[str, str], limit: int, pages: list[list[str]], query: str
) -> None:
    """It has a token where any object follows, selected or not. An index knows more: that of pods by node, at the
    newest state.
    """
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    path, version = f"/api/v1/namespaces/{name}/pods", ""
    for each, fields in (("a", {}), ("b", {"schedulerName": name, "nodeName": name}), ("c", {}), ("d", {})):
        labels = {"kind": name} if each in "ac" else {"last": name} if each == "d" else {}
        body = a_pod(each, **fields)
        version = api.post(path, {**body, "metadata": {"name": each, "labels": labels}}).ok(201)["metadata"][
            "resourceVersion"
        ]
    match = {"not older": "NotOlderThan", "exact": "Exact"}.get(query)
    more = {} if query == "newest" else {"resourceVersion": version, "resourceVersionMatch": match}
    given = {key: text.format(name=name) for key, text in selected.items()}
    by_index = "spec.nodeName" in str(selected) and query in ("newest", "not older")
    found, token = [], None
    while token != "":
        page = api.get(path, limit=limit, **given, **({"continue": token} if token else more)).ok()
        found.append([item["metadata"]["name"] for item in page["items"]])
        token = page["metadata"].get("continue", "")
        assert "remainingItemCount" not in page["metadata"]
    assert [pages[0]] if by_index else pages == found


@each_row(("allocatable", "is_checked"), [({}, False), (None, True), ({"a": -2}, True)])
def test_an_empty_allocatable_is_shown_as_the_capacity_and_not_checked(
    api: Rest, name: str, allocatable: dict[str, Any] | None, *, is_checked: bool
) -> None:
    wrong, negative = [(INVALID, "status.capacity.a", "must be greater than or equal to 0")], {"capacity": {"a": -1}}
    if is_checked:
        wrong.append((INVALID, "status.allocatable.a", "must be greater than or equal to 0"))
    api.post(NODES, a_node(name) | {"status": {**negative, "allocatable": allocatable}}).invalid(*wrong)
    api.post(NODES, a_node(name) | {"status": {"capacity": {"a": "1"}}}).ok(201)
    for kind in (MERGE_PATCH, STRATEGIC_PATCH):
        patched = api.patch(
            f"{NODES}/{name}/status", {"status": {"capacity": {"a": "2"}, "allocatable": {"a": None}}}, kind
        ).ok()
        assert {"a": "2"} == patched["status"]["allocatable"]


@each_row(
    ("first", "then", "left"),
    [
        (None, -1, 1),
        (None, -7, 1),
        (5, -1, 1),
        (-1, -1, 1),
        (-1, 5, 1),
        (1, -1, 1),
        (30, 0, 0),
        (-1, 0, 0),
        (5, 3, 3),
        (2**40, 2**40, 2**40),
    ],
)
def test_less_than_no_time_to_end_is_a_second(api: Rest, name: str, first: int | None, then: int, left: int) -> None:
    """Also for a pod that is ending already."""
    api.post(PODS, a_pod(name, nodeName="none")).ok(201)
    api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE_PATCH).ok()
    api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": first}).ok()
    told = api.delete(f"{PODS}/{name}", gracePeriodSeconds=then).ok()
    assert left == told["metadata"]["deletionGracePeriodSeconds"]
    api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH).ok()
    api.delete(f"{PODS}/{name}", gracePeriodSeconds=0)


def test_a_pod_whose_time_is_over_still_gets_a_second(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name, nodeName="none")).ok(201)
    api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 5}).ok()
    time.sleep(3.1)
    told = api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 2}).ok()["metadata"]
    assert 1 == told["deletionGracePeriodSeconds"]
    api.delete(f"{PODS}/{name}", gracePeriodSeconds=0)


@each_row("field", ["firstTimestamp", "lastTimestamp", "reportingComponent"])
def test_who_empties_a_field_of_an_event_owns_it(api: Rest, name: str, field: str) -> None:
    value = "2024-01-02T03:04:05Z" if field.endswith("Timestamp") else "c"
    head = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {"namespace": "default"}}
    path = f"{EVENTS}/{name}"
    api.patch(path, {**head, field: value}, APPLY_PATCH, fieldManager="one").ok(201)
    api.put(path, head, fieldManager="two").ok()
    status = api.patch(path, {**head, field: value}, APPLY_PATCH, fieldManager="one").refused(409, "Conflict")
    assert [f".{field}"] == [cause["field"] for cause in status["details"]["causes"]]
    assert value == api.patch(path, {**head, field: value}, APPLY_PATCH, fieldManager="one", force="true").ok()[field]


@each_row("how", ["POST", "PUT", MERGE_PATCH, JSON_PATCH])
def test_an_object_of_another_kind_is_not_held_against_the_schema(api: Rest, shapes: str, name: str, how: str) -> None:
    """Only its metadata is what it would be."""
    path, fields = f"{shapes}/{name}", {"noSuchField": 1, "spec": {"noSuchField": 1}}
    version = api.post(shapes, a_shape(name)).ok(201)["metadata"]["resourceVersion"] if how != "POST" else None

    def write(**more: Any) -> Any:
        if how == JSON_PATCH:
            ops = [
                {"op": "add", "path": f"/{part}", "value": value} for part, value in {"kind": "Node", **fields}.items()
            ]
            ops += [{"op": "add", "path": f"/metadata/{part}", "value": value} for part, value in more.items()]
            return api.patch(path, ops, how, fieldValidation="Strict")
        body = {**a_shape(name, **fields), "kind": "Node", "metadata": {"name": name, **more}}
        if how == MERGE_PATCH:
            return api.patch(path, body, how, fieldValidation="Strict")
        body["metadata"]["resourceVersion"] = version
        return api.request(how, shapes if how == "POST" else path, body, fieldValidation="Strict")

    wrong = write()
    wrong.refused(422, "Invalid", (INVALID, "kind"), says="must be Shape")
    assert [] == wrong.warnings
    assert 'strict decoding error: unknown field "metadata.noSuchField"' in write(noSuchField=1).json["message"]


def a_sourced_claim(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


@each_row("before", ["dataSource", "dataSourceRef", ""])
def test_a_claim_that_had_a_source_may_get_an_unusual_one_to_be_refused(api: Rest, name: str, before: str) -> None:
    """It is dropped from others, as long ago."""
    source = {"kind": "PersistentVolumeClaim", "name": "a"}
    made = api.post(PVCS, a_sourced_claim(name, **({before: source} if before else {}))).ok(201)
    spec = {part: value for part, value in made["spec"].items() if part != "dataSourceRef"} | {
        "dataSource": {"kind": "Other", "name": "b"}
    }
    answer = api.put(f"{PVCS}/{name}", {"metadata": {"name": name}, "spec": spec})
    if before:
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        wrong = [(INVALID, f"spec.{part}", text) for part in ("dataSource", "dataSourceRef")]
        answer.invalid(*wrong, (FORBIDDEN, "spec", "spec is immutable after creation"))
    else:
        assert "dataSource" not in answer.ok()["spec"]


def test_no_resource_of_a_claim_is_free_to_change(api: Rest, name: str) -> None:
    api.post(PVCS, a_sourced_claim(name)).ok(201)
    for resource in ("", "a"):
        answer = api.patch(f"{PVCS}/{name}", {"spec": {"resources": {"requests": {resource: "1"}}}}, MERGE_PATCH)
        answer.invalid((FORBIDDEN, "spec", "spec is immutable after creation"))


@each_row(
    ("resources", "merged"),
    [({"limits": {"cpu": None}}, {}), ({"limits": {"cpu": None, "memory": "1"}}, {"limits": {"memory": "1"}})],
)
def test_a_merge_patch_takes_nulls_out_of_the_maps_in_a_list(api: Rest, name: str, resources: Any, merged: Any) -> None:
    stored = api.post(JOBS, a_job(name)).ok(201)
    container = {"name": "c", "image": "i", "resources": resources, "args": None, "env": [{"name": "a", "value": None}]}
    status = api.patch(
        f"{JOBS}/{name}", {"spec": {"template": {"spec": {"containers": [container]}}}}, MERGE_PATCH
    ).json
    assert "spec.template" in {
        cause["field"] for cause in status["details"]["causes"]
    }  # (it can be read: no more is wrong with it)
    assert 1 == len(status["details"]["causes"])
    assert stored["metadata"]["resourceVersion"]
    sets = "/apis/apps/v1/namespaces/default/statefulsets"
    api.post(sets, a_workload("StatefulSet", name)).ok(201)
    patched = api.patch(
        f"{sets}/{name}", {"spec": {"template": {"spec": {"containers": [container]}}}}, MERGE_PATCH
    ).ok()
    found = patched["spec"]["template"]["spec"]["containers"][0]
    assert merged == found["resources"]
    assert [{"name": "a"}] == found["env"]


def test_a_merge_patch_of_a_map_by_a_list_keeps_what_is_null_in_it(api: Rest, shapes: str, name: str) -> None:
    api.post(shapes, a_shape(name, spec={"any": {"a": {}, "b": []}})).ok(201)
    patched = api.patch(
        f"{shapes}/{name}", {"spec": {"any": {"a": [{"x": None}, None], "b": [{"x": None}, None]}}}, MERGE_PATCH
    ).ok()
    assert {"a": [{"x": None}, None], "b": [{}, None]} == patched["spec"]["any"]


@each_row("match", [None, "NotOlderThan"])
@each_row(("plural", "is_limited"), [("secrets", False), ("events", True)])
def test_version_0_knows_a_limit_only_where_there_is_no_cache(
    api: Rest, name: str, plural: str, *, is_limited: bool, match: str | None
) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    path = f"/api/v1/namespaces/{name}/{plural}"
    for each in "abc":
        body = {"metadata": {"name": each}} | ({"involvedObject": {"namespace": name}} if plural == "events" else {})
        api.post(path, body).ok(201)
    first = api.get(path, limit=1).ok()
    api.get(path).ok()  # (so that the real one's cache has seen them)
    for expected, query in (
        ("abc", {"resourceVersionMatch": match}),
        ("bc", {"continue": first["metadata"]["continue"]}),
    ):
        page = api.get(path, limit=1, resourceVersion="0", **query).ok()
        assert (expected[:1] if is_limited else expected) == "".join(item["metadata"]["name"] for item in page["items"])
        assert is_limited is ("continue" in page["metadata"])


@each_row(
    ("given", "status"),
    [
        *(({"kind": kind}, 404) for kind in (None, "", "DeleteOptions")),
        *(({"kind": kind}, 400) for kind in (5, [], "Secret", "deleteoptions")),
        *(
            ({"apiVersion": version}, 404)
            for version in (None, "", "v1", "x", "/", "meta.k8s.io/v1", "policy/v1", "meta.k8s.io/v2")
        ),
        *(
            ({"apiVersion": version, "propagationPolicy": "x", "gracePeriodSeconds": "x"}, 400)
            for version in (5, [], "a/b/c")
        ),
    ],
    ids=str,
)
@each_row("many", [False, True])
def test_what_calls_itself_options_of_a_deletion(
    api: Rest, name: str, given: dict[str, Any], status: int, many: bool
) -> None:
    answer = api.delete(SECRETS if many else f"{SECRETS}/{name}", given, labelSelector=f"none={name}" if many else None)
    assert (200 if many and status == 404 else status) == answer.status
    if "propagationPolicy" in given:
        wrong = (
            f"unexpected GroupVersion string: {given['apiVersion']}"
            if given["apiVersion"] == "a/b/c"
            else "couldn't get version/kind"
        )
        assert wrong in answer.json["message"]


@each_row("many", [False, True])
def test_a_deletion_knows_no_empty_dry_run(api: Rest, name: str, many: bool) -> None:
    api.delete(SECRETS if many else f"{SECRETS}/{name}", dryRun="").refused(422, "Invalid", (UNSUPPORTED, "dryRun"))


@each_row("accept", ["application/json", "application/yaml"])
def test_a_pod_without_a_node_has_no_log(api: Rest, name: str, accept: str) -> None:
    two = [{"name": each, "image": "i"} for each in "cd"]
    init = [{"name": "i", "image": "i"}]
    path = f"{PODS}/{name}/log"
    api.get(path).refused(404, "NotFound")
    api.post(PODS, a_pod(name, containers=two, initContainers=init)).ok(201)
    text = f"a container name must be specified for pod {name}, choose one of: [i c d]"
    assert text == api.get(path).refused(400, "BadRequest")["message"]
    assert (
        f"container x is not valid for pod {name}" == api.get(path, container="x").refused(400, "BadRequest")["message"]
    )
    for container in ("i", "c"):
        assert 204 == api.request("GET", path, headers=(("Accept", accept),), container=container).status


NOT_A_NAME, NOT_A_PATH = "must consist of lower case alphanumeric characters", "may not contain '/'"


@each_row(
    ("path", "body", "endpoints"),
    [
        (SECRETS, a_secret("x"), [""]),
        (STORAGE_CLASSES, a_class("x"), [""]),
        (PODS, a_pod("x"), [""]),
        (JOBS, a_job("x"), [""]),
        (NODES, a_node("x"), [""]),
        (PVCS, a_sourced_claim("x"), [""]),
        (VAS, a_va("x"), ["", "status"]),
        (CSI_DRIVERS, {"metadata": {}, "spec": {}}, []),
        (LEASES, {"metadata": {}, "spec": {}}, []),
        ("/apis/apps/v1/namespaces/default/statefulsets", a_workload("StatefulSet", "x"), []),
    ],
    ids=lambda value: value.rpartition("/")[2] if isinstance(value, str) else "",
)
def test_how_an_update_looks_at_the_beginning_of_a_name(
    api: Rest, name: str, path: str, body: Any, endpoints: list[str]
) -> None:
    """No kind takes a slash, some not what is no name either."""
    api.post(path, {**body, "metadata": {**body["metadata"], "name": name}}).ok(201)
    for endpoint in ("", "status"):
        place = f"{path}/{name}" + (f"/{endpoint}" if endpoint else "")
        answer = api.patch(place, {"metadata": {"generateName": "a/b"}}, MERGE_PATCH, dryRun="All")
        if answer.status == 404:
            assert endpoint, "this kind has no status"
            continue
        field, is_full = "metadata.generateName", endpoint in endpoints
        answer.invalid((INVALID, field, NOT_A_PATH), *([(INVALID, field, NOT_A_NAME)] if is_full else []))
        refused = api.patch(place, {"metadata": {"generateName": "A"}}, MERGE_PATCH, dryRun="All")
        assert (422 if is_full else 200) == refused.status


@each_row("part", ["kind", "apiVersion"])
@each_row("value", [{}, [], 5, False])
@each_row("how", ["POST", "PUT", MERGE_PATCH, JSON_PATCH])
def test_a_kind_that_is_no_text(api: Rest, name: str, part: str, value: Any, how: str) -> None:
    """Nothing of it counts as nothing."""
    if how != "POST":
        api.post(SECRETS, a_secret(name)).ok(201)
    if how in ("POST", "PUT"):
        answer = api.request(how, SECRETS if how == "POST" else f"{SECRETS}/{name}", {**a_secret(name), part: value})
    else:
        patch: Any = {part: value} if how == MERGE_PATCH else [{"op": "add", "path": f"/{part}", "value": value}]
        answer = api.patch(f"{SECRETS}/{name}", patch, how)
    assert (422 if how in (MERGE_PATCH, JSON_PATCH) else 400) == answer.status
    assert "couldn't get version/kind; json parse error: json: cannot unmarshal" in answer.json["message"]


@each_row(("path", "is_there"), [("0", True), ("1", False), ("-", False), ("x", False), ("-1", True), ("-2", False)])
def test_a_test_for_null_beyond_a_list_fails(api: Rest, name: str, path: str, *, is_there: bool) -> None:
    api.post(SECRETS, a_secret(name, finalizers=["example.com/hold"])).ok(201)
    wanted = "example.com/hold" if is_there else None
    answer = api.patch(
        f"{SECRETS}/{name}", [{"op": "test", "path": f"/metadata/finalizers/{path}", "value": wanted}], JSON_PATCH
    )
    assert (200 if is_there else 422) == answer.status
    api.patch(f"{SECRETS}/{name}", [{"op": "test", "path": "/metadata/none", "value": None}], JSON_PATCH).ok()
    api.patch(f"{SECRETS}/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH).ok()


def test_a_patch_may_test_and_replace_the_whole_object(api: Rest, name: str) -> None:
    made = api.post(SECRETS, a_secret(name)).ok(201)
    path, test = f"{SECRETS}/{name}", {"op": "test", "path": "", "value": {"kind": "Secret"}}
    new = {**{part: made[part] for part in ("apiVersion", "kind", "metadata")}, "type": "Opaque", "data": {"a": "AAEC"}}
    assert {"a": "AAEC"} == api.patch(
        path, [{"op": "replace", "path": "", "value": new}], JSON_PATCH, dryRun="All"
    ).ok()["data"]
    api.patch(path, [test], JSON_PATCH).refused(422, "Invalid")
    api.patch(
        path, [{"op": "replace", "path": "", "value": new}, {**test, "value": new}], JSON_PATCH, dryRun="All"
    ).ok()
    for value in ("x", None, 5):
        api.patch(path, [{"op": "replace", "path": "", "value": value}], JSON_PATCH).refused(
            422, "Invalid", says="due to an error in our"
        )
    api.patch(path, [{"op": "add", "path": "", "value": new}], JSON_PATCH).refused(
        422, "Invalid", says="due to an error in our"
    )


def test_a_pods_status_keeps_the_generations_that_were_observed(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)

    def told(**status: Any) -> tuple[Any, list[Any]]:
        found = api.patch(f"{PODS}/{name}/status", {"status": status}, MERGE_PATCH).ok()["status"]
        return found.get("observedGeneration"), [
            each.get("observedGeneration") for each in found.get("conditions") or []
        ]

    def conditions(*pairs: tuple[str, int | None]) -> list[dict[str, Any]]:
        return [
            {"type": kind, "status": "True"} | ({"observedGeneration": seen} if seen is not None else {})
            for kind, seen in pairs
        ]

    assert (3, [1, 2, 5]) == told(observedGeneration=3, conditions=conditions(("A", 1), ("A", 2), ("B", 5)))
    assert (3, [1, 2, None]) == told(observedGeneration=None, conditions=conditions(("A", None), ("A", 0), ("A", None)))
    assert (4, [9, 2]) == told(observedGeneration=4, conditions=conditions(("A", 9), ("A", None)))
    assert (4, [None, 9]) == told(observedGeneration=0, conditions=conditions(("B", None), ("A", None)))
    assert (4, []) == told(conditions=None)


def owned_by(answer: dict[str, Any], manager: str) -> list[Any]:
    return [each["fieldsV1"] for each in answer["metadata"].get("managedFields") or () if each["manager"] == manager]


def test_the_data_of_a_revision_has_one_owner(api: Rest, name: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/controllerrevisions/{name}"
    config = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name},
        "revision": 1,
        "data": {"a": {"b": "c"}},
    }
    applied = api.patch(path, config, APPLY_PATCH, fieldManager="one").ok(201)
    assert [{"f:data": {}, "f:revision": {}}] == owned_by(applied, "one")
    status = api.patch(path, {**config, "data": {"x": "y"}}, APPLY_PATCH, fieldManager="two").refused(409, "Conflict")
    assert [".data"] == [cause["field"] for cause in status["details"]["causes"]]


@each_row("data", ["x", 5, [], None, {}])
def test_the_data_of_a_revision_may_be_anything_to_an_apply(api: Rest, name: str, data: Any) -> None:
    path = f"/apis/apps/v1/namespaces/default/controllerrevisions/{name}"
    config = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name},
        "revision": 1,
        "data": data,
    }
    answer = api.patch(path, config, APPLY_PATCH, fieldManager="one")
    if data is None:
        answer.invalid(("FieldValueRequired", "data", "data is mandatory"))
    elif data == {}:
        answer.ok(201)
    else:
        answer.invalid(("FieldValueRequired", "data", "data must be a valid JSON object"))


def test_the_labels_of_a_deployment_are_not_its_status_to_own(api: Rest, name: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/deployments/{name}"
    head = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"a": "b"}},
    }
    api.patch(path, {**head, "spec": a_workload("Deployment")["spec"]}, APPLY_PATCH, fieldManager="one").ok(201)
    head["metadata"] = {"name": name, "labels": {"a": "c", "d": "e"}, "annotations": {"x": "y"}}
    applied = api.patch(f"{path}/status", head, APPLY_PATCH, fieldManager="two").ok()
    assert {"a": "b"} == applied["metadata"]["labels"]
    assert [{"f:metadata": {"f:annotations": {"f:x": {}}}}] == owned_by(applied, "two")


@each_row(
    ("text", "shown"),
    [("\u0000", "\\x00"), ("\u0007\u000b\n\t", "\\a\\v\\n\\t"), ("\\u0000", "\\\\u0000"), ('ü"\u001f', 'ü\\"\\x1f')],
)
def test_a_text_is_shown_with_its_signs(api: Rest, name: str, text: str, shown: str) -> None:
    answer = api.post(SECRETS, a_secret(name) | {"metadata": {"name": name, "labels": {"a": text}}})
    assert f'Invalid value: "{shown}": a valid label must be' in answer.json["message"]
