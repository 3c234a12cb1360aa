"""PersistentVolumeClaims at creation: what is filled in, admitted and refused, on both servers."""

from __future__ import annotations

from tests.support.builders import Json, a_claim, a_class
from tests.support.paths import PVCS, STORAGE_CLASSES
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

INVALID, REQUIRED, FORBIDDEN, UNSUPPORTED = (
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueNotSupported",
)
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
CLAIM = {"apiGroup": None, "kind": "PersistentVolumeClaim", "name": "x"}
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"}
OTHER = {"apiGroup": "example.com", "kind": "Foo", "name": "x"}

Cause = tuple[str, str, str]
"""Reason, field, and a part of the message."""

REFUSED: dict[str, tuple[Json, list[Cause]]] = {
    "modes": ({"accessModes": None}, [(REQUIRED, "spec.accessModes", "at least 1 access mode is required")]),
    "mode": (
        {"accessModes": ["Odd"]},
        [(UNSUPPORTED, "spec.accessModes", 'supported values: "ReadOnlyMany", "ReadWriteMany"')],
    ),
    "mode_alone": (
        {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
        [(FORBIDDEN, "spec.accessModes", "may not use ReadWriteOncePod with other access modes")],
    ),
    "no_request": ({"resources": {}}, [(REQUIRED, "spec.resources[storage]", "")]),
    "request": (
        {"resources": {"requests": {"storage": "0"}}},
        [(INVALID, "spec.resources[storage]", "must be greater than zero")],
    ),
    "class": ({"storageClassName": "A b"}, [(INVALID, "spec.storageClassName", "RFC 1123")]),
    "volume_mode": ({"volumeMode": ""}, [(UNSUPPORTED, "spec.volumeMode", 'supported values: "Block", "Filesystem"')]),
    "selector": (
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        [(INVALID, "spec.selector.matchExpressions[0].operator", "not a valid selector operator")],
    ),
    "attributes_class": (
        {"volumeAttributesClassName": "A b"},
        [(INVALID, "spec.volumeAttributesClassName", "RFC 1123")],
    ),
    "source_name": (
        {"dataSource": {**CLAIM, "name": ""}},
        [(REQUIRED, "spec.dataSource.name", ""), (REQUIRED, "spec.dataSourceRef.name", "")],
    ),
    "source_group": (
        {"dataSourceRef": {**OTHER, "apiGroup": None}},
        [
            (INVALID, "spec.dataSource", "must be 'PersistentVolumeClaim' when referencing the default apiGroup"),
            (INVALID, "spec.dataSourceRef", "must be 'PersistentVolumeClaim' when referencing the default apiGroup"),
        ],
    ),
    "source_group_name": (
        {"dataSourceRef": {**OTHER, "apiGroup": "a b"}},
        [(INVALID, "spec.dataSource.apiGroup", "RFC 1123"), (INVALID, "spec.dataSourceRef.apiGroup", "RFC 1123")],
    ),
    "sources_differ": (
        {"dataSource": CLAIM, "dataSourceRef": {**CLAIM, "name": "y"}},
        [(INVALID, "spec", "must match dataSourceRef")],
    ),
}


@each_row("row", REFUSED)
def test_creation_is_refused(api: Rest, name: str, row: str) -> None:
    spec, causes = REFUSED[row]
    api.post(PVCS, a_claim(name, **spec)).invalid(*causes)


def test_all_errors_are_told_at_once_and_in_order(api: Rest, name: str) -> None:
    body = a_claim(
        name,
        accessModes=["Odd"],
        resources={},
        volumeMode="Odd",
        selector={"matchLabels": {"a b": ""}},
        storageClassName="A b",
    )
    fields = [
        "spec.selector.matchLabels",
        "spec.accessModes",
        "spec.resources[storage]",
        "spec.storageClassName",
        "spec.volumeMode",
    ]
    causes = api.post(PVCS, body).refused(422, "Invalid")["details"]["causes"]
    assert fields == [cause["field"] for cause in causes]


def test_a_new_claim_is_pending_and_protected_whatever_it_says(api: Rest, name: str) -> None:
    made = api.post(
        PVCS,
        {
            **a_claim(name),
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        },
    ).ok(201)
    assert {"phase": "Pending"} == made["status"]
    assert ["kubernetes.io/pvc-protection"] == made["metadata"]["finalizers"]
    assert {**a_claim(name)["spec"], "volumeMode": "Filesystem"} == made["spec"]
    assert made == api.get(f"{PVCS}/{name}").ok()


SOURCES: dict[str, tuple[Json, Json]] = {
    "AO19_snapshot": ({"dataSource": SNAPSHOT}, {"dataSource": SNAPSHOT, "dataSourceRef": SNAPSHOT}),
    "AO19_claim": (
        {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "x"}},
        {"dataSource": CLAIM, "dataSourceRef": CLAIM},
    ),
    "AO20_other_kind": ({"dataSource": OTHER}, {}),
    "AO20_nothing": ({"dataSource": {}}, {}),
    "other_kind_by_reference": ({"dataSourceRef": OTHER}, {"dataSource": OTHER, "dataSourceRef": OTHER}),
    "another_namespace": ({"dataSourceRef": {**SNAPSHOT, "namespace": "other"}}, {}),
    "another_namespace_and_source": (
        {"dataSource": SNAPSHOT, "dataSourceRef": {**SNAPSHOT, "namespace": "other"}},
        {"dataSource": SNAPSHOT, "dataSourceRef": SNAPSHOT},
    ),
    "empty_namespace": (
        {"dataSourceRef": {**SNAPSHOT, "namespace": ""}},
        {"dataSource": SNAPSHOT, "dataSourceRef": {**SNAPSHOT, "namespace": ""}},
    ),
}


