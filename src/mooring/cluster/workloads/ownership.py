"""Which objects are a workload's: those that it controls, those that it adopts, those that it lets go. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api.matching import selects
from mooring.api.meta import Kind, LabelSelector, Object, OwnerReference, is_deleting

T = TypeVar("T", bound=Object)


class Claimed(msgspec.Struct, Generic[T], frozen=True):
    """mine: controlled, and selected. adopt: selected, and without a controller. release: controlled, and not selected
    any more.
    """

    mine: tuple[T, ...]
    adopt: tuple[T, ...] = ()
    release: tuple[T, ...] = ()


def claim(owner: Object, selector: LabelSelector | None, objects: Iterable[T]) -> Claimed[T]:
    """Sort the objects by what they are to the owner. One that is being deleted adopts and releases nothing."""
    mine: list[T] = []
    adopt: list[T] = []
    release: list[T] = []
    for obj in objects:
        controller = controller_of(obj)
        fits = selector is not None and selects(selector, obj.metadata.labels)
        if controller is not None and controller.uid == owner.metadata.uid:
            (mine if fits else release).append(obj)
        elif controller is None and fits and not is_deleting(obj):
            adopt.append(obj)
    return Claimed(tuple(mine)) if is_deleting(owner) else Claimed(tuple(mine), tuple(adopt), tuple(release))


def controller_of(obj: Object) -> OwnerReference | None:
    return next((one for one in obj.metadata.owner_references or () if one.controller), None)


def reference(kind: Kind[Any], obj: Object) -> dict[str, Any]:
    """The owner reference to the object as the controller of another."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": obj.metadata.name,
        "uid": obj.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def references_of(obj: Object) -> list[dict[str, Any]]:
    """The object's owner references as JSON values."""
    return [msgspec.to_builtins(one) for one in obj.metadata.owner_references or ()]


def with_owner(obj: Object, owner: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(one for one in references_of(obj) if one["uid"] != owner["uid"]), owner]


def without_owner(obj: Object, uid: str) -> list[dict[str, Any]]:
    return [one for one in references_of(obj) if one["uid"] != uid]
