"""The desired state of a node: volumes, each pod's use of them, the growth that the node has to do; and which pods are
not looked at yet.

A volume is made from a PersistentVolume and its claim, from a pod's inline source, or, after a restart, from a record
on disk.

Growth: kubelet 1.36, pkg/volume/util/operationexecutor/node_expander.go. The resizer hands over by the claim's
allocated resources and their status; a claim without either was grown by an old resizer, and the node compares sizes. A
volume that several nodes mount is grown on each of them: one of them writes the claim, the others see by its size that
they have their own part still to do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

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


class Growth(msgspec.Struct, frozen=True):
    """The growth that the node has to do for one claim.

    size: a quantity as text, as it is going to stand in the claim. in_progress: the claim says already that the node is
    at work. is_old: from a resizer that sets no status. is_written: the claim has this size already, by the work of
    another node. requested: what the claim asks for by now. claim_uid: of the claim.
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


class Volume(msgspec.Struct, frozen=True):
    """One volume on this node.

    unique: its name in volumesInUse, and the key of all work on it. handle: the driver's id. spec_name: the
    PersistentVolume's name, or the pod's for an inline volume. is_block: a raw device. is_inline: it lives and dies
    with one pod. is_known: False for what a record alone tells of: enough to take it away, not to mount it. growth:
    what the node is to do for its size. size_bytes: of its claim, 0 for none. affinity: the nodes that can reach it,
    None for all.
    """

    unique: str
    driver: str
    handle: str
    spec_name: str
    is_block: bool = False
    is_inline: bool = False
    is_known: bool = True
    fs_type: str = ""
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
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
        return (
            msgspec.structs.replace(self, mount_options=(*self.mount_options, f'context="{label}"')) if label else self
        )

    @property
    def is_for_one_pod(self) -> bool:
        return self.access_modes == (READ_WRITE_ONCE_POD,)


