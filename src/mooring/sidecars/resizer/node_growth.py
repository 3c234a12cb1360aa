"""Whether a driver grows volumes on their nodes."""

from __future__ import annotations

from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code


async def grows_on_nodes(driver: Driver, timeout_s: float) -> bool:
    """As the node service at the controller's socket says. Raises DriverError."""
    try:
        answer = await driver.node_get_capabilities(csi.NodeGetCapabilitiesRequest(), Call(timeout_s))
    except DriverError as error:
        if error.code != Code.UNIMPLEMENTED:
            raise
        return False  # there is no node service at this socket
    return any(one.rpc.type == csi.NodeServiceCapability.RPC.EXPAND_VOLUME for one in answer.capabilities)
