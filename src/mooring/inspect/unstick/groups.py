"""The finalizer of a group snapshot's content. Pure.

The judgement is that on the content of one snapshot, for all snapshots of the group: its group is gone, nothing is restored from a member,
and what the driver made is gone, or is to stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.meta import key_of
from mooring.cluster.snapshots.view import ref_of, snapshot_of
from mooring.inspect.points import Objection, Point
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.snapshots import is_restored_from, what_was_made
from mooring.sidecars.snapshotter.kinds import GROUPS


def data_of_group(facts: Facts, finalizer: str) -> Iterator[Point]:
    content = facts.obj
    assert isinstance(content, VolumeGroupSnapshotContent)
    yield from _group_is_there(facts, content)
    yield from what_was_made(facts, group_handle_of(content), GROUPS, "group", "group of snapshots")


def _group_is_there(facts: Facts, content: VolumeGroupSnapshotContent) -> Iterator[Objection]:
    key, scene = snapshot_of(content), facts.scene
    group, uid = scene.groups.get(key), ref_of(content).uid
    if group is not None and uid in ("", group.metadata.uid):
        line = f"kubectl -n {key.namespace} delete volumegroupsnapshot {key.name}, if its data may go"
        yield Objection(f'its group snapshot "{key}" is there', line)
    owners = {uid, group.metadata.uid if group is not None else ""} - {""}
    for one in scene.snapshots.values():
        if not any(ref.uid in owners for ref in one.metadata.owner_references or ()):
            continue
        yield Objection(f'its snapshot "{key_of(one)}" is there', f"mooring why -n {key.namespace} vs/{one.metadata.name}")
        if is_restored_from(facts, key_of(one)):
            yield Objection(f'a claim waits for a volume that is filled from "{key_of(one)}"', f"kubectl -n {key.namespace} get pvc")


def group_handle_of(content: VolumeGroupSnapshotContent) -> str:
    """The driver's name for the group, "" for unknown."""
    made = content.status.volume_group_snapshot_handle if content.status is not None else None
    given = content.spec.source.group_snapshot_handles
    return made or (given.volume_group_snapshot_handle if given is not None else "") or ""


def group_members_of(content: VolumeGroupSnapshotContent) -> tuple[str, ...]:
    """The driver's names for its snapshots."""
    made = content.status.volume_snapshot_info_list if content.status is not None else None
    given = content.spec.source.group_snapshot_handles
    if made:
        return tuple(one.snapshot_handle for one in made)
    return given.volume_snapshot_handles if given is not None else ()
