"""Whether a pod may be on a node: by itself, by the disks that it names, and by the number of its volumes. Pure.

A disk that a pod names itself may be named by another pod of the node, too (kube-scheduler's VolumeRestrictions
filter): of four kinds, a GCE disk, an iSCSI or a Ceph volume may have several readers and no writer, an EBS volume one
user.

The limits of volumes are those that drivers report in CSINode. Differs from kube-scheduler: a volume that is attached
to the node already, by a VolumeAttachment alone, is not counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mooring.api.binding import claims_of
from mooring.api.classes import class_of
from mooring.api.core import Node, PersistentVolumeClaim, Taint
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.matching import node_matches, tolerates
from mooring.api.meta import Key, key_of
from mooring.api.migration import driver_in_place_of, source_as_csi
from mooring.api.nodes import FALSE, UNKNOWN, readiness
from mooring.api.pods import Pod, Toleration, Volume
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.view import BY_NODE

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_UNREADY = {
    FALSE: Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"),
    UNKNOWN: Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule"),
}
"""The taint that a node has soon by the status of its condition Ready. A node that reports nothing counts as ready."""


def why_not_here(pod: Pod, node: Node) -> str:
    """The reason why the pod can't be on this node, "" for none. Resources, ports and affinity to other pods don't
    count here.
    """
    tolerations = pod.spec.tolerations or ()
    if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE, tolerations):
        return why.UNSCHEDULABLE
    if any(
        taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations)
        for taint in node.spec.taints or ()
    ):
        return why.TAINTED
    unready = _UNREADY.get(readiness(node))
    if unready is not None and not _tolerated(unready, tolerations):  # the pod of its network may be what it lacks
        return why.NOT_READY
    return "" if _wanted(pod, node) else why.SELECTOR


def _wanted(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or node_matches(required, labels, node.metadata.name)


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(one, taint) for one in tolerations)


# -- limits of volumes

Unique = tuple[str, str]
"""Driver, and the identity of one of its volumes."""


def exceeds_limits(view: View, pod: Pod, node_name: str) -> bool:
    """True when the pod's volumes are too many for one of their drivers on this node."""
    limits = _limits(view, node_name)
    if not limits:
        return False
    wanted = {one for one in volumes_of(view, pod) if one[0] in limits}
    if not wanted:
        return False
    in_use = set(_attached(view, node_name))
    for other in view.pods_on(node_name):
        in_use.update(volumes_of(view, other))
    new = Counter(driver for driver, _ in wanted - in_use)
    have = Counter(driver for driver, _ in in_use)
    return any(have[driver] + count > limits[driver] for driver, count in new.items())


def _limits(view: View, node_name: str) -> dict[str, int]:
    node = view.csi_nodes.get(Key("", node_name))
    drivers = node.spec.drivers or () if node is not None else ()
    return {
        one.name: one.allocatable.count
        for one in drivers
        if one.allocatable is not None and one.allocatable.count is not None
    }


def volumes_of(view: View, pod: Pod) -> Iterator[Unique]:
    """The pod's volumes of CSI drivers, the in-tree disks that it defines itself too; a volume that is still to be made
    is known by its claim.
    """
    for pv in inline_volumes_of(pod):
        if pv.spec.csi is not None:
            yield pv.spec.csi.driver, pv.spec.csi.volume_handle
    found: Iterable[PersistentVolumeClaim | None] = (view.claims.get(key) for key in claims_of(pod))
    for claim in found:
        unique = _volume_of(view, claim) if claim is not None else None
        if unique is not None:
            yield unique


def _volume_of(view: View, claim: PersistentVolumeClaim) -> Unique | None:
    pv = view.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if pv is not None:
        source = source_as_csi(pv)
        return None if source is None else (source.driver, source.volume_handle)
    storage_class = view.storage_class(class_of(claim))
    if storage_class is None:
        return None
    return driver_in_place_of(storage_class.provisioner), f"claim {key_of(claim)}"


def _attached(view: View, node_name: str) -> Iterator[Unique]:
    for attachment in view.attachments.by(BY_NODE, node_name):
        pv, inline = (
            view.volumes.get(attachment.spec.source.persistent_volume_name or ""),
            attachment.spec.source.inline_volume_spec,
        )
        source = source_as_csi(pv) if pv is not None else None if inline is None else inline.csi
        if source is not None:
            yield attachment.spec.attacher, source.volume_handle


def has_conflict(view: View, pod: Pod, node_name: str) -> bool:
    """True when a pod on the node has a disk that this pod can't share with it."""
    disks = [volume for volume in pod.spec.volumes or () if _is_restricted(volume)]
    if not disks:
        return False
    there = [
        volume for other in view.pods_on(node_name) for volume in other.spec.volumes or () if _is_restricted(volume)
    ]
    return any(_clash(one, other) for one in disks for other in there)


def _is_restricted(volume: Volume) -> bool:
    return bool(volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.iscsi or volume.rbd)


def _clash(one: Volume, other: Volume) -> bool:
    if one.gce_persistent_disk and other.gce_persistent_disk:
        gce, there = one.gce_persistent_disk, other.gce_persistent_disk
        return gce.pd_name == there.pd_name and not (gce.read_only and there.read_only)
    if one.aws_elastic_block_store and other.aws_elastic_block_store:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi and other.iscsi:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd and other.rbd:
        image, its = one.rbd, other.rbd
        is_same = set(image.monitors) & set(its.monitors) and (image.pool, image.image) == (its.pool, its.image)
        return bool(is_same) and not (image.read_only and its.read_only)
    return False
