"""Whether a pod names a disk itself that another pod of the node names, too: kube-scheduler's VolumeRestrictions filter. Pure.

It concerns four kinds: a GCE disk, an iSCSI or a Ceph volume may have several readers and no writer, an EBS volume one user.
"""

from __future__ import annotations

from mooring.api.pods import Pod, Volume
from mooring.cluster.binder.scheduling.view import View


def has_conflict(view: View, pod: Pod, node_name: str) -> bool:
    """True when a pod on the node has a disk that this pod can't share with it."""
    disks = [volume for volume in pod.spec.volumes or () if _is_restricted(volume)]
    if not disks:
        return False
    there = [volume for other in view.pods_on(node_name) for volume in other.spec.volumes or () if _is_restricted(volume)]
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
