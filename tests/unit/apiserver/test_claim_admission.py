"""What admission sees of other objects: the default class, and classes that let claims grow."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver.rules.classes import STORAGE_CLASSES
from mooring.apiserver.rules.persistentvolumeclaim import PERSISTENT_VOLUME_CLAIMS
from mooring.apiserver.store import ObjectStore
from mooring.kube.errors import Forbidden
from tests.support.builders import a_claim, a_class
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, Json, a_store, create, patch

DEFAULT = "storageclass.kubernetes.io/is-default-class"
KEY = Key("default", "c")


def a_default(name: str, annotation: str = DEFAULT, value: str = "true") -> Json:
    return {**a_class(""), "metadata": {"name": name, "annotations": {annotation: value}}}


def class_given(store: ObjectStore, **spec: Any) -> str | None:
    """The class that a new claim ends up with."""
    found: str | None = create(store, PERSISTENT_VOLUME_CLAIMS, a_claim("c", **spec), "default")["spec"].get(
        "storageClassName"
    )
    return found


ROWS: dict[str, tuple[list[tuple[Json, float]], str | None]] = {
    "none": ([], None),
    "not annotated": ([(a_class("a"), 0)], None),
    "annotated otherwise": ([(a_default("a", value="yes"), 0)], None),
    "annotated": ([(a_default("a"), 0), (a_class("b"), 9)], "a"),
    "annotated the old way": ([(a_default("a", "storageclass.beta.kubernetes.io/is-default-class"), 0)], "a"),
    "the newest": ([(a_default("a"), 0), (a_default("c"), 2), (a_default("b"), 1)], "c"),
    "the first by name": ([(a_default("b"), 1), (a_default("a"), 1), (a_default("c"), 0)], "a"),
}


@each_row("row", ROWS)
def test_a_claim_without_a_class_gets_the_newest_default_then_the_first_by_name(row: str) -> None:
    """B01, B02. The binder judges alike for claims that are there already."""
    classes, wanted = ROWS[row]
    store = a_store()
    for body, age in classes:
        create(store, STORAGE_CLASSES, body, now=NOW + age)
    assert wanted == class_given(store, storageClassName=None)


def test_no_class_is_a_class(store: ObjectStore) -> None:
    create(store, STORAGE_CLASSES, a_default("a"))
    assert "" == class_given(store, storageClassName="")


def test_a_class_in_the_old_annotation_is_a_class(store: ObjectStore) -> None:
    create(store, STORAGE_CLASSES, a_default("a"))
    body = a_claim("c", storageClassName=None)
    body["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert "storageClassName" not in create(store, PERSISTENT_VOLUME_CLAIMS, body, "default")["spec"]


def test_a_deleted_default_is_none(store: ObjectStore) -> None:
    create(store, STORAGE_CLASSES, a_default("a"))
    store.delete(STORAGE_CLASSES, Key("", "a"), NOW)
    assert class_given(store, storageClassName=None) is None


def a_bound_claim(store: ObjectStore, class_name: str) -> None:
    create(store, PERSISTENT_VOLUME_CLAIMS, a_claim("c", storageClassName=class_name), "default")
    status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    patch(store, PERSISTENT_VOLUME_CLAIMS, KEY, status, subresource="status")


def request(size: str) -> Json:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


def test_growth_is_asked_of_the_class_as_it_is_now(store: ObjectStore) -> None:
    create(store, STORAGE_CLASSES, a_class("fast", allowVolumeExpansion=False))
    a_bound_claim(store, "fast")
    version = store.version
    with pytest.raises(Forbidden, match="the storageclass that provisions the pvc must support resize"):
        patch(store, PERSISTENT_VOLUME_CLAIMS, KEY, request("2Gi"))
    assert version == store.version
    patch(store, STORAGE_CLASSES, Key("", "fast"), {"allowVolumeExpansion": True})
    grown = patch(store, PERSISTENT_VOLUME_CLAIMS, KEY, request("2Gi")).stored.whole()
    assert {"storage": "2Gi"} == grown["spec"]["resources"]["requests"]


def test_whoever_does_not_grow_needs_no_class(store: ObjectStore) -> None:
    a_bound_claim(store, "none-such")
    patch(store, PERSISTENT_VOLUME_CLAIMS, KEY, {"metadata": {"labels": {"a": "b"}}})
    patch(store, PERSISTENT_VOLUME_CLAIMS, KEY, {"status": {"capacity": {"storage": "9Gi"}}}, subresource="status")
