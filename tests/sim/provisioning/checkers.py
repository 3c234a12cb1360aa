"""What must be true of a world of claims at rest."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOTS
from tests.sim.checkers import Complaint
from tests.sim.provisioning import waiting
from tests.sim.provisioning.plan import PLACE, RESTORED, STATIC
from tests.sim.provisioning.world import ClaimWorld


def complaints(world: ClaimWorld) -> list[Complaint]:
    return [*_volumes(world), *_claims(world), *_objects(world), *_nothing_is_open(world)]


def fingerprint(world: ClaimWorld) -> tuple[object, ...]:
    """Changes with every write, but of an election, and with every call."""
    return _writes(world), tuple(sorted(world.backend.volumes)), world.laws.counts["calls"]


def _writes(world: ClaimWorld) -> object:
    if world.stops.replicas == 1:
        return world.store.version
    pages = [
        lease["metadata"]
        for lease in world.truth.all(LEASES.whole())
        if lease["metadata"]["name"].startswith(PLACE.label)
    ]
    return world.truth.versions("leases"), [page["resourceVersion"] for page in pages]


def untold(world: ClaimWorld) -> set[str]:
    """Volumes of which the driver has never told: it denied them with its first word, or has lost their names; or
    nobody knew to ask, as somebody else's object passes for the claim's.
    """
    owed = world.backend.owed
    volumes = world.backend.volumes
    unreachable = {handle for handle, name in volumes.items() if name in owed.unreachable}
    unread = {handle for handle, name in volumes.items() if name in owed.begun_anew and handle not in owed.acknowledged}
    undone = {handle for handle, name in volumes.items() if name in world.laws.undone.names}
    taken_over = {handle for handle, name in volumes.items() if name in world.laws.taken_over}
    return owed.lied | world.backend.forgotten | unreachable | unread | undone | taken_over


def _volumes(world: ClaimWorld) -> Iterator[Complaint]:
    """Backend = cluster, but for what was kept on purpose, what an open intent is about, and what `mooring orphans`
    alone can know of.
    """
    begun = {intent.volume_name for intent in world.laws.intents()} | set(world.laws.spoilt)
    unknown = {handle for handle, name in world.backend.volumes.items() if name in begun} | untold(world)
    handles = {pv.spec.csi.volume_handle for pv in world.laws.volumes() if pv.spec.csi is not None} | set(
        world.laws.imported
    )
    for handle in sorted(set(world.backend.volumes) - handles - world.laws.kept - world.laws.torn - unknown):
        yield "leaked", f"{handle} is in the backend, no PersistentVolume names it"
    for handle in sorted(handles - set(world.backend.volumes) - world.laws.doomed - world.laws.undone.ghosts):
        yield "ghost", f"{handle} has a PersistentVolume, the backend has it not"
    for handle in sorted(world.laws.kept - set(world.backend.volumes) - world.laws.doomed - world.laws.undone.ghosts):
        yield "deleted-kept", f"{handle} was to be kept, and is gone"


def _claims(world: ClaimWorld) -> Iterator[Complaint]:
    volumes = {pv.metadata.name: pv for pv in world.laws.volumes()}
    for claim in world.truth.all(PERSISTENT_VOLUME_CLAIMS):
        name = claim.metadata.name
        if is_deleting(claim) and waiting.of_source(world, claim):
            continue
        if is_deleting(claim):
            yield "claim-left", f"{name} was deleted and is still there"
            continue
        if claim.spec.storage_class_name == STATIC:
            continue  # they have laws of their own
        volume = volumes.get(claim.spec.volume_name)
        if claim.status.phase == "Lost" and volume is None:
            continue  # somebody has taken its retained volume's object away
        if claim.status.phase != "Bound" and waiting.of_claim(world, claim):
            continue
        if volume is None or claim.status.phase != "Bound":
            yield "claim-pending", f"{name} is {claim.status.phase}, its volume is {claim.spec.volume_name!r}"
        elif volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
            yield "bound-twice", f"{name} is bound to {volume.metadata.name}, which is of {volume.spec.claim_ref}"


def _objects(world: ClaimWorld) -> Iterator[Complaint]:
    claims = {claim.metadata.uid for claim in world.truth.all(PERSISTENT_VOLUME_CLAIMS)}
    for pv in world.laws.volumes():
        ref, retained = pv.spec.claim_ref, pv.spec.persistent_volume_reclaim_policy == "Retain"
        if (
            (ref is None or not ref.uid)
            and not is_deleting(pv)
            and (RESTORED in (pv.metadata.labels or {}) or world.laws.damaged_ever)
        ):
            continue  # somebody has made it anybody's
        if is_deleting(pv) and pv.status.phase == "Available" and world.laws.damaged_ever:
            continue  # the same, and deleted: nobody releases it
        orphaned = ref is None or ref.uid not in claims
        if orphaned and (not retained or is_deleting(pv)) and not waiting.of_volume(world, pv):
            yield "volume-left", f"{pv.metadata.name} is {pv.status.phase} and still there: {pv.metadata.finalizers}"


def _nothing_is_open(world: ClaimWorld) -> Iterator[Complaint]:
    for intent in world.laws.intents():
        if not (waiting.of_intent(world, intent) or waiting.is_put_off(world, intent)):
            yield "intent-left", f"the intent for {intent.volume_name} is still open"
    for uid in sorted(world.laws.lost_later()):
        yield "later-lost", f"the intent of a later version for {uid} is gone"
    for snapshot in world.truth.all(VOLUME_SNAPSHOTS) if "make_snapshot" in world.plan.acts else ():
        if is_deleting(snapshot) and not waiting.of_snapshot(world, snapshot):
            yield (
                "snapshot-held",
                f"{snapshot.metadata.name} was deleted and is still there: {snapshot.metadata.finalizers}",
            )
    if world.backend.under_way:
        yield "still-working", f"{world.backend.under_way} calls go on"
    for name, operation in world.backend.locks.items():
        assert operation.task is not None
        yield (
            "still-working",
            f"{operation.task.get_name()} is at work for {name}",
        )  # the task's name is this very call's
