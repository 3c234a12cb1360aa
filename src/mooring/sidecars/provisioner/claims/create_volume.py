"""Makes one volume: hold its source, store the intent, call the driver, check the answer, store the object."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping

from mooring.api.migration import TranslationError
from mooring.api.volume_migration import as_in_tree
from mooring.base.clock import Instant
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import ApiError, Conflict
from mooring.sidecars.provisioner.claims.decide_after import (
    Fate,
    Holder,
    Verdict,
    after_deletion,
    decide_unusable_volume,
    decide_volume_after_pv_refused,
)
from mooring.sidecars.provisioner.claims.pv_store import PvStore
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.environment import Environment, delete_volume
from mooring.sidecars.provisioner.intents.states import IntentEvent
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, IntentTracker, PendingVolume
from mooring.sidecars.provisioner.model import orders, outcomes, volumes
from mooring.sidecars.provisioner.model.cached import is_same_handle
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order, is_stored_whole
from mooring.sidecars.provisioner.model.outcomes import CLEANUP_PAUSE_S, CLEANUP_TRIES, Failed, Failure, Save, State
from mooring.sidecars.provisioner.source_protection.controller import SourceProtection
from mooring.wire.grpc.codes import Code

log = logger(__name__)


class VolumeCreation:
    """identity: of this process, in the attributes of its volumes."""

    def __init__(
        self,
        env: Environment,
        view: View,
        records: ClaimRecords,
        tracker: IntentTracker,
        protection: SourceProtection,
        pv_store: PvStore,
        identity: str,
    ) -> None:
        self._driver, self._secrets, self._clock, self._timeout_s = env.driver, env.secrets, env.runtime.clock, env.options.timeout_s
        self._view, self._records, self._tracker = view, records, tracker
        self._protection, self._pv_store, self._identity = protection, pv_store, identity
        self._large = asyncio.Lock()

    async def create(self, order: Order, secrets: Mapping[str, str], began: Instant) -> tuple[Save, str] | None:
        """STORED; LATER when the volume is made and its object still to be stored, with the reason; None when there is none to be stored:
        the claim is gone, or has the volume from another request. Raises Failed.
        """
        self._records.of(order.intent.uid).is_asking = True  # no await since the decision: the claim's volume is not being deleted
        try:
            return await self._created(order, secrets, began)
        finally:
            self._records.of(order.intent.uid).is_asking = False
            self._records.tidy(order.intent.uid)

    async def _created(self, order: Order, secrets: Mapping[str, str], began: Instant) -> tuple[Save, str] | None:
        """As of create."""
        if not await self._begin(order):
            return None
        try:
            return await self._made(order, secrets, began)
        except Failed:
            raise
        except Exception:  # a bug of ours: the fate of the volume is unknown
            if self._records.get(order.intent.uid).pending is None:
                self._tracker.mark_unknown(order.intent)
            raise

    async def clean_up(self, order: Order, secrets: Mapping[str, str]) -> None:
        """Deletes the dying volume. Returns when an object of the claim's own names it. Raises Failed."""
        handle = order.intent.dying_handle
        why = Failure(f'volume "{handle}" is of no use, and its deletion was not answered', State.BACKGROUND, from_driver=True)
        await self._reject(order, secrets, why, handle)

    async def _made(self, order: Order, secrets: Mapping[str, str], began: Instant) -> tuple[Save, str] | None:
        """As of create."""
        answer = await self._ask(order, secrets)
        if order.intent.stored_handle is not None and (answer is None or answer.volume.volume_id):
            if answer is not None:
                await self._reject_second(order, secrets, answer.volume.volume_id)
            await self._tracker.refuse(order.intent.uid, proves_absent=True)
            return None
        assert answer is not None, "only a second volume is ruled out by an error"
        unusable = orders.judged(order, answer)
        if unusable is not None:
            await self._reject(order, secrets, unusable.failure, unusable.volume_id)
            return Save.STORED, ""
        volume = answer.volume
        others = tuple(self._view.others_naming(volume.volume_id, order.intent.volume_name))
        body = volumes.completed(order.intent.volume, volume, order.required_bytes, self._identity, self._view.uses_topology)
        if order.intent.migrated:
            try:
                body = as_in_tree(body)
            except TranslationError as problem:
                why = Failure(f"failed to translate CSI PV to in-tree due to: {problem}", State.FINISHED)
                await self._reject(order, secrets, why, volume.volume_id)
                return Save.STORED, ""
        pending = PendingVolume(order, volume.volume_id, body, began, others)
        self._tracker.mark_made(pending)
        saved, error = await self._pv_store.store(pending)
        if saved is not Save.LATER:
            self._records.of(pending.uid).pending = None
        if saved in (Save.REFUSED, Save.TAKEN):
            raise Failed(await self.refused(order, secrets, saved, error, volume.volume_id))
        return saved, error

    async def _reject_second(self, order: Order, secrets: Mapping[str, str], volume_id: str) -> None:
        """Returns when it is the claim's volume. Raises Failed."""
        stored = order.intent.stored_handle
        assert stored is not None
        if not is_same_handle(volume_id, stored):
            why = f'an earlier request has made volume "{volume_id}", the claim has "{stored}"'
            await self._reject(order, secrets, Failure(why, State.BACKGROUND, from_driver=True), volume_id)

    async def _reject(self, order: Order, secrets: Mapping[str, str], why: Failure, volume_id: str) -> None:
        """The volume can't be used. Returns when its object is stored all the same, as the claim's own. Raises Failed."""
        owner, error = await self._pv_store.owner_of_existing(order.intent, volume_id, why.error) if volume_id else (None, "")
        verdict = decide_unusable_volume(order, why, owner, error)
        if verdict.fate is not Fate.STORED:
            raise Failed(await self._carried_out(order, secrets, verdict, volume_id))

    async def close(self, intent: Intent) -> None:
        """The PersistentVolume is stored: closes the intent and releases the source."""
        await self._tracker.store(intent.uid, self._view.stored_handle(intent.volume_name))
        self.release(intent.uid)

    def found(self, intents: Mapping[str, Intent]) -> None:
        """Holds the sources of the volumes that a former process was making."""
        for uid, intent in intents.items():
            if not intent.dying_handle:  # else that was waited for before its deletion was begun
                self._pv_store.found(uid)
            if intent.source is not None:
                self._records.of(uid).source = intent.source
                self._protection.adopt(intent.source, uid)

    def holds(self, uid: str) -> bool:
        """True while a source is held for this claim."""
        return self._records.get(uid).source is not None

    def release(self, uid: str) -> None:
        """The claim has its volume, or will never have one: releases its source."""
        self._pv_store.forget(uid)
        source = self._records.get(uid).source
        if source is not None:
            self._records.of(uid).source = None
            self._records.tidy(uid)
            self._protection.release(source, uid)

    async def _begin(self, order: Order) -> bool:
        """False when the claim has gone before the driver was asked. Raises Failed."""
        uid = order.intent.uid
        is_new = uid not in self._tracker
        try:
            await self._hold(order)
            await self._tracker.begin(order.intent)
        except ApiError as error:
            raise Failed(Failure(str(error), State.NO_CHANGE)) from error
        if is_new and self._view.claim(uid) is None:
            await self._tracker.close(uid, IntentEvent.RULED_OUT)
            self.release(uid)
            return False
        return True

    async def _hold(self, order: Order) -> None:
        """A volume that may exist is requested again whether or not its source can be held. Raises ApiError."""
        source, uid = order.source, order.intent.uid
        if source is None:
            return
        self._records.of(uid).source = source
        try:
            await self._protection.hold(source, uid)
        except ApiError as error:
            if uid not in self._tracker:
                raise
            log.info(2, "could not hold the source of a volume that may exist", why=str(error), source=f"{source.namespace}/{source.name}")

    async def _ask(self, order: Order, secrets: Mapping[str, str]) -> csi.CreateVolumeResponse | None:
        """None where the driver has one volume of this name, which the claim has from another request. Raises Failed."""
        try:
            return await self._driver.create_volume(await self._message(order, secrets), Call(self._timeout_s, order.intent.migrated))
        except DriverError as error:
            if order.intent.secret is not None:  # perhaps it was the secret: read it anew next time
                self._secrets.invalidate(order.intent.secret)
            if error.code == Code.ALREADY_EXISTS and order.intent.stored_handle:
                return None
            failure = outcomes.of_call(error, uses_topology=self._view.uses_topology, node_name=order.intent.node_name)
            if order.secret_is_lost:  # what is refused without its secret may be there all the same
                failure = dataclasses.replace(failure, state=State.BACKGROUND, infeasible=False)
            raise Failed(failure) from error

    async def _message(self, order: Order, secrets: Mapping[str, str]) -> csi.CreateVolumeRequest:
        """Half a megabyte in a cluster of 5,000 places: of many calls one takes a turn of the loop, so that nothing else stands still."""
        if is_stored_whole(order.where):
            return order.whole(secrets)
        async with self._large:
            await self._clock.sleep(0)
            return order.whole(secrets)

    async def refused(self, order: Order, secrets: Mapping[str, str], saved: Save, error: str, volume_id: str) -> Failure:
        """The API server will never take this object: the failure to report, once the volume is deleted, if it has to be."""
        holder = Holder.WAITS if saved is Save.TAKEN else await self._holder(order.intent)
        return await self._carried_out(order, secrets, decide_volume_after_pv_refused(order, saved, error, holder), volume_id)

    async def _holder(self, intent: Intent) -> Holder:
        try:
            claim = await self._pv_store.claim_now(intent)
        except ApiError:
            return Holder.UNKNOWN
        if claim is None:
            return Holder.GONE
        is_bound = claim.spec.volume_name == intent.volume_name and self._view.volume(intent.volume_name) is None
        return Holder.BOUND if is_bound else Holder.WAITS

    async def _carried_out(self, order: Order, secrets: Mapping[str, str], verdict: Verdict, volume_id: str) -> Failure:
        if verdict.fate is not Fate.DELETED:
            return verdict.failure
        try:
            await self._tracker.condemn(order.intent, volume_id)
        except ApiError as error:
            return after_deletion(order, verdict, error)
        return after_deletion(order, verdict, await self._delete(order, secrets, volume_id))

    async def _delete(self, order: Order, secrets: Mapping[str, str], volume_id: str) -> MooringError | None:
        """All tries within one timeout, each after a longer pause, as CSI asks for. The last error, None when the volume is gone."""
        until = self._clock.now() + self._timeout_s
        problem: MooringError | None = None
        for number in range(CLEANUP_TRIES):
            if number:
                await self._clock.sleep(CLEANUP_PAUSE_S * 2 ** (number - 1))
            left_s = until - self._clock.now()
            if left_s <= 0:
                break
            if kept := self._pv_store.keeper_of(order.intent, volume_id):  # by now: a write has preceded this
                return Conflict(kept)
            try:
                call = Call(left_s, order.intent.migrated)
                lacks_secret = order.intent.secret is not None and not secrets
                await delete_volume(self._driver, volume_id, secrets, call, order.intent.volume_name, lacks_secret=lacks_secret)
            except DriverError as error:
                problem = error
                continue
            log.info(2, "deleted a volume that is of no use", PersistentVolume=order.intent.volume_name, volume=volume_id)
            return None
        return problem
