"""StorageClass, VolumeAttributesClass and CSIStorageCapacity: what is filled in, refused and frozen, on both
servers.
"""

from __future__ import annotations

from typing import Any

from tests.support.builders import Json, a_capacity, a_class, an_attributes_class
from tests.support.paths import ATTRIBUTES_CLASSES, CAPACITIES, STORAGE_CLASSES
from tests.support.rest import Rest
from tests.support.rows import each_row

INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"
UNSUPPORTED, DUPLICATE, TOO_LONG = "FieldValueNotSupported", "FieldValueDuplicate", "FieldValueTooLong"
QUALIFIED = "name part must consist of alphanumeric characters"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"
TERMS = "allowedTopologies[0].matchLabelExpressions"

Row = tuple[str, Json]
Cause = tuple[str, str, str]
"""Reason, field, and a part of the message."""


def cls(**fields: Any) -> Row:
    return STORAGE_CLASSES, a_class("", **fields)


def topologies(*terms: list[tuple[str, list[str]]]) -> Row:
    return cls(
        allowedTopologies=[
            {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term]} for term in terms
        ]
    )


def vac(**fields: Any) -> Row:
    return ATTRIBUTES_CLASSES, an_attributes_class("", **fields)


def capacity(**fields: Any) -> Row:
    """None is sent as such."""
    return CAPACITIES, {**a_capacity("", capacity="1Gi"), **fields}


def where(**requirement: Any) -> Row:
    return capacity(nodeTopology={"matchExpressions": [requirement]})


REFUSED: dict[str, tuple[Row, list[Cause]]] = {
    "class_provisioner": (cls(provisioner=""), [(REQUIRED, "provisioner", "")]),
    "class_provisioner_name": (cls(provisioner="a b"), [(INVALID, "provisioner", QUALIFIED)]),
    "class_policy": (
        cls(reclaimPolicy="Recycle"),
        [(UNSUPPORTED, "reclaimPolicy", 'supported values: "Delete", "Retain"')],
    ),
    "class_mode": (
        cls(volumeBindingMode=""),
        [(UNSUPPORTED, "volumeBindingMode", 'supported values: "Immediate", "WaitForFirstConsumer"')],
    ),
    "class_parameter": (cls(parameters={"": "x"}), [(INVALID, "parameters", "field can not be empty.")]),
    "class_parameters": (
        cls(parameters={f"k{n}": "" for n in range(513)}),
        [(TOO_LONG, "parameters", "may not be more than 512")],
    ),
    "class_parameters_size": (
        cls(parameters={"k": "x" * 262144}),
        [(TOO_LONG, "parameters", "may not be more than 262144")],
    ),
    "class_term_twice": (
        topologies([("a", ["b", "c"]), ("d", ["e"])], [("d", ["e"]), ("a", ["c", "b"])]),
        [(DUPLICATE, "allowedTopologies[1].matchLabelExpressions", "")],
    ),
    "class_term_empty": (topologies([]), [(DUPLICATE, TERMS, "")]),
    "class_term_values": (topologies([("a", [])]), [(REQUIRED, f"{TERMS}[0].values", "")]),
    "class_term_value_twice": (topologies([("a", ["b", "b"])]), [(DUPLICATE, f"{TERMS}[0].values[1]", "")]),
    "class_term_key": (topologies([("a b", ["c"])]), [(INVALID, f"{TERMS}[0].key", QUALIFIED)]),
    "class_term_key_twice": (topologies([("a", ["b"]), ("a", ["c"])]), [(DUPLICATE, f"{TERMS}[1].key", "")]),
    "vac_driver": (vac(driverName=""), [(REQUIRED, "driverName", "")]),
    "vac_driver_name": (vac(driverName="a" * 64), [(INVALID, "driverName", "name part must be no more than 63 bytes")]),
    "vac_no_parameters": (vac(parameters={}), [(REQUIRED, "parameters", "must contain at least one key/value pair")]),
    "vac_parameter": (vac(parameters={"": "x"}), [(INVALID, "parameters", "field can not be empty.")]),
    "vac_parameters": (
        vac(parameters={f"k{n}": "" for n in range(513)}),
        [(TOO_LONG, "parameters", "may not be more than 512")],
    ),
    "capacity_class": (capacity(storageClassName=""), [(INVALID, "storageClassName", SUBDOMAIN)]),
    "capacity_negative": (capacity(capacity="-1"), [(INVALID, "capacity", "must be greater than or equal to 0")]),
    "capacity_values": (
        where(key="a", operator="In"),
        [(REQUIRED, "nodeTopology.matchExpressions[0].values", "must be specified")],
    ),
    "capacity_no_values": (
        where(key="a", operator="Exists", values=["b"]),
        [(FORBIDDEN, "nodeTopology.matchExpressions[0].values", "may not be specified")],
    ),
    "capacity_operator": (
        where(key="a", operator="Like"),
        [(INVALID, "nodeTopology.matchExpressions[0].operator", "not a valid selector operator")],
    ),
    "capacity_key": (
        where(key="a b", operator="Exists"),
        [(INVALID, "nodeTopology.matchExpressions[0].key", QUALIFIED)],
    ),
    "capacity_labels": (
        capacity(nodeTopology={"matchLabels": {"a b": "c d"}}),
        [
            (INVALID, "nodeTopology.matchLabels", QUALIFIED),
            (INVALID, "nodeTopology.matchLabels", "a valid label must be"),
        ],
    ),
}


@each_row("row", REFUSED)
def test_creation_is_refused(api: Rest, name: str, row: str) -> None:
    (path, body), causes = REFUSED[row]
    api.post(path, {**body, "metadata": {"name": name}}).invalid(*causes)


