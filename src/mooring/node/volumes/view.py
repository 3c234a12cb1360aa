"""What is read of a pod and of what its volumes name. Pure, but for the GETs that `Resolver` makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.inline_volumes import translated_inline
from mooring.api.meta import Key
from mooring.api.migration import TranslationError, is_migratable, translated
from mooring.api.pods import FOREIGN_SOURCES, Pod
from mooring.api.pods import Volume as PodVolume
from mooring.base.errors import MooringError
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound
from mooring.node.volumes import reasons as why
from mooring.node.volumes.expansion import decide_growth, size_bytes_of
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.selinux import LabelConflict, Labels
from mooring.node.volumes.state import Volume, of_inline_source, of_persistent_volume

BOUND: Final = "Bound"
PVC_PROTECTION: Final = "kubernetes.io/pvc-protection"
FINISHED: Final = ("Succeeded", "Failed")


class Unusable(MooringError):
    """A volume that the pod can't have as things are; str() is for the pod's event."""


def is_leaving(pod: Pod) -> bool:
    """True for a pod whose volumes are to be taken away. Nothing runs in the pods of this agent: one that is deleted has ended at once."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in FINISHED


def used_volumes(pod: Pod) -> tuple[tuple[PodVolume, bool, bool], ...]:
    """Those of the pod's volumes that some container uses; each with whether it is used as a folder, and as a device.

    Those that bring nothing from outside are left out: a secret, a hostPath and the like.
    """
    mounted, devices = set[str](), set[str]()
    for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        mounted.update(mount.name for mount in container.volume_mounts or ())
        devices.update(device.name for device in container.volume_devices or ())
    used = mounted | devices
    return tuple(
        (volume, volume.name in mounted, volume.name in devices)
        for volume in pod.spec.volumes or ()
        if volume.name in used and _brings_storage(volume)
    )


def _brings_storage(volume: PodVolume) -> bool:
    return bool(volume.csi or volume.persistent_volume_claim or volume.ephemeral) or is_migratable(volume) or _foreign_source(volume) != ""


def _foreign_source(volume: PodVolume) -> str:
    """The kind of one that nobody but a kubelet can mount, "" for another one."""
    return next((wire for field, wire in FOREIGN_SOURCES.items() if getattr(volume, field) is not None), "")


def claims_of(pod: Pod) -> frozenset[Key]:
    """Those that the pod names, or that are made for it."""
    claims = (_claim_name(pod, volume) for volume in pod.spec.volumes or ())
    return frozenset(Key(pod.metadata.namespace, name) for name in claims if name)


