"""Who waits for ever, and why: claims and intents of whom nobody can say that they are settled. They may wait, but not
in silence.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.core import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.meta import is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.base.clock import parse_rfc3339
from mooring.sidecars.provisioner.model.cached import source_of
from mooring.sidecars.provisioner.model.intent import ClaimIntents
from mooring.sidecars.provisioner.model.orders import stored_request
from mooring.sidecars.provisioner.model.volumes import retains
from tests.sim.provisioning.endpoint import wish_of
from tests.sim.provisioning.line import is_forbidden
from tests.sim.provisioning.plan import NAMESPACE, SECRETS_OF, STATIC, is_imported
from tests.sim.provisioning.users import MISSING, TOO_LARGE
from tests.sim.provisioning.world import ClaimWorld

SILENCE_S_MAX = 3600.0


def of_claim(world: ClaimWorld, claim: PersistentVolumeClaim) -> str:
    """The obstacle of a claim without a volume, "" where it should have one."""
    if claim.spec.storage_class_name == STATIC:
        return ""  # there is a volume for each
    if world.backend.curse_of(f"pvc-{claim.metadata.uid}") is not None:
        return "the driver's answer stays"
    if is_forbidden(world.plan, f"pvc-{claim.metadata.uid}"):
        return "a policy forbids its object"
    if claim.spec.storage_class_name == MISSING:
        return "its class is missing"
    made = world.backend.handles_at(f"pvc-{claim.metadata.uid}")
    if any(pv.spec.csi is not None and pv.spec.csi.volume_handle in made for pv in world.truth.all(PERSISTENT_VOLUMES)):
        return "another object names its volume"
    if (claim.spec.resources.requests or {}).get("storage") == TOO_LARGE:
        return "no volume can be so large"
    if claim.metadata.uid in world.laws.later:
        return "a later version has begun its volume"
    if claim.spec.volume_name:
        meant = world.truth.volume(claim.spec.volume_name)
        if meant is None:
            return "the volume that it means is not there"
        is_own = meant.spec.claim_ref is None or meant.spec.claim_ref.uid == claim.metadata.uid
        return "" if is_own else "the volume that it means is another claim's"
    source = source_of(claim)
    if source is not None and source.is_snapshot:
        snapshot = world.truth.get(VOLUME_SNAPSHOTS, source.name, NAMESPACE)
        content = world.truth.get(VOLUME_SNAPSHOT_CONTENTS, source.name)
        return (
            ""
            if snapshot is not None and not is_deleting(snapshot) and content is not None
            else "its snapshot is not there"
        )
    if source is not None and source.is_claim:
        there = world.truth.get(PERSISTENT_VOLUME_CLAIMS, source.name, NAMESPACE)
        return (
            ""
            if there is not None and there.status.phase == "Bound" and not is_deleting(there)
            else "its source is not there"
        )
    return ""


def of_snapshot(world: ClaimWorld, snapshot: VolumeSnapshot) -> str:
    """What keeps a deleted snapshot: a claim whose volume the driver is asked for; one that waits for something else
    does not.
    """
    for claim in world.truth.all(PERSISTENT_VOLUME_CLAIMS):
        source = None if claim.spec.volume_name or claim.spec.storage_class_name == MISSING else source_of(claim)
        if source is not None and source.is_snapshot and source.name == snapshot.metadata.name:
            return f"{claim.metadata.name} is to be made of it"
    begun = (
        one.claim_name
        for one in world.laws.intents()
        if one.last.source is not None and one.last.source.name == snapshot.metadata.name and not is_put_off(world, one)
    )
    return next(begun, "")


def of_volume(world: ClaimWorld, pv: PersistentVolume) -> str:
    """What keeps a released volume from being deleted, "" where nothing does."""
    handle = "" if pv.spec.csi is None else pv.spec.csi.volume_handle
    others = [
        other for other in world.truth.all(PERSISTENT_VOLUMES) if is_imported(other) and other.spec.csi is not None
    ]
    return (
        "another object names it"
        if any(other.spec.csi and other.spec.csi.volume_handle == handle for other in others)
        else ""
    )


def of_source(world: ClaimWorld, source: PersistentVolumeClaim) -> str:
    """What keeps a deleted claim: a clone of it that can't be made as long as it is being deleted counts all the same,
    as upstream.
    """
    for claim in world.truth.all(PERSISTENT_VOLUME_CLAIMS):
        wanted = None if claim.spec.volume_name else source_of(claim)
        if wanted is not None and wanted.is_claim and wanted.name == source.metadata.name and not is_deleting(claim):
            return f"{claim.metadata.name} is to be a clone of it"
    return ""


def is_put_off(world: ClaimWorld, intent: ClaimIntents) -> bool:
    """True for one that is open as long as the claim has its volume: nobody waits for it."""
    uids = {one.metadata.uid for one in world.truth.all(PERSISTENT_VOLUME_CLAIMS)}
    return intent.is_put_off and (intent.uid in uids or world.truth.volume(intent.volume_name) is not None)


def of_intent(world: ClaimWorld, intent: ClaimIntents) -> str:
    """What keeps an intent open, whatever is done; "" where it should be closed, and where it is put off."""
    if is_put_off(world, intent):
        return ""
    claim = next((one for one in world.truth.all(PERSISTENT_VOLUME_CLAIMS) if one.metadata.uid == intent.uid), None)
    if claim is not None and not claim.spec.volume_name and (why := of_claim(world, claim)):
        return why
    if claim is None and is_forbidden(world.plan, intent.volume_name) and retains(intent.last.volume):
        return "a policy forbids its object, and its class retains volumes whose claim is gone"
    for one in intent.requests:
        request, where = stored_request(one)
        if where is not None:
            request.accessibility_requirements.CopyFrom(where.message())
        token = "" if one.secret is None else SECRETS_OF.get(one.secret.name, "")
        if why := world.backend.refuses(wish_of(request, world.backend.habits, token)):
            return why
    return ""


def all_of(world: ClaimWorld) -> dict[str, str]:
    """The uids of claims that wait for ever, or whose intents do, each with the name that it has, or had."""
    claims = {one.metadata.uid: one for one in world.truth.all(PERSISTENT_VOLUME_CLAIMS) if not one.spec.volume_name}
    waiting = {uid: claim.metadata.name for uid, claim in claims.items() if of_claim(world, claim)}
    volumes = [
        pv
        for pv in world.laws.volumes()
        if pv.status.phase == "Released" and pv.spec.persistent_volume_reclaim_policy == "Delete"
    ]
    waiting |= {pv.metadata.uid: pv.metadata.name for pv in volumes if of_volume(world, pv)}
    return waiting | {one.uid: one.claim_name for one in world.laws.intents() if of_intent(world, one)}


def silent(world: ClaimWorld) -> Iterator[tuple[str, str]]:
    """Who waits, and nothing was told for an hour. To be asked after an hour of waiting."""
    heard: dict[str, float] = {}
    for event in world.truth.all(EVENTS.whole()):
        if event["type"] == "Warning":
            uid, at_s = event["involvedObject"].get("uid", ""), parse_rfc3339(event["lastTimestamp"])
            heard[uid] = max(heard.get(uid, 0.0), at_s)
    for uid, name in sorted(all_of(world).items()):
        if world.clock.wall_s() - heard.get(uid, 0.0) > SILENCE_S_MAX:
            yield "silent", f"{name} waits, and for an hour no event has said for what"
