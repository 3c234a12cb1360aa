"""Reads a cluster: each kind as a whole where the doctor has to see all of it, page by page. Nothing here writes.

The API server's refusals are noted, and what they hide proves nothing. Of secrets only the metadata is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import msgspec

from mooring.api.coordination import NODE_LEASE_NAMESPACE
from mooring.api.meta import Kind
from mooring.inspect.doctor.classes import CLASSES, secrets_of
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import (
    BARE_PODS,
    BARE_SECRETS,
    CLUSTER_ROLES,
    DEFINITIONS,
    LISTED,
    VALUES_MAX,
    WITH_RIGHTS,
    WORKLOADS,
    BarePod,
    Item,
    without_nulls,
)
from mooring.inspect.doctor.sidecars import programs_of
from mooring.inspect.doctor.snapshot_parts import GROUPS, SINGLES
from mooring.kube.cluster import Cluster
from mooring.kube.errors import Forbidden, NotFound, NotServed
from mooring.kube.list_all import list_all

SECRETS_MAX: Final = 500
"""Secrets that are looked for, one by one."""


async def read_cluster(inventory: Inventory, cluster: Cluster, metadata: Cluster) -> None:
    """metadata: the same cluster, which is asked for no more of an object than that. Raises ApiError."""
    await _read(inventory, cluster, LISTED)
    for definition in (*SINGLES, *GROUPS):
        await _one(inventory, cluster, DEFINITIONS, definition.resource)
    await _secrets(inventory, metadata)


async def read_rights(inventory: Inventory, cluster: Cluster) -> None:
    """The programs, and what they may do. Raises ApiError."""
    await _read(inventory, cluster, (*WORKLOADS, *WITH_RIGHTS))


async def _read(inventory: Inventory, cluster: Cluster, kinds: Iterable[Kind[Any]]) -> None:
    for kind in kinds:
        async for body in _all(inventory, cluster, kind):
            if body.get("metadata", {}).get("namespace") != NODE_LEASE_NAMESPACE:
                _put(inventory, kind, body)
    await _pods(inventory, cluster)


async def _all(inventory: Inventory, cluster: Cluster, kind: Kind[Any]) -> AsyncIterator[dict[str, Any]]:
    try:
        async for body in list_all(cluster, kind.whole()):
            yield body
    except Forbidden as error:
        inventory.hide(kind, str(error))
    except NotServed:
        if kind.group == CLUSTER_ROLES.group:
            inventory.hide(
                kind,
                f"this server does not serve {kind.group}: who may do what is decided elsewhere",
                "roles and bindings",
            )


def _put(inventory: Inventory, kind: Kind[Any], body: dict[str, Any]) -> None:
    try:
        inventory.put(Item(kind, msgspec.convert(without_nulls(body, [VALUES_MAX]), kind.struct)))
    except ValueError as error:
        inventory.hide(kind, str(error), f"{kind.name} {body.get('metadata', {}).get('name')}")


async def _pods(inventory: Inventory, cluster: Cluster) -> None:
    """Read the pods that run a sidecar and have no owner: the others are judged by their workload."""
    try:
        async for pod in list_all(cluster, BARE_PODS):
            if _is_bare(pod):
                inventory.put(Item(BARE_PODS, pod))
    except Forbidden as error:
        inventory.hide(BARE_PODS, str(error))


def _is_bare(pod: BarePod) -> bool:
    owned = any(one.controller for one in pod.metadata.owner_references or ())
    return not owned and any(programs_of(one)[0] for one in pod.spec.containers)


async def _one(inventory: Inventory, cluster: Cluster, kind: Kind[Any], name: str, namespace: str = "") -> None:
    try:
        _put(inventory, kind, await cluster.get(kind.whole(), name, namespace))
    except NotFound:
        pass
    except (Forbidden, NotServed) as error:
        inventory.hide(kind, str(error), f"{kind.name} {namespace}/{name}" if namespace else f"{kind.name} {name}")


async def _secrets(inventory: Inventory, metadata: Cluster) -> None:
    named = {(one.namespace, one.name) for kind in CLASSES for item in inventory.all(kind) for one in secrets_of(item)}
    for namespace, name in sorted(named)[:SECRETS_MAX]:
        await _one(inventory, metadata, BARE_SECRETS, name, namespace)
    if len(named) > SECRETS_MAX:
        inventory.hide(BARE_SECRETS, f"the classes name {len(named)} secrets, and only {SECRETS_MAX} were looked for")