@each_row("row", SOURCES)
def test_the_two_sources_are_one_or_dropped(api: Rest, name: str, row: str) -> None:
    spec, wanted = SOURCES[row]
    api.post(PVCS, a_claim(name, **spec)).ok(201)
    stored = api.get(f"{PVCS}/{name}").ok()["spec"]
    assert wanted == {field: stored[field] for field in ("dataSource", "dataSourceRef") if field in stored}


AMOUNTS = [
    ("1024Mi", "1Gi", False),
    ("1.5", "1500m", True),
    ("1.0001", "1001m", True),
    ("1n", "1m", True),
    ("1e3", "1e3", False),
]


@each_row(("sent", "kept", "fractional"), AMOUNTS)
def test_requests_are_rounded_up_to_thousandths(api: Rest, name: str, sent: str, kept: str, fractional: bool) -> None:
    answer = api.post(PVCS, a_claim(name, resources={"requests": {"storage": sent}}))
    assert {"storage": kept} == answer.ok(201)["spec"]["resources"]["requests"]
    text = f'spec.resources.requests[storage]: fractional byte value \\"{kept}\\" is invalid, must be an integer'
    assert ([f'299 - "{text}"'] if fractional else []) == answer.warnings


def test_the_old_annotation_is_taken_with_a_warning_and_counts_as_a_class(api: Rest, name: str) -> None:
    body = a_claim(name, storageClassName=None)
    body["metadata"]["annotations"] = {OLD_CLASS: "old"}
    answer = api.post(PVCS, body)
    assert "storageClassName" not in answer.ok(201)["spec"]
    text = f'metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \\"storageClassName\\" attribute instead'
    assert [f'299 - "{text}"'] == answer.warnings


def test_AO16_a_claim_without_a_class_gets_the_default_one(api_alone: Rest, name: str) -> None:
    """B01, too."""
    api, body = api_alone, {**a_class(name), "metadata": {"name": name, "annotations": {DEFAULT: "true"}}}
    api.post(STORAGE_CLASSES, body).ok(201)
    try:
        made = eventually(
            lambda: _with_default(api, name), 10, "admission knows the class"
        )  # (the real one has a cache)
        assert ["kubernetes.io/pvc-protection"] == made["metadata"]["finalizers"]
        assert "" == api.post(PVCS, a_claim(f"{name}-none", storageClassName="")).ok(201)["spec"]["storageClassName"]
    finally:
        api.delete(f"{STORAGE_CLASSES}/{name}").ok()


def _with_default(api: Rest, name: str) -> Json | None:
    """A claim without a class, made anew, once it gets that one."""
    body = a_claim("", storageClassName=None)
    body["metadata"] = {"generateName": f"{name}-"}
    made = api.post(PVCS, body).ok(201)
    return made if made["spec"].get("storageClassName") == name else None
