"""The records of one look, and API objects as such records: the driver's volumes, and whatever in the cluster names
volumes. Pure.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.binding import claims_of as claim_keys_of
from mooring.api.binding import is_finished
from mooring.api.classes import class_of
from mooring.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.meta import ObjectMeta, annotation, key_of
from mooring.api.migration import csi_driver_of, in_tree_name, translated
from mooring.api.pods import Pod
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.api.storage import StorageClass, VolumeAttachment
from mooring.base.clock import parse_rfc3339
from mooring.base.errors import MooringError
from mooring.inspect.unsettled import Unsettled
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.model.cached import provisioner_of, selected_node
from mooring.sidecars.provisioner.model.intent import ClaimIntents
from mooring.sidecars.provisioner.names import PROVISIONED_BY


class ListedVolume(msgspec.Struct, frozen=True):
    """A volume as the driver lists it. size_bytes: 0 for unknown. words: of its context, where drivers put names."""

    handle: str
    size_bytes: int = 0
    words: tuple[str, ...] = ()
    published_on: tuple[str, ...] = ()


class Object(msgspec.Struct, frozen=True):
    """A PersistentVolume. claim: `namespace/name` or "". words: its attributes' values. provisioned: by its driver.
    nodes: None for all.

    driver, handle: "" for one that is no CSI driver's: its claim has lost nothing.
    """

    name: str
    driver: str
    handle: str
    size: str = ""
    claim: str = ""
    claim_uid: str = ""
    phase: str = ""
    created_wall_s: float | None = None
    words: tuple[str, ...] = ()
    provisioned: bool = False
    nodes: NodeSelector | None = None


class Attachment(msgspec.Struct, frozen=True):
    """A VolumeAttachment. volume_name: of a PersistentVolume, "" for one that names its volume itself, by handle."""

    name: str
    attacher: str
    volume_name: str = ""
    handle: str = ""


class Claim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim. volume_name: "" for none. was_bound: also to a lost volume. provisioner: of its volume,
    "" when unknown.

    created_wall_s: None for unknown.
    """

    uid: str
    key: str
    volume_name: str = ""
    was_bound: bool = False
    provisioner: str = ""
    created_wall_s: float | None = None


class Inventory(msgspec.Struct, frozen=True):
    """The result of one scan. objects_before: the PersistentVolumes before the driver was asked; objects: after.

    place: the segments of the driver's own node, {} when unknown. snapshots: handle -> the snapshot content that is to
    be taken from it. pods: handle -> the pod whose inline volume it is. disks: handle -> the pod that names this
    in-tree disk itself. claimless: pods on nodes, each with a claim that it began with and that is gone.
    idle: uids of the intents whose journal has not been written for long.
    """

    driver: str
    volumes: tuple[ListedVolume, ...]
    objects_before: tuple[Object, ...]
    objects: tuple[Object, ...]
    place: Mapping[str, str] = msgspec.field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    claims: tuple[Claim, ...] = ()
    snapshots: Mapping[str, str] = msgspec.field(default_factory=dict)
    pods: Mapping[str, str] = msgspec.field(default_factory=dict)
    disks: Mapping[str, str] = msgspec.field(default_factory=dict)
    claimless: tuple[tuple[str, str], ...] = ()
    intents: tuple[ClaimIntents, ...] = ()
    idle: frozenset[str] = frozenset()
    unsettled: tuple[Unsettled, ...] = ()

    @property
    def provisioners(self) -> frozenset[str]:
        """The driver's name, and that of the in-tree plugin that it took over from."""
        return frozenset({self.driver, in_tree_name(self.driver) or self.driver})


IDLE_S: Final = 600.0
"""A journal to which nobody has written for this long seems to be nobody's any more. It may be that of a creation
that hangs.
"""

_BOUND: Final = ("Bound", "Lost")
_DELAYED: Final = "WaitForFirstConsumer"


class CannotLook(MooringError):
    """The look would not show everything, so it shows nothing."""


def object_of(pv: PersistentVolume, driver_name: str) -> Object:
    """Raises CannotLook for one of this driver's whose handle can't be told."""
    source, driver = pv.spec.csi, csi_driver_of(pv.spec)
    if source is None and driver:
        try:
            source = translated(pv).csi
        except (MooringError, ValueError) as error:
            if driver != driver_name:
                return Object(pv.metadata.name, driver, "")
            raise CannotLook(
                f"the in-tree PersistentVolume {pv.metadata.name} can't be read as a CSI volume: {error}"
            ) from error
    if source is None:
        return Object(pv.metadata.name, "", "")
    ref, nodes = pv.spec.claim_ref, pv.spec.node_affinity
    return Object(
        name=pv.metadata.name,
        driver=source.driver,
        handle=source.volume_handle,
        size=(pv.spec.capacity or {}).get("storage", ""),
        claim="" if ref is None else f"{ref.namespace}/{ref.name}",
        claim_uid="" if ref is None else ref.uid,
        phase=pv.status.phase,
        created_wall_s=_created_wall_s(pv.metadata),
        words=tuple((source.volume_attributes or {}).values()),
        provisioned=pv.spec.csi is not None and annotation(pv, PROVISIONED_BY) == source.driver,
        nodes=None if nodes is None else nodes.required,
    )


def _created_wall_s(metadata: ObjectMeta) -> float | None:
    return None if metadata.creation_timestamp is None else parse_rfc3339(metadata.creation_timestamp)


