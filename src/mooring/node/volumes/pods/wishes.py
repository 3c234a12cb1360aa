"""A pod's wishes: the volumes that its claims name, and beside them those that it was given and keeps.

A pod keeps a volume until the pod goes, although its claims may name others by now: a claim was deleted by force, and
made anew under its name. The pod's containers use the first one. Source: kubelet 1.36,
desired_state_of_world_populator.go. Differs: the kubelet mounts the new volume, too, where no container sees it. The
agent does not, and tells the pod's users. It gives up an attempt that never succeeded for the new volume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.inline_volumes import translated_inline
from mooring.api.meta import Key
from mooring.api.migration import TranslationError, is_migratable, translated
from mooring.api.pods import FOREIGN_SOURCES, Pod
from mooring.api.pods import Volume as PodVolume
from mooring.api.storage import CSIDriverSpec
from mooring.base.errors import MooringError
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound
from mooring.node.drivers import Drivers
from mooring.node.volumes import reasons as why
from mooring.node.volumes.pods.selinux import LabelConflict, mount_label
from mooring.node.volumes.state.actual import Stand, VolumeState
from mooring.node.volumes.state.desired import (
    PodUse,
    Volume,
    decide_growth,
    of_inline_source,
    of_persistent_volume,
    size_bytes_of,
)
from mooring.node.volumes.steps.requests import EXPANDS

PodWishes: TypeAlias = Mapping[str, tuple[Volume, PodUse]]
"""The volumes that a pod wants, by unique name."""

BOUND: Final = "Bound"
PVC_PROTECTION: Final = "kubernetes.io/pvc-protection"


class UnusableVolume(MooringError):
    """A volume that the pod can't have as things are; str() is for the pod's event."""


def used_volumes(pod: Pod) -> tuple[tuple[PodVolume, bool, bool], ...]:
    """The pod's volumes that some container uses; each with whether it is used as a folder, and as a device.

    Volumes that bring nothing from outside are left out: a secret, a hostPath and the like.
    """
    mounted, devices = pod.spec.used
    used = mounted | devices
    return tuple(
        (volume, volume.name in mounted, volume.name in devices)
        for volume in pod.spec.volumes or ()
        if volume.name in used and _brings_storage(volume)
    )


def _brings_storage(volume: PodVolume) -> bool:
    return (
        bool(volume.csi or volume.persistent_volume_claim or volume.ephemeral)
        or is_migratable(volume)
        or _foreign_source(volume) != ""
    )


def _foreign_source(volume: PodVolume) -> str:
    """The kind of a volume that only a kubelet can mount, "" for another one."""
    return next((wire for field, wire in FOREIGN_SOURCES.items() if getattr(volume, field) is not None), "")


def claims_of(pod: Pod) -> frozenset[Key]:
    """The claims that the pod names, or that are made for it."""
    claims = (_claim_name(pod, volume) for volume in pod.spec.volumes or ())
    return frozenset(Key(pod.metadata.namespace, name) for name in claims if name)


def _claim_name(pod: Pod, volume: PodVolume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral else ""


class Wishes:
    """Finds out what a pod's volumes are: one GET for the claim and one for its PersistentVolume.

    driver_spec: of the CSIDriver by its name. labels_all: every volume of a driver that takes SELinux labels gets its
    pod's, not only those that one pod alone may use.
    """

    def __init__(
        self,
        cluster: Cluster,
        driver_spec: Callable[[str], CSIDriverSpec],
        drivers: Drivers,
        *,
        labels_all: bool = False,
    ) -> None:
        self._cluster, self._driver_spec, self._drivers, self._labels_all = cluster, driver_spec, drivers, labels_all
        self.default_label = ""  # until the host is known

    def may_change(self, volume: Volume) -> bool:
        """True for a volume that is published again and again, or may grow: a node may get claims, and not watch
        them.
        """
        return self._driver_spec(volume.driver).requires_republish or (
            not volume.is_inline and self._drivers.may_be_able(volume.driver, EXPANDS)
        )

    async def resolve(self, pod: Pod) -> tuple[PodWishes, Mapping[str, str]]:
        """The volumes that the pod wants, by unique name, and what is wrong with the rest, by its name in the pod."""
        wanted: dict[str, tuple[Volume, PodUse]] = {}
        problems: dict[str, str] = {}
        for pod_volume, is_mounted, is_device in used_volumes(pod):
            try:
                volume, use = await self._resolved(pod, pod_volume)
                _check_mode(volume, pod_volume.name, is_mounted=is_mounted, is_device=is_device)
                _check_other(volume, wanted.get(volume.unique))
            except (UnusableVolume, LabelConflict, TranslationError) as error:
                problems[pod_volume.name] = str(error)
            except ApiError as error:
                problems[pod_volume.name] = f'failed to get volume "{pod_volume.name}": {error}'
            else:
                wanted[volume.unique] = volume, use
        return wanted, problems

    async def _resolved(self, pod: Pod, pod_volume: PodVolume) -> tuple[Volume, PodUse]:
        if pod_volume.csi is not None:
            source = pod_volume.csi
            volume = of_inline_source(
                source, pod_uid=pod.metadata.uid, pod_namespace=pod.metadata.namespace, volume_name=pod_volume.name
            )
            return volume, _use(pod, pod_volume.name, volume, read_only=bool(source.read_only))
        if pod_volume.persistent_volume_claim is not None or pod_volume.ephemeral:
            return await self._claimed(pod, pod_volume)
        if kind := _foreign_source(pod_volume):
            raise UnusableVolume(
                f'volume "{pod_volume.name}" is of kind {kind}, for which no CSI driver stands; this agent '
                "mounts no others"
            )
        return self._own_disk(pod, pod_volume)

    async def _claimed(self, pod: Pod, pod_volume: PodVolume) -> tuple[Volume, PodUse]:
        claim = await self._claim(pod, pod_volume)
        pv = as_csi(await self._persistent_volume(claim))
        source_claim = pod_volume.persistent_volume_claim
        read_only = source_claim is not None and source_claim.read_only
        volume, name = of_persistent_volume(pv, decide_growth(claim, pv), size_bytes_of(claim)), claim.metadata.name
        label = "" if volume.is_block else self._label(pod, pod_volume.name, volume)
        return volume, _use(pod, pod_volume.name, volume, read_only=read_only, claim=name, label=label)

    def _own_disk(self, pod: Pod, pod_volume: PodVolume) -> tuple[Volume, PodUse]:
        """An in-tree source in the pod itself. Differs from the kubelet, which does not tell the driver's node that one
        is read-only.
        """
        pv = translated_inline(pod_volume, pod.metadata.namespace)
        assert pv.spec.csi is not None
        volume = of_persistent_volume(pv)
        label = self._label(pod, pod_volume.name, volume)
        return volume, _use(pod, pod_volume.name, volume, read_only=pv.spec.csi.read_only, label=label)

    def _label(self, pod: Pod, name: str, volume: Volume) -> str:
        """The SELinux label for a PersistentVolume's volume in the pod, "" for none. Raises LabelConflict."""
        if not self._driver_spec(volume.driver).se_linux_mount or not (volume.is_for_one_pod or self._labels_all):
            return ""
        return mount_label(self.default_label, pod, name)

    async def _claim(self, pod: Pod, pod_volume: PodVolume) -> PersistentVolumeClaim:
        source = pod_volume.persistent_volume_claim
        name = _claim_name(pod, pod_volume)
        where = f"error processing PVC {pod.metadata.namespace}/{name}"
        try:
            claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, name, pod.metadata.namespace)
        except NotFound as error:
            raise UnusableVolume(f"{where}: failed to fetch PVC from API server: {error}") from None
        if source is None and not any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references or ()):
            raise UnusableVolume(f"{where}: the PVC was not created for the pod (the pod is not its owner)")
        if claim.metadata.deletion_timestamp is not None and PVC_PROTECTION not in (claim.metadata.finalizers or ()):
            raise UnusableVolume(f"{where}: PVC is being deleted")
        if claim.status.phase != BOUND:
            raise UnusableVolume(f"{where}: PVC is not bound")
        if not claim.spec.volume_name:
            raise UnusableVolume(f"{where}: PVC has a phase of Bound and no volume name")
        return claim

    async def _persistent_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        where = f"error processing PVC {claim.metadata.namespace}/{claim.metadata.name}"
        try:
            pv = await self._cluster.get(PERSISTENT_VOLUMES, claim.spec.volume_name)
        except NotFound as error:
            raise UnusableVolume(
                f"{where}: failed to fetch PV {claim.spec.volume_name} from API server: {error}"
            ) from None
        if pv.spec.claim_ref is None:
            nil = "it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
            raise UnusableVolume(f"{where}: found PV object {pv.metadata.name} but {nil}")
        if pv.spec.claim_ref.uid != claim.metadata.uid:
            raise UnusableVolume(
                f"{where}: found PV object {pv.metadata.name} but its pv.Spec.ClaimRef.UID "
                f"{pv.spec.claim_ref.uid} does not point to "
                f"claim.UID {claim.metadata.uid}"
            )
        return pv


