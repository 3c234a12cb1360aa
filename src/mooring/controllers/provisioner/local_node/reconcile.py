"""The question to the driver whether there is room for a claim; `provisioner/writes.py` writes the node to it."""

from __future__ import annotations

from mooring.base.log import logger
from mooring.controllers.provisioner.local_node.decide import AskForRoom
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver

log = logger(__name__)


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
