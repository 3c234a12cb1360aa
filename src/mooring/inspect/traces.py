"""The traces that a driver leaves in a cluster, and what they say of one object: why its volume may still be attached.
Pure.

The attacher's finalizer says that a volume may be attached somewhere. It may go only if no known fact speaks against
that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mooring.api.core import PersistentVolume
from mooring.api.meta import annotation, finalizers_of, is_deleting
from mooring.api.migration import driver_and_handle
from mooring.api.names import sanitised
from mooring.api.storage import VolumeAttachment
from mooring.api.volume_names import split_unique_name, unique_name
from mooring.base.clock import parse_rfc3339
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION


def finalizer_of(driver: str) -> str:
    """The finalizer that the driver's attacher puts on objects. Drivers whose names differ in dots alone have the same
    one.
    """
    return "external-attacher/" + sanitised(driver)


class LiveLease(msgspec.Struct, frozen=True):
    """A Lease of one of the driver's sidecars that is held, or may be. name: with its namespace. why: it counts as
    held.

    is_watched: it was, and somebody has renewed it meanwhile.
    """

    name: str
    holder: str
    why: str
    is_watched: bool = True


class Traces(msgspec.Struct, frozen=True):
    """The traces of a driver that one look has found.

    registered_on: nodes whose CSINode names it. in_use: each Node, with the volumes that its kubelet reports as in use.
    attachments, volumes: of the driver; the volumes by name. users: volume → the pods on nodes that use it.
    silent_leases: of its sidecars, held by nobody who renews them. last_renewals: by Lease. out_of_service: nodes of
    which somebody has stated that the machine is off, and that are not Ready.
    """

    driver: str
    is_installed: bool
    registered_on: tuple[str, ...]
    in_use: Mapping[str, frozenset[str]]
    attachments: tuple[VolumeAttachment, ...]
    volumes: Mapping[str, PersistentVolume]
    users: Mapping[str, tuple[str, ...]]
    live_leases: tuple[LiveLease, ...] = ()
    silent_leases: tuple[str, ...] = ()
    last_renewals: Mapping[str, str] = msgspec.field(default_factory=dict)
    out_of_service: frozenset[str] = frozenset()


def keeps_attachment(traces: Traces, one: VolumeAttachment, *, is_free: bool) -> str:
    """Why its volume may be attached, "" for no reason. is_free: the driver or its node's end says that it is not."""
    node = one.spec.node_name
    if node in nodes_in_use(traces, handle_of(one, traces.volumes)):
        return reported_by(node)
    return "" if is_free or node not in traces.in_use else _maybe_attached(one)


def _maybe_attached(one: VolumeAttachment) -> str:
    """An attacher writes its finalizer and the node's id at once, before the first call: with the finalizer a call may
    have begun.
    """
    node, node_id = one.spec.node_name, annotation(one, NODE_ID_ANNOTATION)
    text = f"its volume may be attached to {node}" + (f" (node id {node_id})" if node_id else "")
    if one.status.attached:
        return text
    return f"{text}: it is not marked attached, but the attach had begun" + (
        "" if node_id else ", and its node's id was taken away since"
    )


def keeping_attachments(traces: Traces, pv: PersistentVolume) -> list[str]:
    """The names of the attachments of the volume that hold it, or are about to."""
    _, handle = driver_and_handle(pv)
    return sorted(
        one.metadata.name
        for one in traces.attachments
        if _is_of(one, pv.metadata.name, handle)
        and (finalizer_of(traces.driver) in finalizers_of(one) or not is_deleting(one))
    )


def nodes_in_use(traces: Traces, handle: str) -> Iterator[str]:
    """The nodes that report the volume as in use; for an unknown one, any volume of the driver."""
    wanted = unique_name(traces.driver, handle) if handle else ""
    for node, names in traces.in_use.items():
        if wanted in names if wanted else any((split_unique_name(name) or ("",))[0] == traces.driver for name in names):
            yield node


def reported_by(node: str) -> str:
    return f"the kubelet of {node} reports it as in use"


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
