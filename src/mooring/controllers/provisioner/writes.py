"""The provisioner's writes to claims: a node is selected, or the selection is removed.

By PUT, which external-provisioner's rights on claims allow and a patch would not: of the object as it is now, so with a GET.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import key_of
from mooring.controllers.provisioner import names
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound

_WHOLE = PERSISTENT_VOLUME_CLAIMS.whole()


async def select_node(cluster: Cluster, claims: Informer[PersistentVolumeClaim], claim: PersistentVolumeClaim, node_name: str) -> bool:
    """Writes the node into the claim; False when that is not free any more. Raises ApiError."""

    def select(body: dict[str, Any]) -> bool:
        notes = body["metadata"].setdefault("annotations", {})
        if notes.get(names.SELECTED_NODE) or body["spec"].get("volumeName"):
            return False
        notes[names.SELECTED_NODE] = node_name
        return True

    return await _edit(cluster, claims, claim, select)


async def deselect_node(cluster: Cluster, claims: Informer[PersistentVolumeClaim], claim: PersistentVolumeClaim) -> None:
    """Takes the selected node off the claim, so that the scheduler chooses anew; nothing to do if somebody has done so. Raises ApiError."""
    tried = claim.metadata.annotations or {}

    def deselect(body: dict[str, Any]) -> bool:
        notes = body["metadata"].get("annotations") or {}
        chosen = [key for key in (names.SELECTED_NODE, names.SELECTED_NODE_ALPHA) if key in notes and notes[key] == tried.get(key)]
        for key in chosen:
            del notes[key]
        return bool(chosen)

    with contextlib.suppress(NotFound):
        await _edit(cluster, claims, claim, deselect)


async def _edit(
    cluster: Cluster,
    claims: Informer[PersistentVolumeClaim],
    claim: PersistentVolumeClaim,
    edit: Callable[[dict[str, Any]], bool],
) -> bool:
    """False when another claim has the name by now, or the edit finds nothing to do. Raises ApiError."""
    meta = claim.metadata
    body = await cluster.get(_WHOLE, meta.name, meta.namespace)
    if body["metadata"]["uid"] != meta.uid or not edit(body):
        return False
    await claims.write(key_of(claim), cluster.replace(PERSISTENT_VOLUME_CLAIMS, body, meta.namespace))
    return True
