"""Stores and objects for the tests of this room."""

from __future__ import annotations

from typing import Any

from mooring.api.meta import Key
from mooring.apiserver.bodies.objects import FieldValidation, decode_object
from mooring.apiserver.bodies.patches import change_of
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import DEFAULT_LIMITS, HistoryLimits, Written
from mooring.base.randomness import Random
from mooring.kube.cluster import PatchType

Json = dict[str, Any]
NOW = 1_700_000_000.0


def a_store(limits: HistoryLimits = DEFAULT_LIMITS) -> ObjectStore:
    return new_store(Random(1), NOW, limits)


def decoded(resource: Resource, body: Json) -> Json:
    return decode_object(resource, body, FieldValidation.STRICT, [])[0]


def create(store: ObjectStore, resource: Resource, body: Json, namespace: str = "", now: float = NOW) -> Json:
    return store.create(resource, decoded(resource, body), namespace, now).stored.whole()


def patch(
    store: ObjectStore,
    resource: Resource,
    key: Key,
    body: Any,
    kind: PatchType = PatchType.MERGE,
    subresource: str = "",
    now: float = NOW + 5,
) -> Written:
    return store.patch(
        resource, key, change_of(resource, kind, body, FieldValidation.STRICT), now, subresource=subresource
    )
