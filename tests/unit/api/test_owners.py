"""References from one object to another."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, reference_to
from mooring.api.meta import CustomObject, Key, Kind, ObjectMeta, OwnerReference, owner_keys, owner_reference
from tests.support.rows import each_row

SPACES: Kind[CustomObject] = Kind("example.com", "v1", "Workspace", "workspaces", namespaced=True, struct=CustomObject)
BOOKS = CustomObject(ObjectMeta(name="books", namespace="shop", uid="u-1", resource_version="7"))


def owned_by(**reference: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(ObjectMeta(namespace="shop", owner_references=(OwnerReference(**reference),)))


def test_an_owner_is_found_by_the_reference_that_names_it() -> None:
    reference = owner_reference(BOOKS, SPACES)
    assert (True, True) == (reference["controller"], reference["blockOwnerDeletion"])
    owned = PersistentVolumeClaim(
        ObjectMeta(namespace="shop", owner_references=(msgspec.convert(reference, OwnerReference),))
    )
    assert [Key("shop", "books")] == owner_keys(owned, SPACES)
    assert [] == owner_keys(owned, PERSISTENT_VOLUME_CLAIMS)


@each_row(
    ("api_version", "kind", "keys"),
    [
        ("example.com/v1beta1", "Workspace", [Key("shop", "books")]),
        ("example.org/v1", "Workspace", []),
        ("v1", "Workspace", []),
        ("example.com/v1", "Other", []),
    ],
)
def test_an_owner_of_another_group_or_kind_is_another_one(api_version: str, kind: str, keys: list[Key]) -> None:
    assert keys == owner_keys(owned_by(api_version=api_version, kind=kind, name="books"), SPACES)


def test_an_owner_without_a_namespace_is_found_without_one() -> None:
    nodes = Kind("", "v1", "Node", "nodes", namespaced=False, struct=CustomObject)
    assert [Key("", "n1")] == owner_keys(owned_by(api_version="v1", kind="Node", name="n1"), nodes)


def test_a_reference_has_the_version_of_its_kind() -> None:
    found = reference_to(BOOKS, SPACES)
    assert ("example.com/v1", "Workspace", "shop", "books", "u-1") == (
        *(found.api_version, found.kind, found.namespace, found.name),
        found.uid,
    )
    assert ("v1", "Pod") == ((core := reference_to(BOOKS, "Pod")).api_version, core.kind)
