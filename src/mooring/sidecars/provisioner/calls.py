"""Requests that several controllers of the provisioner make, to the driver and to the API server.

A node is selected in a claim by PUT, which external-provisioner's rights on claims allow and a patch would not: of the object as it is now,
so with a GET.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, SECRETS, PersistentVolumeClaim, SecretReference
from mooring.api.meta import key_of
from mooring.base.log import logger
from mooring.control.secrets import SecretCache, SecretError
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.view import Looked, Wanted
from mooring.wire.grpc.codes import Code

log = logger(__name__)


async def look_up(cluster: Cluster, secrets: SecretCache, wanted: Wanted, looked: Looked) -> None:
    """Puts the object into `looked`, or the error: that is an answer, too."""
    try:
        if wanted.kind is SECRETS:
            looked.found[wanted] = await secrets.get(SecretReference(name=wanted.name, namespace=wanted.namespace))
        else:
            looked.found[wanted] = await cluster.get(wanted.kind, wanted.name, wanted.namespace)
    except (ApiError, SecretError) as error:
        looked.found[wanted] = error


async def delete_volume(
    driver: Driver, volume_id: str, secrets: Mapping[str, str], call: Call, pv_name: str, *, lacks_secret: bool = False
) -> None:
    """Returns when the volume is gone: also where the driver does not find it. Raises DriverError.

    lacks_secret: there is one for the call, and it can't be had; to a stranger the driver may deny what is there.

    Differs from external-provisioner, which repeats the call to such a driver for ever.
    """
    try:
        await driver.delete_volume(csi.DeleteVolumeRequest(volume_id=volume_id, secrets=secrets), call)
    except DriverError as error:
        if error.code != Code.NOT_FOUND or lacks_secret:
            raise
        log.warning(
            "the driver answers NotFound to DeleteVolume, where CSI asks for OK: the volume counts as deleted",
            PersistentVolume=pv_name,
            volume=volume_id,
        )


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
