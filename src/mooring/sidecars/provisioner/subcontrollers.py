"""The controllers beside that of claims, on the same caches, and the calls between them."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.core import PersistentVolume
from mooring.control.manager import Worker
from mooring.kube.cache.informer import Cause, Change
from mooring.sidecars.provisioner.capacity.controller import CapacityPublisher
from mooring.sidecars.provisioner.claims.decide import is_due
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.deletion.controller import VolumeDeletion
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.intents.tracker import IntentTracker
from mooring.sidecars.provisioner.local_node.controller import ClaimOwnership
from mooring.sidecars.provisioner.local_node.requests import learn_place
from mooring.sidecars.provisioner.source_protection.controller import SourceProtection


class Subcontrollers:
    """Deletion and source protection always; capacity and, on a node of its own, ownership of claims where the options say so."""

    def __init__(self, env: Environment, view: View, tracker: IntentTracker) -> None:
        self._env = env
        runtime, options, caches = env.runtime, env.options, env.caches
        self._place: dict[str, str] = {}
        self.protection = SourceProtection(runtime, caches, env.capabilities, options, lambda claim: is_due(view, claim))
        self.beside: Mapping[str, Worker] = self.protection.beside
        self._ownership: ClaimOwnership | None = None
        self._capacity: CapacityPublisher | None = None
        if options.node is not None and options.node.immediate_binding:
            self._ownership = ClaimOwnership(env, view)
        if options.capacity is not None:
            place = None if options.node is None else self._place
            self._capacity = CapacityPublisher(runtime, caches, env.driver, env.capabilities, options, place=place)
            self._capacity.controller.watch(caches.volumes, self._volume_changed)
        self._deletion = VolumeDeletion(
            env,
            wait_for_end=tracker.wait_for_end,
            forget_stored=tracker.forget_stored,
            segments=self._place,
            deleted=self._volume_deleted,
        )

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The controllers that work on the filled caches; `beside` runs as long as the caches do."""
        ownership = None if self._ownership is None else self._ownership.controller
        return tuple(one for one in (self._deletion, self.protection.controller, self._capacity, ownership) if one is not None)

    def driver_returned(self) -> None:
        """The driver was away and is back: everything that failed for that is tried at once."""
        self._deletion.driver_returned()
        if self._capacity is not None:
            self._capacity.driver_returned()

    async def learn_place(self) -> None:
        """Before the caches are filled. Raises DriverError."""
        env = self._env
        if env.options.node is not None:
            self._place.update(await learn_place(env.driver, env.options.timeout_s))
            env.caches.pretend_node(env.capabilities.name, env.options.node.node_name, self._place)

    def creation_failed(self, class_name: str) -> None:
        """The driver may have had no room for a volume of this class."""
        if self._capacity is not None:
            self._capacity.creation_failed(class_name)

    def intent_closed(self, pv_name: str) -> None:
        """The intent of the volume is closed: it no longer keeps the volume from being deleted."""
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
