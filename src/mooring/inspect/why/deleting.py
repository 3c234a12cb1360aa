"""The links of an object that is being deleted: one for each finalizer that still holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.binding import claims_of, is_finished
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.group_snapshot import VolumeGroupSnapshot, VolumeGroupSnapshotContent
from mooring.api.meta import Key, Object, finalizers_of, is_deleting, key_of
from mooring.api.migration import driver_and_handle
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import seconds_of
from mooring.inspect.filling import filled_from
from mooring.inspect.objects import UNSTUCK
from mooring.inspect.scene import Scene
from mooring.inspect.why.attaching import attachment_link
from mooring.inspect.why.chain import Command, Link, Mover, State
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link
from mooring.inspect.why.snapshots_end import claim_end_link, content_end_link, snapshot_end_link
from mooring.sidecars.provisioner.names import CLONE_FINALIZER, SNAPSHOT_FINALIZER

COLLECTORS: Final = ("foregroundDeletion", "orphan")
NEVER_BY_HAND: Final = "do not take it off by hand: what it protects may be lost or leaked"


def deletion_links(scene: Scene, obj: Object, kind: str) -> tuple[Link, ...]:
    """kind: in lower case, as people type it. Nothing for an object that is not being deleted."""
    if not is_deleting(obj):
        return ()
    return tuple(with_unstick(_of_finalizer(scene, obj, kind, one), obj, kind) for one in finalizers_of(obj))


def with_unstick(link: Link, obj: Object, kind: str) -> Link:
    """The link, for one that does not go on by itself with the command that proves whether its finalizers may go."""
    is_left = link.state is State.FAILED or link.mover is Mover.OPERATOR
    if not is_left or kind not in UNSTUCK or any("mooring unstick" in one.line for one in link.commands):
        return link
    key = key_of(obj)
    where = f" -n {key.namespace}" if key.namespace else ""
    line = f"mooring unstick --dry-run{where} {kind}/{key.name}"
    proves = Command(
        line, "reads only: proves whether a finalizer may go, or says what speaks against it; without --dry-run it asks"
    )
    return msgspec.structs.replace(link, commands=(*link.commands, proves))


def _of_finalizer(scene: Scene, obj: Object, kind: str, finalizer: str) -> Link:
    step = f"finalizer {finalizer}"
    for mark, told in _KNOWN.items():
        if mark in finalizer and (link := told(scene, step, obj)) is not None:
            return link
    return _collected(step, obj) if finalizer in COLLECTORS else _unknown(step, obj, kind, finalizer)


def _collected(step: str, obj: Object) -> Link:
    who = "the garbage collector (kube-controller-manager, or mooring dev)"
    text = "its dependents go first, or are set free: the garbage collector takes this finalizer off then"
    return Link(step, State.WAITING, text, Mover.CLUSTER, who, seconds_of(obj.metadata.deletion_timestamp))


def _unknown(step: str, obj: Object, kind: str, finalizer: str) -> Link:
    """The link of a finalizer of no known program. It counts as failed: nobody is known who would take it off."""
    key, domain = key_of(obj), finalizer.rpartition("/")[0]
    where = f" -n {key.namespace}" if key.namespace else ""
    of_domain = f"its name says that it is of {domain}" if domain else "its name says not whose it is"
    written = Command(
        f"kubectl{where} get {kind} {key.name} -o yaml --show-managed-fields",
        "reads only: which program has written it, and when",
    )
    there = Command(
        f"kubectl get customresourcedefinitions -o name | grep {domain}", "reads only: is something of it installed?"
    )
    return Link(
        step,
        State.FAILED,
        f"nobody known here takes it off; {of_domain}: {NEVER_BY_HAND}",
        Mover.OPERATOR,
        f"whoever runs the program of {domain}" if domain else "whoever runs the program that sets it",
        seconds_of(obj.metadata.deletion_timestamp),
        retry="never, if that program is gone",
        commands=(written, there) if domain else (written,),
    )


def _protected_claim(scene: Scene, step: str, obj: Any) -> Link:
    key, since_s = key_of(obj), seconds_of(obj.metadata.deletion_timestamp)
    pods = [pod for pod in scene.pods.values() if key in claims_of(pod)]
    live = [pod for pod in pods if not is_finished(pod)]
    if live:
        name = live[0].metadata.name
        return Link(
            step,
            State.WAITING,
            f'the pod "{name}" uses it' + (f", and {len(live) - 1} more" if len(live) > 1 else ""),
            Mover.USER,
            "the owner of the pod",
            since_s,
            commands=(Command(f"kubectl -n {key.namespace} delete pod {name}", "ends that pod", safe=False),),
        )
    if pods:
        name = pods[0].metadata.name
        return Link(
            step,
            State.WAITING,
            f'the pod "{name}" has ended, and still names it',
            Mover.CLUSTER,
            "the protection controller (kube-controller-manager, or mooring binder)",
            since_s,
            commands=(Command(f"kubectl -n {key.namespace} delete pod {name}", "safe: that pod has ended"),),
        )
    who = "the protection controller (kube-controller-manager, or mooring binder)"
    return Link(step, State.WAITING, "no pod uses it any more", Mover.CLUSTER, who, since_s)


def _protected_volume(scene: Scene, step: str, obj: Any) -> Link | None:
    if not isinstance(obj, PersistentVolume):
        return None
    since_s, ref = seconds_of(obj.metadata.deletion_timestamp), obj.spec.claim_ref
    claim = scene.claims.get(Key(ref.namespace, ref.name)) if ref is not None else None
    if claim is not None:
        key = key_of(claim)
        return Link(
            step,
            State.WAITING,
            f'the claim "{key}" is bound to it',
            Mover.USER,
            "the owner of the claim",
            since_s,
            commands=(
                Command(
                    f"kubectl -n {key.namespace} delete pvc {key.name}",
                    "deletes the claim, and with it the data",
                    safe=False,
                ),
            ),
        )
    return Link(
        step, State.WAITING, "no claim is bound to it any more", Mover.CLUSTER, "the protection controller", since_s
    )


def _attached(scene: Scene, step: str, obj: Any) -> Link | None:
    if isinstance(obj, VolumeAttachment):
        return attachment_link(scene, step, obj)
    if not isinstance(obj, PersistentVolume):
        return None
    since_s, (driver, _) = seconds_of(obj.metadata.deletion_timestamp), driver_and_handle(obj)
    held = [one for one in scene.attachments.values() if one.spec.source.persistent_volume_name == obj.metadata.name]
    if held:
        link = attachment_link(scene, step, held[0])
        text = f"it is still attached to node {held[0].spec.node_name}"
        if link.state is State.FAILED:
            return link
        return Link(
            step, State.WAITING, text, Mover.CLUSTER, "the attach/detach controller, then csi-attacher", since_s
        )
    silent = silent_link(scene, step, "csi-attacher", driver)
    if silent is not None:
        return silent
    if scene.drivers.get(Key("", driver)) is None:
        return Link(
            step,
            State.FAILED,
            f"the driver {driver} is gone, and its attacher with it: nobody takes this finalizer off",
            Mover.OPERATOR,
            "whoever removed the driver",
            since_s,
            commands=(
                Command(
                    f"mooring unstick --driver={driver} --dry-run",
                    "reads only: proves what is attached nowhere, and says what is; without --dry-run it asks",
                ),
            ),
        )
    return Link(step, State.WAITING, "it is attached nowhere", Mover.CLUSTER, f"csi-attacher of {driver}", since_s)


def _provisioned(scene: Scene, step: str, obj: Any) -> Link | None:
    if not isinstance(obj, PersistentVolume):
        return None
    since_s, (driver, _) = seconds_of(obj.metadata.deletion_timestamp), driver_and_handle(obj)
    failed = next(iter(scene.events(obj, "VolumeFailedDelete")), None)
    if failed is not None:
        told = diagnosed(failed.message, driver=driver, namespace="", program="csi-provisioner", scene=scene)
        text = f"the driver {driver} does not delete the volume"
        return failed_link(step, told, text, failed.first_s, failed.message, "csi-provisioner tries again by itself")
    silent = silent_link(scene, step, "csi-provisioner", driver)
    return silent or Link(
        step,
        State.WAITING,
        "the driver is to delete the volume",
        Mover.CLUSTER,
        f"csi-provisioner of {driver}",
        since_s,
    )


def _cloned(scene: Scene, step: str, obj: Any) -> Link | None:
    if not isinstance(obj, PersistentVolumeClaim):
        return None
    since_s, pv = seconds_of(obj.metadata.deletion_timestamp), scene.volumes.get(Key("", obj.spec.volume_name))
    who = f"csi-provisioner of {driver_and_handle(pv)[0]}" if pv is not None else "csi-provisioner"
    return Link(step, State.WAITING, "a copy of its volume is being made", Mover.CLUSTER, who, since_s)


def _restored(scene: Scene, step: str, obj: Any) -> Link | None:
    if not isinstance(obj, VolumeSnapshot):
        return None
    since_s, filled = seconds_of(obj.metadata.deletion_timestamp), filled_from(scene, key_of(obj))
    names = ", ".join(one.name for one in filled)
    text = f"claims are being filled from it: {names}" if filled else "no claim is filled from it"
    look = tuple(
        Command(f"mooring why -n {one.namespace} pvc/{one.name}", "reads only: what the claim waits for")
        for one in filled[:1]
    )
    return Link(step, State.WAITING, text, Mover.CLUSTER, "csi-provisioner of its driver", since_s, commands=look)


def _of_snapshots(scene: Scene, step: str, obj: Any) -> Link | None:
    if isinstance(obj, PersistentVolumeClaim):
        return claim_end_link(scene, step, obj)
    if isinstance(obj, VolumeSnapshot | VolumeGroupSnapshot):
        return snapshot_end_link(scene, step, obj)
    if isinstance(obj, VolumeSnapshotContent | VolumeGroupSnapshotContent):
        return content_end_link(scene, step, obj)
    return None


_KNOWN: Final[Mapping[str, Callable[[Scene, str, Any], Link | None]]] = {
    "kubernetes.io/pvc-protection": _protected_claim,
    "kubernetes.io/pv-protection": _protected_volume,
    "external-attacher/": _attached,
    "external-provisioner.volume.kubernetes.io/finalizer": _provisioned,
    CLONE_FINALIZER: _cloned,
    SNAPSHOT_FINALIZER: _restored,
    "snapshot.storage.kubernetes.io/": _of_snapshots,  # those of groups, too
}
"""The finalizers of storage, by what is in their name."""
