"""Requests that several controllers of the provisioner make, to the driver and to the API server."""

from __future__ import annotations

from mooring.api.core import SECRETS, SecretReference
from mooring.base.log import logger
from mooring.control.secrets import SecretCache, SecretError
from mooring.controllers.provisioner.claims.view import Looked, Wanted
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

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


async def delete_volume(driver: Driver, request: csi.DeleteVolumeRequest, call: Call, pv_name: str) -> None:
    """Returns when the volume is gone: also where the driver does not find it. Raises DriverError.

    Differs from external-provisioner, which repeats the call to such a driver for ever.
    """
    try:
        await driver.delete_volume(request, call)
    except DriverError as error:
        if error.code != Code.NOT_FOUND:
            raise
        log.warning(
            "the driver answers NotFound to DeleteVolume, where CSI asks for OK: the volume counts as deleted",
            PersistentVolume=pv_name,
            volume=request.volume_id,
        )
