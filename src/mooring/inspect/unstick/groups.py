"""The finalizer of a group snapshot's content. Pure.

The judgement is that on the content of one snapshot, for all snapshots of the group: its group is gone, nothing is restored from a member,
and what the driver made is gone, or is to stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.meta import key_of
from mooring.api.snapshot_names import is_marked
from mooring.cluster.snapshots.view import ref_of, snapshot_of
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import ask_the_driver, sidecar_points
from mooring.inspect.unstick.snapshots import SNAPSHOTTER, is_restored_from
from mooring.inspect.unstick.volumes import RETAIN
from mooring.sidecars.snapshotter.kinds import GROUPS


def data_of_group(facts: Facts, finalizer: str) -> Iterator[Point]:
    content, word = facts.obj, facts.word
    assert isinstance(content, VolumeGroupSnapshotContent)
    yield from _group_is_there(facts, content)
    is_gone, keeps = word is not None and word.exists is False, content.spec.deletion_policy == RETAIN
    handle, name = group_handle_of(content), content.metadata.name
    if not handle and is_marked(content, GROUPS.being_created):
        text = "the driver was asked for a group of snapshots, and gave no answer: it may be there under a name that nobody knows"
        yield Objection(text, f"see whether the storage has a group for {name}, and delete it there")
    elif not handle:
        yield Proof("the driver was never asked to make anything for it")
    elif is_gone:
        yield Proof(f"the driver {facts.driver} has no such group of snapshots any more")
    elif keeps:
        yield Proof(f"its deletion policy is Retain: the group {handle} stays on the storage, and no object names it from then on")
    elif word is not None and word.exists:
        delete = f"kubectl annotate volumegroupsnapshotcontent {name} {GROUPS.being_deleted}=yes, and csi-snapshotter deletes it"
        yield Objection(f"the driver {facts.driver} still has the group of snapshots: it would be leaked", delete)
    else:
        text = "nobody knows whether the driver still has the group of snapshots: it would be leaked"
        yield Objection(text, ask_the_driver(facts))
    if not is_marked(content, GROUPS.being_deleted):
        yield Proof("no program moves: its group is gone, and nobody has said that its data are to be deleted")
        return
    yield from sidecar_points(facts, SNAPSHOTTER, needs_word=not keeps and bool(handle), has_word=is_gone or keeps or not handle)


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
