"""A volume as a node sees it, and the steps finished here, as far as anybody knows.

A volume is made from a PersistentVolume, from a pod's inline source, or, after a restart, from a record on disk. Its state is in memory;
after a restart it is read from the disk again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from mooring.api.core import NodeSelector, PersistentVolume, SecretReference
from mooring.api.pods import CSIVolumeSource
from mooring.api.volume_names import unique_name
from mooring.control.result import Because
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


class Stand(enum.Enum):
    """How far a step of the driver's has come. UNCERTAIN: it may have been done, wholly, in part or not at all; the records stay."""

    ABSENT = "absent"
    UNCERTAIN = "uncertain"
    DONE = "done"


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """The last failure, how often in a row it came, and when the step may be tried again (monotonic seconds).

    is_pending: the driver was at work on another call for the volume.
    """

    text: str
    count: int
    not_before: float
    is_pending: bool = False


@dataclasses.dataclass(slots=True)
class Publication:
    """The volume in one pod.

    spec_name: in whose folder. was_found: at a restart, and not published anew since. is_held: it is there, and the pod does not start
    before the volume has its size. told_size: the size of which users of a pod that only reads were told that it can't be had, "" for none.
    """

    spec_name: str
    stand: Stand
    was_found: bool = False
    is_outdated: bool = False
    is_held: bool = False
    told_size: str = ""
    failure: Failure | None = None


@dataclasses.dataclass(slots=True)
class VolumeState:
    """One volume.

    may_be_staged: the driver was asked to stage it, or is about to be; false for one that does not stage. label: the SELinux label that
    it is mounted with, "" for none. attachable: it needs an attachment.
    attachment: as this node has asked for it, where it attaches by itself. attach_wait: what that waits for, and until when.
    context: what the attacher noted for this node. size_bytes: that it has on this node, 0 while that is not known. grown: the version
    of the claim whose growth is done with. growth_was_refused: for good, at the last try or before. may_not_grow: the driver says that
    it is in use; not asked again until the volume has left the node.
    unattached_since: monotonic seconds, while pods wait for its attachment. at_work: the steps that are under way, to their reasons: by the
    uid of the pod that a step is for, "" for all of them. is_alone: the step under way excludes all others; taking it from one pod does not
    exclude taking it from another. is_walked: the driver has published it, and what is in it is being given a group.
    """

    volume: Volume
    device: Stand = Stand.ABSENT
    may_be_staged: bool = False
    label: str = ""
    device_was_found: bool = False
    attachable: bool = False
    attachment: Stand = Stand.ABSENT
    attach_wait: Failure | None = None
    context: Mapping[str, str] | None = None
    device_failure: Failure | None = None
    growth_failure: Failure | None = None
    growth_was_refused: bool = False
    size_bytes: int = 0
    grown: str = ""
    may_not_grow: bool = False
    unattached_since: float | None = None
    at_work: dict[str, Because] = dataclasses.field(default_factory=dict)
    is_alone: bool = False
    is_walked: bool = False
    publications: dict[str, Publication] = dataclasses.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True when nothing of the volume is on this node, or about to be."""
        return not self.at_work and self.device is Stand.ABSENT and all(one.stand is Stand.ABSENT for one in self.publications.values())

    @property
    def spec_names(self) -> frozenset[str]:
        """Of the PersistentVolumes that it is known by here; empty while only what is staged tells of it."""
        return frozenset({self.volume.spec_name, *(one.spec_name for one in self.publications.values())} - {""})

    @property
    def is_to_grow(self) -> bool:
        """True while the driver is to be asked, on this node, for the size that the claim is to have."""
        growth = self.volume.growth
        if growth is None or self.may_not_grow or self.grown == growth.claim_version:
            return False
        return not growth.is_written or self.size_bytes < growth.size_bytes

    def was_given_back(self, pod_uid: str, now: float) -> None:
        """The pod has it no more: the others whose calls the driver could not take meanwhile are due at once.

        They would come again all at the same moments, ever more seldom, and one of them alone would get through each time.
        """
        del self.publications[pod_uid]
        for one in self.publications.values():
            if one.failure is not None and one.failure.is_pending:
                one.failure = dataclasses.replace(one.failure, not_before=min(now, one.failure.not_before))

    def has(self, pod_uid: str) -> bool:
        """True when the volume is published to the pod, and nothing more is to be done with it before the pod starts."""
        one = self.publications.get(pod_uid)
        return one is not None and one.stand is Stand.DONE and not one.is_held