def _claim_name(pod: Pod, volume: PodVolume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral else ""


class Resolver:
    """Finds out what a pod's volumes are: one GET for the claim and one for its PersistentVolume."""

    def __init__(self, cluster: Cluster, labels: Labels) -> None:
        self._cluster, self._labels = cluster, labels

    async def resolve(self, pod: Pod) -> tuple[Mapping[str, tuple[Volume, PodUse]], list[str]]:
        """The volumes that the pod wants, by unique name, and what is wrong with the rest."""
        wanted: dict[str, tuple[Volume, PodUse]] = {}
        problems: list[str] = []
        for pod_volume, is_mounted, is_device in used_volumes(pod):
            try:
                volume, use = await self._resolved(pod, pod_volume)
                _check_mode(volume, pod_volume.name, is_mounted=is_mounted, is_device=is_device)
                _check_other(volume, wanted.get(volume.unique))
            except (Unusable, LabelConflict, TranslationError) as error:
                problems.append(str(error))
            except ApiError as error:
                problems.append(f'failed to get volume "{pod_volume.name}": {error}')
            else:
                wanted[volume.unique] = volume, use
        return wanted, problems

    async def _resolved(self, pod: Pod, pod_volume: PodVolume) -> tuple[Volume, PodUse]:
        if pod_volume.csi is not None:
            source = pod_volume.csi
            volume = of_inline_source(source, pod_uid=pod.metadata.uid, pod_namespace=pod.metadata.namespace, volume_name=pod_volume.name)
            return volume, _use(pod, pod_volume.name, volume, read_only=bool(source.read_only))
        if kind := _foreign_source(pod_volume):
            raise Unusable(f'volume "{pod_volume.name}" is of kind {kind}, for which no CSI driver stands; this agent mounts no others')
        if is_migratable(pod_volume):
            return self._own_disk(pod, pod_volume)
        claim = await self._claim(pod, pod_volume)
        pv = _as_csi(await self._persistent_volume(claim))
        source_claim = pod_volume.persistent_volume_claim
        read_only = source_claim is not None and source_claim.read_only
        volume, name = of_persistent_volume(pv, decide_growth(claim, pv), size_bytes_of(claim)), claim.metadata.name
        label = "" if volume.is_block else self._labels.of(pod, pod_volume.name, volume.driver, volume.access_modes)
        return volume, _use(pod, pod_volume.name, volume, read_only=read_only, claim=name, label=label)

    def _own_disk(self, pod: Pod, pod_volume: PodVolume) -> tuple[Volume, PodUse]:
        """An in-tree source in the pod itself. Differs from the kubelet, which does not tell the driver's node that one is read-only."""
        pv = translated_inline(pod_volume, pod.metadata.namespace)
        assert pv.spec.csi is not None
        volume = of_persistent_volume(pv)
        label = self._labels.of(pod, pod_volume.name, volume.driver, volume.access_modes)
        return volume, _use(pod, pod_volume.name, volume, read_only=pv.spec.csi.read_only, label=label)

    async def _claim(self, pod: Pod, pod_volume: PodVolume) -> PersistentVolumeClaim:
        source = pod_volume.persistent_volume_claim
        name = _claim_name(pod, pod_volume)
        where = f"error processing PVC {pod.metadata.namespace}/{name}"
        try:
            claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, name, pod.metadata.namespace)
        except NotFound as error:
            raise Unusable(f"{where}: failed to fetch PVC from API server: {error}") from None
        if source is None and not any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references or ()):
            raise Unusable(f"{where}: the PVC was not created for the pod (the pod is not its owner)")
        if claim.metadata.deletion_timestamp is not None and PVC_PROTECTION not in (claim.metadata.finalizers or ()):
            raise Unusable(f"{where}: PVC is being deleted")
        if claim.status.phase != BOUND:
            raise Unusable(f"{where}: PVC is not bound")
        if not claim.spec.volume_name:
            raise Unusable(f"{where}: PVC has a phase of Bound and no volume name")
        return claim

    async def _persistent_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        where = f"error processing PVC {claim.metadata.namespace}/{claim.metadata.name}"
        try:
            pv = await self._cluster.get(PERSISTENT_VOLUMES, claim.spec.volume_name)
        except NotFound as error:
            raise Unusable(f"{where}: failed to fetch PV {claim.spec.volume_name} from API server: {error}") from None
        if pv.spec.claim_ref is None:
            nil = "it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
            raise Unusable(f"{where}: found PV object {pv.metadata.name} but {nil}")
        if pv.spec.claim_ref.uid != claim.metadata.uid:
            raise Unusable(
                f"{where}: found PV object {pv.metadata.name} but its pv.Spec.ClaimRef.UID {pv.spec.claim_ref.uid} does not point to "
                f"claim.UID {claim.metadata.uid}"
            )
        return pv


def _as_csi(pv: PersistentVolume) -> PersistentVolume:
    """As its CSI driver sees it, also one that the driver took over. Raises Unusable, TranslationError."""
    if pv.spec.csi is not None:
        return pv
    if not is_migratable(pv.spec):
        raise Unusable(f'PersistentVolume "{pv.metadata.name}" is no CSI volume; this agent mounts no others')
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
    """Raises Unusable."""
    if volume.is_block and is_mounted:
        raise Unusable(f"volume {name} has volumeMode Block, but is specified in volumeMounts")
    if not volume.is_block and is_device:
        raise Unusable(f"volume {name} has volumeMode Filesystem, but is specified in volumeDevices")


def _check_other(volume: Volume, other: tuple[Volume, PodUse] | None) -> None:
    """other: of the same name, that the pod wants as well. Raises Unusable."""
    if other is not None and other[0].spec_name != volume.spec_name:
        raise Unusable(str(why.NamedTwice(volume.handle, volume.spec_name, other[0].spec_name)))
