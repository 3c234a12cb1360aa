"""Stores the PersistentVolume of a volume that exists, and finds the owner of an object that has its name already."""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key
from mooring.base.log import logger
from mooring.controllers.provisioner.claims.outcomes import Save
from mooring.controllers.provisioner.claims.owner import owner_of
from mooring.controllers.provisioner.claims.record import PendingVolume
from mooring.controllers.provisioner.intents.intent import Intent
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import AlreadyExists, ApiError, BadRequest, Invalid, NotFound, TooLarge

log = logger(__name__)

_REFUSALS: Final = (Invalid, BadRequest, TooLarge)


class PvStore:
    """driver_name: whose volumes it stores. per_node: the provisioners of other nodes make volumes of the same names."""

    def __init__(self, cluster: Cluster, volumes: Informer[PersistentVolume], *, driver_name: str, per_node: bool = False) -> None:
        self._cluster, self._volumes, self._driver_name, self._per_node = cluster, volumes, driver_name, per_node

    async def store(self, volume: PendingVolume) -> tuple[Save, str]:
        """One try. Gives its result, and why it was refused or has to be repeated."""
        key = Key("", volume.name)
        try:
            await self._volumes.write(key, self._cluster.create(PERSISTENT_VOLUMES, volume.body))
        except AlreadyExists:
            return await self.owner_of_existing(volume.order.intent, volume.volume_id)
        except _REFUSALS as error:
            return await self.owner_of_existing(volume.order.intent, volume.volume_id, refused=str(error))
        except ApiError as error:
            return Save.LATER, str(error)
        return Save.STORED, ""

    async def is_awaited(self, intent: Intent) -> bool:
        """True while its claim is there, by the API server itself: a cache may be late. Raises ApiError."""
        try:
            claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, intent.claim_name, intent.namespace)
        except NotFound:
            return False
        return claim.metadata.uid == intent.uid

    async def owner_of_existing(self, intent: Intent, volume_id: str, refused: str = "") -> tuple[Save, str]:
        """An object of the volume's name is there: our own, when an answer was lost; or another claim's.

        refused: why there will be none, unless there is: an earlier try may have been taken, and then its volume must not be deleted.
        Differs from external-provisioner, which always takes it for its own.
        """
        name = intent.volume_name
        try:
            found = await self._volumes.write(Key("", name), self._cluster.get(PERSISTENT_VOLUMES, name))
        except NotFound:
            found = None
        except ApiError as error:
            return Save.LATER, str(error)
        owner = owner_of(found, intent, volume_id, driver_name=self._driver_name, per_node=self._per_node, refused=refused)
        if owner.second_volume:
            log.error("the driver has made two volumes of one name, neither is deleted", PersistentVolume=name, volume=volume_id)
        return owner.saved, owner.error
