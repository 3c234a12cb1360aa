"""The controllers of claims, and of volumes that exist and whose object could not be stored at once; the changes that
wake claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.api.core import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim
from mooring.api.gateway import ReferenceGrant
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.storage import CSINode, StorageClass
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.control.backlog import newest_keys
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.result import Result, Retry
from mooring.control.secrets import SecretError
from mooring.control.slim import changed
from mooring.kube.cache.informer import Cause, Change
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.provision import SourceHolder, VolumeCreation
from mooring.sidecars.provisioner.claims.reconcile import Attempt, ClaimReconciler, reference_of
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.environment import Environment, deletion_secret
from mooring.sidecars.provisioner.intents.tracker import IntentTracker, PendingVolume
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import (
    BY_CLASS,
    BY_SOURCE,
    CLAIM_KIND,
    FOR_CLONES,
    PLACE,
    READINESS,
    claim_reference,
    concerns_claims,
    source_key,
)
from mooring.sidecars.provisioner.model.intent import ClaimIntents
from mooring.sidecars.provisioner.model.outcomes import Save

log = logger(__name__)

WORKERS: Final = 4
BACK_OFF: Final = retry_backoff(0.05, 60.0)

REPORTED_AT: Final = 6
"""Failures to store before users learn of them, of each from then on: a short outage is not their business."""

SECRET_S_MAX: Final = 60.0
"""How long the volume of a deleted claim, if it may exist, waits for its secret; then it is requested without."""


class ClaimController:
    """controller: of claims, by uid. pending: of volumes that exist and whose object could not be stored at once.

    sources: of volumes' data, to be held. populating: of the event that leaves a claim to a populator.
    identity: of this process, in the attributes of its volumes.
    """

    def __init__(
        self,
        env: Environment,
        view: View,
        tracker: IntentTracker,
        sources: SourceHolder,
        populating: EventRecorder,
        identity: str,
    ) -> None:
        self._view, self._tracker, self._clock = view, tracker, env.runtime.clock
        self._creation = VolumeCreation(env, view, tracker, sources, identity)
        self.controller: Controller[str] = Controller(
            env.runtime,
            "claims",
            self._reconcile,
            workers=env.options.worker_threads,
            backoff=env.options.backoff,
            label="uid",
            log=log,
            about=self._about,
        )
        self._reconciler = ClaimReconciler(
            env,
            view,
            tracker,
            self._creation,
            populating,
            self.controller.explain,
            lambda uid, error: self._pending.add(uid, error),
        )
        self._pending = PendingVolumes(env, view, self._creation, self._reconciler, self.controller.apply_result)
        self.pending = self._pending.controller
        caches = env.caches
        self.controller.watch(caches.claims, self._claim_changed)
        self.controller.watch(caches.volumes, self._volume_changed)
        self.controller.watch(caches.classes, self._class_changed)
        self.controller.watch(caches.csi_nodes, self._registration_changed)
        self.controller.watch(caches.nodes, self._node_changed)
        self.controller.watch(caches.grants, self._grant_changed)
        self.controller.watch(caches.snapshots, self._snapshot_changed)

    def _about(self, uid: str) -> Mapping[str, str]:
        ref = reference_of(self._view.claim(uid), self._view.intents.get(uid))
        return {"uid": uid} if ref is None else {"PVC": f"{ref.namespace}/{ref.name}"}

    async def _reconcile(self, uid: str) -> Result:
        return await self._reconciler.reconcile(uid)

    async def look_at_all(self) -> None:
        """A term begins."""
        self.controller.add_later(
            newest_keys(self._view.claims, lambda claim: claim.metadata.uid if self._is_due(claim) else None)
        )

    # -- waking claims

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        """A claim is reconciled whenever its kept part has changed; claims that clone it may have waited for a part of
        that.
        """
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            self._claim_ended(old.metadata.uid)
        elif self._is_due(new) and (change.cause is Cause.RESYNC or changed(old, new)):
            self.controller.add(new.metadata.uid)
        key = change.key
        if changed(old, new, FOR_CLONES) and self._view.claims.by(
            BY_SOURCE, source_key(CLAIM_KIND, key.namespace, key.name)
        ):
            self.controller.tell(topics.claim(str(key)), anew=True)

    def _is_due(self, claim: PersistentVolumeClaim) -> bool:
        """False for a claim that has a volume, unless another one may have been made for it, or its source is held."""
        uid = claim.metadata.uid
        return not claim.spec.volume_name or self._is_refused(uid) or self._creation.holds(uid)

    def _is_refused(self, uid: str) -> bool:
        """True when all open requests of the claim were refused, and one may have made a volume all the same."""
        entry = self._view.intents.get(uid)
        return entry is not None and entry.current is None

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterable[str]:
        """A PersistentVolume that was removed by force, while its claim still waits for it, has to be made again.

        What is put off is asked for once it is gone.
        """
        meant = (change.new or change.old or change.object).spec.claim_ref
        if meant is not None and self._view.records.get(meant.uid).pending is not None:
            self.pending.retry_now((meant.uid,))  # it is stored, though the answer was lost
        entry = None if meant is None else self._view.intents.get(meant.uid)
        if entry is not None and entry.is_put_off:
            return (entry.uid,)
        ref = change.old.spec.claim_ref if change.old is not None and change.new is None else None
        claim = self._view.claim(ref.uid) if ref is not None and ref.uid else None
        return () if claim is None or claim.spec.volume_name else (claim.metadata.uid,)

    def _class_changed(self, change: Change[StorageClass]) -> Iterable[str]:
        """The claims of the class, which waited for it, or failed because of its former content."""
        if not changed(change.old, change.new):
            return ()
        return [claim.metadata.uid for claim in self._view.claims.by(BY_CLASS, change.key.name)]

    def _node_changed(self, change: Change[Node]) -> None:
        if changed(change.old, change.new, READINESS):
            self._view.places.readiness_changed()
        if change.old is None or change.new is None:
            self._places_changed()
        elif changed(change.old, change.new, PLACE):
            before, after = (one.metadata.labels or {} for one in (change.old, change.new))
            differing = {key for key, _ in before.items() ^ after.items()}
            if any(map(self._view.places.tells_places, differing)):
                self._places_changed()

    def _registration_changed(self, change: Change[CSINode]) -> None:
        if changed(change.old, change.new):
            self._places_changed()

    def _places_changed(self) -> None:
        self._view.places.invalidate()
        self.controller.tell(topics.NODES)

    def _grant_changed(self, change: Change[ReferenceGrant]) -> None:
        self.controller.tell(topics.grants(change.key.namespace), anew=True)

    def _snapshot_changed(self, change: Change[VolumeSnapshot]) -> None:
        if concerns_claims(change):
            self.controller.tell(topics.snapshot(str(change.key)), anew=True)

    def driver_returned(self) -> None:
        """The driver was away and is back. What it refused as it is, is asked for once more."""
        self._view.records.end_rests(topics.DRIVER)
        self.controller.tell(topics.DRIVER)
        self.controller.driver_returned()

    # -- claims that are gone

    def _claim_ended(self, uid: str) -> None:
        """Forget the claim, unless it may have a volume: that is still requested, in its present back-off."""
        if uid not in self._view.intents:
            self._creation.forget(uid)
            self.controller.forget(uid)
            if self._creation.holds(uid):
                self.controller.add(uid)
            return
        self._view.records.of(uid).orphaned_at = self._clock.now() + SECRET_S_MAX
        if self._is_refused(uid):
            self.controller.add(uid)

    def intents_found(self, found: Mapping[str, ClaimIntents]) -> None:
        """Another process has left these intents open: their claims may be gone."""
        self._tracker.found(found)
        self._creation.found(found)
        for uid in found:
            self._view.records.of(uid).orphaned_at = self._clock.now()
            self.controller.add(uid)


# -- volumes whose object could not be stored at once


class PendingVolumes:
    """controller: by the claim's uid. apply: does with a claim as its controller does with this result of an
    attempt.
    """

    def __init__(
        self,
        env: Environment,
        view: View,
        creation: VolumeCreation,
        attempts: ClaimReconciler,
        apply: Callable[[str, Result | Retry], None],
    ) -> None:
        self._secrets, self._view, self._records = env.secrets, view, view.records
        self._creation, self._attempts, self._apply = creation, attempts, apply
        self.controller: Controller[str] = Controller(
            # The name is a label of metrics, and stays.
            env.runtime,
            "unsavedpvs",
            self._store,
            workers=WORKERS,
            backoff=BACK_OFF,
            label="uid",
            log=log,
            about=self._about,
        )

    def add(self, uid: str, error: str) -> None:
        """The claim's volume could not be stored: it comes after the back-off."""
        self.controller.apply_result(uid, _not_stored(error))

    def _about(self, uid: str) -> Mapping[str, str]:
        volume = self._records.get(uid).pending
        return {"uid": uid} if volume is None else {"PersistentVolume": volume.name}

    def _reference(self, volume: PendingVolume) -> ObjectReference:
        claim = self._view.claim(volume.uid)
        return volume.order.intent.claim_reference if claim is None else claim_reference(claim)

    async def _store(self, uid: str) -> Result:
        """Try once more to store the PersistentVolume, without another call to the driver. Raises Retry."""
        volume = self._records.get(uid).pending
        if volume is None:
            return Result(why.Gone(uid))  # it was woken once more while it was stored
        saved, error = await self._creation.store(volume)
        if saved is Save.LATER:
            if self.controller.failures(uid) + 1 >= REPORTED_AT:
                error = f"the volume exists, its PersistentVolume could not be stored yet: {error}"
                self._attempts.events.failed(self._reference(volume), error)
            raise _not_stored(error)
        await self._finish(volume, saved, error)
        self._records.of(uid).pending = None
        self._records.tidy(uid)
        return Result(ending(volume.name, saved, error))

    async def _finish(self, volume: PendingVolume, saved: Save, error: str) -> None:
        """End an attempt whose object is stored, or never will be: then its claim has failed. Raises Retry."""
        order, intent, uid = volume.order, volume.order.intent, volume.uid
        claim_ref = self._reference(volume)
        if saved is Save.STORED:
            try:
                await self._attempts.succeeded(claim_ref, order, volume.began)
            except Retry as retry:
                self._apply(uid, retry)  # the claim closes its intent, since the volume is stored
            else:
                if uid in self._view.intents:
                    self._apply(uid, Result(why.Provisioned(volume.name), again=True))
            return
        attempt = Attempt(uid, claim_ref, self._view.claim(uid), volume.began)
        try:
            ref = intent.secret
            secrets = {} if ref is None else await deletion_secret(self._secrets, ref, volume.name)
        except (ApiError, SecretError) as problem:
            raise _not_stored(f"{error}; nor can it be deleted: {problem}") from problem
        failure = await self._creation.refused(order, secrets, saved, error, volume.volume_id)
        try:
            self._apply(
                uid, await self._attempts.failed(attempt, intent.class_name, intent.source_kind, failure, order)
            )
        except Retry as retry:
            self._apply(uid, retry)


def ending(pv_name: str, saved: Save, error: str) -> why.Provisioned | why.NotStorable:
    """The reason that there is nothing left to store. error: of the API server, where it stored nothing."""
    return why.Provisioned(pv_name) if saved is Save.STORED else why.NotStorable(pv_name, error)


def _not_stored(error: str) -> Retry:
    return Retry(f"the volume exists, its object could not be stored yet: {error}")
