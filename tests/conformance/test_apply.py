"""Server-side apply and managedFields: what each manager says, who owns it then, and what becomes of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.applying import APPLY_PATCH, PODS, SHAPE_DEFINITION, SHAPES, Applying, owners
from tests.support.customkinds import a_definition, a_version
from tests.support.paths import CSI_NODES, NODES, PVS, SECRETS, STORAGE_CLASSES, VAS
from tests.support.rest import JSON_PATCH, Answer, Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

CLASS = {"provisioner": "d.example.com"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def sc(api: Rest, name: str) -> Applying:
    return Applying(api, STORAGE_CLASSES, name)


@pytest.fixture
def shape(api: Rest, name: str) -> Applying:
    made = api.post(DEFINITIONS, SHAPE_DEFINITION)
    assert made.status in (201, 409), made
    eventually(lambda: api.get(SHAPES).status == 200, 30, "the kind is served")
    return Applying(api, SHAPES, name)


def test_an_apply_creates_and_the_same_again_changes_nothing(sc: Applying) -> None:
    config = {**CLASS, "mountOptions": ["a"], "metadata": {"labels": {"x": "1"}}}
    made = sc.apply("one", config).ok(201)
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {"f:x": {}}}, "f:mountOptions": {}, "f:provisioner": {}}
    assert {"one": fields} == owners(made)
    assert "Delete" == made["reclaimPolicy"]
    again = sc.apply("one", config).ok()
    assert made["metadata"] == again["metadata"]


def test_managers_of_different_fields_do_not_disturb_each_other(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "metadata": {"labels": {"x": "1"}}}).ok(201)
    both = sc.apply("two", {"metadata": {"labels": {"y": "2"}}, "allowVolumeExpansion": True}).ok()
    assert {"x": "1", "y": "2"} == both["metadata"]["labels"]
    one: dict[str, Any] = {"f:metadata": {"f:labels": {"f:x": {}}}, "f:provisioner": {}}
    assert {"one": one, "two": {"f:allowVolumeExpansion": {}, "f:metadata": {"f:labels": {"f:y": {}}}}} == owners(both)


def test_what_a_manager_says_no_more_goes_unless_another_one_says_it(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "mountOptions": ["a"], "metadata": {"labels": {"x": "1", "y": "1"}}}).ok(201)
    sc.apply("two", {"metadata": {"labels": {"y": "1"}}}).ok()
    left = sc.apply("one", CLASS).ok()
    assert {"y": "1"} == left["metadata"]["labels"]
    assert "mountOptions" not in left
    assert {"one": {"f:provisioner": {}}, "two": {"f:metadata": {"f:labels": {"f:y": {}}}}} == owners(left)
    assert "labels" not in sc.apply("two", {}).ok()["metadata"]


def test_a_field_of_another_manager_is_a_conflict(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "mountOptions": ["a"]}).ok(201)
    status = sc.apply("two", {"mountOptions": ["b"]}).refused(
        409, "Conflict", ("FieldManagerConflict", ".mountOptions")
    )
    assert 'Apply failed with 1 conflict: conflict with "one": .mountOptions' == status["message"]
    assert {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".mountOptions"}]
    } == status["details"]
    assert ["a"] == sc.stored()["mountOptions"]


def test_conflicts_are_told_manager_by_manager(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "mountOptions": ["a"]}).ok(201)
    sc.api.patch(sc.path, {"metadata": {"labels": {"x": "1"}}}, fieldManager="other").ok()
    status = sc.apply("two", {"mountOptions": ["b"], "metadata": {"labels": {"x": "2"}}}).refused(409, "Conflict")
    lines = [
        'Apply failed with 2 conflicts: conflicts with "one":',
        "- .mountOptions",
        'conflicts with "other" using storage.k8s.io/v1:',
        "- .metadata.labels.x",
    ]
    assert lines == status["message"].splitlines()


def test_force_takes_the_field_from_its_owner(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "mountOptions": ["a"]}).ok(201)
    taken = sc.apply("two", {"mountOptions": ["b"]}, force="true").ok()
    assert ["b"] == taken["mountOptions"]
    assert {"one": {"f:provisioner": {}}, "two": {"f:mountOptions": {}}} == owners(taken)


def test_the_same_value_has_two_owners_and_no_conflict(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "mountOptions": ["a"]}).ok(201)
    both = sc.apply("two", {"mountOptions": ["a"]}).ok()
    assert {"one": {"f:mountOptions": {}, "f:provisioner": {}}, "two": {"f:mountOptions": {}}} == owners(both)


def test_updates_take_what_they_change_and_release_what_they_remove(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "mountOptions": ["a"], "metadata": {"labels": {"x": "1"}}}).ok(201)
    sc.api.patch(sc.path, {"mountOptions": ["b"], "metadata": {"labels": None}}, fieldManager="editor").ok()
    changed = sc.api.patch(sc.path, {"metadata": {"annotations": {"n": "1"}}}, fieldManager="editor").ok()
    editor: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, "f:n": {}}}, "f:mountOptions": {}}
    assert {"one": {"f:provisioner": {}}, "editor*": editor} == owners(changed)


def test_a_client_without_a_name_is_called_by_its_program(sc: Applying) -> None:
    sc.apply("one", CLASS).ok(201)
    headers = {"User-Agent": "tool-7/1.2 (linux)"}
    body = b'{"metadata":{"labels":{"a":"b"}}}'
    changed = sc.api.request("PATCH", sc.path, body, "application/merge-patch+json", headers=headers).ok()
    assert "tool-7*" in owners(changed)


def test_what_was_there_before_the_first_apply_has_an_owner_then(sc: Applying) -> None:
    sc.create_untracked({**CLASS, "mountOptions": ["a"], "metadata": {"labels": {"x": "1"}}})
    sc.api.patch(sc.path, {"metadata": {"labels": {"y": "1"}}}).ok()
    assert {} == owners(sc.stored())
    sc.apply("one", {"mountOptions": ["b"]}).refused(
        409, "Conflict", says='conflict with "before-first-apply" using storage.k8s.io/v1'
    )
    applied = sc.apply("one", {"mountOptions": ["a"], "allowVolumeExpansion": True}).ok()
    labels: dict[str, Any] = {".": {}, "f:x": {}, "f:y": {}}
    rest: dict[str, Any] = {"f:provisioner": {}, "f:reclaimPolicy": {}, "f:volumeBindingMode": {}}
    before: dict[str, Any] = {"f:metadata": {"f:labels": labels}, "f:mountOptions": {}, **rest}
    assert {"one": {"f:allowVolumeExpansion": {}, "f:mountOptions": {}}, "before-first-apply*": before} == owners(
        applied
    )


NOTE = "kubectl.kubernetes.io/last-applied-configuration"
BY_KUBECTL = "kubectl-client-side-apply"


def test_an_apply_by_kubectl_alone_begins_the_record_and_other_writers_keep_theirs(api: Rest, name: str) -> None:
    """kubectl takes over what the owner of its note owns, and removes what its file does not say."""
    pv = Applying(api, PVS, name)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"},
    }
    api.post(PVS, pv.config({"metadata": {"annotations": {NOTE: "{}"}}, "spec": spec}), fieldManager=BY_KUBECTL).ok(201)
    metadata = {
        "finalizers": ["kubernetes.io/pv-protection", "d/x"],
        "annotations": {"pv.kubernetes.io/provisioned-by": "d"},
    }
    changed = api.patch(pv.path, {"metadata": metadata}, fieldManager="other").ok()
    found = owners(changed)
    annotations = {"f:annotations": {"f:pv.kubernetes.io/provisioned-by": {}}}
    assert {"f:metadata": {**annotations, "f:finalizers": {'v:"d/x"': {}}}} == found["other*"]
    assert {"f:annotations": {".": {}, f"f:{NOTE}": {}}} == found[f"{BY_KUBECTL}*"]["f:metadata"], (
        "nobody owns what admission has added"
    )
    assert {".": {}, "f:storage": {}} == found[f"{BY_KUBECTL}*"]["f:spec"]["f:capacity"]
    assert {} == found[f"{BY_KUBECTL}*"]["f:spec"]["f:persistentVolumeReclaimPolicy"], (
        "what it left to the default is its own"
    )


def test_an_update_by_kubectl_that_leaves_its_note_takes_only_what_it_changes(sc: Applying) -> None:
    sc.api.post(sc.kind, sc.config({**CLASS, "mountOptions": ["a"]}), fieldManager="maker").ok(201)
    body = {"metadata": {"annotations": {NOTE: "{}"}, "labels": {"a": "b"}}}
    found = owners(sc.api.patch(sc.path, body, fieldManager=BY_KUBECTL).ok())
    mine: dict[str, Any] = {"f:annotations": {".": {}, f"f:{NOTE}": {}}, "f:labels": {".": {}, "f:a": {}}}
    assert {"f:metadata": mine} == found[f"{BY_KUBECTL}*"]
    rest: dict[str, Any] = {"f:mountOptions": {}, "f:provisioner": {}, "f:reclaimPolicy": {}, "f:volumeBindingMode": {}}
    assert [rest] == [fields for manager, fields in found.items() if manager != f"{BY_KUBECTL}*"]


@each_row("empty", [[{}], []], ids=["one empty entry", "an empty list"])
def test_a_client_can_end_the_record(api: Rest, name: str, empty: list[object]) -> None:
    sc = Applying(api, STORAGE_CLASSES, name)
    sc.apply("one", {**CLASS, "mountOptions": ["a"]}).ok(201)
    assert {} == owners(sc.api.patch(sc.path, {"metadata": {"managedFields": empty}}).ok())
    assert {} == owners(sc.api.patch(sc.path, {"metadata": {"labels": {"a": "b"}}}).ok())


def test_a_client_can_end_the_record_by_a_put_each_time(sc: Applying) -> None:
    made = sc.apply("one", {**CLASS, "mountOptions": ["a"]}).ok(201)
    for label in ("b", "c"):
        made = sc.api.put(
            sc.path, {**made, "metadata": {**made["metadata"], "labels": {"a": label}, "managedFields": [{}]}}
        ).ok()
        assert {} == owners(made)


def test_a_client_that_does_not_know_of_the_record_does_not_lose_it(sc: Applying) -> None:
    made = sc.apply("one", CLASS).ok(201)
    del made["metadata"]["managedFields"]
    made["metadata"]["labels"] = {"a": "b"}
    kept = sc.api.put(sc.path, made, fieldManager="putter").ok()
    assert {"one": {"f:provisioner": {}}, "putter*": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}} == owners(kept)
    renamed = [{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "new"}]
    assert "new" in owners(sc.api.patch(sc.path, renamed, JSON_PATCH).ok())


def test_items_of_a_list_with_keys_have_owners_of_their_own(api: Rest, name: str) -> None:
    node = Applying(api, CSI_NODES, name)
    node.apply("one", {"spec": {"drivers": [{"name": "a", "nodeID": "x", "topologyKeys": ["k"]}]}}).ok(201)
    both = node.apply("two", {"spec": {"drivers": [{"name": "b", "nodeID": "y"}]}}).ok()
    assert ["a", "b"] == [driver["name"] for driver in both["spec"]["drivers"]]
    item: dict[str, Any] = {".": {}, "f:name": {}, "f:nodeID": {}}
    assert {"f:spec": {"f:drivers": {'k:{"name":"b"}': item}}} == owners(both)["two"]
    other = node.apply("two", {"spec": {"drivers": [{"name": "a", "nodeID": "z"}]}})
    other.refused(409, "Conflict", ("FieldManagerConflict", '.spec.drivers[name="a"].nodeID'))
    left = node.apply("one", {}).ok()
    assert ["b"] == [driver["name"] for driver in left["spec"]["drivers"]]


def test_finalizers_are_a_set(sc: Applying) -> None:
    sc.apply("one", {**CLASS, "metadata": {"finalizers": ["example.com/a", "example.com/b"]}}).ok(201)
    both = sc.apply("two", {"metadata": {"finalizers": ["example.com/c", "example.com/b"]}}).ok()
    assert ["example.com/a", "example.com/c", "example.com/b"] == both["metadata"]["finalizers"]
    own: dict[str, Any] = {"f:metadata": {"f:finalizers": {'v:"example.com/b"': {}, 'v:"example.com/c"': {}}}}
    assert own == owners(both)["two"]
    assert ["example.com/c", "example.com/b"] == sc.apply("one", CLASS).ok()["metadata"]["finalizers"]
    assert "finalizers" not in sc.apply("two", {}).ok()["metadata"]


def test_a_status_is_applied_by_its_endpoint_alone(api: Rest, name: str) -> None:
    volume = Applying(api, PVS, name)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"},
    }
    made = volume.apply("one", {"spec": spec, "status": {"phase": "Bound"}}).ok(201)
    assert "Pending" == made["status"]["phase"]
    csi: dict[str, Any] = {"f:csi": {"f:driver": {}, "f:volumeHandle": {}}}
    assert {"one": {"f:spec": {"f:accessModes": {}, "f:capacity": {"f:storage": {}}, **csi}}} == owners(made)
    told = volume.apply("binder", {"status": {"phase": "Bound"}, "spec": {"mountOptions": ["x"]}}, "status").ok()
    assert "mountOptions" not in told["spec"]
    assert {"f:status": {"f:phase": {}}} == owners(told)["binder/status"]
    volume.api.patch(f"{volume.path}/status", {"status": {"phase": "Available"}}, fieldManager="other").ok()
    again = volume.apply("binder", {"status": {"phase": "Bound"}}, "status")
    again.refused(409, "Conflict", says='conflict with "other" with subresource "status" using v1: .status.phase')


def test_an_attachments_status_endpoint_owns_no_metadata(api: Rest, name: str) -> None:
    va = Applying(api, VAS, name)
    va.create_untracked({"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "p"}}})
    told = va.apply("attacher", {"status": {"attached": True}, "metadata": {"labels": {"a": "b"}}}, "status").ok()
    assert "labels" not in told["metadata"]
    assert {"f:status": {"f:attached": {}}} == owners(told)["attacher/status"]


def test_a_quantity_said_otherwise_is_the_same(api: Rest, name: str) -> None:
    volume = Applying(api, PVS, name)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"},
    }
    made = volume.apply("one", {"spec": spec}).ok(201)
    same = volume.apply("one", {"spec": {**spec, "capacity": {"storage": "1024Mi"}}}).ok()
    assert made["metadata"]["resourceVersion"] == same["metadata"]["resourceVersion"]


def test_taints_have_one_owner(api: Rest, name: str) -> None:
    node = Applying(api, NODES, name)
    node.apply("one", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}).ok(201)
    other = node.apply("two", {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}})
    other.refused(409, "Conflict", ("FieldManagerConflict", ".spec.taints"))


def test_a_dry_run_is_told_and_not_kept(sc: Applying) -> None:
    assert ["a"] == sc.apply("one", {**CLASS, "mountOptions": ["a"]}, dryRun="All").ok(201)["mountOptions"]
    sc.api.get(sc.path).refused(404, "NotFound")
    sc.apply("one", CLASS).ok(201)
    assert ["b"] == sc.apply("one", {**CLASS, "mountOptions": ["b"]}, dryRun="All").ok()["mountOptions"]
    assert "mountOptions" not in sc.stored()


def test_the_version_in_the_body_must_be_the_newest(sc: Applying) -> None:
    made = sc.apply("one", {**CLASS, "metadata": {"resourceVersion": "5"}}).ok(201)
    version = made["metadata"]["resourceVersion"]
    sc.apply("one", {**CLASS, "mountOptions": ["a"], "metadata": {"resourceVersion": version}}).ok()
    stale = sc.apply("one", {**CLASS, "mountOptions": ["b"], "metadata": {"resourceVersion": version}})
    stale.refused(409, "Conflict", says="the object has been modified")


def test_an_apply_without_a_manager_is_refused(sc: Applying) -> None:
    sc.apply("", CLASS).refused(
        422, "Invalid", ("FieldValueRequired", "fieldManager"), says="is required for apply patch"
    )


@each_row(
    ("change", "status", "says"),
    [
        ({"kind": "CSINode"}, 400, "invalid object type: storage.k8s.io/v1, Kind=CSINode"),
        ({"kind": None}, 400, "invalid object type: storage.k8s.io/v1, Kind="),
        (
            {"apiVersion": "storage.k8s.io/v1beta1"},
            400,
            "invalid object type: storage.k8s.io/v1beta1, Kind=StorageClass",
        ),
        ({"metadata": {"name": "another"}}, 400, "the name of the object (another) does not match the name on the URL"),
        ({"metadata": {"managedFields": [{}]}}, 400, "metadata.managedFields must be nil"),
        ({"odd": 1}, 500, ".odd: field not declared in schema"),
        ({"provisioner": 1}, 500, ".provisioner: expected string, got "),
        ({"metadata": {"labels": "x"}}, 500, ".metadata.labels: expected map, got "),
        ({"metadata": {"finalizers": ["a", "a"]}}, 500, '.metadata.finalizers: duplicate entries for key [="a"]'),
    ],
)
def test_what_is_no_config_of_the_kind_is_refused(
    api: Rest, name: str, change: dict[str, object], status: int, says: str
) -> None:
    sc = Applying(api, STORAGE_CLASSES, name)
    metadata = change.get("metadata")
    body = {**CLASS, **change, **({"metadata": {"name": sc.name, **metadata}} if isinstance(metadata, dict) else {})}
    answer = sc.apply("one", body)
    assert (status, "Status") == (answer.status, answer.json["kind"])
    assert says in answer.json["message"]
    sc.api.get(sc.path).refused(404, "NotFound")


ODD: list[tuple[str, Any, str]] = [
    ("image", True, "expected string, got &value.valueUnstructured{Value:true}"),
    (
        "image",
        {"a": ["b", None, 1.5]},
        '{Value:map[string]interface {}{"a":[]interface {}{"b", interface {}(nil), 1.5}}}',
    ),
    ("resources", [{"b": 1, "a": None}], "expected map, got &{[map[a:<nil> b:1]]}"),
    ("ports", "x", "expected list, got &{x}"),
    ("ports", [{"containerPort": True}], "expected numeric (int or float), got bool"),
    ("ports", [{"containerPort": "x"}], "expected numeric (int or float), got string"),
    ("ports", [{"containerPort": [1]}], "expected numeric (int or float), got []interface {}"),
    ("ports", [{"containerPort": {"a": 1}}], "expected numeric (int or float), got map[string]interface {}"),
    ("stdin", "x", "expected boolean, got &{x}"),
    ("resources", {"limits": {"cpu": [1]}}, "expected any scalar, got &{[1]}"),
]


@each_row(("place", "value", "says"), ODD)
def test_what_has_the_wrong_type_is_told_in_the_words_of_kube_apiserver(
    api: Rest, name: str, place: str, value: Any, says: str
) -> None:
    answer = Applying(api, PODS, name).apply("m", {"spec": {"containers": [{"name": "c", "image": "i", place: value}]}})
    assert (500, True) == (answer.status, answer.json["message"].endswith(says)), answer


@each_row(
    ("kind", "fields"),
    [
        ("pods", {"spec": {"terminationGracePeriodSeconds": 1.5, "containers": [{"name": "c", "image": "i"}]}}),
        (
            "pods",
            {
                "spec": {
                    "containers": [{"name": "c", "image": "i", "readinessProbe": {"tcpSocket": {"port": {"a": 1}}}}]
                }
            },
        ),
        ("pods", {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "x"}}}]}}),
        ("secrets", {"data": {"a": "!"}}),
        ("secrets", {"metadata": {"creationTimestamp": "x"}}),
    ],
)
def test_what_cannot_be_converted_names_the_kind(api: Rest, name: str, kind: str, fields: dict[str, Any]) -> None:
    applying = Applying(api, PODS if kind == "pods" else SECRETS, name)
    answer = applying.apply("m", {**fields, "metadata": {"namespace": "default", **fields.get("metadata", {})}})
    said = f"/v1, Kind={'Pod' if kind == 'pods' else 'Secret'}"
    start = (
        f"failed to convert new object (default/{name}; {said}) to proper version: unable to convert unstructured "
        f"object to {said}: "
    )
    assert (500, start) == (answer.status, answer.json["message"][: len(start)])
    api.get(applying.path).refused(404, "NotFound")


TWICE: dict[str, tuple[str, list[str]]] = {
    "json": (
        '{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{0}","name":"{0}"}},"type":"a","type":"a"}}',
        ["1 name", "1 type"],
    ),
    "yaml": ("apiVersion: v1\nkind: Secret\nmetadata:\n  name: {0}\nstringData:\n  a: b\n  'a': c\n", ["7 a"]),
    "outer": (
        "apiVersion: v1\nkind: Secret\nstringData: {{a: b, a: c}}\nmetadata:\n  name: x\nmetadata:\n  name: {0}\n",
        ["3 a", "7 metadata"],
    ),
    "numbers": ("apiVersion: v1\nkind: Secret\nmetadata:\n  name: {0}\nstringData:\n  1: b\n  '1': c\n", []),
}


@each_row("row", TWICE)
def test_a_key_said_twice_is_told_with_its_line(api: Rest, name: str, row: str) -> None:
    body, lines = TWICE[row][0].format(name).encode(), [(text.split()[0], text.split()[1]) for text in TWICE[row][1]]
    said = [f'line {line}: key "{key}" already set in map' for line, key in lines]
    options = {"fieldManager": "m", "dryRun": "All"}
    escaped = [text.replace('"', '\\"') for text in said]
    assert [f'299 - "{text}"' for text in escaped] == api.patch(
        f"{SECRETS}/{name}", body, APPLY_PATCH, **options
    ).warnings
    strict = api.patch(f"{SECRETS}/{name}", body, APPLY_PATCH, **options, fieldValidation="Strict")
    if said:
        text = "\n  ".join(
            ["error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:", *said]
        )
        assert text == strict.refused(400, "BadRequest")["message"]
    assert [] == api.patch(f"{SECRETS}/{name}", body, APPLY_PATCH, **options, fieldValidation="Ignore").warnings


def test_a_type_error_comes_before_what_is_said_twice(api: Rest, name: str) -> None:
    body = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"%s"},"type":"a","type":"a","x":1}' % name.encode()
    answer = api.patch(f"{SECRETS}/{name}", body, APPLY_PATCH, fieldManager="m", fieldValidation="Strict")
    assert (500, []) == (answer.status, answer.warnings)


@each_row(
    ("body", "says"),
    [
        (b'{"a": [}', "yaml: did not find expected node content"),
        (b"a: b: c", "yaml: mapping values are not allowed in this context"),
        (b"a:\n\t- b", "yaml: line 2: found character that cannot start any token"),
        (b"5", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (b"true", "json: cannot unmarshal bool into Go value of type map[string]interface {}"),
    ],
)
def test_a_text_that_is_no_map_is_told_in_the_words_of_kube_apiserver(
    api: Rest, name: str, body: bytes, says: str
) -> None:
    message = api.patch(f"{SECRETS}/{name}", body, APPLY_PATCH, fieldManager="m").refused(400, "BadRequest")["message"]
    assert message.startswith("error decoding YAML: ")
    assert message.endswith(says)


def test_a_part_without_declared_fields_takes_any(api: Rest, name: str) -> None:
    plural = f"a{name.replace('-', '')}s"
    version = a_version({"type": "object"}, subresources={"status": {"a": 1}})
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        **a_definition(plural, version),
    }
    path = f"{DEFINITIONS}/{body['metadata']['name']}"
    assert 201 == api.patch(path, body, APPLY_PATCH, fieldManager="m", dryRun="All").status


@each_row("body", [b"a: [", b"[]", b"text"])
def test_a_body_that_is_no_map_is_refused(api: Rest, name: str, body: bytes) -> None:
    sc = Applying(api, STORAGE_CLASSES, name)
    sc.api.patch(sc.path, body, APPLY_PATCH, fieldManager="one").refused(
        400, "BadRequest", says="error decoding YAML: "
    )


def test_yaml_is_read(sc: Applying) -> None:
    text = (
        f"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: {sc.name}\nprovisioner: d.example.com\n"
    )
    assert (
        "d.example.com" == sc.api.patch(sc.path, text.encode(), APPLY_PATCH, fieldManager="one").ok(201)["provisioner"]
    )


def test_cbor_is_not_taken(sc: Applying) -> None:
    sc.api.patch(sc.path, b"\xa0", "application/apply-patch+cbor", fieldManager="one").refused(
        415, "UnsupportedMediaType"
    )


def test_force_is_for_applies_alone(sc: Applying) -> None:
    sc.apply("one", CLASS).ok(201)
    forced = sc.api.patch(sc.path, {}, force="true")
    forced.refused(422, "Invalid", ("FieldValueForbidden", "force"), says="may not be specified for non-apply patch")


def test_a_field_said_twice_is_refused_or_told(sc: Applying) -> None:
    head = f'{{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{{"name":"{sc.name}"}},'
    twice = (head + '"provisioner":"a","provisioner":"b"}').encode()
    strict = sc.api.patch(sc.path, twice, APPLY_PATCH, fieldManager="one", fieldValidation="Strict")
    strict.refused(400, "BadRequest", says="error strict decoding YAML")
    told = sc.api.patch(sc.path, twice, APPLY_PATCH, fieldManager="one", fieldValidation="Warn")
    told.ok(201)
    assert ["provisioner" in warning for warning in told.warnings] == [True]


def test_a_status_of_nothing_is_not_created(api: Rest, name: str) -> None:
    Applying(api, PVS, name).apply("one", {"status": {"phase": "Bound"}}, "status").refused(404, "NotFound")


def test_a_custom_kinds_schema_says_how_its_fields_are_merged(shape: Applying) -> None:
    spec = {
        "text": "a",
        "map": {"x": "1"},
        "whole": {"x": "1"},
        "list": ["a"],
        "set": ["a"],
        "items": [{"port": 80}],
        "any": {"deep": {"x": 1}},
    }
    made = shape.apply("one", {"spec": spec}).ok(201)
    assert [{"port": 80, "protocol": "TCP"}] == made["spec"]["items"]
    fields: dict[str, Any] = {
        "f:any": {"f:deep": {".": {}, "f:x": {}}},
        "f:items": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
        "f:list": {},
        "f:map": {"f:x": {}},
        "f:set": {'v:"a"': {}},
        "f:text": {},
        "f:whole": {},
    }
    assert {"one": {"f:spec": fields}} == owners(made)
    more = {
        "map": {"y": "2"},
        "set": ["b"],
        "items": [{"port": 80, "protocol": "UDP"}],
        "any": {"deep": {"y": [1]}},
        "size": 5,
    }
    both = shape.apply("two", {"spec": more}).ok()["spec"]
    assert ({"x": "1", "y": "2"}, ["a", "b"], {"deep": {"x": 1, "y": [1]}}) == (both["map"], both["set"], both["any"])
    assert ["TCP", "UDP"] == [item["protocol"] for item in both["items"]]
    status = shape.apply("two", {"spec": {"whole": {"y": "2"}, "list": ["b"]}}).refused(409, "Conflict")
    assert {".spec.whole", ".spec.list"} == {cause["field"] for cause in status["details"]["causes"]}


def test_a_custom_object_changes_hands_as_any_other(shape: Applying) -> None:
    shape.create_untracked({"spec": {"text": "a", "map": {"x": "1"}}})
    applied = shape.apply("one", {"spec": {"set": ["a"]}}).ok()
    before: dict[str, Any] = {"f:spec": {".": {}, "f:map": {".": {}, "f:x": {}}, "f:text": {}}}
    assert {"one": {"f:spec": {"f:set": {'v:"a"': {}}}}, "before-first-apply*": before} == owners(applied)
    told = shape.apply("one", {"status": {"ready": True}, "metadata": {"labels": {"a": "b"}}}, "status").ok()
    assert {"f:status": {"f:ready": {}}} == owners(told)["one/status"]
    assert "set" not in shape.apply("one", {}).ok()["spec"]
    refused = shape.apply("one", {"spec": {"odd": 1}})
    assert 500 == refused.status
    assert ".spec.odd: field not declared in schema" in refused.json["message"]


def test_an_entry_names_the_version_that_was_written(api: Rest, name: str) -> None:
    plural = "twoshapes"
    definition = copy.deepcopy(SHAPE_DEFINITION)
    [first] = definition["spec"]["versions"]
    definition["metadata"]["name"] = f"{plural}.mooring.test"
    definition["spec"]["names"] = {
        "plural": plural,
        "singular": "twoshape",
        "kind": "TwoShape",
        "listKind": "TwoShapeList",
    }
    definition["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False}]
    made = api.post(DEFINITIONS, definition)
    assert made.status in (201, 409), made
    eventually(lambda: api.get(f"/apis/mooring.test/v2/{plural}").status == 200, 30, "the kind is served")

    def apply(manager: str, version: str, spec: dict[str, Any]) -> Answer:
        body = {"apiVersion": f"mooring.test/{version}", "kind": "TwoShape", "metadata": {"name": name}, "spec": spec}
        return api.patch(f"/apis/mooring.test/{version}/{plural}/{name}", body, APPLY_PATCH, fieldManager=manager)

    apply("one", "v2", {"text": "a", "set": ["x"]}).ok(201)
    moved = apply("one", "v1", {"text": "a"}).ok()
    assert "set" not in moved["spec"]
    assert ["mooring.test/v1"] == [entry["apiVersion"] for entry in moved["metadata"]["managedFields"]]
    api.patch(f"/apis/mooring.test/v2/{plural}/{name}", {"spec": {"text": "b"}}, fieldManager="editor").ok()
    apply("one", "v1", {"text": "a"}).refused(
        409, "Conflict", says='conflict with "editor" using mooring.test/v2: .spec.text'
    )
