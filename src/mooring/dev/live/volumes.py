"""The rows of volumes: the stage of life of each, also of one that grows or changes its class, and the reason that it
waits there.

The reason is in the words of the controller whose turn it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from mooring.api.binding import BOUND, DELETE, FAILED, LOST, PROVISIONER, RELEASED, claims_of, is_finished
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.meta import Key, ObjectMeta, annotation, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.api.storage import VolumeAttachment
from mooring.api.volume_names import unique_name
from mooring.base.clock import Instant
from mooring.dev.live.board import READY, MountBoard, MountedVolume, ObjectBoard, ReasonBoard, VolumeRow, state_of
from mooring.sidecars.resizer.names import CONTROLLER_ERROR, FS_PENDING, MODIFY_ERROR, NODE_ERROR, STORAGE

ATTACHER, ATTACH_DETACH, BINDER, PROVISIONS = "attacher", "attach-detach", "binder", "provisioner"
"""The parts of the plane whose reasons are shown, by their names in the story."""
PODS_SHOWN: Final = 2


class _Place(msgspec.Struct, frozen=True):
    """A volume on a node that has it, or is to have it. pods: of the node, those that use its claim."""

    node: str
    attachment: VolumeAttachment | None
    mounted: MountedVolume
    pods: tuple[Pod, ...]

    @property
    def wanted(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if not is_deleting(pod))

    @property
    def is_attached(self) -> bool:
        return self.attachment is not None and self.attachment.status.attached

    @property
    def published(self) -> int:
        """For so many pods. A pod that runs has its volumes, also where an earlier process has mounted them."""
        return max(len(self.mounted.targets), sum(pod.status.phase == "Running" for pod in self.pods))


class VolumeRows:
    """The rows at one moment."""

    def __init__(self, objects: ObjectBoard, mounts: MountBoard, reasons: ReasonBoard, now: Instant) -> None:
        self._objects, self._mounts, self._reasons, self._now = objects, mounts, reasons, now
        self._volumes = {pv.metadata.name: pv for pv in objects.volumes}
        self._made_for = {
            pv.spec.claim_ref.uid: pv for pv in objects.volumes if pv.spec.claim_ref and pv.spec.claim_ref.uid
        }
        self._states = {node.metadata.name: state_of(node) for node in objects.nodes}
        self._unattached = {one.metadata.name for one in objects.drivers if one.spec.attach_required is False}
        self._attachments: defaultdict[str, list[VolumeAttachment]] = defaultdict(list)
        for attachment in objects.attachments:
            self._attachments[_named(attachment)].append(attachment)
        self._own = dict(_described(objects.attachments))  # disks that pods name themselves, by their handles
        self._users: defaultdict[str, list[Pod]] = defaultdict(list)
        self._pods: defaultdict[Key, list[Pod]] = defaultdict(list)
        for pod in objects.pods:
            for claim in () if is_finished(pod) else claims_of(pod):
                self._pods[claim].append(pod)
            for disk in () if is_finished(pod) else inline_volumes_of(pod):
                self._own[_handle(disk)] = disk
                self._users[_handle(disk)].append(pod)

    def all(self) -> Iterator[VolumeRow]:
        """Claims by name, then volumes without one, then disks that pods name themselves."""
        shown = set()
        for claim in sorted(self._objects.claims, key=key_of):
            pv = self._volumes.get(claim.spec.volume_name) or self._made_for.get(claim.metadata.uid)
            if pv is not None:
                shown.add(pv.metadata.name)
            yield from self._changing(claim, self._of_claim(claim, pv))
        for name, pv in sorted(self._volumes.items()):
            if name not in shown:
                yield from self._of_volume(pv)
        for handle, disk in sorted(self._own.items()):
            yield from (
                self._placed("", disk, place)
                for place in self._on_nodes(disk, self._attachments[handle], self._users[handle])
            )
        for name in sorted(set(self._attachments) - set(self._volumes) - set(self._own) - {""}):
            yield from (self._of_attachment(name, one) for one in self._attachments[name])

    # -- claims and volumes

    def _of_claim(self, claim: PersistentVolumeClaim, pv: PersistentVolume | None) -> Iterator[VolumeRow]:
        name, key = _shown(key_of(claim)), key_of(claim)
        places = self._places(pv, key) if pv is not None and claim.status.phase == BOUND else ()
        for place in places:
            row = self._placed(name, pv, place) if pv is not None else None
            if row is not None:
                yield self._kept_in_use(row, key) if is_deleting(claim) and not row.waits else row
        if not places:
            stage, text, waits = self._of_unplaced(claim)
            yield VolumeRow(name, pv.metadata.name if pv is not None else "", "", stage, text, waits)

    def _changing(self, claim: PersistentVolumeClaim, rows: Iterator[VolumeRow]) -> Iterator[VolumeRow]:
        """Another reason for its wait comes first."""
        stage, text = change_of(claim)
        for row in rows:
            yield msgspec.structs.replace(row, stage=stage, text=text, waits=True) if stage and not row.waits else row

    def _kept_in_use(self, row: VolumeRow, claim: Key) -> VolumeRow:
        return msgspec.structs.replace(
            row, stage="Deleting", text=self._why(BINDER, "pvcprotection", claim), waits=True
        )

    def _of_unplaced(self, claim: PersistentVolumeClaim) -> tuple[str, str, bool]:
        """Stage, text, and whether it waits."""
        key, waiting = key_of(claim), self._without_node(claim)
        if is_deleting(claim):
            return "Deleting", self._why(BINDER, "pvcprotection", key), True
        if claim.status.phase == LOST:
            return "Lost", self._why(BINDER, "claims", key), True
        if claim.status.phase == BOUND:
            return "Bound", waiting, bool(waiting)
        if annotation(claim, PROVISIONER):
            return (
                "Provisioning",
                self._why(PROVISIONS, "claims", claim.metadata.uid) or self._why(BINDER, "claims", key),
                True,
            )
        return "Pending", waiting or self._why(BINDER, "claims", key), True

    def _without_node(self, claim: PersistentVolumeClaim) -> str:
        """The reason that a pod of the claim has no node yet."""
        pod = next((pod for pod in self._pods[key_of(claim)] if not pod.spec.node_name), None)
        if pod is None:
            return ""
        return f"pod {pod.metadata.name}: {self._why(BINDER, 'scheduler', key_of(pod)) or 'has no node yet'}"

    def _of_volume(self, pv: PersistentVolume) -> Iterator[VolumeRow]:
        """The row of a volume whose claim is gone, or has not come yet."""
        ref = pv.spec.claim_ref
        claim = Key(ref.namespace, ref.name) if ref is not None else None
        places = self._places(pv, claim)
        for place in places:
            yield self._placed(_shown(claim), pv, place)
        if not places:
            stage, text, waits = self._of_unclaimed(pv)
            yield VolumeRow(_shown(claim), pv.metadata.name, "", stage, text, waits)

    def _of_unclaimed(self, pv: PersistentVolume) -> tuple[str, str, bool]:
        name, phase = pv.metadata.name, pv.status.phase
        if is_deleting(pv) or (phase == RELEASED and pv.spec.persistent_volume_reclaim_policy == DELETE):
            return "Deleting", self._why(PROVISIONS, "volumes", name) or self._why(BINDER, "pvprotection", name), True
        if phase == FAILED:
            return FAILED, pv.status.message, True
        return phase or "Pending", self._why(BINDER, "volumes", name), not phase

    def _of_attachment(self, name: str, attachment: VolumeAttachment) -> VolumeRow:
        """The row of an attachment whose PersistentVolume does not exist."""
        stage = "Detaching" if is_deleting(attachment) else "Attaching"
        return VolumeRow("", name, attachment.spec.node_name, stage, self._why_attachment(attachment), True)

    # -- on nodes

    def _places(self, pv: PersistentVolume, claim: Key | None) -> tuple[_Place, ...]:
        """By node: where it is attached, where something of it is mounted, and where pods use it."""
        return self._on_nodes(pv, self._attachments[pv.metadata.name], self._pods[claim] if claim is not None else ())

    def _on_nodes(
        self, pv: PersistentVolume, found: Iterable[VolumeAttachment], users: Iterable[Pod]
    ) -> tuple[_Place, ...]:
        attachments = {one.spec.node_name: one for one in found}
        mounted: Mapping[str, MountedVolume] = (
            self._mounts.on_nodes(pv.spec.csi.volume_handle) if pv.spec.csi is not None else {}
        )
        pods = defaultdict(list)
        for pod in users:
            if pod.spec.node_name:
                pods[pod.spec.node_name].append(pod)
        names = sorted({*attachments, *mounted, *pods})
        return tuple(
            _Place(node, attachments.get(node), mounted.get(node, MountedVolume()), tuple(pods[node])) for node in names
        )

    def _placed(self, claim: str, pv: PersistentVolume, place: _Place) -> VolumeRow:
        stage, text, waits = self._on_node(pv, place)
        return VolumeRow(claim, pv.metadata.name, place.node, stage, text, waits)

    def _on_node(self, pv: PersistentVolume, place: _Place) -> tuple[str, str, bool]:
        if place.attachment is not None and is_deleting(place.attachment):
            return "Detaching", self._why_attachment(place.attachment), True
        is_mounted = bool(place.mounted.is_staged or place.mounted.targets)
        attaches = pv.spec.csi is None or pv.spec.csi.driver not in self._unattached
        if attaches and not place.is_attached and (place.wanted or place.attachment or not is_mounted):
            why = self._why_attachment(place.attachment) if place.attachment else self._why_unattached(pv, place.node)
            return "Attaching", why, True
        stage = _stage(place)
        state = self._states.get(place.node, "gone")
        if place.pods and state != READY:
            return stage, f"{_names(place.pods)}, on a node that is {state}", True
        if place.wanted and place.published >= len(place.wanted):
            return stage, _names(place.wanted), False
        if place.wanted or (is_mounted and state == READY):
            return stage, self._why_on_node(pv, place.node), True
        return stage, self._why_unattached(pv, place.node), True

    # -- reasons

    def _why(self, who: str, queue: str, key: object) -> str:
        return self._reasons.text(who, queue, key, self._now)

    def _why_attachment(self, attachment: VolumeAttachment) -> str:
        """The attacher's, else the error that it has left."""
        error = attachment.status.detach_error if is_deleting(attachment) else attachment.status.attach_error
        return self._why(ATTACHER, "csi-attacher-va", attachment.metadata.name) or (
            error.message if error is not None else ""
        )

    def _why_unattached(self, pv: PersistentVolume, node: str) -> str:
        """The attach/detach controller's, about this node."""
        return self._why(ATTACH_DETACH, "attachdetach-volumes", (_unique(pv), node))

    def _why_on_node(self, pv: PersistentVolume, node: str) -> str:
        """The reason that the node's agent gives."""
        return self._why(node, "node-volumes", _unique(pv))


