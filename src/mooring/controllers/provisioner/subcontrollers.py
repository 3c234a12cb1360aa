"""The controllers beside that of claims, on the same caches, and what they tell each other."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.core import PersistentVolume
from mooring.control.events import EventRecorder
from mooring.control.manager import Beside, Worker
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.controllers.provisioner.caches import ProvisionerCaches
from mooring.controllers.provisioner.capacity.controller import CapacityPublisher
from mooring.controllers.provisioner.claims.view import View
from mooring.controllers.provisioner.deletion.controller import VolumeDeletion
from mooring.controllers.provisioner.intents.intent import Intents
from mooring.controllers.provisioner.local_node.controller import ClaimOwnership
from mooring.controllers.provisioner.local_node.requests import learn_place
from mooring.controllers.provisioner.options import ProvisionerOptions
from mooring.controllers.provisioner.source_protection.controller import SourceProtection
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.informer import Cause, Change


class Subcontrollers:
    """Deletion and source protection always; capacity and, on a node of its own, ownership of claims where the options say so."""

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        facts: DriverCapabilities,
        options: ProvisionerOptions,
        events: EventRecorder,
        caches: ProvisionerCaches,
        secrets: SecretCache,
        view: View,
        intents: Intents,
    ) -> None:
        self._driver, self._facts, self._options, self._caches = driver, facts, options, caches
        self._place: dict[str, str] = {}
        self.protection = SourceProtection(runtime, caches, facts, options)
        self.beside: Mapping[str, Beside] = self.protection.beside
        self._ownership: ClaimOwnership | None = None
        self._capacity: CapacityPublisher | None = None
        if options.node is not None and options.node.immediate_binding:
            self._ownership = ClaimOwnership(runtime, caches, driver, options, events, secrets, view)
        if options.capacity is not None:
            place = None if options.node is None else self._place
            self._capacity = CapacityPublisher(runtime, caches, driver, facts, options, place=place)
            caches.volumes.on_change(self._volume_changed)
        self._deletion = VolumeDeletion(
            runtime,
            caches,
            driver,
            facts,
            options,
            events,
            secrets,
            settled=intents.settled,
            segments=self._place,
            deleted=self._volume_deleted,
        )

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Those that work on the filled caches; `beside` runs as long as the caches do."""
        ownership = None if self._ownership is None else self._ownership.controller
        return tuple(one for one in (self._deletion, self.protection.controller, self._capacity, ownership) if one is not None)

    def driver_returned(self) -> None:
        """The driver was away and is back: what failed for that is tried at once."""
        self._deletion.driver_returned()
        if self._capacity is not None:
            self._capacity.driver_returned()

    async def learn_place(self) -> None:
        """Before the caches are filled. Raises DriverError."""
        if self._options.node is not None:
            self._place.update(await learn_place(self._driver, self._options.timeout_s))
            self._caches.pretend_node(self._facts.name, self._options.node.node_name, self._place)

    def making_failed(self, class_name: str) -> None:
        """The driver may have had no room for a volume of this class."""
        if self._capacity is not None:
            self._capacity.making_failed(class_name)

    def intent_closed(self, pv_name: str) -> None:
        """Nothing that is being made keeps the volume from being deleted any more."""
        self._deletion.intent_closed(pv_name)

    def _volume_changed(self, change: Change[PersistentVolume]) -> None:
        """A new volume of the driver takes room, whichever process made it."""
        is_new = change.old is None and change.cause in (Cause.OWN_WRITE, Cause.WATCH)
        if self._capacity is not None and is_new and change.new is not None and self._deletion.is_ours(change.new):
            self._capacity.volume_made(change.new)

    def _volume_deleted(self, pv: PersistentVolume) -> None:
        if self._capacity is not None:
            self._capacity.volume_deleted(pv)
        if self._ownership is not None:
            self._ownership.room_freed()
