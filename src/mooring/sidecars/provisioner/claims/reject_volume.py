"""Deletes a new volume whose PersistentVolume is refused, or that can't be used; before that, finds whether it is anybody else's.

A volume has one object. Another one, of whatever name, may have been written by hand while the creation of the volume was open, or the
driver may have answered with somebody's volume: then the volume is neither stored a second time, nor deleted. `decide_after.py` decides
that; `VolumeRejection._delete` calls DeleteVolume.

It repeats the deletion itself, and not by the controller's queue: all tries are one attempt within one timeout, as external-provisioner
makes them, while the claim's key stays in hand.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, is_deleting
from mooring.base.clock import Instant
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.control.locks import KeyLock
from mooring.control.runtime import Runtime
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.kube.cache.informer import FreshCache, Informer
from mooring.kube.errors import (
    LATE_S,
    ApiError,
    Conflict,
    NotFound,
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
from mooring.sidecars.provisioner.environment import Environment, delete_volume
from mooring.sidecars.provisioner.intents.tracker import IntentTracker
from mooring.sidecars.provisioner.model.cached import is_same_handle
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import (
    CLEANUP_PAUSE_S,
    CLEANUP_TRIES,
    AttemptFailed,
    Failure,
    Save,
    State,
)

log = logger(__name__)

LATE_S_MAX: Final = LATE_S + 10.0
"""From when a write was sent that was not answered until it can't be carried out any more."""


class PvOwners:
    """volumes: the cache that the view shows.

    storing: the claim's uid by handle, until the volume's object is stored or refused for good. unanswered: by the claim's uid, when a try
    to store was made last whose end is not known.
    """

    def __init__(self, runtime: Runtime, volumes: Informer[PersistentVolume], view: View) -> None:
        self._cluster, self._clock, self._volumes, self._view = runtime.cluster, runtime.clock, volumes, view
        self.storing: dict[str, str] = {}
        self.unanswered: dict[str, Instant] = {}
        self.fresh = FreshCache(runtime.cluster, runtime.clock, volumes, PERSISTENT_VOLUMES, KeyLock("listing"))

    async def claim_now(self, intent: Intent) -> PersistentVolumeClaim | None:
        """Its claim by the API server itself, for a cache may be late; None when it is gone. Raises ApiError."""
        try:
            claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, intent.claim_name, intent.namespace)
        except NotFound:
            return None
        return claim if claim.metadata.uid == intent.uid else None

    async def owner_of_existing(self, intent: Intent, volume_id: str, refused: str = "") -> tuple[Save, str]:
        """An object of the volume's name is there: our own, when an answer was lost; or another claim's.

        refused: why there will be none, unless there is: an earlier try may have been taken, and then its volume must not be deleted.
        Differs from external-provisioner, which always takes it for its own.
        """
        name = intent.volume_name
        try:
            found = await self._volumes.write(Key("", name), self._cluster.get(PERSISTENT_VOLUMES, name))
        except NotFound:
            found = None
        except ApiError as error:
            return Save.LATER, str(error)
        driver_name, per_node = self._view.driver.name, self._view.node_name != ""
        owner = owner_of(found, intent, volume_id, driver_name=driver_name, per_node=per_node, refused=refused)
        if owner.saved is Save.REFUSED:
            if found is None and self._clock.now() - self.unanswered.get(intent.uid, -math.inf) < LATE_S_MAX:
                return Save.LATER, f"{owner.error}; an earlier try was not answered, and may still be carried out"
            return await self._unless_named(intent, volume_id, owner.error)
        if owner.second_volume:
            log.error(
                "the driver has made two volumes of one name, neither is deleted",
                PersistentVolume=name,
                volume=volume_id,
            )
        return owner.saved, owner.error

    async def _unless_named(self, intent: Intent, volume_id: str, refused: str) -> tuple[Save, str]:
        """The volume is about to be deleted: every object is looked at, as the API server has them now."""
        try:
            await self.fresh.list()
            other = await self.other_naming(intent, volume_id)
        except ApiError as error:
            return Save.LATER, str(error)
        if why := names_it(other, volume_id) if other else self.other_claims(intent, volume_id):
            return Save.TAKEN, why
        return Save.REFUSED, refused

    def keeper_of(self, intent: Intent, volume_id: str) -> str:
        """The obstacle to deleting the volume for this intent, as far as is known here and now; "" for none."""
        name, own = intent.volume_name, self._view.volume(intent.volume_name)
        names = self._view.others_naming(volume_id, name)
        if own is not None and not is_deleting(own) and self._view.means(own, volume_id):
            names = [name]
        return names_it(names[0], volume_id) if names else self.other_claims(intent, volume_id)

    def other_claims(self, intent: Intent, volume_id: str) -> str:
        """The step for a volume of another claim, "" for none: the driver has answered with one volume for two names.

        That the other one is deleting it as well does not matter to an intent that has begun to do so, too.
        """
        if self.storing.get(volume_id, intent.uid) != intent.uid:
            return f'the volume "{volume_id}" is being stored for another claim'
        dying = {one.dying_handle: one for one in self._view.intents.values() if one.uid != intent.uid}
        is_dying_here = intent.uid in self._view.intents and self._view.intents[intent.uid].dying_handle == volume_id
        return (
            f'the volume "{volume_id}" is another claim\'s, and is being deleted'
            if volume_id in dying and not is_dying_here
            else ""
        )

    async def other_naming(self, intent: Intent, volume_id: str) -> str:
        """The PersistentVolume of another name that names this volume, by the API server itself; "" for none. Raises ApiError."""
        for name in self._view.others_naming(volume_id, intent.volume_name):
            with contextlib.suppress(NotFound):
                found = await self._volumes.write(Key("", name), self._cluster.get(PERSISTENT_VOLUMES, name))
                if self._view.means(found, volume_id):
                    return name
        return ""