def _handle(pv: PersistentVolume) -> str:
    return pv.spec.csi.volume_handle if pv.spec.csi is not None else ""


def _described(attachments: Iterable[VolumeAttachment]) -> Iterator[tuple[str, PersistentVolume]]:
    """By their handles the volumes that attachments describe themselves; their pods may be gone."""
    for one in attachments:
        spec = one.spec.source.inline_volume_spec
        if spec is not None and spec.csi is not None:
            handle = spec.csi.volume_handle
            yield handle, PersistentVolume(ObjectMeta(name=handle), spec)


def _named(attachment: VolumeAttachment) -> str:
    """Its PersistentVolume, or the handle of the volume that it describes itself."""
    source = attachment.spec.source
    inline = source.inline_volume_spec.csi if source.inline_volume_spec is not None else None
    return inline.volume_handle if inline is not None else source.persistent_volume_name or ""


def _stage(place: _Place) -> str:
    if place.published:
        return "Published"
    if place.mounted.is_staged:
        return "Staged"
    return "Attached" if place.is_attached else "Bound"


def _unique(pv: PersistentVolume) -> str:
    return unique_name(pv.spec.csi.driver, pv.spec.csi.volume_handle) if pv.spec.csi is not None else ""


def _shown(claim: Key | None) -> str:
    """Without the usual namespace."""
    return "" if claim is None else claim.name if claim.namespace == "default" else str(claim)


