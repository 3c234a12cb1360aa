"""The laws of claims in a world whose users edit what binds them: an edit is no work of the binder, and costs no claim
its volume.

| law        | broken when |
| --- | --- |
| bound-lost | a volume leaves its claim, which is there and was fully bound to it; or such a claim is Lost |
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from mooring.api.binding import BIND_COMPLETED
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from tests.sim.provisioning.laws import Laws

HAND: Final[ContextVar[bool]] = ContextVar("hand", default=False)
"""Whose change the store is being told of: True for a user's."""


class ClaimLaws(Laws):
    def changed(self, resource: Resource, change: StoredChange) -> None:
        super().changed(resource, change)
        old = {} if change.old is None else change.old.whole()
        new = {} if change.new is None else change.new.whole()
        if not old or not new or HAND.get():
            return
        if resource.plural == PERSISTENT_VOLUMES.plural:
            self._is_kept(old, new)
        elif resource.plural == PERSISTENT_VOLUME_CLAIMS.plural and _became(old, new, "Lost"):
            pv = self._truth.volume(new["spec"].get("volumeName", ""))
            if pv is not None and _means(pv, new):
                self._fail("bound-lost", f"claim {new['metadata']['name']} is Lost, and {pv.metadata.name} is there")

    def _is_kept(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        name, uid = new["metadata"]["name"], (new["spec"].get("claimRef") or {}).get("uid", "")
        owner = self._owner(name)
        if owner is None:
            return
        if _became(old, new, "Released"):
            self._fail("bound-lost", f"{name} is Released, and claim {owner.metadata.name} is bound to it")
        if uid and uid != owner.metadata.uid:
            self._fail(
                "bound-lost",
                f"{name} is given to {new['spec']['claimRef']}, and claim {owner.metadata.name} is bound to it",
            )

    def _owner(self, pv: str) -> PersistentVolumeClaim | None:
        """The claim that was fully bound to it."""
        bound = (one for one in self._truth.all(PERSISTENT_VOLUME_CLAIMS) if one.spec.volume_name == pv)
        return next((one for one in bound if BIND_COMPLETED in (one.metadata.annotations or {})), None)

    def _volume_changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None, *, by_hand: bool) -> None:
        if not HAND.get() or old is None or new is None:
            super()._volume_changed(old, new, by_hand=by_hand)


def _means(pv: PersistentVolume, claim: dict[str, Any]) -> bool:
    """False where a user's edit has taken both away from the volume, the claim's uid and its name: upstream loses such
    a claim, too.
    """
    ref, meta = pv.spec.claim_ref, claim["metadata"]
    return (
        ref is None
        or ref.uid == meta["uid"]
        or (not ref.uid and (ref.namespace, ref.name) == (meta["namespace"], meta["name"]))
    )


def _became(old: dict[str, Any], new: dict[str, Any], phase: str) -> bool:
    return bool(old.get("status", {}).get("phase") != phase and new.get("status", {}).get("phase") == phase)
