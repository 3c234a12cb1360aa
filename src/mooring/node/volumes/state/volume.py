"""A volume as a node sees it, a pod's wish for it, and the growth that the node has to do. Pure.

A volume is made from a PersistentVolume and its claim, from a pod's inline source, or, after a restart, from a record on disk.

Growth: kubelet 1.36, pkg/volume/util/operationexecutor/node_expander.go. The resizer hands over by the claim's allocated resources and
their status; a claim without either was grown by an old resizer, and the node compares sizes. A volume that several nodes mount is grown
on each of them: one of them writes the claim, the others see by its size that they have their own part still to do.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Final

from mooring.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim, SecretReference
from mooring.api.pods import CSIVolumeSource
from mooring.api.quantity import parse_quantity
from mooring.api.volume_names import unique_name
from mooring.control.slim import only, slim
from mooring.node.layout import inline_unique_name, inline_volume_id

READ_WRITE_ONCE: Final = "ReadWriteOnce"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
PENDING: Final = "NodeResizePending"
IN_PROGRESS: Final = "NodeResizeInProgress"
NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""Annotation of a claim whose driver has grown the volume without its nodes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """What the node is to do for one claim.

    size: a quantity as text, as it is going to stand in the claim. in_progress: the claim says already that the node is at work.
    is_old: from a resizer that sets no status. is_written: the claim has this size already, by the work of another node.
    requested: what the claim asks for by now. claim_uid: of the claim.
    """

    namespace: str
    claim: str
    claim_version: str
    size: str
    in_progress: bool = False
    is_old: bool = False
    is_written: bool = False
    requested: str = ""
    claim_uid: str = ""

    @property
    def size_bytes(self) -> int:
        return math.ceil(parse_quantity(self.size).value)

    @property
    def is_another_size_wanted(self) -> bool:
        return bool(self.requested) and parse_quantity(self.requested).value != parse_quantity(self.size).value


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """One volume on this node.

    unique: its name in volumesInUse, and the key of all work on it. handle: the driver's id. spec_name: the PersistentVolume's name, or
    the pod's for an inline volume. is_block: a raw device. is_inline: it lives and dies with one pod. is_known: False for what a record
    alone tells of: enough to take it away, not to mount it. growth: what the node is to do for its size. size_bytes: of its claim, 0 for
    none. affinity: the nodes that can reach it, None for all.
    """

    unique: str
    driver: str
    handle: str
    spec_name: str
    is_block: bool = False
    is_inline: bool = False
    is_known: bool = True
    fs_type: str = ""
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    mount_options: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = (READ_WRITE_ONCE,)
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None
    expand_secret: SecretReference | None = None
    growth: Growth | None = None
    size_bytes: int = 0
    affinity: NodeSelector | None = None

    @property
    def access_mode(self) -> str:
        return self.access_modes[0] if self.access_modes else READ_WRITE_ONCE

    def labelled(self, label: str) -> Volume:
        """The volume with the mount option for this SELinux label; "" adds none."""
        return dataclasses.replace(self, mount_options=(*self.mount_options, f'context="{label}"')) if label else self

    @property
    def is_for_one_pod(self) -> bool:
        return self.access_modes == (READ_WRITE_ONCE_POD,)


@dataclasses.dataclass(frozen=True, slots=True)
class PodUse:
    """One pod's wish for one volume.

    volume_name: the volume's name in the pod. spec_name: of the Volume that it wants. claim: its claim's name, "" for an inline volume.
    read_only: as the pod says, which is not what the PersistentVolume says. fs_group, fs_group_policy: of the pod's security context.
    label: the SELinux label that it wants the volume under, "" for any.
    """

    uid: str
    namespace: str
    name: str
    volume_name: str
    claim: str = ""
    service_account: str = ""
    read_only: bool = False
    fs_group: int | None = None
    fs_group_policy: str = ""
    label: str = ""
    spec_name: str = ""


def of_persistent_volume(pv: PersistentVolume, growth: Growth | None = None, size_bytes: int = 0) -> Volume:
    """pv: has a CSI source. size_bytes: of its claim."""
    source = pv.spec.csi
    assert source is not None
    return Volume(
        unique=unique_name(source.driver, source.volume_handle),
        driver=source.driver,
        handle=source.volume_handle,
        spec_name=pv.metadata.name,
        is_block=pv.spec.volume_mode == "Block",
        fs_type=source.fs_type,
        attributes=source.volume_attributes or {},
        mount_options=pv.spec.mount_options or (),
        access_modes=pv.spec.access_modes or (READ_WRITE_ONCE,),
        stage_secret=source.node_stage_secret_ref,
        publish_secret=source.node_publish_secret_ref,
        expand_secret=source.node_expand_secret_ref,
        growth=growth,
        size_bytes=size_bytes,
        affinity=pv.spec.node_affinity.required if pv.spec.node_affinity is not None else None,
    )


def of_inline_source(source: CSIVolumeSource, *, pod_uid: str, pod_namespace: str, volume_name: str) -> Volume:
    secret = source.node_publish_secret_ref
    return Volume(
        unique=inline_unique_name(pod_uid, volume_name),
        driver=source.driver,
        handle=inline_volume_id(pod_uid, volume_name),
        spec_name=volume_name,
        is_inline=True,
        fs_type=source.fs_type or "",
        attributes=source.volume_attributes or {},
        publish_secret=SecretReference(name=secret.name, namespace=pod_namespace) if secret is not None else None,
    )


def shares(one: Volume, other: Volume) -> bool:
    """True when two PersistentVolumes of one handle can have it on a node at the same time; the folders of raw devices are of one alone."""
    return one.spec_name == other.spec_name or not (one.is_block or other.is_block)


def decide_growth(claim: PersistentVolumeClaim, pv: PersistentVolume) -> Growth | None:
    """What is due on the node, None for nothing. What `is_written` is due only where the node knows the volume with a smaller size."""
    status, meta = claim.status, claim.metadata
    allocated, step = (status.allocated_resources or {}).get("storage"), resize_step(claim)
    requested = (claim.spec.resources.requests or {}).get("storage", "")
    growth = functools.partial(Growth, meta.namespace, meta.name, meta.resource_version, requested=requested, claim_uid=meta.uid)
    if step in (PENDING, IN_PROGRESS) and allocated:
        return growth(allocated, in_progress=step == IN_PROGRESS)
    has, is_given = (status.capacity or {}).get("storage"), (pv.spec.capacity or {}).get("storage")
    if step or not has or not is_given:
        return None
    if parse_quantity(has).value < parse_quantity(is_given).value:
        return growth(is_given, is_old=True) if not allocated else None
    is_shared = "ReadWriteMany" in (pv.spec.access_modes or ()) and NOT_REQUIRED not in (meta.annotations or {})
    return growth(is_given, is_written=True) if is_shared else None


CLAIM: Final = slim(
    metadata=slim(), spec=slim("access_modes"), status=slim(allocated_resource_statuses=only("storage"), capacity=only("storage"))
)
"""The part of a claim that `is_the_nodes_turn` reads."""


def is_the_nodes_turn(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """True for a change that hands the claim over to the nodes, or by which one of them has told the others that it has grown."""
    if old is None:
        return False
    if resize_step(new) == PENDING and resize_step(old) != PENDING:
        return True
    return "ReadWriteMany" in (new.spec.access_modes or ()) and old.status.capacity != new.status.capacity


def resize_step(claim: PersistentVolumeClaim) -> str:
    """The status of the resize as the claim gives it, "" for none."""
    return (claim.status.allocated_resource_statuses or {}).get("storage", "")


def size_bytes_of(claim: PersistentVolumeClaim) -> int:
    """As the claim's status gives it, 0 for none."""
    has = (claim.status.capacity or {}).get("storage")
    return math.ceil(parse_quantity(has).value) if has else 0