def _names(pods: Sequence[Pod]) -> str:
    """`pod a`; `pods a, b and 3 more`."""
    names = sorted(pod.metadata.name for pod in pods)
    more = f" and {len(names) - PODS_SHOWN} more" if len(names) > PODS_SHOWN else ""
    return f"pod{'s' if len(names) > 1 else ''} {', '.join(names[:PODS_SHOWN])}{more}"


_GROWING: Final = (CONTROLLER_ERROR, NODE_ERROR, FS_PENDING)
_MODIFYING: Final = (MODIFY_ERROR,)
"""The conditions that say what is waited for."""


def change_of(claim: PersistentVolumeClaim) -> tuple[str, str]:
    """The stage and the claim's own words about it; "" for a claim that stays as it is."""
    if (claim.status.allocated_resource_statuses or {}).get(STORAGE):
        return "Growing", _words(
            claim, _GROWING
        ) or f"to {(claim.status.allocated_resources or {}).get(STORAGE, 'another size')}"
    change = claim.status.modify_volume_status
    if change is not None:
        return "Modifying", _words(
            claim, _MODIFYING
        ) or f"to the class {change.target_volume_attributes_class_name}: {change.status}"
    return "", ""


def _words(claim: PersistentVolumeClaim, kinds: Sequence[str]) -> str:
    found = {one.type: one.message for one in claim.status.conditions or () if one.status == "True"}
    return next((found[kind] for kind in kinds if found.get(kind)), "")
