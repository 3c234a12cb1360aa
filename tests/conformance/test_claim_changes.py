"""PersistentVolumeClaims after creation: what may change, what admission forbids, what a status may say, on both
servers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.builders import Json, a_claim, a_class
from tests.support.paths import PVCS, STORAGE_CLASSES
from tests.support.rest import STRATEGIC_PATCH, Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

INVALID, REQUIRED, FORBIDDEN, UNSUPPORTED = (
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueNotSupported",
)
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
FROZEN = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
NOT_EXPANDABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"}
OTHER = {"apiGroup": "example.com", "kind": "Foo", "name": "x"}
BOUND = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}

Cause = tuple[str, str, str]
"""Reason, field, and a part of the message."""


def request(size: str) -> Json:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


Claim = Callable[..., str]


def _is_made(api: Rest, body: Json) -> bool:
    """Raises AssertionError where admission has given it a class; it is then taken back."""
    made = api.post(PVCS, body).ok(201)
    given = made["spec"].get("storageClassName")
    if given == body["spec"].get("storageClassName"):
        return True
    path = f"{PVCS}/{made['metadata']['name']}"
    api.delete(path).ok()
    api.patch(path, {"metadata": {"finalizers": None}})
    raise AssertionError(f"admission gives it the default class {given}")


def claims(api: Rest, name: str) -> Claim:
    """Makes a claim, bound if asked, and gives its path. expandable: its class exists, and says so."""

    def make(
        *, bound: bool = False, expandable: bool | None = None, status: Any = None, old_class: str = "", **spec: Any
    ) -> str:
        body = a_claim(name, **spec)
        if expandable is not None:
            api.post(STORAGE_CLASSES, a_class(name, allowVolumeExpansion=expandable)).ok(201)
            body["spec"]["storageClassName"] = name
        if old_class:
            body["metadata"]["annotations"] = {OLD_CLASS: old_class}
        path = f"{PVCS}/{name}"
        eventually(lambda: _is_made(api, body), 20, "no other test has a default class just now")
        if bound:
            api.patch(f"{path}/status", {"status": {**BOUND, **(status or {})}}).ok()
        return path

    return make


@pytest.fixture
def claim(api: Rest, name: str) -> Claim:
    return claims(api, name)


BOTH: Json = {"requests": {"storage": "1Gi"}, "limits": {"storage": "1Gi"}}
SPEC: Cause = (FORBIDDEN, "spec", FROZEN)
# name: (the claim, merge patch of its spec, causes that refuse it; none if it is allowed)
CHANGES: dict[str, tuple[Json, Json, list[Cause]]] = {
    "modes": ({}, {"accessModes": ["ReadWriteMany"]}, [SPEC]),
    "modes_away": ({"bound": True}, {"accessModes": None}, [(REQUIRED, "spec.accessModes", ""), SPEC]),
    "selector": ({}, {"selector": {}}, [SPEC]),
    "limits": ({"bound": True}, {"resources": {"limits": {"storage": "9Gi"}}}, [SPEC]),
    "other_request": ({"bound": True}, {"resources": {"requests": {"cpu": "1"}}}, [SPEC]),
    "volume": ({}, {"volumeName": "v"}, []),
    "other_volume": ({"volumeName": "v"}, {"volumeName": "w"}, [SPEC]),
    "volume_away": ({"volumeName": "v", "bound": True}, {"volumeName": None}, [SPEC]),
    "class": ({}, {"storageClassName": "other"}, [SPEC]),
    "class_away": ({}, {"storageClassName": None}, [SPEC]),
    "class_of_a_claim_without": ({"storageClassName": None}, {"storageClassName": "some"}, []),
    "class_of_a_claim_of_none": ({"storageClassName": ""}, {"storageClassName": "some"}, [SPEC]),
    "volume_mode": ({}, {"volumeMode": "Block"}, [SPEC, (INVALID, "volumeMode", "field is immutable")]),
    "source": ({}, {"dataSource": SNAPSHOT}, [SPEC]),
    "source_that_is_dropped": ({}, {"dataSource": OTHER}, []),
    "source_in_another_namespace": (
        {"dataSource": SNAPSHOT},
        {"dataSourceRef": {"namespace": "other"}},
        [(INVALID, "spec", "may not be specified when dataSourceRef.namespace is specified"), SPEC],
    ),
    "source_with_an_invalid_group": (
        {"dataSource": SNAPSHOT},
        {"dataSourceRef": {"apiGroup": "a b"}},
        [(INVALID, "spec", "must match"), SPEC],
    ),
    "source_with_an_invalid_group_for_none": (
        {},
        {"dataSourceRef": {**OTHER, "apiGroup": "a b"}},
        [(INVALID, "spec.dataSource.apiGroup", "RFC 1123"), (INVALID, "spec.dataSourceRef.apiGroup", "RFC 1123"), SPEC],
    ),
    "source_with_an_invalid_group_for_a_claim": (
        {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}},
        {"dataSourceRef": {**OTHER, "apiGroup": "a b"}},
        [(INVALID, "spec.dataSourceRef.apiGroup", "RFC 1123"), (INVALID, "spec", "must match"), SPEC],
    ),
    "request_away": (
        {"bound": True},
        {"resources": {"requests": None}},
        [
            (REQUIRED, "spec.resources[storage]", ""),
            SPEC,
            (FORBIDDEN, "spec.resources.requests.storage", "field can not be less than status.capacity"),
        ],
    ),
    "source_away": ({"dataSource": SNAPSHOT}, {"dataSource": None, "dataSourceRef": None}, [SPEC]),
    "request_written_another_way": ({}, {"resources": {"requests": {"storage": "1073741824"}}}, []),
    "bound_request_written_another_way": ({"bound": True}, {"resources": {"requests": {"storage": "1073741824"}}}, []),
    "limit_written_another_way": (
        {"resources": BOTH},
        {"resources": {**BOTH, "limits": {"storage": "1073741824"}}},
        [],
    ),
    "request_a_little_smaller": ({}, {"resources": {"requests": {"storage": "1073741823"}}}, [SPEC]),
    "AO17_growth_while_pending": ({"expandable": True}, {"resources": {"requests": {"storage": "2Gi"}}}, [SPEC]),
    "attributes_class_while_pending": ({}, {"volumeAttributesClassName": "gold"}, [SPEC]),
    "attributes_class": ({"bound": True}, {"volumeAttributesClassName": "gold"}, []),
    "attributes_class_away": (
        {"bound": True, "volumeAttributesClassName": "gold"},
        {"volumeAttributesClassName": None},
        [],
    ),
    "attributes_class_in_use_away": (
        {"bound": True, "volumeAttributesClassName": "gold", "status": {"currentVolumeAttributesClassName": "gold"}},
        {"volumeAttributesClassName": None},
        [(FORBIDDEN, "spec.volumeAttributesClassName", "update to nil is forbidden when")],
    ),
    "attributes_class_in_use_emptied": (
        {"bound": True, "volumeAttributesClassName": "gold", "status": {"currentVolumeAttributesClassName": "gold"}},
        {"volumeAttributesClassName": ""},
        [(FORBIDDEN, "spec.volumeAttributesClassName", "update to empty string is forbidden when")],
    ),
}


@each_row("row", CHANGES)
def test_change_is_refused_or_made(api: Rest, name: str, row: str) -> None:
    claim = claims(api, name)
    made, spec, causes = CHANGES[row]
    path = claim(**made)
    before = api.get(path).ok()
    answer = api.patch(path, {"spec": spec})
    if causes:
        answer.invalid(*causes)
        assert before == api.get(path).ok()
    else:
        dropped = ("dataSource",) if row == "source_that_is_dropped" else ()
        wanted = {field: value for field, value in spec.items() if value is not None and field not in dropped}
        assert wanted.items() <= answer.ok()["spec"].items()


@each_row("bound", [False, True])
@each_row("text", ["1024Mi", "1048576Ki", "1073741824", "1073741824.0", "1073741824000m"])
def test_a_request_written_another_way_is_the_same_request(api: Rest, name: str, text: str, bound: bool) -> None:
    claim = claims(api, name)
    path = claim(bound=bound)
    stored = api.patch(path, request(text)).ok()["spec"]["resources"]["requests"]["storage"]
    assert stored in ("1Gi", "1073741824")


def test_AO18_a_bound_claim_grows_and_shrinks_to_above_its_capacity(api: Rest, claim: Claim) -> None:
    path = claim(bound=True, expandable=True)
    eventually(lambda: api.patch(path, request("3Gi")).status == 200, 10, "admission knows the class")
    assert {"storage": "2Gi"} == api.patch(path, request("2Gi")).ok()["spec"]["resources"]["requests"]
    api.patch(path, request("1Gi")).invalid(
        (FORBIDDEN, "spec.resources.requests.storage", "field can not be less than status.capacity")
    )
    assert {"storage": "2Gi"} == api.get(path).ok()["spec"]["resources"]["requests"]


@each_row(
    "row", ["AO17_forbidden_by_its_class", "AO17_class_missing", "AO17_no_class", "AO17_class_only_in_an_annotation"]
)
def test_growth_is_forbidden_unless_the_class_allows_it(api: Rest, name: str, row: str) -> None:
    claim = claims(api, name)
    path = {
        "AO17_forbidden_by_its_class": lambda: claim(bound=True, expandable=False),
        "AO17_class_missing": lambda: claim(bound=True),
        "AO17_no_class": lambda: claim(bound=True, storageClassName=""),
        "AO17_class_only_in_an_annotation": lambda: claim(bound=True, expandable=True, old_class="none-such"),
    }[row]()
    before = api.get(path).ok()
    answer = api.patch(path, request("2Gi"))
    status = answer.refused(403, "Forbidden")
    name = before["metadata"]["name"]
    assert f'persistentvolumeclaims "{name}" is forbidden: {NOT_EXPANDABLE}' == status["message"]
    assert {"name": name, "kind": "persistentvolumeclaims"} == status["details"]
    assert before == api.get(path).ok()


def test_who_names_a_class_and_grows_at_once_is_forbidden(api: Rest, claim: Claim, name: str) -> None:
    path = claim(bound=True, storageClassName=None)
    api.post(STORAGE_CLASSES, a_class(name, allowVolumeExpansion=True)).ok(201)
    change = {"spec": {"storageClassName": name, **request("2Gi")["spec"]}}
    api.patch(path, change).refused(403, "Forbidden", says=NOT_EXPANDABLE)


@each_row("old", ["", "old"])
def test_the_old_annotation_may_become_the_field_and_nothing_else(api: Rest, name: str, old: str) -> None:
    claim = claims(api, name)
    path, field = claim(storageClassName=None, old_class=old), f"metadata.annotations.{OLD_CLASS}"
    api.patch(path, {"metadata": {"annotations": {OLD_CLASS: "new"}}}).invalid((INVALID, field, "field is immutable"))
    if old:
        api.patch(path, {"metadata": {"annotations": {OLD_CLASS: None}}}).invalid(
            (INVALID, field, "field is immutable")
        )
        api.patch(path, {"spec": {"storageClassName": "other"}}).invalid(SPEC)
        both = {"metadata": {"annotations": {OLD_CLASS: "new"}}, "spec": {"storageClassName": old}}
        api.patch(path, both).invalid((INVALID, field, "field is immutable"))
        change = {"metadata": {"annotations": {OLD_CLASS: None}}, "spec": {"storageClassName": old}}
        assert "annotations" not in api.patch(path, change).ok()["metadata"]


def test_a_write_that_changes_nothing_keeps_the_version(api: Rest, claim: Claim, server: Any) -> None:
    path = claim(dataSource=SNAPSHOT)
    made = api.get(path).ok()
    if server.is_real:
        made = api.put(path, made).ok()  # (it writes a claim once more at its first update)
    assert made == api.put(path, copy.deepcopy(made)).ok()
    assert made == api.patch(path, request("1024Mi")).ok()


# status

STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
STATUS_REFUSED: dict[str, tuple[Json, list[Cause]]] = {
    "capacity": (
        {"capacity": {"storage": "-1"}},
        [(INVALID, "status.capacity[storage]", "must be a valid resource quantity")],
    ),
    "allocated": (
        {"allocatedResources": {"storage": "-1"}},
        [(INVALID, "status.allocatedResources[storage]", "must be a valid resource quantity")],
    ),
    "allocated_resource": (
        {"allocatedResources": {"cpu": "1"}},
        [(UNSUPPORTED, "status.allocatedResources", '"cpu": supported values: "storage"')],
    ),
    "allocated_resource_below_zero": (
        {"allocatedResources": {"cpu": "-1"}},
        [(UNSUPPORTED, "status.allocatedResources", '"cpu": supported values: "storage"')],
    ),
    "allocated_own_prefix": (
        {"allocatedResources": {"x.kubernetes.io/y": "1"}},
        [(UNSUPPORTED, "status.allocatedResources", 'supported values: "storage"')],
    ),
    "allocated_name": (
        {"allocatedResources": {"a b": "1"}},
        [(INVALID, "status.allocatedResources", "name part must consist of alphanumeric characters")],
    ),
    "state": (
        {"allocatedResourceStatuses": {"storage": "Sleeping"}},
        [
            (
                UNSUPPORTED,
                "status.allocatedResourceStatuses",
                '"storage": supported values: "ControllerResizeInProgress"',
            )
        ],
    ),
    "state_of": (
        {"allocatedResourceStatuses": {"cpu": "NodeResizePending"}},
        [(UNSUPPORTED, "status.allocatedResourceStatuses", '"cpu": supported values: "storage"')],
    ),
}


@each_row("row", STATUS_REFUSED)
def test_status_is_refused(api: Rest, name: str, row: str) -> None:
    claim = claims(api, name)
    status, causes = STATUS_REFUSED[row]
    api.patch(f"{claim()}/status", {"status": status}).invalid(*causes)


@each_row("state", STATES)
def test_every_state_of_a_resize_is_taken(api: Rest, name: str, state: str) -> None:
    claim = claims(api, name)
    status = {
        "allocatedResourceStatuses": {"storage": state, "example.com/x": state},
        "allocatedResources": {"storage": "2Gi"},
    }
    assert {"phase": "Pending", **status} == api.patch(f"{claim()}/status", {"status": status}).ok()["status"]


def test_status_is_kept_whole_and_nobody_checks_its_words(api: Rest, claim: Claim) -> None:
    time = "2024-01-02T03:04:05Z"
    condition = {
        "type": "Odd",
        "status": "Maybe",
        "lastProbeTime": None,
        "lastTransitionTime": time,
        "reason": "r",
        "message": "m",
    }
    status = {
        "phase": "Odd",
        "accessModes": ["Odd"],
        "capacity": {"storage": "0", "cpu": "1"},
        "conditions": [condition],
        "currentVolumeAttributesClassName": "",
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": "silver", "status": "Odd"},
    }
    assert status == api.patch(f"{claim()}/status", {"status": status}).ok()["status"]


def test_conditions_are_merged_by_type(api: Rest, claim: Claim) -> None:
    path = f"{claim()}/status"
    for kind in ("Resizing", "FileSystemResizePending"):
        answer = api.patch(path, {"status": {"conditions": [{"type": kind, "status": "True"}]}}, STRATEGIC_PATCH).ok()
    assert {"Resizing", "FileSystemResizePending"} == {
        condition["type"] for condition in answer["status"]["conditions"]
    }


def test_the_status_endpoint_changes_status_and_metadata_and_the_main_one_the_rest(api: Rest, claim: Claim) -> None:
    path = claim()
    change = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]},
        "spec": {"volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    answer = api.patch(f"{path}/status", change).ok()
    assert ("Bound", {"a": "b"}, ["example.com/f"]) == (
        answer["status"]["phase"],
        *map(answer["metadata"].get, ("labels", "finalizers")),
    )
    assert "volumeName" not in answer["spec"]
    answer = api.patch(path, {"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}}).ok()
    assert ("Bound", "v") == (answer["status"]["phase"], answer["spec"]["volumeName"])


def test_a_status_earns_no_warning(api: Rest, claim: Claim) -> None:
    path = claim(resources={"requests": {"storage": "1.5"}})
    assert [] == api.patch(f"{path}/status", {"status": {"phase": "Bound"}}).warnings
    assert 1 == len(api.patch(path, {"metadata": {"labels": {"a": "b"}}}).warnings)


def test_a_status_needs_no_version(api: Rest, claim: Claim) -> None:
    path = claim()
    body = api.get(path).ok()
    del body["metadata"]["resourceVersion"]
    assert "Bound" == api.put(f"{path}/status", {**body, "status": BOUND}).ok()["status"]["phase"]