def test_a_bad_name_of_a_capacity_is_invalid(api: Rest) -> None:
    """The provisioner asks with such a name whether it may write at all."""
    api.post(CAPACITIES, a_capacity("Bad_Name")).refused(422, "Invalid", (INVALID, "metadata.name"))


FROZEN = "field is immutable"
# name: (object, merge patch, causes that refuse it; none if it is allowed)
CHANGES: dict[str, tuple[Row, Json, list[Cause]]] = {
    "AO23_class_parameters": (cls(), {"parameters": {"a": "b"}}, [(INVALID, "parameters", FROZEN)]),
    "AO23_class_expansion": (cls(), {"allowVolumeExpansion": True}, []),
    "class_provisioner": (cls(), {"provisioner": "e"}, [(INVALID, "provisioner", FROZEN)]),
    "class_policy": (cls(), {"reclaimPolicy": "Retain"}, [(INVALID, "reclaimPolicy", FROZEN)]),
    "class_policy_default": (
        cls(reclaimPolicy="Retain"),
        {"reclaimPolicy": None},
        [(INVALID, "reclaimPolicy", FROZEN)],
    ),
    "class_mode": (cls(), {"volumeBindingMode": "WaitForFirstConsumer"}, [(INVALID, "volumeBindingMode", FROZEN)]),
    "class_mount_options": (cls(), {"mountOptions": ["ro"]}, []),
    "class_terms": (cls(), {"allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]}, []),
    "vac_driver": (vac(), {"driverName": "e"}, [(FORBIDDEN, "driverName", "updates to driverName are forbidden.")]),
    "vac_parameters": (
        vac(),
        {"parameters": {"b": "c"}},
        [(FORBIDDEN, "parameters", "updates to parameters are forbidden.")],
    ),
    "vac_labels": (vac(), {"metadata": {"labels": {"a": "b"}}}, []),
    "capacity_class": (capacity(), {"storageClassName": "slow"}, [(INVALID, "storageClassName", FROZEN)]),
    "capacity_topology": (capacity(), {"nodeTopology": None}, [(INVALID, "nodeTopology", FROZEN)]),
    "capacity_topology_set": (capacity(nodeTopology=None), {"nodeTopology": {}}, [(INVALID, "nodeTopology", FROZEN)]),
    "capacity_amounts": (capacity(), {"capacity": None, "maximumVolumeSize": "2Gi"}, []),
}


@each_row("row", CHANGES)
def test_change_is_refused_or_made(api: Rest, name: str, row: str) -> None:
    (path, body), change, causes = CHANGES[row]
    made = api.post(path, {**body, "metadata": {"name": name}}).ok(201)
    answer = api.patch(f"{path}/{name}", change)
    if not causes:
        assert int(answer.ok()["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        return
    answer.invalid(*causes)
    assert made == api.get(f"{path}/{name}").ok()


KEPT: dict[str, tuple[Row, Json]] = {
    "class": (cls(), {"provisioner": "csi.test", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    "class_false": (
        cls(allowVolumeExpansion=False, mountOptions=["", "ro"], parameters={}),
        {
            "provisioner": "csi.test",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": False,
            "mountOptions": ["", "ro"],
        },
    ),
    "class_empty_policy": (
        cls(reclaimPolicy=""),
        {"provisioner": "csi.test", "reclaimPolicy": "", "volumeBindingMode": "Immediate"},
    ),
    "class_name_of_the_provisioner": (
        cls(provisioner="Example.COM/Driver"),
        {"provisioner": "Example.COM/Driver", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    "vac": (vac(driverName="a_b"), {"driverName": "a_b", "parameters": {"iops": "100"}}),
    "capacity_nowhere": (capacity(nodeTopology=None, capacity=None), {"storageClassName": "sc"}),
    "capacity_everywhere": (
        capacity(nodeTopology={}, capacity="1024Mi", maximumVolumeSize=0),
        {"storageClassName": "sc", "nodeTopology": {}, "capacity": "1Gi", "maximumVolumeSize": "0"},
    ),
    "capacity_negative_maximum": (
        capacity(nodeTopology=None, maximumVolumeSize="-1"),
        {"storageClassName": "sc", "capacity": "1Gi", "maximumVolumeSize": "-1"},
    ),
}


@each_row("row", KEPT)
def test_what_is_kept_and_filled_in(api: Rest, name: str, row: str) -> None:
    (path, body), wanted = KEPT[row]
    made = api.post(path, {**body, "metadata": {"name": name}}).ok(201)
    assert wanted == {field: value for field, value in made.items() if field not in ("apiVersion", "kind", "metadata")}
    assert made == api.get(f"{path}/{name}").ok()


def test_a_class_of_attributes_is_protected(api: Rest, name: str) -> None:
    path = f"{ATTRIBUTES_CLASSES}/{name}"
    body = an_attributes_class(name, finalizers=["example.com/first"])
    made = api.post(ATTRIBUTES_CLASSES, body).ok(201)
    assert ["example.com/first", "kubernetes.io/vac-protection"] == made["metadata"]["finalizers"]
    assert "deletionTimestamp" in api.delete(path).ok()["metadata"]
    api.patch(path, {"metadata": {"finalizers": None}}).ok()
    api.get(path).refused(404, "NotFound")


def test_old_names_of_labels_are_taken_with_a_warning(api: Rest, name: str) -> None:
    path, body = topologies([("failure-domain.beta.kubernetes.io/zone", ["a"])])
    answer = api.post(path, {**body, "metadata": {"name": name}})
    answer.ok(201)
    text = f'{TERMS}[0].key: deprecated since v1.17; use \\"topology.kubernetes.io/zone\\" instead'
    assert [f'299 - "{text}"'] == answer.warnings
