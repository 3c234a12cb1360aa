"""The links of a snapshot, a group snapshot, a content or a claim that a finalizer of snapshots holds.

The snapshot controller's own judgement is asked; its reason gets advice here. A content's last finalizer is its
driver's to take off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import finalizers_of, key_of
from mooring.api.snapshot_kinds import SINGLES, Content, Snapshot, ref_of, row_of
from mooring.base.clock import seconds_of
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decide_deletion import decide_deletion, group_of
from mooring.cluster.snapshots.decide_protection import decide_claim, decide_content
from mooring.cluster.snapshots.view import snapshot_of
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link
from mooring.inspect.why.snapshotting import BACK_OFF, CONTROLLER, FOREVER_S, content_of, view_of

DELETE_ERRORS: Final = ("SnapshotDeleteError", "GroupSnapshotDeleteError")
"""Events about contents; their status keeps the error of the making alone."""


def snapshot_end_link(scene: Scene, step: str, snapshot: Snapshot) -> Link:
    """The link of our finalizers on a snapshot, or a group, that is being deleted."""
    because = decide_deletion(view_of(scene), snapshot, FOREVER_S).because
    return ADVICE[because.__class__](scene, step, snapshot, because)


def content_end_link(scene: Scene, step: str, content: Content) -> Link:
    """The link of a content that is being deleted."""
    row = row_of(content)
    if row is SINGLES:
        because = decide_content(view_of(scene), content.metadata.name, FOREVER_S).because
        return ADVICE[because.__class__](scene, step, content, because)
    return _driver_deletes(scene, step, content, why.ContentDeleting())


def claim_end_link(scene: Scene, step: str, claim: PersistentVolumeClaim) -> Link:
    """The link of the finalizer that keeps a claim as long as a snapshot of it may be in the making."""
    because = decide_claim(view_of(scene), key_of(claim), FOREVER_S).because
    return ADVICE[because.__class__](scene, step, claim, because)


def _since_s(obj: Any) -> float:
    return seconds_of(obj.metadata.deletion_timestamp)


# -- advice for each reason of the snapshot controller for what is to go


def _controller_works(scene: Scene, step: str, obj: Any, because: Any) -> Link:
    silent = silent_link(scene, step, CONTROLLER, "")
    return silent or Link(step, State.WAITING, str(because), Mover.CLUSTER, CONTROLLER, _since_s(obj))


def _restored(scene: Scene, step: str, snapshot: Any, because: why.BeingRestored) -> Link:
    namespace = snapshot.metadata.namespace
    look = Command(
        f"kubectl -n {namespace} get pvc",
        "reads only: the claims that wait for a volume; mooring why pvc/NAME says for what",
    )
    return Link(
        step, State.WAITING, str(because), Mover.CLUSTER, "csi-provisioner", _since_s(snapshot), commands=(look,)
    )


def _in_group(scene: Scene, step: str, snapshot: Any, because: why.BelongsToGroup) -> Link:
    group = group_of(view_of(scene), snapshot)
    line = f"kubectl -n {snapshot.metadata.namespace} delete volumegroupsnapshot {group}"
    whole = Command(line, "deletes the whole group, with the data of all its snapshots", safe=False)
    return Link(
        step,
        State.FAILED,
        str(because),
        Mover.USER,
        "the owner of the group snapshot",
        _since_s(snapshot),
        commands=(whole,),
    )


def _content_first(scene: Scene, step: str, snapshot: Any, because: Any) -> Link:
    content = content_of(scene, snapshot)
    if content is None:
        return _controller_works(scene, step, snapshot, because)
    return _driver_deletes(scene, step, content, because)


def _driver_deletes(scene: Scene, step: str, content: Any, because: Any) -> Link:
    driver, since_s = content.spec.driver, _since_s(content)
    failed = next(iter(scene.events(content, *DELETE_ERRORS)), None)
    if failed is not None:
        told = diagnosed(
            failed.message, driver=driver, namespace=ref_of(content).namespace, program="csi-snapshotter", scene=scene
        )
        text = f"the driver {driver} does not delete the snapshot"
        return failed_link(step, told, text, failed.first_s or since_s, failed.message, BACK_OFF)
    others = [one for one in finalizers_of(content) if one != row_of(content).content_finalizer]
    if others:
        text = f'its content "{content.metadata.name}" is held by {", ".join(others)}'
        return Link(step, State.WAITING, text, Mover.OPERATOR, f"the program that sets {others[0]}", since_s)
    silent = silent_link(scene, step, "csi-snapshotter", driver)
    text = f'the driver {driver} deletes what its content "{content.metadata.name}" stands for'
    return silent or Link(step, State.WAITING, text, Mover.CLUSTER, f"csi-snapshotter of {driver}", since_s)


def _waits_for_snapshot(scene: Scene, step: str, content: Any, because: why.WaitingForSnapshot) -> Link:
    key, row = snapshot_of(content), row_of(content)
    snapshot: Snapshot | None = scene.snapshots.get(key) if row is SINGLES else scene.groups.get(key)
    name, since_s = content.metadata.name, _since_s(content)
    if snapshot is not None and snapshot.metadata.uid == ref_of(content).uid:
        line = f"kubectl -n {key.namespace} delete {row.snapshots.name.lower()} {key.name}"
        with_it = Command(line, "deletes the snapshot; its data go, too, if the content's policy is Delete", safe=False)
        return Link(
            step, State.WAITING, str(because), Mover.USER, "the owner of the snapshot", since_s, commands=(with_it,)
        )
    text = f'it goes with the snapshot "{key}", which does not exist: nobody says whether its data may go'
    delete = Command(
        f"kubectl annotate {row.contents.plural} {name} {row.being_deleted}=yes", "deletes its data, too", safe=False
    )
    retain = (
        f'kubectl patch {row.contents.plural} {name} --type=merge -p \'{{"spec": {{"deletionPolicy": "Retain"}}}}\''
    )
    line = f"{retain} && mooring unstick {row.contents.name.lower()}/{name}"
    keep = Command(
        line,
        "keeps the data on the storage, where no object names them any more; proves that first, and asks",
        safe=False,
    )
    return Link(
        step, State.FAILED, text, Mover.OPERATOR, "whoever knows what the data are", since_s, commands=(delete, keep)
    )


def _wrong(scene: Scene, step: str, content: Any, because: Any) -> Link:
    look = Command(
        f"kubectl get {row_of(content).contents.plural} {content.metadata.name} -o yaml", "reads only: the content"
    )
    return Link(
        step,
        State.FAILED,
        str(because),
        Mover.OPERATOR,
        "whoever made the content",
        _since_s(content),
        commands=(look,),
    )


Advice: TypeAlias = Callable[[Scene, str, Any, Any], Link]

ADVICE: Final[Mapping[type, Advice]] = {
    why.BeingRestored: _restored,
    why.BelongsToGroup: _in_group,
    why.DeletingContent: _content_first,
    why.WaitingForContent: _content_first,
    why.KeepingContent: _controller_works,
    why.Releasing: _controller_works,
    why.Released: _controller_works,
    why.WaitingForLostWrite: _controller_works,
    why.BadContentSource: _wrong,
    why.Unbound: _driver_deletes,
    why.Protecting: _controller_works,
    why.Protected: _controller_works,
    why.ContentDeleting: _driver_deletes,
    why.WaitingForSnapshot: _waits_for_snapshot,
    why.Touching: _driver_deletes,
    why.ClaimIdle: _controller_works,
    why.ClaimFree: _controller_works,
    why.ClaimNeeded: _controller_works,
    why.ClaimAwaited: _controller_works,
    why.ClaimReleased: _controller_works,
}
"""One for each reason that the snapshot controller has for what is to go; a test of the house asks for all."""
