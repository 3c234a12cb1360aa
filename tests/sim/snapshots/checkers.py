"""What must be true of a world of snapshots at rest: when all is well, and when all was deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import snapshot_names as names
from tests.sim.checkers import Complaint
from tests.sim.snapshots.endings import is_dangling
from tests.sim.snapshots.hands import HOLDS
from tests.sim.snapshots.objects import (
    CLAIMS,
    CONTENTS,
    GROUP_CONTENTS,
    GROUPS,
    SNAPSHOTS,
    Json,
    handles_of,
    handles_of_group,
    is_given_up,
    is_going,
)
from tests.sim.snapshots.world import SnapshotWorld

TOLD_S: Final = 3600.0
"""Events last so long."""


def complaints(world: SnapshotWorld) -> list[Complaint]:
    return [*_snapshots(world), *_contents(world), *_groups(world), *_storage(world), *_claims(world)]


def leftovers(world: SnapshotWorld) -> list[Complaint]:
    """Of a world whose snapshots are all deleted."""
    return [*_left(world, SNAPSHOTS, GROUPS), *_contents(world), *_storage(world), *_claims(world)]


def remains(world: SnapshotWorld) -> list[Complaint]:
    """Of a world whose contents are deleted, too."""
    left = (
        _left(world, CONTENTS, GROUP_CONTENTS) if world.laws.is_single else ()
    )  # else one that nobody ends may have been made
    return [*left, *_storage(world)]


def _left(world: SnapshotWorld, *plurals: str) -> Iterator[Complaint]:
    for plural in plurals:
        for name, found in sorted(world.laws.tables.objects[plural].items()):
            yield "left", f"{plural} {name} was deleted, and is still there: {found['metadata']}"


def fingerprint(world: SnapshotWorld) -> tuple[object, ...]:
    """Changes with every write to what is looked at here, and with every call."""
    counts = world.laws.counts
    versions = tuple(
        world.truth.newest(plural) for plural in world.laws.tables.objects
    )  # without Events: what waits is told again now and then
    return versions, tuple(sorted(world.backend.snapshots)), counts["calls"], counts["questions"]


def _snapshots(world: SnapshotWorld) -> Iterator[Complaint]:
    for name, snapshot in sorted(world.laws.tables.objects[SNAPSHOTS].items()):
        status = snapshot.get("status") or {}
        content = world.laws.tables.objects[CONTENTS].get(status.get("boundVolumeSnapshotContentName", ""))
        if is_going(snapshot):
            if not _has_group(world, snapshot):
                yield (
                    "left",
                    f"snapshot {name} was deleted and is still there: {snapshot['metadata'].get('finalizers')}",
                )
        elif not status.get("readyToUse"):
            yield "unready", f"{name} is not ready: {status}"
        elif content is None or content["spec"]["volumeSnapshotRef"].get("uid") != snapshot["metadata"]["uid"]:
            yield "no-content", f"{name} is ready, and has no content of its own: {status}"
        elif status.get("error") and world.laws.is_single:
            yield "error-left", f"{name} is ready and shows {status['error']}"


def _has_group(world: SnapshotWorld, snapshot: Json) -> bool:
    """True for a member of a group that is there: it stays with that. So does an imported member, as its status
    says.
    """
    groups = world.laws.tables.objects[GROUPS]
    owners = {owner["uid"] for owner in snapshot["metadata"].get("ownerReferences") or ()}
    named = (snapshot.get("status") or {}).get("volumeGroupSnapshotName")
    return named in groups or bool(owners & {group["metadata"]["uid"] for group in groups.values()})


def _contents(world: SnapshotWorld) -> Iterator[Complaint]:
    alive = world.laws.tables.alive()
    for name, content in sorted(world.laws.tables.objects[CONTENTS].items()):
        uid = content["spec"]["volumeSnapshotRef"].get("uid")
        marked = names.BEING_CREATED in (content["metadata"].get("annotations") or {})
        if marked and uid in alive and (content.get("status") or {}).get("readyToUse"):
            yield "mark-left", f"{name} is ready, and still marked as being created"
        if (
            uid
            and uid not in alive
            and name not in world.laws.was_retained
            and world.laws.is_single
            and not is_dangling(world, content)
        ):
            yield "content-left", f"{name} is there, its snapshot is not: {content['metadata']}"
        elif not uid and is_going(content):
            yield "content-left", f"{name} was deleted and is still there: {content['metadata']}"
        elif is_given_up(content) and world.laws.is_single:
            yield "content-left", f"{name} goes, and nobody knows yet what was made for it: {content['metadata']}"


def _groups(world: SnapshotWorld) -> Iterator[Complaint]:
    for name, group in sorted(world.laws.tables.objects[GROUPS].items()):
        if is_going(group):
            yield "left", f"group {name} was deleted and is still there: {group['metadata'].get('finalizers')}"
        elif not (group.get("status") or {}).get("readyToUse"):
            yield "unready", f"group {name} is not ready: {group.get('status')}"
        elif missing := _volumes_of(world, group) - len(_members(world, group)):
            yield "members-missing", f"group {name} is ready, and {missing} of its volumes have no snapshot object"


def _volumes_of(world: SnapshotWorld, group: Json) -> int:
    content = world.laws.tables.objects[GROUP_CONTENTS].get(_content_name(group))
    if content is None:
        return 0
    source = content["spec"]["source"]
    return len(
        source["volumeHandles"]
        if "volumeHandles" in source
        else source["groupSnapshotHandles"]["volumeSnapshotHandles"]
    )


def _members(world: SnapshotWorld, group: Json) -> list[Json]:
    uid, snapshots = group["metadata"]["uid"], world.laws.tables.objects[SNAPSHOTS].values()
    made = [
        one for one in snapshots if "volumeSnapshotContentName" not in one["spec"]["source"]
    ]  # an import of a member is no further one
    return [one for one in made if uid in {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()}]


def _storage(world: SnapshotWorld) -> Iterator[Complaint]:
    backend = world.backend
    named = {handle for content in world.laws.tables.objects[CONTENTS].values() for handle in handles_of(content)}
    named |= {
        handle for content in world.laws.tables.objects[GROUP_CONTENTS].values() for handle in handles_of_group(content)
    }
    for handle in sorted(set(backend.snapshots) - named - world.laws.kept - world.laws.loose - backend.imported):
        if world.laws.is_single and not _is_excused(world, handle):
            yield "leaked", f"{handle} is in the storage, no content names it"
    for handle in sorted((world.laws.kept & backend.imported) - set(backend.snapshots) - named):
        yield "deleted-kept", f"{handle} was to be kept, and is gone"
    for operation in backend.at_work_on():
        yield "still-working", f"{operation} is at work"


def _is_excused(world: SnapshotWorld, handle: str) -> bool:
    """True where nobody could know of it, or somebody took it upon himself."""
    backend, laws = world.backend, world.laws
    if laws.was_torn(_asked_as(handle)):
        return True
    is_doubled = backend.plan_forgets and (
        handle in backend.forgotten or any(handle in text for text in laws.telling.texts)
    )
    telling = (f"Snapshot {handle} is deleted without", f"Snapshot {handle} is not deleted: the driver")
    is_hidden = handle in backend.astray or any(text.startswith(telling) for text in laws.telling.texts)
    return is_doubled or is_hidden


def _asked_as(handle: str) -> str:
    """The name by which the driver was asked for it, or for its group."""
    return handle.partition("/")[0]


def _claims(world: SnapshotWorld) -> Iterator[Complaint]:
    needed = {
        snapshot["spec"]["source"].get("persistentVolumeClaimName")
        for snapshot in world.laws.tables.objects[SNAPSHOTS].values()
        if not (snapshot.get("status") or {}).get("readyToUse") and not is_going(snapshot)
    }
    contents = world.laws.tables.objects[CONTENTS].values()
    unready = [one for one in contents if not (one.get("status") or {}).get("readyToUse")]
    dangling = {
        one["spec"]["source"].get("volumeHandle") for one in unready if is_dangling(world, one)
    }  # it may still be made
    for name, claim in sorted(world.laws.tables.objects[CLAIMS].items()):
        is_held = names.CLAIM_FINALIZER in (claim["metadata"].get("finalizers") or ())
        if is_held and name not in needed and f"h-{claim['spec'].get('volumeName')}" not in dangling:
            yield "claim-held", f"no snapshot needs {name}, and it is still held"


# -- nobody waits in silence


def silent(world: SnapshotWorld) -> list[Complaint]:
    """Of a world in which something has stood in the way for good: who waits, and has been told nothing. None yet where
    a process does not know the world since the server was set back: what waits for that does not wait for good.
    """
    if world.laws.is_catching_up:
        return []
    return [*_silent_snapshots(world), *_silent_groups(world), *_silent_contents(world)]


def _silent_snapshots(world: SnapshotWorld) -> Iterator[Complaint]:
    objects, laws = world.laws.tables.objects, world.laws
    told = {
        owner
        for group in objects[GROUPS].values()
        if laws.telling.is_told(group, TOLD_S)
        for owner in (group["metadata"]["uid"],)
    }
    for name, snapshot in sorted(objects[SNAPSHOTS].items()):
        content = _content_of(world, snapshot)
        is_told = laws.telling.is_told(snapshot, TOLD_S) or (
            content is not None and laws.telling.is_told(content, TOLD_S)
        )
        is_told = is_told or bool(told & {owner["uid"] for owner in snapshot["metadata"].get("ownerReferences") or ()})
        is_done = bool((snapshot.get("status") or {}).get("readyToUse"))
        if is_told or _is_held_by_others(snapshot, content) or (is_done and not is_going(snapshot)):
            continue
        yield (
            "silent",
            f"snapshot {name} waits, and nothing says for what: {snapshot.get('status')}, {snapshot['metadata']}",
        )


def _silent_groups(world: SnapshotWorld) -> Iterator[Complaint]:
    for name, group in sorted(world.laws.tables.objects[GROUPS].items()):
        content = world.laws.tables.objects[GROUP_CONTENTS].get(_content_name(group))
        is_told = world.laws.telling.is_told(group, TOLD_S) or (
            content is not None and world.laws.telling.is_told(content, TOLD_S)
        )
        is_done = bool((group.get("status") or {}).get("readyToUse"))
        if not is_told and not _is_held_by_others(group, content) and (is_going(group) or not is_done):
            yield "silent", f"group {name} waits, and nothing says for what: {group.get('status')}"


def _silent_contents(world: SnapshotWorld) -> Iterator[Complaint]:
    """Those that are being deleted. A group's waits for its group as long as that is there, which is looked at by
    itself; and so does a snapshot's for a snapshot that is being deleted, too.
    """
    for plural in (CONTENTS, GROUP_CONTENTS):
        for name, content in sorted(world.laws.tables.objects[plural].items()):
            waits = _has_its_group(world, content) if plural == GROUP_CONTENTS else _goes_with_snapshot(world, content)
            is_told = waits or world.laws.telling.is_told(content, TOLD_S)
            if is_going(content) and not is_told and not _is_held_by_others(content, None):
                yield (
                    "silent",
                    f"{plural} {name} is being deleted, and nothing says what it waits for: {content['metadata']}",
                )


def _goes_with_snapshot(world: SnapshotWorld, content: Json) -> bool:
    """True where its snapshot is being deleted and has not said so to its content yet: it may belong to a group."""
    snapshot = world.laws.tables.objects[SNAPSHOTS].get(content["spec"]["volumeSnapshotRef"]["name"])
    is_marked = names.BEING_DELETED in (content["metadata"].get("annotations") or {})
    is_its = snapshot is not None and snapshot["metadata"]["uid"] == content["spec"]["volumeSnapshotRef"].get("uid")
    return snapshot is not None and is_its and is_going(snapshot) and not is_marked


def _has_its_group(world: SnapshotWorld, content: Json) -> bool:
    ref = content["spec"]["volumeGroupSnapshotRef"]
    return any(group["metadata"]["uid"] == ref.get("uid") for group in world.laws.tables.objects[GROUPS].values())


def _content_of(world: SnapshotWorld, snapshot: Json) -> Json | None:
    named = snapshot["spec"]["source"].get("volumeSnapshotContentName") or f"snapcontent-{snapshot['metadata']['uid']}"
    return world.laws.tables.objects[CONTENTS].get(
        (snapshot.get("status") or {}).get("boundVolumeSnapshotContentName") or named
    )


def _content_name(group: Json) -> str:
    return (
        group["spec"]["source"].get("volumeGroupSnapshotContentName") or f"groupsnapcontent-{group['metadata']['uid']}"
    )


def _is_held_by_others(obj: Json, content: Json | None) -> bool:
    """True for one that is being deleted, where it, or its content, is held by finalizers of others alone."""
    if not is_going(obj):
        return False
    held = set(obj["metadata"].get("finalizers") or ())
    if held <= set(HOLDS):
        return True
    return content is not None and is_going(content) and set(content["metadata"].get("finalizers") or ()) <= set(HOLDS)
