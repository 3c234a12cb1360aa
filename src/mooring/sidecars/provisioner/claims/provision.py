"""One attempt at a volume, from top to bottom.

    1  hold the source        it must outlive the copy
    2  write the intent       from here on a process that is killed leaves a trace of its call
    3  call CreateVolume
    4  judge the answer       a volume that can't be used goes on with 7
    5  store the object       later again and again, if need be, without another call
    6  refused for good?      then 7
    7  delete the volume      the intent says so first; not while any PersistentVolume names the volume

A step that fails ends the attempt with a `Failure`, which says whether a volume may exist. What an answer means is
decided in `decide_after.py`; `reconcile.py` reports the end, and tells it the intent.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, is_deleting
from mooring.api.migration import TranslationError
from mooring.api.volume_migration import as_in_tree
from mooring.base.clock import Instant
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import FreshCache
from mooring.kube.errors import (
    LATE_S,
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooLarge,
    Unreachable,
)
from mooring.sidecars.provisioner.claims.decide_after import (
    Fate,
    Holder,
    Verdict,
    after_deletion,
    decide_unusable_volume,
    decide_volume_after_pv_refused,
    owner_of,
)
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.environment import Environment, delete_request
from mooring.sidecars.provisioner.intents.tracker import IntentTracker, PendingVolume
from mooring.sidecars.provisioner.model import orders, outcomes, topics, volumes
from mooring.sidecars.provisioner.model.cached import Source, is_done_with
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent
from mooring.sidecars.provisioner.model.orders import Order, is_stored_whole
from mooring.sidecars.provisioner.model.outcomes import CLEANUP_PAUSE_S, CLEANUP_TRIES, Failure, Save, State

log = logger(__name__)

LATE_S_MAX: Final = LATE_S + 10.0
"""From when a write was sent that was not answered until it can't be carried out any more."""


class End(enum.Enum):
    """The end of an attempt that leaves nothing to report as failed."""

    #: The PersistentVolume is stored, as the claim's own.
    STORED = "stored"
    #: There is none to be stored: the claim is gone.
    NOTHING = "nothing"


class Pending(msgspec.Struct, frozen=True):
    """The volume exists, its PersistentVolume is still to be stored."""

    #: The error of the first try.
    error: str


Outcome: TypeAlias = End | Pending | Failure


class SourceHolder(Protocol):
    """Keeps the sources of volumes from being deleted, until that is over for the claim: news on the bus."""

    async def hold(self, source: Source, uid: str) -> None:
        """Returns when the source is kept. uid: of the claim that needs it. Raises ApiError."""
        ...

    def adopt(self, source: Source, uid: str) -> None:
        """A former process has held it for this claim."""
        ...


