"""The objects that a removed driver's attacher still holds by its finalizer: which may go, and what keeps the others. Pure.

The attacher's finalizer says that a volume may be attached somewhere. Without an attacher nobody will ever find out. So the finalizer may
go only if no known fact speaks against that; each obstacle comes with the next step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import annotation, finalizers_of, is_deleting
from mooring.api.migration import driver_and_handle
from mooring.api.names import sanitised
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.api.volume_names import split_unique_name, unique_name
from mooring.base.clock import parse_rfc3339
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION

_NAMED_MAX: Final = 5
"""So many nodes, pods or attachments are named in one sentence."""


def finalizer_of(driver: str) -> str:
    """The finalizer that the driver's attacher puts on objects. Drivers whose names differ in dots alone have the same one."""
    return "external-attacher/" + sanitised(driver)


class LiveLease(msgspec.Struct, frozen=True):
    """A Lease of one of the driver's sidecars that is held, or may be. name: with its namespace. why: it counts as held.

    is_watched: it was, and somebody has renewed it meanwhile.
    """

    name: str
    holder: str
    why: str
    is_watched: bool = True


class Traces(msgspec.Struct, frozen=True):
    """The traces of a driver that one look has found.

    registered_on: nodes whose CSINode names it. in_use: each Node, with the volumes that its kubelet reports as in use.
    attachments, volumes: of the driver, held or not. users: volume → the pods on nodes that use it. silent_leases: of its sidecars, held
    by nobody who renews them. last_renewals: by Lease. out_of_service: nodes of which somebody has stated that the machine is off,
    and that are not Ready.
    """

    driver: str
    is_installed: bool
    registered_on: tuple[str, ...]
    in_use: Mapping[str, frozenset[str]]
    attachments: tuple[VolumeAttachment, ...]
    volumes: tuple[PersistentVolume, ...]
    users: Mapping[str, tuple[str, ...]]
    live_leases: tuple[LiveLease, ...] = ()
    silent_leases: tuple[str, ...] = ()
    last_renewals: Mapping[str, str] = msgspec.field(default_factory=dict)
    out_of_service: frozenset[str] = frozenset()


class SignOfLife(msgspec.Struct, frozen=True):
    """A sign that the driver is not gone. way_out: what to do about it."""

    text: str
    way_out: str


class HeldObject(msgspec.Struct, frozen=True):
    """An object with the finalizer. kept: why it has to stay so, "" for nothing. others: further finalizers on it. after: the attachments
    that have to be free first.
    """

    obj: VolumeAttachment | PersistentVolume
    volume: str
    node: str
    kept: str
    way_out: str
    others: tuple[str, ...] = ()
    after: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.obj.metadata.name

    @property
    def kind(self) -> str:
        return (VOLUME_ATTACHMENTS if isinstance(self.obj, VolumeAttachment) else PERSISTENT_VOLUMES).name

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.obj.metadata.uid


class LeftBehind(msgspec.Struct, frozen=True):
    """The report. held: attachments first, for their volumes can go only after them."""

    driver: str
    obstacles: tuple[SignOfLife, ...]
    held: tuple[HeldObject, ...]

    def free(self) -> tuple[HeldObject, ...]:
        """All that may go, once there is no obstacle."""
        return tuple(one for one in self.held if not one.kept)


def judged(scene: Traces, detached: Collection[str] = ()) -> LeftBehind:
    """detached: names of attachments whose volumes are detached, as somebody has seen at the storage."""
    attachments = tuple(_held_attachments(scene, detached))
    volumes = tuple(_held_volumes(scene, {one.name: one for one in attachments}))
    return LeftBehind(scene.driver, tuple(_obstacles(scene)), (*attachments, *volumes))


def _obstacles(scene: Traces) -> Iterator[SignOfLife]:
    driver = scene.driver
    if scene.is_installed:
        yield SignOfLife(
            f"its CSIDriver object {driver} is there", f"remove the driver, then kubectl delete csidriver {driver}"
        )
    if scene.registered_on:
        yield SignOfLife(
            f"it is registered on {_some(scene.registered_on)}",
            "delete its DaemonSet: the kubelets take the entries out of the CSINodes; of a machine that is gone, delete the Node",
        )
    for lease in scene.live_leases:
        yield SignOfLife(
            f"the Lease {lease.name} is held by {lease.holder}: {lease.why}",
            "delete the Deployment or StatefulSet with the driver's sidecars",
        )


def _held_attachments(scene: Traces, detached: Collection[str]) -> Iterator[HeldObject]:
    volumes = {pv.metadata.name: pv for pv in scene.volumes}
    for one in sorted(scene.attachments, key=lambda attachment: attachment.metadata.name):
        if finalizer_of(scene.driver) in finalizers_of(one):
            handle = handle_of(one, volumes)
            kept, way_out = _keeps_attachment(scene, one, handle, detached)
            yield HeldObject(one, handle, one.spec.node_name, kept, way_out, _others(scene, one))


