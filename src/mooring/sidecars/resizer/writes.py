"""The resizer's writes to the API server: a claim's status, and a PersistentVolume. Each is one request.

An answer enters the caches at once, so that no decision is taken on a state from before our own write. The uid keeps a write from another
object of the same name.

A claim's conditions are joined by type, so that nobody else's is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Kind, key_of
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, order
from mooring.kube.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable
from mooring.kube.patch import strategic_patch
from mooring.sidecars.resizer.view import condition_of

_log = logger(__name__)

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)

CONFLICTS_MAX: Final = 5
"""A write that may come after any other is sent again so often at once."""


class Failed(MooringError):
    """An action failed. str() is the text for users. is_told: False for what passes by itself, and is only logged.

    is_in_use: the driver refused it because of a pod that uses the claim, perhaps: the end of the last one heals it.
    """

    def __init__(self, text: str, *, is_told: bool = True, is_in_use: bool = False) -> None:
        super().__init__(text)
        self.is_told, self.is_in_use = is_told, is_in_use


class Writes:
    """Patches. All raise Failed, and Stale when the object is no more or has changed."""

    def __init__(self, cluster: Cluster, claims: Informer[PersistentVolumeClaim], volumes: Informer[PersistentVolume]) -> None:
        self._cluster, self._claims, self._volumes = cluster, claims, volumes
        self._unsure: dict[Key, str] = {}  # uids of claims whose last write was not answered
        self._has_told_of_a_dropped_field = False

    def forget(self, key: Key) -> None:
        """The claim is gone."""
        self._unsure.pop(key, None)

    def current(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """The claim as it is now. Raises Stale when it is no more."""
        found = self._claims.store.get(key_of(claim))
        if found is None or found.metadata.uid != claim.metadata.uid:
            raise Stale(claim.metadata.name)
        return found

    def current_volume(self, claim: PersistentVolumeClaim, uid: str = "") -> PersistentVolume:
        """The claim's volume as it is now. uid: of the one that is meant, "" for any. Raises Stale when it is no more."""
        found = self._volumes.store.get(Key("", claim.spec.volume_name))
        if found is None or uid not in ("", found.metadata.uid):
            raise Stale(claim.metadata.name)
        return found

    async def settle(self, claim: PersistentVolumeClaim, *, anyway: bool = False) -> None:
        """Where the last write to the claim was not answered, and may have been done: looks at it. Raises Stale where it was, and Failed.

        Else a call that is over would be made once more, and its answer would find a claim that is beyond it.
        anyway: also where it was answered.
        """
        if anyway or self._unsure.get(key_of(claim)) == claim.metadata.uid:
            await self._look(PERSISTENT_VOLUME_CLAIMS, self._claims, claim)
            if self.current(claim).metadata.resource_version != claim.metadata.resource_version:
                raise Stale(claim.metadata.name)

    async def look_at_volume(self, pv: PersistentVolume) -> None:
        """Takes in the volume as it is now. Raises Failed, Stale."""
        await self._look(PERSISTENT_VOLUMES, self._volumes, pv)

    async def claim(self, claim: PersistentVolumeClaim, body: Mapping[str, Any], *, strictly: bool = False) -> None:
        """Patches the status, and metadata with it; nothing for {}. strictly: only the claim as it was read."""
        if body:
            await self._patch(PERSISTENT_VOLUME_CLAIMS, self._claims, claim, body, "status", strictly)

    async def volume(self, pv: PersistentVolume, body: Mapping[str, Any]) -> None:
        """Patches the PersistentVolume as it was read; nothing for {}. One that was given up and comes late must not undo a later one."""
        if body:
            await self._patch(PERSISTENT_VOLUMES, self._volumes, pv, body, "", strictly=True)

    async def _patch(self, kind: Kind[T], cache: Informer[T], obj: T, body: Mapping[str, Any], subresource: str, strictly: bool) -> None:
        meta = obj.metadata
        version = {"resourceVersion": meta.resource_version} if strictly else {}
        patch = strategic_patch({**body, "metadata": {**body.get("metadata", {}), **version}}, of=obj)
        for attempt in range(CONFLICTS_MAX):
            request = self._cluster.patch(kind, meta.name, patch, meta.namespace, subresource=subresource)
            try:
                answer = await cache.write(key_of(obj), request)
                self.forget(key_of(obj))
                self._tell_of_a_dropped_field(body, answer)
                return
            except NotFound:
                raise Stale(meta.name) from None
            except Conflict as error:
                await self._look(kind, cache, obj)
                if strictly:
                    raise Stale(meta.name) from error
                if attempt == CONFLICTS_MAX - 1:
                    raise Failed(f"{kind.name} {meta.name} could not be saved: {error}", is_told=False) from error
            except ApiError as error:
                passing = isinstance(error, Unreachable | ServerError | TooManyRequests)
                if isinstance(error, Unreachable | ServerError):
                    self._note_unsure(obj)
                raise Failed(f"{kind.name} {meta.name} could not be saved: {error}", is_told=not passing) from error

    def _tell_of_a_dropped_field(self, body: Mapping[str, Any], answer: PersistentVolume | PersistentVolumeClaim) -> None:
        """Once: a server of before 1.32 takes a claim's status, and keeps nothing of what recovery from a failed growth needs."""
        if self._has_told_of_a_dropped_field or not isinstance(answer, PersistentVolumeClaim):
            return
        if body.get("status", {}).get("allocatedResources") and not answer.status.allocated_resources:
            self._has_told_of_a_dropped_field = True
            _log.warning(
                "The API server drops status.allocatedResources: a growth that fails can't be taken back", needed="Kubernetes 1.32 or later"
            )

    def _note_unsure(self, obj: PersistentVolume | PersistentVolumeClaim) -> None:
        """The write may have been done. Those to a volume are of the volume as it was read, and are refused where it was."""
        if isinstance(obj, PersistentVolumeClaim) and self._claims.store.get(key_of(obj)) is not None:
            self._unsure[key_of(obj)] = obj.metadata.uid

    async def _look(self, kind: Kind[T], cache: Informer[T], obj: T) -> None:
        """Takes in the object as it is now. Raises Stale for another one, and Failed where the cache is ahead of the server.

        That is so when the server was set back to a backup, until the cache has listed all anew: what it knows is refused until then.
        """
        meta = obj.metadata
        try:
            found = await cache.write(key_of(obj), self._cluster.get(kind, meta.name, meta.namespace))
        except NotFound:
            self.forget(key_of(obj))
            raise Stale(meta.name) from None
        except ApiError as error:
            raise Failed(f"{kind.name} {meta.name} could not be read: {error}", is_told=False) from error
        self.forget(key_of(obj))
        if order(found.metadata.resource_version, meta.resource_version) < 0:  # be it the same object or another of the name
            raise Failed(f"{kind.name} {meta.name} could not be saved: the API server was set back", is_told=False)
        if found.metadata.uid != meta.uid:
            raise Stale(meta.name)


