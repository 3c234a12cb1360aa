"""Carrying out what was decided about a claim's owner: the question to the driver, and the write."""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import key_of
from mooring.base.log import logger
from mooring.controllers.provisioner import names
from mooring.controllers.provisioner.local_node.decide import AskForRoom
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster

log = logger(__name__)

_WHOLE: Final = PERSISTENT_VOLUME_CLAIMS.whole()


async def has_room(driver: Driver, ask: AskForRoom, timeout_s: float) -> bool:
    """True also when the driver can't say: then provisioning is going to tell the user why."""
    for request in ask.requests:
        try:
            if ask.is_enough(await driver.get_capacity(request, Call(timeout_s))):
                return True
        except DriverError as error:
            log.error("could not ask for room, the node becomes the owner all the same", error=error)
            return True
    return False


async def write_owner(cluster: Cluster, claims: Informer[PersistentVolumeClaim], claim: PersistentVolumeClaim, node_name: str) -> bool:
    """Writes the node into the claim; False when that is not free any more. Raises ApiError.

    By PUT, which external-provisioner's rights on claims allow and a patch would not.
    """
    meta = claim.metadata
    body = await cluster.get(_WHOLE, meta.name, meta.namespace)
    notes = body["metadata"].setdefault("annotations", {})
    if body["metadata"]["uid"] != meta.uid or notes.get(names.SELECTED_NODE) or body["spec"].get("volumeName"):
        return False
    notes[names.SELECTED_NODE] = node_name
    await claims.write(key_of(claim), cluster.replace(PERSISTENT_VOLUME_CLAIMS, body, meta.namespace))
    return True
