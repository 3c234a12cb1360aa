"""The content that is made for a dynamic snapshot: what goes into it, and what keeps it from being made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.matching import fits_node
from mooring.api.meta import Key, annotation, is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotClass
from mooring.api.snapshot_names import (
    BEING_CREATED,
    CONTENT_FINALIZER,
    DEFAULT_CLASS,
    MANAGED_BY,
    SECRET_NAME,
    SECRET_NAMESPACE,
    YES,
    content_name,
)
from mooring.api.snapshot_parameters import ClassParameterError, SnapshotSecret, for_driver, secret_of
from mooring.base.errors import MooringError
from mooring.cluster.snapshots.decision import LookUp
from mooring.cluster.snapshots.view import View, claim_of, holds_claim


class CantTell(MooringError):
    """Something that the content needs is missing, or does not fit. look_up: what may be newer than the cache has it."""

    def __init__(self, text: str, *look_up: LookUp) -> None:
        super().__init__(text)
        self.look_up = look_up


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A claim and its volume, which is a CSI one."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume

    @property
    def driver(self) -> str:
        assert self.volume.spec.csi is not None
        return self.volume.spec.csi.driver

    @property
    def volume_handle(self) -> str:
        assert self.volume.spec.csi is not None
        return self.volume.spec.csi.volume_handle


def source_of(view: View, snapshot: VolumeSnapshot) -> Source:
    """Raises CantTell."""
    key = claim_of(snapshot)
    assert key is not None
    claim, look = view.claims.get(key), LookUp(PERSISTENT_VOLUME_CLAIMS, key)
    if claim is None:
        raise CantTell(
            f'cannot get claim from snapshot: failed to retrieve PVC {key.name}: persistentvolumeclaim "{key.name}" not found', look
        )
    return Source(claim, bound_volume(view, claim))


def bound_volume(view: View, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The CSI volume of a claim. Raises CantTell."""
    meta, pv_name = claim.metadata, claim.spec.volume_name
    look = LookUp(PERSISTENT_VOLUME_CLAIMS, Key(meta.namespace, meta.name))
    if claim.status.phase != "Bound" or not pv_name:
        raise CantTell(f"the PVC {meta.name} is not yet bound to a PV, will not attempt to take a snapshot", look)
    volume, look_volume = view.volume(pv_name), LookUp(PERSISTENT_VOLUMES, Key("", pv_name))
    if volume is None:
        raise CantTell(f'failed to retrieve PV {pv_name} from the API server: persistentvolumes "{pv_name}" not found', look_volume)
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name) != (meta.namespace, meta.name) or ref.uid not in ("", meta.uid):
        raise CantTell("claim in dataSource not bound or invalid", look_volume)
    if volume.spec.csi is None:
        raise CantTell(f"cannot find CSI PersistentVolumeSource for volume {pv_name}")
    return volume


def default_class(view: View, driver: str) -> VolumeSnapshotClass:
    """The one class that is the default of this driver. Raises CantTell."""
    found = [one for one in view.classes.values() if one.driver == driver and annotation(one, DEFAULT_CLASS) == "true"]
    if not found:
        raise CantTell("cannot find default snapshot class")
    if len(found) > 1:
        raise CantTell(f"{len(found)} default snapshot classes were found")
    return found[0]


def check_fit(source: Source, snapshot_class: VolumeSnapshotClass) -> None:
    """Raises CantTell, before anything is written.

    Differs from snapshot-controller, which compares no drivers: there the driver of the class gets a handle that another one made. Nor
    does it look at the parameters, so that the content is marked as being created before its driver finds what nobody knows.
    """
    if snapshot_class.driver != source.driver:
        name, pv_name = snapshot_class.metadata.name, source.volume.metadata.name
        raise CantTell(f'class "{name}" is of driver "{snapshot_class.driver}", and volume "{pv_name}" of driver "{source.driver}"')
    check_stays(source.claim)


def check_stays(claim: PersistentVolumeClaim) -> None:
    """Raises CantTell for a claim that is going, and that we do not hold: finalizers can't be added any more."""
    if is_deleting(claim) and not holds_claim(claim):
        name = claim.metadata.name
        look = LookUp(PERSISTENT_VOLUME_CLAIMS, Key(claim.metadata.namespace, name))
        raise CantTell(f'cannot add finalizer on claim because it is being deleted: claim "{name}" is being deleted', look)


def content_for(view: View, snapshot: VolumeSnapshot, source: Source, snapshot_class: VolumeSnapshotClass) -> dict[str, Any]:
    """The content, as it is created: with its finalizer, so that it can't vanish between two writes. Raises CantTell."""
    volume, meta = source.volume, snapshot.metadata
    csi = volume.spec.csi
    assert csi is not None
    mode = {"sourceVolumeMode": volume.spec.volume_mode} if view.keeps_mode and volume.spec.volume_mode else {}
    annotations = _annotations(snapshot, snapshot_class)
    label = _label(view, volume)
    return {
        "apiVersion": VOLUME_SNAPSHOT_CONTENTS.api_version,
        "kind": VOLUME_SNAPSHOT_CONTENTS.name,
        "metadata": {
            "name": content_name(snapshot),
            "finalizers": [CONTENT_FINALIZER],
            **({"annotations": annotations} if annotations else {}),
            **({"labels": label} if label else {}),
        },
        "spec": {
            "volumeSnapshotRef": {
                "apiVersion": VOLUME_SNAPSHOTS.api_version,
                "kind": VOLUME_SNAPSHOTS.name,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "source": {"volumeHandle": csi.volume_handle},
            "volumeSnapshotClassName": snapshot_class.metadata.name,
            "deletionPolicy": snapshot_class.deletion_policy,
            "driver": snapshot_class.driver,
            **mode,
        },
    }


def _annotations(snapshot: VolumeSnapshot, snapshot_class: VolumeSnapshotClass) -> Mapping[str, str]:
    """The secret, or the mark that a driver may have been asked: see docs/decisions/0014. Raises CantTell."""
    meta, content = snapshot.metadata, content_name(snapshot)
    tokens = {"volumesnapshotcontent.name": content, "volumesnapshot.namespace": meta.namespace}
    try:
        for_driver(snapshot_class.parameters)
        secret = secret_of(
            SnapshotSecret.SNAPSHOTTER,
            snapshot_class.parameters,
            name_tokens={**tokens, "volumesnapshot.name": meta.name},
            namespace_tokens=tokens,
        )
    except ClassParameterError as error:
        raise CantTell(f"failed to get input parameters to create snapshot {meta.name}: {error}") from error
    return {BEING_CREATED: YES} if secret is None else {SECRET_NAME: secret.name, SECRET_NAMESPACE: secret.namespace}


def _label(view: View, volume: PersistentVolume) -> Mapping[str, str]:
    """In distributed mode, the first node that reaches the volume; none for a volume that says nothing of nodes."""
    affinity = volume.spec.node_affinity
    if not view.distributed or affinity is None or affinity.required is None:
        return {}
    names = sorted(node.metadata.name for node in view.nodes.values() if fits_node(volume, node.metadata.labels, node.metadata.name))
    return {MANAGED_BY: names[0]} if names else {}
