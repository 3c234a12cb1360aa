"""Stores the PersistentVolume of a volume that exists, and finds the owner of an object that has its name already, or names it already.

A volume has one object. Another one, of whatever name, may have been written by hand while the creation of the volume was open, or the
driver may have answered with somebody's volume: then it is neither stored a second time, nor deleted.
"""

from __future__ import annotations

import contextlib
import math
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, is_deleting
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import FreshCache, Informer
from mooring.kube.errors import (
    LATE_S,
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooLarge,
    Unreachable,
)
from mooring.sidecars.provisioner.claims.owner import owner_of
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.intents.tracker import PendingVolume
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.outcomes import Save

log = logger(__name__)

_REFUSALS: Final = (Invalid, BadRequest, TooLarge)
_UNKNOWN: Final = (Unreachable, ServerError)

DENIED_S_MAX: Final = 300.0
"""How long an object may be forbidden each time before that counts as a refusal: a quota or a missing right may pass, a policy does not."""

LATE_S_MAX: Final = LATE_S + 10.0
"""From when a write was sent that was not answered until it can't be carried out any more."""


class PvStore:
    """volumes: the cache that the view shows."""

    def __init__(self, runtime: Runtime, volumes: Informer[PersistentVolume], view: View) -> None:
        self._cluster, self._volumes, self._view = runtime.cluster, volumes, view
        self._clock, self._denied_since = runtime.clock, dict[str, Instant]()  # by the claim's uid
        self._storing: dict[str, str] = {}  # handle -> the claim's uid, until the object is stored or refused for good
        self._unanswered: dict[str, Instant] = {}  # by the claim's uid: when a try was made last whose end is not known
        self._fresh = FreshCache(runtime.cluster, runtime.clock, volumes, PERSISTENT_VOLUMES)

    def found(self, uid: str) -> None:
        """A former process may have tried to store the claim's volume a moment ago."""
        self._unanswered[uid] = self._clock.now()

    def forget(self, uid: str) -> None:
        """The claim has its volume, or none is being made for it."""
        self._unanswered.pop(uid, None)

    async def store(self, volume: PendingVolume) -> tuple[Save, str]:
        """One try. Gives its result, and why it was refused or has to be repeated."""
        if self._storing.setdefault(volume.volume_id, volume.uid) != volume.uid:
            return Save.TAKEN, self._other_claims(volume.order.intent, volume.volume_id)
        saved, error = await self._tried(volume)
        if saved is not Save.LATER:
            del self._storing[volume.volume_id]
        return saved, error

    async def _tried(self, volume: PendingVolume) -> tuple[Save, str]:
        """As of store."""
        since = self._denied_since.pop(volume.uid, self._clock.now())
        try:
            return await self._try_to_store(volume)
        except Forbidden as error:
            found = Save.LATER, str(error)
            if self._clock.now() - since >= DENIED_S_MAX:
                found = await self.owner_of_existing(volume.order.intent, volume.volume_id, refused=str(error))
            if found[0] is Save.LATER:
                self._denied_since[volume.uid] = since
            return found

    async def _try_to_store(self, volume: PendingVolume) -> tuple[Save, str]:
        """As of store. Raises Forbidden."""
        key, intent = Key("", volume.name), volume.order.intent
        try:
            await self._fresh.look()
            if other := await self._other_naming(intent, volume.volume_id):
                return Save.TAKEN, _names_it(other, volume.volume_id)
            if gone := [name for name in volume.others if self._view.volume(name) is None]:
                return Save.TAKEN, _named_it(gone[0], volume.volume_id)
            if other := self._other_claims(intent, volume.volume_id):
                return Save.TAKEN, other
            await self._volumes.write(key, self._cluster.create(PERSISTENT_VOLUMES, volume.body))
        except AlreadyExists:
            return await self.owner_of_existing(intent, volume.volume_id)
        except _REFUSALS as error:
            return await self.owner_of_existing(intent, volume.volume_id, refused=str(error))
        except Forbidden:
            raise
        except ApiError as error:
            if isinstance(error, _UNKNOWN):
                self._unanswered[intent.uid] = self._clock.now()
            return Save.LATER, str(error)
        return Save.STORED, ""

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
            if found is None and self._clock.now() - self._unanswered.get(intent.uid, -math.inf) < LATE_S_MAX:
                return Save.LATER, f"{owner.error}; an earlier try was not answered, and may still be carried out"
            return await self._unless_named(intent, volume_id, owner.error)
        if owner.second_volume:
            log.error("the driver has made two volumes of one name, neither is deleted", PersistentVolume=name, volume=volume_id)
        return owner.saved, owner.error

    async def _unless_named(self, intent: Intent, volume_id: str, refused: str) -> tuple[Save, str]:
        """The volume is about to be deleted: every object is looked at, as the API server has them now."""
        try:
            await self._fresh.list()
            other = await self._other_naming(intent, volume_id)
        except ApiError as error:
            return Save.LATER, str(error)
        if why := _names_it(other, volume_id) if other else self._other_claims(intent, volume_id):
            return Save.TAKEN, why
        return Save.REFUSED, refused

    def keeper_of(self, intent: Intent, volume_id: str) -> str:
        """The obstacle to deleting the volume for this intent, as far as is known here and now; "" for none."""
        name, own = intent.volume_name, self._view.volume(intent.volume_name)
        names = self._view.others_naming(volume_id, name)
        if own is not None and not is_deleting(own) and self._view.means(own, volume_id):
            names = [name]
        return _names_it(names[0], volume_id) if names else self._other_claims(intent, volume_id)

    def _other_claims(self, intent: Intent, volume_id: str) -> str:
        """The step for a volume of another claim, "" for none: the driver has answered with one volume for two names.

        That the other one is deleting it as well does not matter to an intent that has begun to do so, too.
        """
        if self._storing.get(volume_id, intent.uid) != intent.uid:
            return f'the volume "{volume_id}" is being stored for another claim'
        dying = {one.dying_handle: one for one in self._view.intents.values() if one.uid != intent.uid}
        is_dying_here = intent.uid in self._view.intents and self._view.intents[intent.uid].dying_handle == volume_id
        return f'the volume "{volume_id}" is another claim\'s, and is being deleted' if volume_id in dying and not is_dying_here else ""

    async def _other_naming(self, intent: Intent, volume_id: str) -> str:
        """The PersistentVolume of another name that names this volume, by the API server itself; "" for none. Raises ApiError."""
        for name in self._view.others_naming(volume_id, intent.volume_name):
            with contextlib.suppress(NotFound):
                found = await self._volumes.write(Key("", name), self._cluster.get(PERSISTENT_VOLUMES, name))
                if self._view.means(found, volume_id):
                    return name
        return ""


def _names_it(pv_name: str, volume_id: str) -> str:
    return f'PersistentVolume "{pv_name}" names the volume "{volume_id}" already'


def _named_it(pv_name: str, volume_id: str) -> str:
    return (
        f'PersistentVolume "{pv_name}" named the volume "{volume_id}" and is gone: the volume may have gone with it, and is asked for again'
    )
