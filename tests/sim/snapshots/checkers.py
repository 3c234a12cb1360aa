"""What must be true of a world of snapshots at rest: when all is well, and when all was deleted."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.controllers.snapshotting import names
from tests.sim.checkers import Complaint
from tests.sim.snapshots.laws import CLAIMS, CONTENTS, GROUP_CONTENTS, GROUPS, SNAPSHOTS, Json, handles_of, handles_of_group
from tests.sim.snapshots.world import SnapshotWorld


def complaints(world: SnapshotWorld) -> list[Complaint]:
    return [*_snapshots(world), *_contents(world), *_groups(world), *_storage(world), *_claims(world)]


def leftovers(world: SnapshotWorld) -> list[Complaint]:
    """Of a world whose snapshots are all deleted."""
    return [*_left(world, SNAPSHOTS, GROUPS), *_contents(world), *_storage(world), *_claims(world)]


def remains(world: SnapshotWorld) -> list[Complaint]:
    """Of a world whose contents are deleted, too."""
    left = _left(world, CONTENTS, GROUP_CONTENTS) if world.laws.is_single else ()  # else one that nobody ends may have been made
    return [*left, *_storage(world)]


def _left(world: SnapshotWorld, *plurals: str) -> Iterator[Complaint]:
    for plural in plurals:
        for name, found in sorted(world.laws.objects[plural].items()):
            yield "left", f"{plural} {name} was deleted, and is still there: {found['metadata']}"


def fingerprint(world: SnapshotWorld) -> tuple[object, ...]:
    """Changes with every write to what is looked at here, and with every call."""
    counts = world.laws.counts
    versions = tuple(world.truth.newest(plural) for plural in world.laws.objects)  # without Events: what waits is told again now and then
    return versions, tuple(sorted(world.backend.snapshots)), counts["calls"], counts["questions"]


def _snapshots(world: SnapshotWorld) -> Iterator[Complaint]:
    for name, snapshot in sorted(world.laws.objects[SNAPSHOTS].items()):
        status = snapshot.get("status") or {}
        content = world.laws.objects[CONTENTS].get(status.get("boundVolumeSnapshotContentName", ""))
        if _is_going(snapshot):
            if not snapshot["metadata"].get("ownerReferences"):  # a member stays with its group
                yield "left", f"snapshot {name} was deleted and is still there: {snapshot['metadata'].get('finalizers')}"
        elif not status.get("readyToUse"):
            yield "unready", f"{name} is not ready: {status}"
        elif content is None or content["spec"]["volumeSnapshotRef"].get("uid") != snapshot["metadata"]["uid"]:
            yield "no-content", f"{name} is ready, and has no content of its own: {status}"
        elif status.get("error") and world.laws.is_single:
            yield "error-left", f"{name} is ready and shows {status['error']}"


def _contents(world: SnapshotWorld) -> Iterator[Complaint]:
    alive = {snapshot["metadata"]["uid"] for snapshot in world.laws.objects[SNAPSHOTS].values()}
    for name, content in sorted(world.laws.objects[CONTENTS].items()):
        uid = content["spec"]["volumeSnapshotRef"].get("uid")
        marked = names.BEING_CREATED in (content["metadata"].get("annotations") or {})
        if marked and uid in alive and (content.get("status") or {}).get("readyToUse"):
            yield "mark-left", f"{name} is ready, and still marked as being created"
        if uid and uid not in alive and name not in world.laws.was_retained and world.laws.is_single:
            yield "content-left", f"{name} is there, its snapshot is not: {content['metadata']}"
        elif not uid and _is_going(content):
            yield "content-left", f"{name} was deleted and is still there: {content['metadata']}"


def _groups(world: SnapshotWorld) -> Iterator[Complaint]:
    for name, group in sorted(world.laws.objects[GROUPS].items()):
        if _is_going(group):
            yield "left", f"group {name} was deleted and is still there: {group['metadata'].get('finalizers')}"
        elif not (group.get("status") or {}).get("readyToUse"):
            yield "unready", f"group {name} is not ready: {group.get('status')}"
        elif missing := _volumes_of(world, group) - len(_members(world, group)):
            yield "members-missing", f"group {name} is ready, and {missing} of its volumes have no snapshot object"


def _volumes_of(world: SnapshotWorld, group: Json) -> int:
    content = world.laws.objects[GROUP_CONTENTS].get(f"groupsnapcontent-{group['metadata']['uid']}")
    return 0 if content is None else len(content["spec"]["source"]["volumeHandles"])


def _members(world: SnapshotWorld, group: Json) -> list[Json]:
    uid, snapshots = group["metadata"]["uid"], world.laws.objects[SNAPSHOTS].values()
    return [one for one in snapshots if uid in {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()}]


def _storage(world: SnapshotWorld) -> Iterator[Complaint]:
    backend = world.backend
    named = {handle for content in world.laws.objects[CONTENTS].values() for handle in handles_of(content)}
    named |= {handle for content in world.laws.objects[GROUP_CONTENTS].values() for handle in handles_of_group(content)}
    for handle in sorted(set(backend.snapshots) - named - world.laws.kept - world.laws.loose - backend.imported):
        if world.laws.is_single and not world.laws.torn:
            yield "leaked", f"{handle} is in the storage, no content names it"
    for handle in sorted((world.laws.kept & backend.imported) - set(backend.snapshots) - named):
        yield "deleted-kept", f"{handle} was to be kept, and is gone"
    for operation in backend.locks.values():
        yield "still-working", f"{operation} is at work"


def _claims(world: SnapshotWorld) -> Iterator[Complaint]:
    needed = {
        snapshot["spec"]["source"].get("persistentVolumeClaimName")
        for snapshot in world.laws.objects[SNAPSHOTS].values()
        if not (snapshot.get("status") or {}).get("readyToUse") and not _is_going(snapshot)
    }
    for name, claim in sorted(world.laws.objects[CLAIMS].items()):
        if names.CLAIM_FINALIZER in (claim["metadata"].get("finalizers") or ()) and name not in needed:
            yield "claim-held", f"no snapshot needs {name}, and it is still held"


def _is_going(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]