class VolumeCreation:
    """sources: of volumes' data, to be held. identity: of this process, in the attributes of its volumes."""

    def __init__(
        self, env: Environment, view: View, tracker: IntentTracker, sources: SourceHolder, identity: str
    ) -> None:
        self._cluster, self._clock, self._timeout_s = env.runtime.cluster, env.runtime.clock, env.options.timeout_s
        self._driver, self._secrets, self._volumes, self._bus = env.driver, env.secrets, env.caches.volumes, env.bus
        self._view, self._records, self._tracker = view, view.records, tracker
        self._sources, self._identity = sources, identity
        self._owners = PvOwners(env, view)
        self._large = asyncio.Lock()

    # -- the attempt

    async def create(self, order: Order, secrets: Mapping[str, str], began: Instant) -> Outcome:
        """Steps 1 to 7. began: the attempt, on the clock."""
        if (refused := await self._begin(order)) is not None:
            return refused
        return await self._call_and_store(order, secrets, began)

    async def _begin(self, order: Order) -> End | Failure | None:
        """Steps 1 and 2. None: the driver may be called."""
        intent, uid = order.intent, order.intent.uid
        is_new = uid not in self._tracker
        try:
            if order.source is not None:
                await self._hold(order.source, uid)
            if self._tracker.is_name_taken(intent):
                made = f'a volume "{intent.volume_name}" is being made for another claim'
                return Failure(f"{made}: the names of volumes are cut too short", State.FINISHED)
            await self._tracker.begin(order)
        except ApiError as error:
            return Failure(str(error), State.NO_CHANGE)
        if is_new and self._view.claim(uid) is None:
            # The user was faster, and the driver was not asked: nobody would look after the secret and the source.
            await self._tracker.refuse(intent)
            self.release(uid)
            return End.NOTHING
        return None

    async def _hold(self, source: Source, uid: str) -> None:
        """A volume that may exist is requested again whether or not its source can be held. Raises ApiError."""
        self._records.of(uid).source = source
        try:
            await self._sources.hold(source, uid)
        except ApiError as error:
            if uid not in self._tracker:
                raise
            name = f"{source.namespace}/{source.name}"
            log.info(2, "could not hold the source of a volume that may exist", why=str(error), source=name)

    async def _call_and_store(self, order: Order, secrets: Mapping[str, str], began: Instant) -> Outcome:
        """Steps 3 to 7."""
        try:
            answer = await self._call(order, secrets)
            if isinstance(answer, DriverError):
                return self._failed(order, answer)
            volume = self._judged(order, answer, began)
            if isinstance(volume, orders.Unusable):
                return await self._reject(order, secrets, volume.failure, volume.volume_id) or End.STORED
            self._tracker.mark_made(volume)
            saved, error = await self.store(volume)
            if saved is Save.LATER:
                return Pending(error)
            self._records.of(volume.uid).pending = None
            if saved is Save.STORED:
                return End.STORED
            return await self.refused(order, secrets, saved, error, volume.volume_id)
        except Exception:
            # A bug of ours: the fate of the volume is unknown.
            if self._records.get(order.intent.uid).pending is None:
                self._tracker.mark_unknown(order.intent)
            raise

    async def _call(self, order: Order, secrets: Mapping[str, str]) -> csi.CreateVolumeResponse | DriverError:
        """Step 3."""
        if is_stored_whole(order.where):
            message = order.whole(secrets)
        else:
            # Half a megabyte in a cluster of 5,000 places: one message takes a turn of the loop of its own.
            async with self._large:
                await self._clock.sleep(0)
                message = order.whole(secrets)
        try:
            return await self._driver.create_volume(message, Call(self._timeout_s, order.intent.migrated))
        except DriverError as error:
            if order.intent.secret is not None:  # perhaps it was the secret: read it anew next time
                self._secrets.invalidate(order.intent.secret)
            return error

    def _failed(self, order: Order, error: DriverError) -> Failure:
        failure = outcomes.of_call(error, uses_topology=self._view.uses_topology, node_name=order.intent.node_name)
        if order.secret_is_lost:  # what is refused without its secret may be there all the same
            failure = msgspec.structs.replace(failure, state=State.BACKGROUND, infeasible=False)
        return failure

    def _judged(
        self, order: Order, answer: csi.CreateVolumeResponse, began: Instant
    ) -> PendingVolume | orders.Unusable:
        """Step 4."""
        if (unusable := orders.judged(order, answer)) is not None:
            return unusable
        intent, volume = order.intent, answer.volume
        if warning := orders.placed_elsewhere(order.where, volume):
            log.warning(warning, PersistentVolume=intent.volume_name, volume=volume.volume_id)
        body = volumes.completed(intent.volume, volume, order.required_bytes, self._identity, self._view.uses_topology)
        if intent.migrated:
            try:
                body = as_in_tree(body)
            except TranslationError as problem:
                why = Failure(f"failed to translate CSI PV to in-tree due to: {problem}", State.FINISHED)
                return orders.Unusable(why, volume.volume_id)
        others = tuple(self._view.others_naming(volume.volume_id, intent.volume_name))
        return PendingVolume(order, volume.volume_id, body, began, others)

    # -- the object

    async def store(self, volume: PendingVolume) -> tuple[Save, str]:
        """Step 5, one try. Gives its result, and why it was refused or has to be repeated.

        Others may name the volume, too: some drivers answer one volume for several claims. Where all of these are being
        deleted with the volume, that is waited for, and the driver asked again. For a claim that is gone no further one
        is stored: whoever has made the other one has the volume.
        """
        storing = self._owners.storing.setdefault(volume.volume_id, set())
        storing.add(volume.uid)
        saved, error = await self._try_to_store(volume)
        if saved is not Save.LATER:
            storing.discard(volume.uid)
            if not storing:
                self._owners.storing.pop(volume.volume_id, None)
                self._bus.tell(topics.HANDLE_STORED, volume.volume_id)
        return saved, error

    async def _try_to_store(self, volume: PendingVolume) -> tuple[Save, str]:
        """The result of one POST, after a look at those who name the volume."""
        owners, order, volume_id = self._owners, volume.order, volume.volume_id
        try:
            await owners.fresh.look()
            is_unclaimed = self._view.claim(volume.uid) is None
            if is_unclaimed and (other := await owners.other_naming(order.intent, volume_id)):
                return Save.TAKEN, _names_it(other, volume_id)
            if volume.others and all(map(self._is_going, volume.others)):  # one that stays keeps the volume
                going = volume.others[0]
                named = f'PersistentVolume "{going}" names the volume "{volume_id}" and is being deleted, or is gone'
                return Save.TAKEN, f"{named}: the volume may go with it, and is asked for again"
            if other := owners.dying_elsewhere(order.intent, volume_id):
                return Save.TAKEN, other
            await self._volumes.write(Key("", volume.name), self._cluster.create(PERSISTENT_VOLUMES, volume.body))
        except AlreadyExists:
            return await owners.owner_of_existing(order, volume_id)
        except (Invalid, BadRequest, TooLarge) as refusal:
            return await owners.owner_of_existing(order, volume_id, refused=str(refusal))
        except Forbidden as denied:
            # A quota or a missing right may pass, and a policy may be mended: sent again as long as somebody waits.
            if self._view.claim(volume.uid) is None and await owners.holder(order.intent) is Holder.GONE:
                return await owners.owner_of_existing(order, volume_id, refused=str(denied))
            return Save.LATER, str(denied)
        except ApiError as error:
            if isinstance(error, (Unreachable, ServerError)):
                owners.unanswered[volume.uid] = self._clock.now()
            return Save.LATER, str(error)
        return Save.STORED, ""

    def _is_going(self, pv_name: str) -> bool:
        """True where the volume that it names may go with it, or has."""
        pv = self._view.volume(pv_name)
        return pv is None or is_done_with(pv)

    async def refused(
        self, order: Order, secrets: Mapping[str, str], saved: Save, error: str, volume_id: str
    ) -> Failure:
        """Step 6: the API server will never take this object. The failure to report, once the volume is deleted, if it
        has to be.
        """
        holder = Holder.WAITS if saved is Save.TAKEN else await self._owners.holder(order.intent)
        verdict = decide_volume_after_pv_refused(order, saved, error, holder)
        return await self._carry_out(order, secrets, verdict, volume_id)

    # -- a volume of no use

    async def clean_up(self, order: Order, secrets: Mapping[str, str]) -> Outcome:
        """Step 7 once more, for the volume that the intent names."""
        handle = order.intent.dying_handle
        why = f'volume "{handle}" is of no use, and its deletion was not answered'
        failure = await self._reject(order, secrets, Failure(why, State.BACKGROUND), handle)
        if failure is None:  # an object of the claim's own names it by now
            await self.close(order.intent)
        return failure or End.NOTHING

    async def _reject(self, order: Order, secrets: Mapping[str, str], why: Failure, volume_id: str) -> Failure | None:
        """The volume can't be used. None when its object is stored all the same, as the claim's own."""
        owner, error = await self._owners.owner_of_existing(order, volume_id, why.error) if volume_id else (None, "")
        verdict = decide_unusable_volume(order, why, owner, error)
        return None if verdict.fate is Fate.STORED else await self._carry_out(order, secrets, verdict, volume_id)

    async def _carry_out(self, order: Order, secrets: Mapping[str, str], verdict: Verdict, volume_id: str) -> Failure:
        if verdict.fate is not Fate.DELETED:
            return verdict.failure
        try:
            await self._tracker.condemn(order.intent, volume_id)
        except ApiError as error:
            return after_deletion(order, verdict, error)
        return after_deletion(order, verdict, await self._delete(order, secrets, volume_id))

    async def _delete(self, order: Order, secrets: Mapping[str, str], volume_id: str) -> MooringError | None:
        """Step 7: the last error, None when the volume is gone.

        All tries are one attempt within one timeout, each after a longer pause, as external-provisioner makes them; so
        they do not go by the controller's queue.
        """
        intent, until = order.intent, self._clock.now() + self._timeout_s
        problem: MooringError | None = None
        for number in range(CLEANUP_TRIES):
            if number:
                await self._clock.sleep(CLEANUP_PAUSE_S * 2 ** (number - 1))
            left_s = until - self._clock.now()
            if left_s <= 0:
                break
            if kept := self._owners.keeper_of(intent, volume_id):  # by now: a write has preceded this
                return Conflict(kept)
            try:
                await self._driver.delete_volume(delete_request(volume_id, secrets), Call(left_s, intent.migrated))
            except DriverError as error:
                problem = error
                continue
            log.info(2, "deleted a volume that is of no use", PersistentVolume=intent.volume_name, volume=volume_id)
            return None
        return problem

    # -- the end

    async def close(self, intent: Intent) -> None:
        """The PersistentVolume is stored: closes the intent and releases the source. Raises Retry."""
        await self._tracker.mark_stored(intent)
        self.release(intent.uid)

    def found(self, entries: Mapping[str, ClaimIntents]) -> None:
        """Holds the sources of the volumes that a former process was making."""
        for uid, entry in entries.items():
            if not entry.last.dying_handle:  # else that was waited for before its deletion was begun
                self._owners.unanswered[uid] = self._clock.now()  # it may have tried to store the volume a moment ago
            if entry.last.source is not None and not entry.is_put_off:
                self._records.of(uid).source = entry.last.source
                self._sources.adopt(entry.last.source, uid)

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
        self._records.forget(uid, is_open=uid in self._tracker)
        self.free_source(uid)

    def free_source(self, uid: str) -> None:
        """Nothing is being made for the claim: it holds its source no more than all others that wait."""
        if self.holds(uid):
            self._bus.tell(topics.SOURCE_FREE, uid)