def as_csi(pv: PersistentVolume) -> PersistentVolume:
    """The volume as its CSI driver sees it, also an in-tree one. Raises UnusableVolume, TranslationError."""
    if pv.spec.csi is not None:
        return pv
    if not is_migratable(pv.spec):
        raise UnusableVolume(f'PersistentVolume "{pv.metadata.name}" is no CSI volume; this agent mounts no others')
    return msgspec.structs.replace(pv, spec=translated(pv))


def _use(pod: Pod, volume_name: str, volume: Volume, *, read_only: bool, claim: str = "", label: str = "") -> PodUse:
    security = pod.spec.security_context
    return PodUse(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        volume_name=volume_name,
        spec_name=volume.spec_name,
        claim=claim,
        label=label,
        service_account=pod.spec.service_account_name,
        read_only=read_only,
        fs_group=security.fs_group if security is not None else None,
        fs_group_policy=(security.fs_group_change_policy if security is not None else None) or "",
    )


def _check_mode(volume: Volume, name: str, *, is_mounted: bool, is_device: bool) -> None:
    """Raises UnusableVolume."""
    if volume.is_block and is_mounted:
        raise UnusableVolume(f"volume {name} has volumeMode Block, but is specified in volumeMounts")
    if not volume.is_block and is_device:
        raise UnusableVolume(f"volume {name} has volumeMode Filesystem, but is specified in volumeDevices")


