"""The objects that the snapshot controller writes: the content of a snapshot, or of a group, and the status that each
copies. Pure.

Whatever keeps a content from being made is found here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from mooring.api.core import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    reference_to,
)
from mooring.api.group_snapshot import (
    VolumeGroupSnapshot,
    VolumeGroupSnapshotStatus,
)
from mooring.api.matching import fits_node, selects
from mooring.api.meta import Key, Kind, Object, annotation, is_deleting, key_of
from mooring.api.quantity import Quantity, parse_quantity
from mooring.api.snapshot import (
    SnapshotError,
    VolumeSnapshotContentStatus,
    VolumeSnapshotStatus,
)
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Class, Content, Snapshot, row_of
from mooring.api.snapshot_names import (
    BEING_CREATED,
    MANAGED_BY,
    YES,
    ClassParameterError,
    for_driver,
    secret_of,
)
from mooring.base.clock import rfc3339
from mooring.base.errors import MooringError
from mooring.cluster.snapshots.decision import LookUp
from mooring.cluster.snapshots.view import BY_NAMESPACE, View, bound_name, claim_of, holds_claim, wanted_content


class CantTell(MooringError):
    """Something that the content needs is missing, or does not fit. look_up: objects that may be newer than in the
    cache.
    """

    def __init__(self, text: str, *look_up: LookUp) -> None:
        super().__init__(text)
        self.look_up = look_up


# -- claims, volumes and the class


class Source(msgspec.Struct, frozen=True):
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


def sources_of(view: View, snapshot: Snapshot) -> list[Source]:
    """The source of a single snapshot, or those that a group selects, sorted by claim. Raises CantTell."""
    if isinstance(snapshot, VolumeGroupSnapshot):
        selector, namespace = snapshot.spec.source.selector, snapshot.metadata.namespace
        assert selector is not None
        claims = [
            claim for claim in view.claims.by(BY_NAMESPACE, namespace) if selects(selector, claim.metadata.labels)
        ]
        if not claims:
            raise CantTell(f"label selector for group snapshot {key_of(snapshot)} not applied to any PVC")
        return [Source(claim, bound_volume(view, claim)) for claim in sorted(claims, key=lambda one: one.metadata.name)]
    key = claim_of(snapshot)
    assert key is not None
    found = view.claims.get(key)
    if found is None:
        text = (
            f"cannot get claim from snapshot: failed to retrieve PVC {key.name}: persistentvolumeclaim "
            f'"{key.name}" not found'
        )
        raise CantTell(text, LookUp(PERSISTENT_VOLUME_CLAIMS, key))
    return [Source(found, bound_volume(view, found))]


def bound_volume(view: View, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The CSI volume of a claim. Raises CantTell."""
    meta, pv_name = claim.metadata, claim.spec.volume_name
    look = LookUp(PERSISTENT_VOLUME_CLAIMS, Key(meta.namespace, meta.name))
    if claim.status.phase != "Bound" or not pv_name:
        raise CantTell(f"the PVC {meta.name} is not yet bound to a PV, will not attempt to take a snapshot", look)
    volume, look_volume = view.volume(pv_name), LookUp(PERSISTENT_VOLUMES, Key("", pv_name))
    if volume is None:
        raise CantTell(
            f'failed to retrieve PV {pv_name} from the API server: persistentvolumes "{pv_name}" not found', look_volume
        )
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name) != (meta.namespace, meta.name) or ref.uid not in ("", meta.uid):
        raise CantTell("claim in dataSource not bound or invalid", look_volume)
    if volume.spec.csi is None:
        raise CantTell(f"cannot find CSI PersistentVolumeSource for volume {pv_name}")
    return volume


def default_class(view: View, snapshot: Snapshot, driver: str) -> Class:
    """The one class that is the default of this driver. Raises CantTell."""
    row = row_of(snapshot)
    found: list[Class] = [
        one
        for one in view.classes_of(row).values()
        if one.driver == driver and annotation(one, row.default_class) == "true"
    ]
    if not found:
        raise CantTell(f"cannot find default {row.noun} class")
    if len(found) > 1:
        raise CantTell(f"{len(found)} default snapshot classes were found")
    return found[0]


def check_fit(sources: Sequence[Source], found: Class) -> None:
    """Raises CantTell, before anything is written: one driver makes all, of claims that stay as long as that takes.

    Differs from snapshot-controller, which compares no drivers: there the driver of the class gets a handle that
    another one made. Nor does it look at the parameters, so that the content is marked as being created before its
    driver finds what nobody knows.
    """
    name = found.metadata.name
    for source in sources:
        claim, pv_name = source.claim.metadata, source.volume.metadata.name
        if source.driver != found.driver and row_of(found) is SINGLES:
            raise CantTell(
                f'class "{name}" is of driver "{found.driver}", and volume "{pv_name}" of driver "{source.driver}"'
            )
        if source.driver != found.driver:
            raise CantTell(
                f'the volume of claim "{claim.name}" is of driver "{source.driver}", and class "{name}" of '
                f'driver "{found.driver}"'
            )
        if is_deleting(source.claim) and not holds_claim(source.claim):  # finalizers can't be added any more
            text = f'cannot add finalizer on claim because it is being deleted: claim "{claim.name}" is being deleted'
            raise CantTell(text, LookUp(PERSISTENT_VOLUME_CLAIMS, Key(claim.namespace, claim.name)))


# -- the content of a snapshot, or of a group