def _keeps_attachment(scene: Traces, one: VolumeAttachment, handle: str, detached: Collection[str]) -> tuple[str, str]:
    """Why it has to stay and what to do about that, "" for nothing."""
    name, node = one.metadata.name, one.spec.node_name
    if not is_deleting(one):
        return (
            "it is not being deleted, so a pod may want it",
            f"delete its pods; if it stays: kubectl delete volumeattachment {name}",
        )
    if node in nodes_in_use(scene, handle):
        return _reported(node)
    if node in scene.in_use and name not in detached:
        return _maybe_attached(one), f"detach it there by the storage's own means, then name it: --detached={name}"
    return "", ""


def _maybe_attached(one: VolumeAttachment) -> str:
    """An attacher writes its finalizer and the node's id at once, before the first call: with the finalizer a call may have begun."""
    node, node_id = one.spec.node_name, annotation(one, NODE_ID_ANNOTATION)
    text = f"its volume may be attached to {node}" + (f" (node id {node_id})" if node_id else "")
    if one.status.attached:
        return text
    return f"{text}: it is not marked attached, but the attach had begun" + (
        "" if node_id else ", and its node's id was taken away since"
    )


def _held_volumes(scene: Traces, held: Mapping[str, HeldObject]) -> Iterator[HeldObject]:
    for pv in sorted(scene.volumes, key=lambda volume: volume.metadata.name):
        if finalizer_of(scene.driver) in finalizers_of(pv):
            _, handle = driver_and_handle(pv)
            of_it = [one for one in scene.attachments if _is_of(one, pv.metadata.name, handle)]
            kept, way_out = _keeps_volume(scene, pv, of_it, held)
            after = frozenset(one.metadata.name for one in of_it if one.metadata.name in held)
            yield HeldObject(pv, handle, "", kept, way_out, _others(scene, pv), after)


def _keeps_volume(
    scene: Traces, pv: PersistentVolume, of_it: Collection[VolumeAttachment], held: Mapping[str, HeldObject]
) -> tuple[str, str]:
    pods = scene.users.get(pv.metadata.name, ())
    if pods:
        return f"it is in use by {_some(pods)}", "delete the pods"
    for node in nodes_in_use(scene, driver_and_handle(pv)[1]):
        return _reported(node)
    staying = [
        one.metadata.name
        for one in of_it
        if (held[one.metadata.name].kept if one.metadata.name in held else not is_deleting(one))
    ]
    if staying:
        return f"VolumeAttachment {_some(staying)} names it", "first see to that"
    return "", ""


def nodes_in_use(scene: Traces, handle: str) -> Iterator[str]:
    """The nodes that report the volume as in use; for an unknown one, any volume of the driver."""
    wanted = unique_name(scene.driver, handle) if handle else ""
    for node, names in scene.in_use.items():
        if wanted in names if wanted else any((split_unique_name(name) or ("",))[0] == scene.driver for name in names):
            yield node


def _reported(node: str) -> tuple[str, str]:
    return (
        f"the kubelet of {node} reports it as in use",
        f"end its pods there; if the machine is gone: kubectl delete node {node}",
    )


def handle_of(one: VolumeAttachment, volumes: Mapping[str, PersistentVolume]) -> str:
    """ "" where the volume is not known any more. volumes: by name."""
    source = one.spec.source
    if source.persistent_volume_name:
        pv = volumes.get(source.persistent_volume_name)
        return driver_and_handle(pv)[1] if pv is not None and not _is_made_after(pv, one) else ""
    inline = source.inline_volume_spec
    return inline.csi.volume_handle if inline and inline.csi else ""


def _is_made_after(pv: PersistentVolume, one: VolumeAttachment) -> bool:
    """True for another volume than the one that was attached: only its name is the same."""
    made, attached = pv.metadata.creation_timestamp, one.metadata.creation_timestamp
    return bool(made and attached) and parse_rfc3339(made or "") > parse_rfc3339(attached or "")


def _is_of(one: VolumeAttachment, pv_name: str, handle: str) -> bool:
    return one.spec.source.persistent_volume_name == pv_name or (bool(handle) and handle_of(one, {}) == handle)


def _others(scene: Traces, obj: VolumeAttachment | PersistentVolume) -> tuple[str, ...]:
    return tuple(one for one in finalizers_of(obj) if one != finalizer_of(scene.driver))


def _some(names: Collection[str]) -> str:
    named = sorted(names)
    more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    return ", ".join(named[:_NAMED_MAX]) + more