def _check_other(volume: Volume, other: tuple[Volume, PodUse] | None) -> None:
    """other: a volume of the same name that the pod wants as well. Raises UnusableVolume."""
    if other is not None and other[0].spec_name != volume.spec_name:
        raise UnusableVolume(str(why.NamedTwice(volume.handle, volume.spec_name, other[0].spec_name)))


# -- what a pod keeps


class _Had(msgspec.Struct, frozen=True):
    """A volume that may be in the pod's folder, and that none of its claims names.

    in_pod: its name in the pod, "" where only a record tells of it. is_given_up: the pod wanted it once, and got
    another in its place.
    """

    handle: str
    spec_name: str
    in_pod: str
    is_done: bool
    is_given_up: bool


def beside_what_is_kept(
    uid: str, wanted: PodWishes, before: PodWishes, here: Iterable[VolumeState], *, has_started: bool, is_whole: bool
) -> tuple[PodWishes, list[str]]:
    """The wishes that the pod is to get, and the problems that its users are to hear of.

    before: its wishes until now, as far as this agent knows. here: the volumes that are, or may be, in its folder.
    has_started: it runs, or has run. is_whole: False where it may want more, which could not be found out.
    """
    at_hand = {state.volume.unique: state for state in here}
    settled = {unique: _in_its_folder(uid, at_hand.get(unique), wish) for unique, wish in wanted.items()}
    new = {unique: wish for unique, wish in settled.items() if unique not in at_hand and not wish[0].is_inline}
    problems: list[str] = []
    for unique, state in at_hand.items():
        if unique in wanted or state.volume.is_inline:
            continue
        had = _had(uid, state, before.get(unique))
        replacing = [
            one for one, wish in new.items() if _replaces(wish, had, has_started=has_started, is_whole=is_whole)
        ]
        problems += [_told(*new[one], had) for one in replacing]
        for one in replacing:
            settled.pop(one, None)
        if not replacing and is_whole and not had.in_pod and not had.is_given_up:
            problems.append(str(why.NoClaimNames(had.handle, had.spec_name)))
    return settled, problems


def _in_its_folder(uid: str, state: VolumeState | None, wish: tuple[Volume, PodUse]) -> tuple[Volume, PodUse]:
    """A volume that the pod has by another PersistentVolume stays where it is."""
    publication = state.publications.get(uid) if state is not None else None
    volume, use = wish
    if publication is None or publication.stand is Stand.ABSENT or publication.spec_name == volume.spec_name:
        return wish
    name = publication.spec_name
    return msgspec.structs.replace(volume, spec_name=name), msgspec.structs.replace(use, spec_name=name)


def _had(uid: str, state: VolumeState, before: tuple[Volume, PodUse] | None) -> _Had:
    publication = state.publications.get(uid)
    was_found = publication is not None and publication.stand is Stand.FOUND
    return _Had(
        state.volume.handle,
        publication.spec_name
        if publication is not None
        else before[0].spec_name
        if before is not None
        else state.volume.spec_name,
        before[1].volume_name if before is not None else "",
        is_done=was_found or (publication is not None and publication.is_there),
        is_given_up=before is None and not was_found,
    )


def _replaces(new: tuple[Volume, PodUse], had: _Had, *, has_started: bool, is_whole: bool) -> bool:
    """True for a volume that the pod would get in place of one that it keeps, or in the folder of one that may still be
    there.
    """
    volume, use = new
    if volume.spec_name == had.spec_name:
        return True
    if had.is_given_up:
        return False
    if had.in_pod:
        return use.volume_name == had.in_pod and (had.is_done or has_started)
    return is_whole or has_started  # a record does not tell which of the pod's claims the volume was given for


def _told(volume: Volume, use: PodUse, had: _Had) -> str:
    return str(
        why.ClaimMadeAnew(f"{use.namespace}/{use.claim}", volume.handle, volume.spec_name, had.handle, had.spec_name)
    )
