"""The links of a snapshot: its class, its source, its content, the driver's answer."""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Key, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_names import content_name
from mooring.inspect.why.chain import Command, Link, Mover, State, unseen_link
from mooring.inspect.why.claims import claim_link
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link
from mooring.inspect.why.scene import Scene, moment_s

BACK_OFF = "csi-snapshotter tries again by itself"


def snapshot_links(scene: Scene, snapshot: VolumeSnapshot) -> tuple[Link, ...]:
    links = []
    source = snapshot.spec.source.persistent_volume_claim_name
    if source:
        links.append(claim_link(scene, Key(snapshot.metadata.namespace, source)))
    status = snapshot.status
    if status is not None and status.ready_to_use:
        return (*links, Link("snapshot", State.DONE, f"ready to use, in the content {status.bound_volume_snapshot_content_name}"))
    return (*links, _class_link(scene, snapshot) or _content_link(scene, snapshot))


def _class_link(scene: Scene, snapshot: VolumeSnapshot) -> Link | None:
    name = snapshot.spec.volume_snapshot_class_name
    is_bound = snapshot.status is not None and snapshot.status.bound_volume_snapshot_content_name
    if is_bound or snapshot.spec.source.volume_snapshot_content_name:
        return None
    error = snapshot.status.error if snapshot.status else None
    text = ""
    if not name:
        if error is not None and "default snapshot class" in (error.message or "").lower():
            text = "it names no class, and there is no default one for the driver of its volume"
        elif error is None:
            return None
    elif scene.is_hidden(VOLUME_SNAPSHOT_CLASSES, Key("", name)):
        return unseen_link("class", f'its class "{name}" could not be seen')
    elif scene.snapshot_classes.get(Key("", name)) is None:
        text = f'its VolumeSnapshotClass "{name}" does not exist'
    if not text:
        return None
    return Link(
        "class",
        State.FAILED,
        text,
        Mover.USER,
        "whoever makes snapshot classes, or the owner of the snapshot",
        moment_s(snapshot.metadata.creation_timestamp),
        (error.message or "") if error else "",
        retry="snapshot-controller looks again when the class is created",
        commands=(
            Command(
                _new_class(name or "", _driver(scene, snapshot)), "safe: makes the class; its snapshots are deleted with their objects"
            ),
            Command("kubectl get volumesnapshotclasses", "reads only: the classes that are there"),
        ),
    )


def _new_class(name: str, driver: str) -> str:
    """name: "" for a default class of the driver."""
    default = "" if name else ', annotations: {snapshot.storage.kubernetes.io/is-default-class: "true"}'
    return (
        "printf 'apiVersion: snapshot.storage.k8s.io/v1\\nkind: VolumeSnapshotClass\\n"
        f"metadata: {{name: {name or 'snapshots'}{default}}}\\ndriver: {driver or 'DRIVER'}\\ndeletionPolicy: Delete\\n' "
        "| kubectl apply -f -"
    )


def _driver(scene: Scene, snapshot: VolumeSnapshot) -> str:
    source = snapshot.spec.source.persistent_volume_claim_name
    claim = scene.claims.get(Key(snapshot.metadata.namespace, source)) if source else None
    pv = scene.volumes.get(Key("", claim.spec.volume_name)) if claim is not None and claim.spec.volume_name else None
    return pv.spec.csi.driver if pv is not None and pv.spec.csi is not None else ""


def content_key(snapshot: VolumeSnapshot) -> Key:
    """Of the content that it is bound to, or is to be bound to, whether that is there or not."""
    bound = snapshot.status.bound_volume_snapshot_content_name if snapshot.status else None
    return Key("", bound or snapshot.spec.source.volume_snapshot_content_name or content_name(snapshot))


def content_of(scene: Scene, snapshot: VolumeSnapshot) -> VolumeSnapshotContent | None:
    return scene.contents.get(content_key(snapshot))


def _content_link(scene: Scene, snapshot: VolumeSnapshot) -> Link:
    content, key = content_of(scene, snapshot), key_of(snapshot)
    since_s = moment_s(snapshot.metadata.creation_timestamp)
    own = snapshot.status.error if snapshot.status else None
    theirs = content.status.error if content is not None and content.status else None
    error = theirs or own
    driver = content.spec.driver if content is not None else _driver(scene, snapshot)
    if error is not None and error.message:
        told = diagnosed(error.message, driver=driver, namespace=key.namespace, program="csi-snapshotter")
        text = f"the driver {driver} does not make the snapshot"
        return failed_link("snapshot", told, text, moment_s(error.time) or since_s, error.message, BACK_OFF)
    if content is None:
        source = snapshot.spec.source.persistent_volume_claim_name or ""
        if source and scene.is_hidden(PERSISTENT_VOLUME_CLAIMS, Key(key.namespace, source)):
            return unseen_link("snapshot", "its claim could not be seen")
        text = "snapshot-controller has not made its content yet"
        commands = (Command("kubectl get pods -A | grep snapshot-controller", "reads only: whether that controller runs"),)
        return Link("snapshot", State.WAITING, text, Mover.CLUSTER, "snapshot-controller", since_s, commands=commands)
    silent = silent_link(scene, "snapshot", "csi-snapshotter", driver)
    made = content.status is not None and bool(content.status.snapshot_handle)
    text = "the storage has it, and is still working on it" if made else "the driver has been asked for it"
    return silent or Link("snapshot", State.WAITING, text, Mover.DRIVER if made else Mover.CLUSTER, f"the driver {driver}", since_s)
