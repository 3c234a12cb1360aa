"""Storing the PersistentVolume of a volume that exists: until it is stored, or the API server refuses it for good.

One try is made at once. What failed then is tried again by workers of its own, so that no worker for claims waits; the driver is not
asked again for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key
from mooring.api.migration import csi_driver_of
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.controllers.provisioner.claims.outcomes import Save
from mooring.controllers.provisioner.claims.record import ClaimRecords, PendingVolume
from mooring.controllers.provisioner.intents.intent import Intent
from mooring.controllers.provisioner.intents.tracker import IntentTracker
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import AlreadyExists, ApiError, BadRequest, Invalid, NotFound, TooLarge

log = logger(__name__)

WORKERS: Final = 4
FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 60.0
TOLD_AT: Final = 6
"""Failures before users are told: a short outage is not their business."""

_REFUSALS: Final = (Invalid, BadRequest, TooLarge)


Delayed = Callable[[PendingVolume, str], None]
Settled = Callable[[PendingVolume, Save, str], Awaitable[None]]


class PvStore:
    """settled: awaited with what became of a volume that could not be stored at once, and why it was refused.

    delayed: called once for a volume that can't be stored for a while, with the error. driver_name: whose volumes it stores.
    per_node: the provisioners of other nodes make volumes of the same names.
    """

    def __init__(
        self,
        cluster: Cluster,
        volumes: Informer[PersistentVolume],
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        settled: Settled,
        delayed: Delayed,
        *,
        records: ClaimRecords,
        tracker: IntentTracker,
        driver_name: str,
        per_node: bool = False,
    ) -> None:
        self._cluster = cluster
        self._volumes = volumes
        self._settled = settled
        self._delayed = delayed
        self._driver_name = driver_name
        self._per_node = per_node
        self._records, self._tracker = records, tracker
        self._queue: WorkQueue[str] = WorkQueue(
            "unsavedpvs",
            clock=clock,
            chance=chance,
            backoff=BackOff(FIRST_RETRY_S, LAST_RETRY_S),
            metrics=metrics.once(QueueMetrics),
        )

    async def store(self, volume: PendingVolume) -> tuple[Save, str]:
        """The first try; what failed is taken care of from here on. Returns what it came to, and why it was refused."""
        self._tracker.mark_made(volume)
        try:
            result = await self._try(volume)
        except Exception:
            self._queue.retry(volume.uid)
            raise
        if result[0] is Save.LATER:
            self._later(volume, result[1])
        else:
            self._records.of(volume.uid).pending = None
        return result

    def close(self) -> None:
        """Ends the workers; what is pending then is asked of the driver again, by name, by the next process."""
        self._queue.close()

    async def work(self) -> None:
        """One worker; returns once closed."""
        await self._queue.work(self._again)

    async def _again(self, uid: str) -> None:
        volume = self._records.of(uid).pending
        assert volume is not None
        result, error = await self._try(volume)
        if result is Save.LATER:
            self._later(volume, error)
            return
        self._queue.forget(uid)
        await self._settled(volume, result, error)
        self._records.of(uid).pending = None
        self._records.tidy(uid)

    def _later(self, volume: PendingVolume, error: str) -> None:
        delay_s = self._queue.retry(volume.uid)
        told = log.bind(PersistentVolume=volume.name)
        told.error("the volume exists, its object could not be stored yet", why=error, retry_in_s=round(delay_s, 3))
        if self._queue.failures(volume.uid) == TOLD_AT:
            self._delayed(volume, f"the volume exists, its PersistentVolume could not be stored yet: {error}")

    async def _try(self, volume: PendingVolume) -> tuple[Save, str]:
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
        """True while its claim is there, as the API server itself says: a cache may be late. Raises ApiError."""
        try:
            claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, intent.claim_name, intent.namespace)
        except NotFound:
            return False
        return claim.metadata.uid == intent.uid

    async def owner_of_existing(self, intent: Intent, volume_id: str, refused: str = "") -> tuple[Save, str]:
        """An object of the volume's name is there: our own, when an answer was lost; or another claim's.

        refused: why there will be none, unless there is: an earlier try may have been taken, and then its volume must not be deleted.
        Differs from external-provisioner, to which it is always our own.
        """
        name = intent.volume_name
        try:
            found = await self._volumes.write(Key("", name), self._cluster.get(PERSISTENT_VOLUMES, name))
        except NotFound:
            return (Save.REFUSED, refused) if refused else (Save.LATER, "it was there, and is gone again")
        except ApiError as error:
            return Save.LATER, str(error)
        ref, source = found.spec.claim_ref, found.spec.csi
        is_own = ref is not None and ref.uid == intent.uid
        is_foreign = self._driver_name != (csi_driver_of(found.spec) if source is None else source.driver)
        if is_foreign or (source is not None and source.volume_handle != volume_id):
            other = f'PersistentVolume "{name}" is there already, and is about another volume'
            if is_foreign or not is_own or self._per_node:
                return Save.REFUSED, other
            log.error("the driver has made two volumes of one name, neither is deleted", PersistentVolume=name, volume=volume_id)
            return Save.TAKEN, other
        if is_own:
            return Save.STORED, ""
        if ref is None or not ref.uid:
            return Save.STORED, ""
        return Save.TAKEN, f'PersistentVolume "{name}" belongs to claim "{ref.namespace}/{ref.name}" already'
