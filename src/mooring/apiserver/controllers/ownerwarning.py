"""The event about an owner reference that reaches across namespaces."""

from __future__ import annotations

import contextlib

from mooring.api.meta import Key
from mooring.apiserver.controllers.owners import Owner
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored
from mooring.base.clock import rfc3339
from mooring.kube.errors import ApiError

_EVENTS = ("", "v1", "events")
_NAMESPACES = ("", "v1", "namespaces")
_COMPONENT = "garbage-collector-controller"


def lives_somewhere(store: ObjectStore, kind: Resource, owner: Owner) -> bool:
    """True when the owner is there, in whatever namespace. kind: the one that the reference names."""
    namespaces = store.kinds.get(_NAMESPACES)
    if namespaces is None:
        return False
    table = store.table(kind)
    found = (table.get(Key(space.key.name, owner.name)) for space in store.table(namespaces).items())
    return any(stored is not None and stored.uid == owner.uid for stored in found)


def tell(store: ObjectStore, resource: Resource, stored: Stored, owner: Owner, now: float) -> None:
    """Writes an event about the dependent, where its namespace still takes one."""
    events = store.kinds.get(_EVENTS)
    if events is None:
        return
    with contextlib.suppress(ApiError):
        store.create(events, _event(resource, stored, owner, now), stored.key.namespace or "default", now)


def _event(resource: Resource, stored: Stored, owner: Owner, now: float) -> Json:
    namespace, moment = stored.key.namespace, rfc3339(now)
    named = f"[{owner.api_version}/{owner.kind}, namespace: {namespace}, name: {owner.name}, uid: {owner.uid}]"
    involved = {"kind": resource.kind, "apiVersion": resource.api_version, "name": stored.key.name, "uid": stored.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{stored.key.name}."},
        "involvedObject": {**involved, **({"namespace": namespace} if namespace else {})},
        "reason": "OwnerRefInvalidNamespace",
        "message": f'ownerRef {named} does not exist in namespace "{namespace}"',
        "source": {"component": _COMPONENT},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": _COMPONENT,
        "reportingInstance": "",
    }
