"""How long a claim stays protected: as long as a snapshot of it may be in the making. Pure.

Differs from snapshot-controller, which looks at snapshots alone, lets go with the deletion of one, and protects no claim of a group: a
driver that has been asked may still be at work then, and the claim's volume would vanish under it.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.matching import selects
from mooring.api.meta import Key, is_deleting, key_of
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decision import Decision, ReleaseClaim
from mooring.cluster.snapshots.view import BY_NAMESPACE, BY_SOURCE_VOLUME, View, handle_key, holds_claim, wanted_group_content

CLAIM_GRACE_S: Final = 30.0
"""How long a claim stays protected that nobody needs, and that no change of a snapshot has set free."""


def decide_claim(view: View, key: Key, idle_s: float | None = None) -> Decision:
    """Our finalizer goes from a claim that no snapshot needs any more. idle_s: since this claim is known to be held for nobody; where
    it has no snapshot at all, one that needs it may be on its way.
    """
    claim = view.claims.get(key)
    if claim is None:
        return Decision(why.Gone(str(key)))
    if not holds_claim(claim):
        return Decision(why.ClaimFree())
    user = user_of(view, claim)
    if user:
        return Decision(why.ClaimNeeded(user))
    if idle_s is not None and idle_s < CLAIM_GRACE_S and not view.snapshots_of(key):
        return Decision(why.ClaimIdle(), after_s=CLAIM_GRACE_S - idle_s)
    return Decision(why.ClaimReleased(), (ReleaseClaim(key),), done="released the claim")


def user_of(view: View, claim: PersistentVolumeClaim) -> str:
    """What needs the claim, in a user's words; "" for nothing."""
    needing = view.unready_of(key_of(claim))
    if needing:
        return f'snapshot "{needing[0].metadata.name}"'
    volume = view.volume(claim.spec.volume_name or "")
    csi = volume.spec.csi if volume is not None else None
    if csi is not None:
        handle = handle_key(csi.driver, csi.volume_handle)
        single, group = view.contents.by(BY_SOURCE_VOLUME, handle), view.group_contents.by(BY_SOURCE_VOLUME, handle)
        for name in (*(one.metadata.name for one in single), *(one.metadata.name for one in group)):
            return f'content "{name}"'
    return _group_on_its_way(view, claim)


def _group_on_its_way(view: View, claim: PersistentVolumeClaim) -> str:
    """A group snapshot that has protected the claim, or is about to, and has no content yet."""
    for group in view.groups.by(BY_NAMESPACE, claim.metadata.namespace):
        selector = group.spec.source.selector
        made = group.status is not None and group.status.creation_time is not None
        begins = selector is not None and not made and not is_deleting(group) and view.group_content(wanted_group_content(group)) is None
        if begins and selector is not None and selects(selector, claim.metadata.labels):
            return f'group snapshot "{group.metadata.name}"'
    return ""
