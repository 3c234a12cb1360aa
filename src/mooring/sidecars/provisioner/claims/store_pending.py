"""Volumes that exist and whose object could not be stored at once: tried again by workers of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mooring.api.core import ObjectReference, SecretReference
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.result import Result, Retry
from mooring.control.secrets import SecretError
from mooring.kube.errors import ApiError, NotFound
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.create_volume import VolumeCreation
from mooring.sidecars.provisioner.claims.failures import Attempt, report_failure
from mooring.sidecars.provisioner.claims.reconcile import ClaimReconciler
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.intents.tracker import PendingVolume
from mooring.sidecars.provisioner.model.cached import claim_reference
from mooring.sidecars.provisioner.model.outcomes import Save

log = logger(__name__)

WORKERS: Final = 4
BACK_OFF: Final = retry_backoff(0.05, 60.0)
REPORTED_AT: Final = 6
"""Failures to store before users learn of them, of each from then on: a short outage is not their business."""


class PendingVolumes:
    """controller: by the claim's uid. apply: does with a claim as its controller does with this result of an attempt."""

    def __init__(
        self,
        env: Environment,
        view: View,
        creation: VolumeCreation,
        attempts: ClaimReconciler,
        apply: Callable[[str, Result | Retry], None],
    ) -> None:
        self._secrets, self._events, self._view, self._records = env.secrets, env.events, view, view.records
        self._creation, self._attempts, self._apply = creation, attempts, apply
        self.controller: Controller[str] = Controller(
            # The name is a label of metrics, and stays.
            env.runtime,
            "unsavedpvs",
            self._store,
            workers=WORKERS,
            backoff=BACK_OFF,
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
        """One more try; the driver is not asked again for that. Raises Retry."""
        volume = self._records.get(uid).pending
        assert volume is not None, "it is pending until it is stored or refused"
        saved, error = await self._creation.pv_store.store(volume)
        if saved is Save.LATER:
            if self.controller.failures(uid) + 1 >= REPORTED_AT:
                error = f"the volume exists, its PersistentVolume could not be stored yet: {error}"
                report_failure(self._events, self._reference(volume), error)
            raise _not_stored(error)
        await self._finish(volume, saved, error)
        self._records.of(uid).pending = None
        self._records.tidy(uid)
        return Result(ending(volume.name, saved, error))

    async def _finish(self, volume: PendingVolume, saved: Save, error: str) -> None:
        """It has been stored, or never will be: then the claim comes again as after any failure. Raises Retry."""
        order, intent, uid = volume.order, volume.order.intent, volume.uid
        ref = self._reference(volume)
        if saved is Save.STORED:
            await self._attempts.succeeded(ref, order, volume.began)
            if self._records.get(uid).is_unresolved:
                self._apply(uid, Result(why.Provisioned(volume.name), again=True))
            return
        attempt = Attempt(uid, ref, self._view.claim(uid), volume.began)
        try:
            secrets = await self._read_again(intent.secret)
        except (ApiError, SecretError) as problem:
            raise _not_stored(f"{error}; nor can it be deleted: {problem}") from problem
        failure = await self._creation.rejection.refused(order, secrets, saved, error, volume.volume_id)
        try:
            self._apply(uid, await self._attempts.failed(attempt, intent.class_name, intent.source_kind, failure, order))
        except Retry as retry:
            self._apply(uid, retry)

    async def _read_again(self, ref: SecretReference | None) -> Mapping[str, str]:
        """The secret for a deletion, {} when it is gone, as deletions do it. Raises ApiError, SecretError."""
        if ref is None:
            return {}
        try:
            return await self._secrets.get(ref)
        except NotFound as error:
            log.error("a secret is gone, going on without", error=error, secret=f"{ref.namespace}/{ref.name}")
            return {}


def ending(pv_name: str, saved: Save, error: str) -> why.Provisioned | why.NotStorable:
    """The reason that there is nothing left to store. error: of the API server, where it stored nothing."""
    return why.Provisioned(pv_name) if saved is Save.STORED else why.NotStorable(pv_name, error)


def _not_stored(error: str) -> Retry:
    return Retry(f"the volume exists, its object could not be stored yet: {error}")
