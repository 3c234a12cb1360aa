"""Makes one volume: hold its source, store the intent, call the driver, check the answer, store the object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Key
from mooring.api.migration import TranslationError
from mooring.api.volume_migration import as_in_tree
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.control.locks import KeyLock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    Invalid,
    ServerError,
    TooLarge,
    Unreachable,
)
from mooring.sidecars.provisioner.claims.reject_volume import PvOwners, VolumeRejection, named_it, names_it
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.intents.states import IntentEvent
from mooring.sidecars.provisioner.intents.tracker import IntentTracker, PendingVolume
from mooring.sidecars.provisioner.model import orders, outcomes, topics, volumes
from mooring.sidecars.provisioner.model.cached import Source
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order, is_stored_whole
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed, Failure, Save, State
from mooring.wire.grpc.codes import Code

log = logger(__name__)

_REFUSALS: Final = (Invalid, BadRequest, TooLarge)
_UNKNOWN: Final = (Unreachable, ServerError)

DENIED_S_MAX: Final = 300.0
"""How long an object may be forbidden each time before that counts as a refusal: a quota or a missing right may pass, a policy does not."""


class SourceHolder(Protocol):
    """Keeps the sources of volumes from being deleted, until that is over for the claim: news on the bus."""

    async def hold(self, source: Source, uid: str) -> None:
        """Returns when the source is kept. uid: of the claim that needs it. Raises ApiError."""
        ...

    def adopt(self, source: Source, uid: str) -> None:
        """A former process has held it for this claim."""
        ...


class PvStore:
    """Stores the PersistentVolume of a volume that exists. A volume has one object: another one that names it stays the only one."""

    def __init__(self, env: Environment, view: View, owners: PvOwners) -> None:
        self._cluster, self._clock, self._volumes = env.runtime.cluster, env.runtime.clock, env.caches.volumes
        self._view, self._owners = view, owners
        self._denied_since: dict[str, Instant] = {}  # by the claim's uid

    async def store(self, volume: PendingVolume) -> tuple[Save, str]:
        """One try. Gives its result, and why it was refused or has to be repeated."""
        if self._owners.storing.setdefault(volume.volume_id, volume.uid) != volume.uid:
            return Save.TAKEN, self._owners.other_claims(volume.order.intent, volume.volume_id)
        saved, error = await self._tried(volume)
        if saved is not Save.LATER:
            del self._owners.storing[volume.volume_id]
        return saved, error

    async def _tried(self, volume: PendingVolume) -> tuple[Save, str]:
        """As of store."""
        since = self._denied_since.pop(volume.uid, self._clock.now())
        try:
            return await self._try_to_store(volume)
        except Forbidden as error:
            found = Save.LATER, str(error)
            if self._clock.now() - since >= DENIED_S_MAX:
                found = await self._owners.owner_of_existing(volume.order.intent, volume.volume_id, refused=str(error))
            if found[0] is Save.LATER:
                self._denied_since[volume.uid] = since
            return found

    async def _try_to_store(self, volume: PendingVolume) -> tuple[Save, str]:
        """As of store. Raises Forbidden."""
        key, intent = Key("", volume.name), volume.order.intent
        try:
            await self._owners.fresh.look()
            others = self._view.others_naming(volume.volume_id, volume.name)
            if others and (other := await self._owners.other_naming(intent, volume.volume_id)):
                return Save.TAKEN, names_it(other, volume.volume_id)
            if gone := [name for name in volume.others if self._view.volume(name) is None]:
                return Save.TAKEN, named_it(gone[0], volume.volume_id)
            if self._is_dying(volume) and (other := self._owners.other_claims(intent, volume.volume_id)):
                return Save.TAKEN, other
            await self._volumes.write(key, self._cluster.create(PERSISTENT_VOLUMES, volume.body))
        except AlreadyExists:
            return await self._owners.owner_of_existing(intent, volume.volume_id)
        except _REFUSALS as error:
            return await self._owners.owner_of_existing(intent, volume.volume_id, refused=str(error))
        except Forbidden:
            raise
        except ApiError as error:
            if isinstance(error, _UNKNOWN):
                self._owners.unanswered[intent.uid] = self._clock.now()
            return Save.LATER, str(error)
        return Save.STORED, ""

    def _is_dying(self, volume: PendingVolume) -> bool:
        """True while the volume is being deleted, for whichever claim."""
        return any(one.dying_handle == volume.volume_id for one in self._view.intents.values())


class VolumeCreation:
    """sources: of volumes' data, to be held. identity: of this process, in the attributes of its volumes."""

    def __init__(
        self, env: Environment, view: View, tracker: IntentTracker, sources: SourceHolder, identity: str
    ) -> None:
        self._driver, self._secrets, self._clock, self._timeout_s = (
            env.driver,
            env.secrets,
            env.runtime.clock,
            env.options.timeout_s,
        )
        self._view, self._records, self._tracker, self._bus = view, view.records, tracker, env.bus
        self._sources, self._identity = sources, identity
        self._owners = PvOwners(env.runtime, env.caches.volumes, view)
        self.pv_store, self.rejection = (
            PvStore(env, view, self._owners),
            VolumeRejection(env, view, tracker, self._owners),
        )
        self._large = KeyLock("large")

    async def create(self, order: Order, secrets: Mapping[str, str], began: Instant) -> tuple[Save, str] | None:
        """STORED; LATER when the volume is made and its object still to be stored, with the reason; None when there is none to be stored:
        the claim is gone, or has the volume from another request. Raises AttemptFailed.
        """
        self._records.of(
            order.intent.uid
        ).is_asking = True  # no await since the decision: the claim's volume is not being deleted
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
        except AttemptFailed:
            raise
        except Exception:  # a bug of ours: the fate of the volume is unknown
            if self._records.get(order.intent.uid).pending is None:
                self._tracker.mark_unknown(order.intent)
            raise

    async def _made(self, order: Order, secrets: Mapping[str, str], began: Instant) -> tuple[Save, str] | None:
        """As of create."""
        answer = await self._ask(order, secrets)
        if order.intent.stored_handle is not None and (answer is None or answer.volume.volume_id):
            if answer is not None:
                await self.rejection.reject_second(order, secrets, answer.volume.volume_id)
            await self._tracker.refuse(order.intent.uid, proves_absent=True)
            return None
        assert answer is not None, "only a second volume is ruled out by an error"
        unusable = orders.judged(order, answer)
        if unusable is not None:
            await self.rejection.reject(order, secrets, unusable.failure, unusable.volume_id)
            return Save.STORED, ""
        volume = answer.volume
        others = tuple(self._view.others_naming(volume.volume_id, order.intent.volume_name))
        body = volumes.completed(
            order.intent.volume, volume, order.required_bytes, self._identity, self._view.uses_topology
        )
        if order.intent.migrated:
            try:
                body = as_in_tree(body)
            except TranslationError as problem:
                why = Failure(f"failed to translate CSI PV to in-tree due to: {problem}", State.FINISHED)
                await self.rejection.reject(order, secrets, why, volume.volume_id)
                return Save.STORED, ""
        pending = PendingVolume(order, volume.volume_id, body, began, others)
        self._tracker.mark_made(pending)
        saved, error = await self.pv_store.store(pending)
        if saved is not Save.LATER:
            self._records.of(pending.uid).pending = None
        if saved in (Save.REFUSED, Save.TAKEN):
            raise AttemptFailed(await self.rejection.refused(order, secrets, saved, error, volume.volume_id))
        return saved, error

    async def close(self, intent: Intent) -> None:
        """The PersistentVolume is stored: closes the intent and releases the source."""
        await self._tracker.store(intent.uid, self._view.stored_handle(intent.volume_name))
        self.release(intent.uid)

    def found(self, intents: Mapping[str, Intent]) -> None:
        """Holds the sources of the volumes that a former process was making."""
        for uid, intent in intents.items():
            if not intent.dying_handle:  # else that was waited for before its deletion was begun
                self._owners.unanswered[uid] = self._clock.now()  # it may have tried to store the volume a moment ago
            if intent.source is not None:
                self._records.of(uid).source = intent.source
                self._sources.adopt(intent.source, uid)

    def holds(self, uid: str) -> bool:
        """True while a source is held for this claim."""
        return self._records.get(uid).source is not None

    def release(self, uid: str) -> None:
        """The claim has its volume, or will never have one: releases its source."""
        self._owners.unanswered.pop(uid, None)
        source = self._records.get(uid).source
        if source is not None:
            self._records.of(uid).source = None
            self._records.tidy(uid)
            self._bus.tell(topics.SOURCE_DONE, source, uid)

    def forget(self, uid: str) -> None:
        """The claim is no more, or has its volume, or needs none."""
        self._records.forget(uid)
        if self.holds(uid):
            self._bus.tell(topics.SOURCE_FREE, uid)

    async def _begin(self, order: Order) -> bool:
        """False when the claim has gone before the driver was asked. Raises AttemptFailed."""
        uid = order.intent.uid
        is_new = uid not in self._tracker
        try:
            await self._hold(order)
            await self._tracker.begin(order.intent)
        except ApiError as error:
            raise AttemptFailed(Failure(str(error), State.NO_CHANGE)) from error
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
            await self._sources.hold(source, uid)
        except ApiError as error:
            if uid not in self._tracker:
                raise
            log.info(
                2,
                "could not hold the source of a volume that may exist",
                why=str(error),
                source=f"{source.namespace}/{source.name}",
            )

    async def _ask(self, order: Order, secrets: Mapping[str, str]) -> csi.CreateVolumeResponse | None:
        """None where the driver has one volume of this name, which the claim has from another request. Raises AttemptFailed."""
        try:
            return await self._driver.create_volume(
                await self._message(order, secrets), Call(self._timeout_s, order.intent.migrated)
            )
        except DriverError as error:
            if order.intent.secret is not None:  # perhaps it was the secret: read it anew next time
                self._secrets.invalidate(order.intent.secret)
            if error.code == Code.ALREADY_EXISTS and order.intent.stored_handle:
                return None
            failure = outcomes.of_call(error, uses_topology=self._view.uses_topology, node_name=order.intent.node_name)
            if order.secret_is_lost:  # what is refused without its secret may be there all the same
                failure = msgspec.structs.replace(failure, state=State.BACKGROUND, infeasible=False)
            raise AttemptFailed(failure) from error

    async def _message(self, order: Order, secrets: Mapping[str, str]) -> csi.CreateVolumeRequest:
        """Half a megabyte in a cluster of 5,000 places: of many calls one takes a turn of the loop, so that nothing else stands still."""
        if is_stored_whole(order.where):
            return order.whole(secrets)
        async with self._large:
            await self._clock.sleep(0)
            return order.whole(secrets)