def attachment_of(attachment: VolumeAttachment) -> Attachment:
    """An inline volume of no CSI driver gives neither name nor handle."""
    source = attachment.spec.source
    inline = source.inline_volume_spec.csi if source.inline_volume_spec is not None else None
    handle = "" if inline is None else inline.volume_handle
    return Attachment(attachment.metadata.name, attachment.spec.attacher, source.persistent_volume_name or "", handle)


def claims_of(claims: Iterable[PersistentVolumeClaim], classes: Iterable[StorageClass]) -> Iterator[Claim]:
    by_name = {one.metadata.name: one for one in classes}
    for claim in claims:
        was_bound = bool(claim.spec.volume_name) and claim.status.phase in _BOUND
        provisioner = provisioner_of(claim) or _provisioner_by_class(claim, by_name.get(class_of(claim)), was_bound)
        created = _created_wall_s(claim.metadata)
        yield Claim(claim.metadata.uid, str(key_of(claim)), claim.spec.volume_name, was_bound, provisioner, created)


def _provisioner_by_class(claim: PersistentVolumeClaim, found: StorageClass | None, was_bound: bool) -> str:
    """The provisioner of a claim that names none. "" also while the claim waits for a pod: then none has begun."""
    if found is None or (found.volume_binding_mode == _DELAYED and not was_bound and not selected_node(claim)):
        return ""
    return found.provisioner


def snapshots_of(contents: Iterable[VolumeSnapshotContent], driver_name: str) -> Iterator[tuple[str, str]]:
    """Handles of volumes that snapshots are to be taken from, with the content."""
    for content in contents:
        if content.spec.driver == driver_name and content.spec.source.volume_handle:
            yield content.spec.source.volume_handle, content.metadata.name


def own_volumes_of(pod: Pod, driver_name: str) -> Iterator[tuple[str, str]]:
    """Handles of the volumes that live and die with the pod, with the pod. Source: kubelet's pkg/volume/csi,
    makeVolumeHandle.
    """
    for volume in pod.spec.volumes or ():
        if volume.csi is not None and volume.csi.driver == driver_name:
            digest = hashlib.sha256(f"{pod.metadata.uid}{volume.name}".encode()).hexdigest()
            yield f"csi-{digest}", str(key_of(pod))


def own_disks_of(pod: Pod, driver_name: str) -> Iterator[tuple[str, str]]:
    """Handles of the in-tree disks that the pod names itself, as the driver that took over may know them, with the
    pod.
    """
    for pv in inline_volumes_of(pod):
        if pv.spec.csi is not None and pv.spec.csi.driver == driver_name:
            yield pv.spec.csi.volume_handle, str(key_of(pod))


def claimless(pods: Iterable[Pod], claims: Iterable[Claim]) -> Iterator[tuple[str, str]]:
    """Pods that may have the volume of a claim mounted that is gone, with the claim: objects are forced away, mounts
    stay.

    A claim that is younger than the pod's start is not the one that the pod began with.
    """
    known = {claim.key: claim.created_wall_s or 0.0 for claim in claims}
    for pod in pods:
        if pod.spec.node_name and not is_finished(pod):
            begun = _begun_wall_s(pod)
            yield from (
                (str(key_of(pod)), str(key)) for key in claim_keys_of(pod) if known.get(str(key), math.inf) > begun
            )


def _begun_wall_s(pod: Pod) -> float:
    """When a node took the pod, or as long as none has, when it was made."""
    if pod.status.start_time is not None:
        return parse_rfc3339(pod.status.start_time)
    created = _created_wall_s(pod.metadata)
    return math.inf if created is None else created


def intents_of(
    leases: Iterable[Mapping[str, Any]], driver_name: str, wall_s: float
) -> Iterator[tuple[ClaimIntents, bool]]:
    """Intents of this driver's provisioners; True where their journal is idle. Raises CannotLook when a journal can't
    be read.
    """
    ours = [
        lease for lease in leases if (lease["metadata"].get("annotations") or {}).get(lease_codec.DRIVER) == driver_name
    ]
    written: dict[tuple[str, str], float] = {}
    for lease in ours:
        written[_journal(lease)] = max(_written_wall_s(lease, wall_s), written.get(_journal(lease), 0.0))
    for lease in ours:
        try:
            entries = lease_codec.entries_of(lease)
        except lease_codec.UnreadablePage as error:
            name = f"{lease['metadata']['namespace']}/{lease['metadata']['name']}"
            raise CannotLook(f"the journal of intents in Lease {name} can't be read: {error}") from error
        yield from ((intent, wall_s - written[_journal(lease)] > IDLE_S) for intent in entries)


def is_idle(lease: Mapping[str, Any], wall_s: float) -> bool:
    """True for a page of a journal to which nobody has written for long."""
    return wall_s - _written_wall_s(lease, wall_s) > IDLE_S


def _journal(lease: Mapping[str, Any]) -> tuple[str, str]:
    """The journal that a page belongs to."""
    return lease["metadata"]["namespace"], lease["metadata"]["labels"][lease_codec.INTENTS]


def _written_wall_s(lease: Mapping[str, Any], wall_s: float) -> float:
    """Now when that is unknown."""
    try:
        return parse_rfc3339(str((lease.get("spec") or {}).get("renewTime")))
    except ValueError:
        return wall_s
