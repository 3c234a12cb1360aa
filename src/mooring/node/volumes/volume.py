"""A volume as a node sees it: made from a PersistentVolume, from a pod's inline source, or, after a restart, from a record on disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from mooring.api.core import NodeSelector, PersistentVolume, SecretReference
from mooring.api.pods import CSIVolumeSource
from mooring.api.volume_names import unique_name
from mooring.node.layout import inline_unique_name, inline_volume_id
from mooring.node.volumes.expansion import Growth
from mooring.node.volumes.selinux import mount_options

READ_WRITE_ONCE: Final = "ReadWriteOnce"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"


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
        return dataclasses.replace(self, mount_options=(*self.mount_options, *mount_options(label))) if label else self

    @property
    def is_for_one_pod(self) -> bool:
        return self.access_modes == (READ_WRITE_ONCE_POD,)


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
