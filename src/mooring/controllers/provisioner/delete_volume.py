"""DeleteVolume, as drivers answer it."""

from __future__ import annotations

from mooring.base.log import logger
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi

log = logger(__name__)


async def delete_volume(driver: Driver, request: csi.DeleteVolumeRequest, call: Call, pv_name: str) -> None:
    """Returns when the volume is gone: also where the driver does not find it. Raises DriverError.

    Differs from external-provisioner, which asks such a driver for ever.
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
