"""Which change of which object wakes which claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolume, PersistentVolumeClaim
from mooring.api.gateway import REFERENCE_GRANTS, ReferenceGrant
from mooring.api.meta import key_of
from mooring.api.storage import CSI_NODES, StorageClass
from mooring.control.queue import WorkQueue
from mooring.controllers.provisioner.caches import Caches
from mooring.controllers.provisioner.claims.node_topology import NodePlaces
from mooring.controllers.provisioner.claims.outcomes import Heals
from mooring.controllers.provisioner.claims.retry_triggers import Waits
from mooring.controllers.provisioner.claims.view import BY_CLASS, View, same_but_for_version
from mooring.kube.cache.informer import Cause, Change


class ClaimEventHandlers:
    """ended: called with the uid of each claim that is no more."""

    def __init__(self, view: View, caches: Caches, waits: Waits, places: NodePlaces, queue: WorkQueue[str], ended: Callable[[str], None]):
        self._view = view
        self._caches = caches
        self._waits = waits
        self._places = places
        self._queue = queue
        self._ended = ended
        caches.claims.on_change(self.claim_changed)
        caches.volumes.on_change(self.volume_changed)
        caches.classes.on_change(self.class_changed)
        caches.csi_nodes.on_change(self.node_changed)
        caches.nodes.on_change(self.node_changed)
        caches.grants.on_change(self.grant_changed)

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        """A claim is looked at whenever anything that is kept of it has changed."""
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            self._ended(old.metadata.uid)
        elif self._is_due(new) and (change.cause is Cause.RESYNC or old is None or not same_but_for_version(old, new)):
            self._queue.add(new.metadata.uid)
        about = new or old
        assert about is not None
        if change.cause is not Cause.RESYNC:
            self.happened(PERSISTENT_VOLUME_CLAIMS.plural, str(key_of(about)))

    def _is_due(self, claim: PersistentVolumeClaim) -> bool:
        """False for a claim that has a volume, unless another one may have been made for it."""
        return not claim.spec.volume_name or self._view.records.get(claim.metadata.uid).is_unresolved

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        """A volume's object that is torn away from a claim which still waits for it has to be made again."""
        ref = change.old.spec.claim_ref if change.old is not None and change.new is None else None
        claim = self._view.claim(ref.uid) if ref is not None and ref.uid else None
        if claim is not None and not claim.spec.volume_name:
            self._queue.add(claim.metadata.uid)

    def class_changed(self, change: Change[StorageClass]) -> None:
        """Its claims were waiting for it, or were wrong with what it said."""
        old, new = change.old, change.new
        if old is not None and new is not None and same_but_for_version(old, new):
            return
        about = new or old
        assert about is not None
        for claim in self._caches.claims.store.by(BY_CLASS, about.metadata.name):
            self._queue.add(claim.metadata.uid)

    def node_changed(self, change: Change[Any]) -> None:
        """A node's labels or its registration."""
        if change.old is not None and change.new is not None and same_but_for_version(change.old, change.new):
            return
        self._places.forget()
        self.happened(CSI_NODES.plural)

    def grant_changed(self, change: Change[ReferenceGrant]) -> None:
        self.happened(REFERENCE_GRANTS.plural, change.key.namespace)

    def happened(self, plural: str, name: str = "") -> None:
        """An object changed: who failed for it is tried again at once; for whom it is the very object, that counts as the first try."""
        for uid in self._waits.healed_by(Heals(plural)):
            self._queue.add(uid)
        for uid in self._waits.healed_by(Heals(plural, name)) if name else ():
            self._queue.forget(uid)
            self._queue.add(uid)

    def driver_returned(self) -> None:
        for uid in self._waits.failed_of_driver():
            self._queue.add(uid)