def content_for(view: View, snapshot: Snapshot, sources: Sequence[Source], found: Class) -> dict[str, Any]:
    """The content, as it is created: with its finalizer, so that it can't vanish between two writes. Raises
    CantTell.
    """
    row, handles = row_of(snapshot), [source.volume_handle for source in sources]
    volume = sources[0].volume
    mode = volume.spec.volume_mode if view.keeps_mode and row is SINGLES else None
    metadata = {
        "name": wanted_content(snapshot),
        "finalizers": [row.content_finalizer],
        **_unless_empty("annotations", _annotations(snapshot, found)),
        **_unless_empty("labels", _label(view, volume) if row is SINGLES else {}),
    }
    spec = {
        row.ref_field: msgspec.to_builtins(reference_to(snapshot, row.snapshots)),
        "source": {"volumeHandle": handles[0]} if row is SINGLES else {"volumeHandles": handles},
        row.class_field: found.metadata.name,
        "deletionPolicy": found.deletion_policy,
        "driver": found.driver,
        **({"sourceVolumeMode": mode} if mode else {}),
    }
    return object_of(row.contents, metadata, spec)


def _annotations(snapshot: Snapshot, found: Class) -> Mapping[str, str]:
    """The annotations that name the class's secret; without one the mark that a driver may have been asked (see
    docs/decisions/0014), which groups do without. Raises CantTell.
    """
    row, meta = row_of(snapshot), snapshot.metadata
    tokens = {f"{row.prefix}content.name": wanted_content(snapshot), f"{row.prefix}.namespace": meta.namespace}
    try:
        for_driver(found.parameters)
        named = {**tokens, f"{row.prefix}.name": meta.name}
        secret = secret_of(row.secret, found.parameters, name_tokens=named, namespace_tokens=tokens)
    except ClassParameterError as error:
        raise CantTell(f"failed to get input parameters to create {row.noun} {meta.name}: {error}") from error
    if secret is None:
        return {BEING_CREATED: YES} if row is SINGLES else {}
    return {row.secret_name: secret.name, row.secret_namespace: secret.namespace}


def _label(view: View, volume: PersistentVolume) -> Mapping[str, str]:
    """The label with the first node that reaches the volume, in distributed mode; none for a volume that says nothing
    of nodes.
    """
    affinity = volume.spec.node_affinity
    if not view.distributed or affinity is None or affinity.required is None:
        return {}
    names = sorted(
        node.metadata.name
        for node in view.nodes.values()
        if fits_node(volume, node.metadata.labels, node.metadata.name)
    )
    return {MANAGED_BY: names[0]} if names else {}


# -- the status


def copied(
    snapshot: Snapshot, content: Content, group_name: str = ""
) -> VolumeSnapshotStatus | VolumeGroupSnapshotStatus:
    """The status that the snapshot is to have. Its first value stays: the bound name, the creation time, the group, a
    size above zero.

    Differs from snapshot-controller: errors are compared by what they say, and one without a message is borne.
    """
    said, row = content.status, row_of(snapshot)
    old = snapshot.status or (VolumeSnapshotStatus() if row is SINGLES else VolumeGroupSnapshotStatus())
    ready = said.ready_to_use if said is not None and said.ready_to_use is not None else bool(old.ready_to_use)
    bound_field = f"bound_volume_{'' if row is SINGLES else 'group_'}snapshot_content_name"
    changes: dict[str, Any] = {
        bound_field: bound_name(snapshot) or content.metadata.name,
        "ready_to_use": ready,
        "creation_time": old.creation_time or _time(said.creation_time if said is not None else None),
        "error": None if said is None or (ready and not old.ready_to_use) else _error(said.error),
    }
    if isinstance(old, VolumeSnapshotStatus):
        changes["restore_size"] = _size(
            old.restore_size, said.restore_size if isinstance(said, VolumeSnapshotContentStatus) else None
        )
        changes["volume_group_snapshot_name"] = old.volume_group_snapshot_name or group_name or None
    return msgspec.structs.replace(old, **changes)


def as_json(status: msgspec.Struct | None) -> dict[str, Any] | None:
    """The status as JSON values, None where there is no status."""
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found


def _error(error: SnapshotError | None) -> SnapshotError | None:
    return error if error is not None and (error.message or error.time) else None


def _time(moment: int | str | None) -> str | None:
    """The text of a moment. moment: nanoseconds for a single snapshot, the text itself for a group."""
    return rfc3339(moment // 10**9) if isinstance(moment, int) else moment


def _size(old: str | int | None, new: int | None) -> str | int | None:
    if new is None or (old is not None and (_bytes(old) != 0 or new <= 0)):
        return old
    return str(Quantity(Decimal(new), "binary"))


def _bytes(size: str | int) -> Decimal:
    try:
        return parse_quantity(str(size)).value
    except ValueError:
        return Decimal(1)  # unreadable is not zero: it stays


# -- parts of objects


def _unless_empty(name: str, fields: Mapping[str, str]) -> dict[str, Any]:
    return {name: dict(fields)} if fields else {}


def object_of(kind: Kind[Any], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": dict(metadata), "spec": dict(spec)}


def kind_of(obj: Object) -> Kind[Any]:
    return next(
        kind for row in (SINGLES, GROUPS) for kind in (row.snapshots, row.contents) if isinstance(obj, kind.struct)
    )


def reference_of(obj: Object) -> ObjectReference:
    """The object as that of an Event."""
    return reference_to(obj, kind_of(obj))
