"""The provisioner's write to claims: it asks for another node."""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import key_of
from mooring.controllers.provisioner import names
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound

_WHOLE = PERSISTENT_VOLUME_CLAIMS.whole()


async def deselect_node(cluster: Cluster, claims: Informer[PersistentVolumeClaim], claim: PersistentVolumeClaim) -> None:
    """Takes the selected node off the claim, so that the scheduler chooses anew; nothing to do if somebody has done so. Raises ApiError.

    A PUT, which external-provisioner's rights on claims allow and a patch would not: of the object as it is by now, so with a GET.
    """
    meta = claim.metadata
    try:
        body = await cluster.get(_WHOLE, meta.name, meta.namespace)
    except NotFound:
        return
    notes = body["metadata"].get("annotations") or {}
    tried = claim.metadata.annotations or {}
    chosen = [key for key in (names.SELECTED_NODE, names.SELECTED_NODE_ALPHA) if key in notes and notes[key] == tried.get(key)]
    if body["metadata"]["uid"] != meta.uid or not chosen:
        return
    for key in chosen:
        del notes[key]
    await claims.write(key_of(claim), cluster.replace(PERSISTENT_VOLUME_CLAIMS, body, meta.namespace))