class PodUse(msgspec.Struct, frozen=True):
    """One pod's wish for one volume.

    volume_name: the volume's name in the pod. spec_name: of the Volume that it wants. claim: its claim's name, "" for
    an inline volume. read_only: as the pod says, which is not what the PersistentVolume says. fs_group,
    fs_group_policy: of the pod's security context. label: the SELinux label that it wants the volume under, "" for any.
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
    """True when two PersistentVolumes of one handle can have it on a node at the same time; the folders of raw devices
    are of one alone.
    """
    return one.spec_name == other.spec_name or not (one.is_block or other.is_block)


def decide_growth(claim: PersistentVolumeClaim, pv: PersistentVolume) -> Growth | None:
    """The growth that is due on the node, None for none. With `is_written` it is due only where the node knows a
    smaller size.
    """
    status, meta = claim.status, claim.metadata
    allocated, step = (status.allocated_resources or {}).get("storage"), resize_step(claim)
    requested = (claim.spec.resources.requests or {}).get("storage", "")
    growth = functools.partial(
        Growth, meta.namespace, meta.name, meta.resource_version, requested=requested, claim_uid=meta.uid
    )
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
    metadata=slim(),
    spec=slim("access_modes"),
    status=slim(allocated_resource_statuses=only("storage"), capacity=only("storage")),
)
"""The part of a claim that `is_the_nodes_turn` reads."""


def is_the_nodes_turn(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """True for a change that hands the claim over to the nodes, or by which one of them has told the others that it has
    grown.
    """
    if old is None:
        return False
    if resize_step(new) == PENDING and resize_step(old) != PENDING:
        return True
    return "ReadWriteMany" in (new.spec.access_modes or ()) and old.status.capacity != new.status.capacity


def resize_step(claim: PersistentVolumeClaim) -> str:
    """The status of the resize as the claim gives it, "" for none."""
    return (claim.status.allocated_resource_statuses or {}).get("storage", "")


def size_bytes_of(claim: PersistentVolumeClaim) -> int:
    """The volume's size as the claim's status gives it, 0 for none."""
    has = (claim.status.capacity or {}).get("storage")
    return math.ceil(parse_quantity(has).value) if has else 0


class DesiredState:
    """changed: called with a volume's unique name when a pod's wish for it has come, changed or gone.

    known: called when something that a pod wants has become known, or does not matter any more.
    """

    def __init__(self, changed: Callable[[str], None], known: Callable[[], None] = lambda: None) -> None:
        self._changed, self._known = changed, known
        self._volumes: dict[
            str, dict[str, Volume]
        ] = {}  # by volume, then by PersistentVolume: several may name one volume
        self._uses: dict[str, dict[str, PodUse]] = {}  # by volume, then by pod
        self._of_pod: dict[str, frozenset[str]] = {}  # the volumes of each pod that was looked at
        self._unseen: set[str] = set()  # pods that are there, and were not looked at yet
        self._first: set[str] = set()  # those of them that were there at the start
        self._has_begun = False
        self._incomplete: set[str] = set()  # pods of which not every volume could be found out

    def begin(self) -> None:
        """Every pod that is there has appeared; those that appear from now on have nothing here yet."""
        self._has_begun = True

    def appeared(self, pod_uid: str) -> None:
        """The pod is there, and is going to be looked at: what it has stays as it is until then."""
        if pod_uid not in self._of_pod:
            self._unseen.add(pod_uid)
            if not self._has_begun:
                self._first.add(pod_uid)

    def set(self, pod_uid: str, wanted: Mapping[str, tuple[Volume, PodUse]], *, is_complete: bool = True) -> None:
        """Replaces the pod's wishes, by unique name. is_complete: False while it may want more."""
        was_looked_at, was_unsure = pod_uid in self._of_pod, self.is_unsure(pod_uid)
        self._unseen.discard(pod_uid)
        self._first.discard(pod_uid)
        (self._incomplete.discard if is_complete else self._incomplete.add)(pod_uid)
        before = self._of_pod.get(pod_uid, frozenset())
        self._of_pod[pod_uid] = frozenset(wanted)
        for unique in sorted(before - wanted.keys()):
            self._drop(unique, pod_uid)
        for unique, (volume, use) in wanted.items():
            uses, volumes = self._uses.setdefault(unique, {}), self._volumes.setdefault(unique, {})
            if uses.get(pod_uid) != use or self.volume_of(unique, pod_uid) != volume:
                uses[pod_uid] = use
                volumes[volume.spec_name] = volume
                self._tidy(unique)
                self._changed(unique)
        self._learnt(not was_looked_at or (was_unsure and is_complete))

    def gone(self, pod_uid: str) -> None:
        """The pod wants nothing any more."""
        was_unsure = self.is_unsure(pod_uid)
        self._unseen.discard(pod_uid)
        self._first.discard(pod_uid)
        self._incomplete.discard(pod_uid)
        for unique in sorted(self._of_pod.pop(pod_uid, frozenset())):
            self._drop(unique, pod_uid)
        self._learnt(was_unsure)

    def volume(self, unique: str, spec_name: str = "") -> Volume | None:
        """The volume as its pods name it, None for none. spec_name: as this PersistentVolume has it, where a pod wants
        it by that.
        """
        volumes = self._volumes.get(unique, {})
        return volumes.get(spec_name) or next(iter(volumes.values()), None)

    def volume_of(self, unique: str, pod_uid: str) -> Volume | None:
        """The volume by the pod's own PersistentVolume, None when the pod does not want it."""
        use = self.uses(unique).get(pod_uid)
        return None if use is None else self._volumes[unique].get(use.spec_name)

    def uses(self, unique: str) -> Mapping[str, PodUse]:
        """The pods' uses of the volume, by pod uid."""
        return self._uses.get(unique, {})

    def clashing(self, volume: Volume) -> dict[str, str]:
        """The pods that name the volume by a PersistentVolume that can't share it with this one, to its name."""
        own = ((uid, self.volume_of(volume.unique, uid)) for uid in self.uses(volume.unique))
        return {uid: one.spec_name for uid, one in own if one is not None and not shares(volume, one)}

    def of_pod(self, pod_uid: str) -> Mapping[str, Volume]:
        """The volumes that the pod wants, by unique name."""
        wanted = ((unique, self.volume_of(unique, pod_uid)) for unique in sorted(self._of_pod.get(pod_uid, ())))
        return {unique: volume for unique, volume in wanted if volume is not None}

    def is_unsure(self, pod_uid: str) -> bool:
        """True for a pod that is alive and of which it is not known yet, or not wholly, what it wants."""
        return pod_uid in self._incomplete or pod_uid in self._unseen

    def tells(self, pod_uid: str) -> bool:
        """True for a pod that is alive and of which everything that it wants is known."""
        return pod_uid in self._of_pod and pod_uid not in self._incomplete

    @property
    def has_unseen(self) -> bool:
        """True while a pod that was there at the start was not looked at."""
        return bool(self._first)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(next(iter(volumes.values())) for volumes in self._volumes.values())

    def _learnt(self, has_become_known: bool) -> None:
        if has_become_known and not self._first:
            self._known()

    def _drop(self, unique: str, pod_uid: str) -> None:
        self._uses.get(unique, {}).pop(pod_uid, None)
        self._tidy(unique)
        self._changed(unique)

    def _tidy(self, unique: str) -> None:
        """Forgets what no pod wants any more."""
        wanted = {use.spec_name for use in self.uses(unique).values()}
        self._volumes[unique] = {
            name: volume for name, volume in self._volumes.get(unique, {}).items() if name in wanted
        }
        if not wanted:
            del self._volumes[unique]
            self._uses.pop(unique, None)