class PvOwners:
    """Whose a volume is, before it is stored, and before it is deleted.

    Another object, of whatever name, may have been written by hand while the creation of the volume was open, or the
    driver may have answered with somebody's volume: then the volume is not deleted.
    """

    def __init__(self, env: Environment, view: View) -> None:
        runtime, self._volumes, self._view = env.runtime, env.caches.volumes, view
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self.storing = env.storing
        #: When a try to store was made last whose end is not known, by the claim's uid.
        self.unanswered: dict[str, Instant] = {}
        self.fresh = FreshCache(runtime.cluster, runtime.clock, env.caches.volumes)

    async def owner_of_existing(self, order: Order, volume_id: str, refused: str = "") -> tuple[Save, str]:
        """An object of the volume's name is there: our own, when an answer was lost; or another claim's.

        refused: why there will be none, unless there is: an earlier try may have been taken, and then its volume must
        not be deleted. Differs from external-provisioner, which always takes it for its own.
        """
        intent, name = order.intent, order.intent.volume_name
        try:
            found = await self._volumes.read(Key("", name), self._cluster.get(PERSISTENT_VOLUMES, name))
        except NotFound:
            found = None
        except ApiError as failed:
            return Save.LATER, str(failed)
        saved, error = self._owner_of(found, intent, refused)
        if saved is Save.REFUSED:
            if found is None and self._clock.now() - self.unanswered.get(intent.uid, -math.inf) < LATE_S_MAX:
                return Save.LATER, f"{error}; an earlier try was not answered, and may still be carried out"
            return await self._unless_named(intent, volume_id, error)
        if found is not None and not self._view.means(found, volume_id):
            text = "the volume's object names another handle: it is spelled otherwise, or there are two volumes"
            log.warning(text, PersistentVolume=name, volume=volume_id)
        return saved, error

    def _owner_of(self, found: PersistentVolume | None, intent: Intent, refused: str = "") -> tuple[Save, str]:
        is_here = found is None or self._view.is_here(found)
        return owner_of(found, intent, driver_name=self._view.driver.name, is_here=is_here, refused=refused)

    async def _unless_named(self, intent: Intent, volume_id: str, refused: str) -> tuple[Save, str]:
        """The volume is about to be deleted: every object is looked at, as the API server has them now."""
        try:
            await self.fresh.list()
            other = await self.other_naming(intent, volume_id)
        except ApiError as error:
            return Save.LATER, str(error)
        if why := _names_it(other, volume_id) if other else self._other_claims(intent, volume_id):
            return Save.TAKEN, why
        return Save.REFUSED, refused

    async def other_naming(self, intent: Intent, volume_id: str) -> str:
        """The PersistentVolume of another name that names this volume, by the API server itself; "" for none. Raises
        ApiError.
        """
        for name in self._view.others_naming(volume_id, intent.volume_name):
            with contextlib.suppress(NotFound):
                found = await self._volumes.read(Key("", name), self._cluster.get(PERSISTENT_VOLUMES, name))
                if self._view.means(found, volume_id):
                    return name
        return ""

    def keeper_of(self, intent: Intent, volume_id: str) -> str:
        """The obstacle to deleting the volume for this intent, as far as is known here and now; "" for none."""
        name, own = intent.volume_name, self._view.volume(intent.volume_name)
        names = self._view.others_naming(volume_id, name)
        if own is not None and not is_deleting(own) and self._owner_of(own, intent)[0] is not Save.REFUSED:
            names = [name]
        return _names_it(names[0], volume_id) if names else self._other_claims(intent, volume_id)

    def _other_claims(self, intent: Intent, volume_id: str) -> str:
        """The obstacle to deleting a volume that another claim has, too, "" for none: the driver has answered with one
        volume for two names.
        """
        if self.storing.get(volume_id, set()) - {intent.uid}:
            return f'the volume "{volume_id}" is being stored for another claim'
        return self.dying_elsewhere(intent, volume_id)

    def dying_elsewhere(self, intent: Intent, volume_id: str) -> str:
        """Why the volume may be gone in a moment, "" for no reason, and for an intent that is deleting it as well."""
        dying = {entry.uid for entry in self._view.intents.values() if entry.last.dying_handle == volume_id}
        if not dying or intent.uid in dying:
            return ""
        return f'the volume "{volume_id}" is another claim\'s, and is being deleted'

    async def holder(self, intent: Intent) -> Holder:
        """The claim, by the API server itself, for a cache may be late."""
        try:
            claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, intent.claim_name, intent.namespace)
        except NotFound:
            return Holder.GONE
        except ApiError:
            return Holder.UNKNOWN
        if claim.metadata.uid != intent.uid:
            return Holder.GONE
        is_bound = claim.spec.volume_name == intent.volume_name and self._view.volume(intent.volume_name) is None
        return Holder.BOUND if is_bound else Holder.WAITS


def _names_it(pv_name: str, volume_id: str) -> str:
    return f'PersistentVolume "{pv_name}" names the volume "{volume_id}" already'