Body: TypeAlias = dict[str, Any]
"""A strategic merge patch, or a part of one; {} for nothing."""


def condition_patch(
    claim: PersistentVolumeClaim, kind: str, now: str, *, reason: str = "", message: str = "", is_probed: bool = False
) -> Body | None:
    """The condition holds; None where it says so already, and keeps its time. now: RFC 3339. is_probed: with the time of the last look."""
    before = condition_of(claim, kind)
    if before is not None and (before.status, before.reason, before.message) == ("True", reason, message):
        return None
    told: Body = {"reason": reason or None, "message": message or None}
    if before is None:
        told = {name: text for name, text in told.items() if text is not None}
    if is_probed:
        told["lastProbeTime"] = now
    if before is None or (before.status, before.reason) != ("True", reason):
        told["lastTransitionTime"] = now
    return {"type": kind, "status": "True", **told}


def conditions_patch(claim: PersistentVolumeClaim, told: Iterable[Body | None], dropped: Iterable[str]) -> Body:
    """dropped: types that are to go, where they are."""
    gone = [{"$patch": "delete", "type": kind} for kind in dropped if condition_of(claim, kind) is not None]
    changes = [*(one for one in told if one is not None), *gone]
    return {"conditions": changes} if changes else {}


def no_conditions(kinds: Iterable[str]) -> Body:
    """They go, wherever they are: the claim in hand may lack one that was written, and whose answer was lost."""
    return {"conditions": [{"$patch": "delete", "type": kind} for kind in kinds]}


def patch_body(status: Mapping[str, Any], metadata: Mapping[str, Any]) -> Body:
    """{} when neither changes."""
    return {**({"metadata": metadata} if metadata else {}), **({"status": status} if status else {})}
