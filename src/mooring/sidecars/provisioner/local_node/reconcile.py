"""Carries out one turn of a node: asks the driver for room, and writes the node into the claim.

A conflict is an answer here, and no fault: another node was quicker. So there is no `ObjectWriter`, which would read
the claim once more.
"""

from __future__ import annotations

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import key_of
from mooring.base.log import logger
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.sidecars.provisioner.environment import Environment, select_node
from mooring.sidecars.provisioner.local_node import reasons as why
from mooring.sidecars.provisioner.local_node.decide import AskForRoom
from mooring.sidecars.provisioner.model.cached import claim_reference

log = logger(__name__)


class Reconciler:
    """node_name: of the one node that is served."""

    def __init__(self, env: Environment, node_name: str) -> None:
        self._cluster, self._driver, self._timeout_s = env.runtime.cluster, env.driver, env.options.timeout_s
        self._claims, self._events, self._node_name = env.caches.claims, env.events, node_name

    async def has_room(self, ask: AskForRoom) -> bool:
        """True also when the driver can't answer: then provisioning is going to report why."""
        try:
            for request in ask.requests:
                if ask.is_enough(await self._driver.get_capacity(request, Call(self._timeout_s))):
                    return True
        except DriverError as error:
            log.error("GetCapacity failed; the node becomes the owner anyway", error=error)
            return True
        return False

    async def become_owner(self, claim: PersistentVolumeClaim) -> why.Slower | why.NotWritten | None:
        """Writes the node into the claim, unless that has one by now. Gives the reason where it was not written, None
        otherwise.
        """
        pvc = str(key_of(claim))
        try:
            if await select_node(self._cluster, self._claims, claim, self._node_name):
                log.info(2, "became the claim's owner", PVC=pvc, node=self._node_name)
            return None
        except (Conflict, NotFound) as error:
            log.info(2, "somebody else was quicker to write to the claim", PVC=pvc, why=str(error))
            return why.Slower(str(error))
        except ApiError as error:
            log.error("could not become the claim's owner", error=error, PVC=pvc)
            text = f"could not select node {self._node_name}: {error}"
            self._events.event(claim_reference(claim), "Warning", "ProvisioningFailed", text)
            return why.NotWritten(str(error))
