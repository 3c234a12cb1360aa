"""The source of a volume's data: whether the claim may use it, whether it is ready, and the driver's name for it.

The checks and their texts are external-provisioner's, in its order.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, finalizers_of, is_deleting
from mooring.api.quantity import parse_quantity
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.storage import StorageClass
from mooring.base.errors import MooringError
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted
from mooring.sidecars.provisioner.model.cached import Source, requested_bytes

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_NOT_THIS: Final = "claim in dataSource not bound or invalid"


class SourceError(MooringError):
    """The source can't be used, as yet."""


def granted(view: View, claim: PersistentVolumeClaim, source: Source) -> bool:
    """True when a ReferenceGrant in the source's namespace lets claims of this one refer to it; one grant must say
    both.
    """
    for grant in view.grants.values():
        if grant.metadata.namespace != source.namespace:
            continue
        lets_in = any(
            (one.group, one.kind, one.namespace) == ("", "PersistentVolumeClaim", claim.metadata.namespace)
            for one in grant.spec.from_
        )
        if lets_in and any(
            (one.group, one.kind) == (source.group, source.kind) and (one.name or source.name) == source.name
            for one in grant.spec.to
        ):
            return True
    return False


# -- snapshots


def snapshot_handle(
    view: View, claim: PersistentVolumeClaim, storage_class: StorageClass, source: Source, looked: Looked
) -> str:
    """The driver's name for the snapshot. Raises SourceError, NotLookedUp."""
    name = source.name
    try:
        snapshot: VolumeSnapshot = looked.get(Wanted(VOLUME_SNAPSHOTS, name, source.namespace))
    except ApiError as error:
        raise SourceError(f"error getting snapshot {name} from api server: {error}") from error
    status = snapshot.status
    if is_deleting(snapshot) and names.SNAPSHOT_FINALIZER not in finalizers_of(snapshot):
        raise SourceError(f"snapshot {name} is being deleted")
    if status is None or not status.bound_volume_snapshot_content_name:
        raise SourceError(f"snapshot {name} not bound")
    content_name = status.bound_volume_snapshot_content_name
    try:
        content: VolumeSnapshotContent = looked.get(Wanted(VOLUME_SNAPSHOT_CONTENTS, content_name))
    except ApiError as error:
        raise SourceError(f"error getting snapshotcontent {content_name} for snapshot {name}: {error}") from error
    of_snapshot = f"snapshotcontent {content_name} for snapshot {name}"
    ref, meta = content.spec.volume_snapshot_ref, snapshot.metadata
    if (ref.uid, ref.namespace, ref.name) != (meta.uid, meta.namespace, meta.name):
        raise SourceError(f"{of_snapshot} is bound to a different snapshot")
    if content.spec.driver != storage_class.provisioner:
        raise SourceError(f"{of_snapshot} is not handled by CSI driver of StorageClass {storage_class.metadata.name}")
    if not status.ready_to_use:
        raise SourceError(f"snapshot {name} is not Ready")
    handle = content.status.snapshot_handle if content.status else None
    if not handle:
        raise SourceError(f"snapshot handle {name} is not available")
    _check_restore_size(claim, name, status.restore_size)
    if view.rules.prevent_volume_mode_conversion:
        _check_mode(claim, content)
    return handle


def _check_restore_size(claim: PersistentVolumeClaim, name: str, restore_size: str | int | None) -> None:
    if restore_size is None:
        return
    size, wanted = parse_quantity(str(restore_size)).whole, requested_bytes(claim)
    if wanted < size:
        raise SourceError(f"requested volume size {wanted} is less than the size {size} for the source snapshot {name}")


def _check_mode(claim: PersistentVolumeClaim, content: VolumeSnapshotContent) -> None:
    """A Block volume read as a file system, or the reverse, can be an attack: the content, which few may change, must
    allow it.
    """
    before, wanted = content.spec.source_volume_mode, claim.spec.volume_mode
    if before is None or wanted is None or before == wanted:
        return
    notes = content.metadata.annotations or {}
    allowed = notes.get(names.ALLOW_MODE_CHANGE)
    if allowed in _TRUE:
        return
    key, name = names.ALLOW_MODE_CHANGE, content.metadata.name
    if allowed is None:
        why = f"{key} annotation is not present on snapshotcontent {name}"
    elif allowed in _FALSE:
        why = f"{key} is set to false on snapshotcontent {name}"
    else:
        why = (
            f"failed to convert {key} annotation value to boolean with error: strconv.ParseBool: parsing "
            f'"{allowed}": invalid syntax'
        )
    shown = f"{claim.metadata.namespace}/{claim.metadata.name}"
    raise SourceError(
        f"requested volume {shown} modifies the mode of the source volume but does not have permission to do so. {why}"
    )


# -- clones


def clone_handle(
    view: View, claim: PersistentVolumeClaim, storage_class: StorageClass, source: Source, looked: Looked
) -> str:
    """The driver's name for the volume of the source claim. Raises SourceError, NotLookedUp."""
    name = source.name
    origin = view.claims.get(Key(source.namespace, name))
    if origin is None:
        raise SourceError(
            f'error getting PVC {name} (namespace "{source.namespace}") from api server: persistentvolumeclaim '
            f'"{name}" not found'
        )
    _check_origin(claim, origin)
    volume = _volume_of(origin, looked)
    if volume is None or not _is_volume_of(volume, origin, storage_class.provisioner):
        raise SourceError(_NOT_THIS)
    before, wanted = (one.spec.volume_mode or "Filesystem" for one in (origin, claim))
    if before != wanted:
        raise SourceError(
            "the source PVC and destination PVCs must have the same volume mode for cloning.  "
            f"Source is {before}, but new PVC requested {wanted}"
        )
    assert volume.spec.csi is not None, "checked above"
    return volume.spec.csi.volume_handle


def _check_origin(claim: PersistentVolumeClaim, origin: PersistentVolumeClaim) -> None:
    """Raises SourceError."""
    name = origin.metadata.name
    if origin.status.phase != "Bound":
        raise SourceError(f"the PVC DataSource {name} must have a status of Bound.  Got {origin.status.phase}")
    if is_deleting(origin) and names.CLONE_FINALIZER not in finalizers_of(origin):  # else it is kept for clones
        raise SourceError(f"the PVC DataSource {name} is currently being deleted")
    if origin.spec.storage_class_name is None:
        raise SourceError(f"the source PVC ({name}) storageclass cannot be empty")
    if claim.spec.storage_class_name is None:
        raise SourceError(f"the requested PVC ({claim.metadata.name}) storageclass cannot be empty")
    size, wanted = requested_bytes(origin), requested_bytes(claim)
    if wanted < size:
        raise SourceError(
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, "
            f"requested {wanted} but source is {size}"
        )
    if not origin.spec.volume_name:
        raise SourceError(f"volume name is empty in source PVC {name}")


def _volume_of(origin: PersistentVolumeClaim, looked: Looked) -> PersistentVolume | None:
    try:
        found: PersistentVolume = looked.get(Wanted(PERSISTENT_VOLUMES, origin.spec.volume_name))
    except ApiError:
        return None
    return found


def _is_volume_of(volume: PersistentVolume, origin: PersistentVolumeClaim, provisioner: str) -> bool:
    csi, ref, meta = volume.spec.csi, volume.spec.claim_ref, origin.metadata
    if csi is None or csi.driver != provisioner or ref is None or volume.status.phase != "Bound":
        return False
    return (ref.uid, ref.namespace, ref.name) == (meta.uid, meta.namespace, meta.name)
