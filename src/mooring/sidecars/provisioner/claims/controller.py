"""The controller of claims, and the changes that wake them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.gateway import ReferenceGrant
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.storage import CSINode, StorageClass
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.result import Result
from mooring.control.slim import changed
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.sidecars.provisioner.claims.claim_events import ClaimEvents, reference_of
from mooring.sidecars.provisioner.claims.create_volume import VolumeCreation
from mooring.sidecars.provisioner.claims.pv_store import PvStore
from mooring.sidecars.provisioner.claims.reconcile import ClaimReconciler
from mooring.sidecars.provisioner.claims.results import AttemptResults
from mooring.sidecars.provisioner.claims.store_pending import PendingVolumes
from mooring.sidecars.provisioner.claims.view import ClusterTopology, View
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.intents.tracker import IntentTracker
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import (
    BY_CLASS,
    BY_SOURCE,
    CLAIM_KIND,
    FOR_CLONES,
    PLACE,
    READINESS,
    concerns_claims,
    source_key,
)

log = logger(__name__)


class ClaimController:
    """controller: of claims, by uid. pending: of volumes that exist and whose object could not be stored at once.

    snapshots: the cache of them, which may not run. ended: called with the uid of each claim that is no more.
    """

    def __init__(
        self,
        env: Environment,
        view: View,
        tracker: IntentTracker,
        creation: VolumeCreation,
        pv_store: PvStore,
        events: ClaimEvents,
        results: AttemptResults,
        places: ClusterTopology,
        snapshots: Informer[VolumeSnapshot],
        ended: Callable[[str], None],
    ) -> None:
        self._view, self._places, self._ended = view, places, ended
        self.controller: Controller[str] = Controller(
            env.runtime,
            "claims",
            self._reconcile,
            workers=env.options.worker_threads,
            backoff=env.options.backoff,
            log=log,
            about=self._about,
        )
        pending = PendingVolumes(env, view, view.records, creation, pv_store, events, results, self.controller.apply_result)
        self.pending = pending.controller
        self._reconciler = ClaimReconciler(env, view, tracker, creation, events, results, pending, self.controller.explain)
        caches = env.caches
        self.controller.watch(caches.claims, self._claim_changed)
        self.controller.watch(caches.volumes, self._volume_changed)
        self.controller.watch(caches.classes, self._class_changed)
        self.controller.watch(caches.csi_nodes, self._registration_changed)
        self.controller.watch(caches.nodes, self._node_changed)
        self.controller.watch(caches.grants, self._grant_changed)
        self.controller.watch(snapshots, self._snapshot_changed)

    def _about(self, uid: str) -> Mapping[str, str]:
        ref = reference_of(self._view.claim(uid), self._view.intents.get(uid))
        return {"uid": uid} if ref is None else {"PVC": f"{ref.namespace}/{ref.name}"}

    async def _reconcile(self, uid: str) -> Result:
        return await self._reconciler.reconcile(uid)

    # -- waking claims

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        """A claim is reconciled whenever its kept part has changed; claims that clone it may have waited for a part of that."""
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            self._ended(old.metadata.uid)
        elif self._is_due(new) and (change.cause is Cause.RESYNC or changed(old, new)):
            self.controller.add(new.metadata.uid)
        key = change.key
        if changed(old, new, FOR_CLONES) and self._view.claims.by(BY_SOURCE, source_key(CLAIM_KIND, key.namespace, key.name)):
            self.controller.tell(topics.claim(str(key)), anew=True)

    def _is_due(self, claim: PersistentVolumeClaim) -> bool:
        """False for a claim that has a volume, unless another one may have been made for it."""
        return not claim.spec.volume_name or self._view.records.get(claim.metadata.uid).is_unresolved

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterable[str]:
        """A PersistentVolume that was removed by force, while its claim still waits for it, has to be made again.

        Beside one that changes, or is gone, there may be a second volume.
        """
        meant = (change.new or change.old or change.object).spec.claim_ref
        intent = None if meant is None else self._view.intents.get(meant.uid)
        if intent is not None and intent.stored_handle is not None:
            return (intent.uid,)
        ref = change.old.spec.claim_ref if change.old is not None and change.new is None else None
        claim = self._view.claim(ref.uid) if ref is not None and ref.uid else None
        return () if claim is None or claim.spec.volume_name else (claim.metadata.uid,)

    def _class_changed(self, change: Change[StorageClass]) -> Iterable[str]:
        """Its claims were waiting for it, or failed because of its former content."""
        if not changed(change.old, change.new):
            return ()
        return [claim.metadata.uid for claim in self._view.claims.by(BY_CLASS, change.key.name)]

    def _node_changed(self, change: Change[Node]) -> None:
        if changed(change.old, change.new, READINESS):
            self._places.readiness_changed()
        if changed(change.old, change.new, PLACE):
            self._places_changed()

    def _registration_changed(self, change: Change[CSINode]) -> None:
        if changed(change.old, change.new):
            self._places_changed()

    def _places_changed(self) -> None:
        self._places.invalidate()
        self.controller.tell(topics.NODES)

    def _grant_changed(self, change: Change[ReferenceGrant]) -> None:
        self.controller.tell(topics.grants(change.key.namespace), anew=True)

    def _snapshot_changed(self, change: Change[VolumeSnapshot]) -> None:
        if concerns_claims(change):
            self.controller.tell(topics.snapshot(str(change.key)), anew=True)

    def driver_returned(self) -> None:
        self.controller.tell(topics.DRIVER)