def names_it(pv_name: str, volume_id: str) -> str:
    return f'PersistentVolume "{pv_name}" names the volume "{volume_id}" already'


def named_it(pv_name: str, volume_id: str) -> str:
    return f'PersistentVolume "{pv_name}" named the volume "{volume_id}" and is gone: the volume may have gone with it, and is asked for again'


class VolumeRejection:
    """Deletes volumes that are nobody's: those that can't be used, and those whose object is refused."""

    def __init__(self, env: Environment, view: View, tracker: IntentTracker, owners: PvOwners) -> None:
        self._driver, self._clock, self._timeout_s = env.driver, env.runtime.clock, env.options.timeout_s
        self._view, self._tracker, self._owners = view, tracker, owners

    async def clean_up(self, order: Order, secrets: Mapping[str, str]) -> None:
        """Deletes the dying volume. Returns when an object of the claim's own names it. Raises AttemptFailed."""
        handle = order.intent.dying_handle
        why = Failure(
            f'volume "{handle}" is of no use, and its deletion was not answered', State.BACKGROUND, from_driver=True
        )
        await self.reject(order, secrets, why, handle)

    async def reject_second(self, order: Order, secrets: Mapping[str, str], volume_id: str) -> None:
        """Returns when it is the claim's volume. Raises AttemptFailed."""
        stored = order.intent.stored_handle
        assert stored is not None
        if not is_same_handle(volume_id, stored):
            why = f'an earlier request has made volume "{volume_id}", the claim has "{stored}"'
            await self.reject(order, secrets, Failure(why, State.BACKGROUND, from_driver=True), volume_id)

    async def reject(self, order: Order, secrets: Mapping[str, str], why: Failure, volume_id: str) -> None:
        """The volume can't be used. Returns when its object is stored all the same, as the claim's own. Raises AttemptFailed."""
        owner, error = (
            await self._owners.owner_of_existing(order.intent, volume_id, why.error) if volume_id else (None, "")
        )
        verdict = decide_unusable_volume(order, why, owner, error)
        if verdict.fate is not Fate.STORED:
            raise AttemptFailed(await self._carried_out(order, secrets, verdict, volume_id))

    async def refused(
        self, order: Order, secrets: Mapping[str, str], saved: Save, error: str, volume_id: str
    ) -> Failure:
        """The API server will never take this object: the failure to report, once the volume is deleted, if it has to be."""
        holder = Holder.WAITS if saved is Save.TAKEN else await self._holder(order.intent)
        return await self._carried_out(
            order, secrets, decide_volume_after_pv_refused(order, saved, error, holder), volume_id
        )

    async def _holder(self, intent: Intent) -> Holder:
        try:
            claim = await self._owners.claim_now(intent)
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
            if kept := self._owners.keeper_of(order.intent, volume_id):  # by now: a write has preceded this
                return Conflict(kept)
            try:
                call = Call(left_s, order.intent.migrated)
                lacks_secret = order.intent.secret is not None and not secrets
                await delete_volume(
                    self._driver, volume_id, secrets, call, order.intent.volume_name, lacks_secret=lacks_secret
                )
            except DriverError as error:
                problem = error
                continue
            log.info(
                2, "deleted a volume that is of no use", PersistentVolume=order.intent.volume_name, volume=volume_id
            )
            return None
        return problem
