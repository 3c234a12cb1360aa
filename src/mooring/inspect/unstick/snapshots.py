"""The finalizers of snapshots and their groups, of the contents of both, and of claims that snapshots are being made
of. Pure.

The snapshot controller's own `decide` is called: a finalizer that it would remove may go. The judgement on the content
of a group is that on the content of one snapshot, for all snapshots of the group.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.core import PersistentVolumeClaim
from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.meta import key_of
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Row, ref_of
from mooring.api.snapshot_names import is_group_content, is_marked
from mooring.cluster.snapshots.decide_deletion import decide_deletion, may_leave
from mooring.cluster.snapshots.decide_protection import decide_claim
from mooring.cluster.snapshots.decision import ReleaseClaim
from mooring.cluster.snapshots.view import snapshot_of
from mooring.inspect.filling import filled_from
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import ask_the_driver, sidecar_points, snapshot_controller_points
from mooring.inspect.unstick.volumes import RETAIN
from mooring.inspect.why.snapshotting import FOREVER_S, view_of

SNAPSHOTTER = "csi-snapshotter"


def of_snapshot(facts: Facts, finalizer: str) -> Iterator[Point]:
    """Points on a snapshot or a group: nothing is restored from it, and its content is gone or stays by its policy."""
    snapshot, view = facts.obj, view_of(facts.scene)
    key = key_of(snapshot)
    yield _judged(
        facts,
        finalizer in may_leave(view, snapshot),
        f"{decide_deletion(view, snapshot, FOREVER_S).because}",
        f"mooring why -n {key.namespace} {facts.kind}/{key.name} says what comes first",
    )
    yield from snapshot_controller_points(facts)


def restored_from_snapshot(facts: Facts, finalizer: str) -> Iterator[Point]:
    """Points on the provisioner's finalizer of a snapshot: no claim waits for a volume that is filled from it."""
    if filled_from(facts.scene, key_of(facts.obj)):
        yield Objection(
            "a claim waits for a volume that is filled from it", f"kubectl -n {key_of(facts.obj).namespace} get pvc"
        )
    else:
        yield Proof("no claim waits for a volume that is filled from it")
    if facts.driver:
        yield from sidecar_points(facts, "csi-provisioner", needs_word=False, has_word=False)


def source_of_snapshot(facts: Facts, finalizer: str) -> Iterator[Point]:
    """Points on a claim: no snapshot of it is in the making."""
    claim = facts.obj
    assert isinstance(claim, PersistentVolumeClaim)
    decision = decide_claim(view_of(facts.scene), key_of(claim))
    goes = any(isinstance(one, ReleaseClaim) for one in decision.actions)
    namespace = claim.metadata.namespace
    yield _judged(
        facts,
        goes,
        f"{decision.because}",
        f"mooring why -n {namespace} pvc/{claim.metadata.name} says for what it waits",
    )
    yield from snapshot_controller_points(facts)


def _judged(facts: Facts, goes: bool, because: str, way_out: str) -> Point:
    return Proof(f"the judgement of snapshot-controller: {because}") if goes else Objection(because, way_out)


def data_of_content(facts: Facts, finalizer: str) -> Iterator[Point]:
    """Points on a content: its snapshot is gone, and so is what the driver made, or it is to stay on the storage."""
    content = facts.obj
    assert isinstance(content, VolumeSnapshotContent)
    key = snapshot_of(content)
    snapshot = facts.scene.snapshots.get(key)
    if snapshot is not None and ref_of(content).uid in ("", snapshot.metadata.uid):
        yield Objection(
            f'its snapshot "{key}" is there',
            f"kubectl -n {key.namespace} delete volumesnapshot {key.name}, if its data may go",
        )
    if filled_from(facts.scene, key):
        yield Objection("a claim waits for a volume that is filled from it", f"kubectl -n {key.namespace} get pvc")
    if is_group_content(content):
        yield Objection(
            "it belongs to a group snapshot, and its data go with the group",
            f"kubectl -n {key.namespace} get volumegroupsnapshot",
        )
    yield from what_was_made(facts, handle_of(content), SINGLES, "snapshot", "snapshot")


def what_was_made(facts: Facts, handle: str, row: Row, noun: str, what: str) -> Iterator[Point]:
    """What the driver made for a content is gone, or is to stay on the storage. handle: its name there, "" for unknown.
    noun, what: in texts, in short and as a whole.
    """
    content, word, kind = facts.obj, facts.word, row.contents.name.lower()
    is_gone, keeps = word is not None and word.exists is False, content.spec.deletion_policy == RETAIN
    name = content.metadata.name
    if not handle and is_marked(content, row.being_created):
        text = f"the driver was asked for a {what}, and gave no answer: it may be there under a name that nobody knows"
        yield Objection(text, f"see whether the storage has a {noun} for {name}, and delete it there")
    elif not handle:
        yield Proof("the driver was never asked to make anything for it")
    elif is_gone:
        yield Proof(f"the driver {facts.driver} has no such {what} any more")
    elif keeps:
        yield Proof(
            f"its deletion policy is Retain: the {noun} {handle} stays on the storage, and no object names it "
            "from then on"
        )
    elif word is not None and word.exists:
        delete = f"kubectl annotate {kind} {name} {row.being_deleted}=yes, and csi-snapshotter deletes it"
        yield Objection(f"the driver {facts.driver} still has the {what}: it would be leaked", delete)
    else:
        yield Objection(
            f"nobody knows whether the driver still has the {what}: it would be leaked", ask_the_driver(facts)
        )
    if not is_marked(content, row.being_deleted):
        yield Proof(f"no program moves: its {noun} is gone, and nobody has said that its data are to be deleted")
        return
    yield from sidecar_points(
        facts, SNAPSHOTTER, needs_word=not keeps and bool(handle), has_word=is_gone or keeps or not handle
    )


def handle_of(content: VolumeSnapshotContent) -> str:
    """The driver's name for what it made, "" for unknown."""
    made = content.status.snapshot_handle if content.status is not None else None
    return made or content.spec.source.snapshot_handle or ""


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
        yield Objection(
            f'its snapshot "{key_of(one)}" is there', f"mooring why -n {key.namespace} vs/{one.metadata.name}"
        )
        if filled_from(facts.scene, key_of(one)):
            yield Objection(
                f'a claim waits for a volume that is filled from "{key_of(one)}"', f"kubectl -n {key.namespace} get pvc"
            )


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
