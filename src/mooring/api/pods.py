"""core/v1: Pods, as far as their volumes and their place need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

import msgspec
from msgspec import field

from mooring.api.core import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CinderVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    ForeignSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    NodeSelector,
    PersistentVolumeClaimSpec,
    PortworxVolumeSource,
    VsphereVolumeSource,
)
from mooring.api.meta import ApiStruct, Condition, Kind, ObjectMeta


class PersistentVolumeClaimVolumeSource(ApiStruct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(ApiStruct, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class LocalObjectReference(ApiStruct, frozen=True):
    name: str = ""


class CSIVolumeSource(ApiStruct, frozen=True):
    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] | None = None
    node_publish_secret_ref: LocalObjectReference | None = None


class RBDVolumeSource(ForeignSource, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class Volume(ApiStruct, frozen=True):
    """At most one of the sources is set; none is for a volume without outside storage (an emptyDir, a secret, a
    hostPath).

    First those of CSI, then those that CSI drivers took over (`migration.py`), then those that nobody did.
    """

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    nfs: ForeignSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    cephfs: ForeignSource | None = None
    glusterfs: ForeignSource | None = None
    flex_volume: FlexVolumeSource | None = None
    flocker: ForeignSource | None = None
    quobyte: ForeignSource | None = None
    scale_io: ForeignSource | None = field(name="scaleIO", default=None)
    storageos: ForeignSource | None = None
    photon_persistent_disk: ForeignSource | None = None
    git_repo: ForeignSource | None = None


FOREIGN_SOURCES: Final[Mapping[str, str]] = {
    field.name: field.encode_name
    for field in msgspec.structs.fields(Volume)
    if any(isinstance(one, type) and issubclass(one, ForeignSource) for one in get_args(field.type))
}
"""The fields of a pod's volume that nobody took over, by their names in Python: those that users know."""


class NodeAffinity(ApiStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(ApiStruct, frozen=True):
    node_affinity: NodeAffinity | None = None


class Toleration(ApiStruct, frozen=True):
    """operator: Exists, or Equal, which "" is, too."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSchedulingGate(ApiStruct, frozen=True):
    name: str = ""


class VolumeMount(ApiStruct, frozen=True):
    name: str = ""


class VolumeDevice(ApiStruct, frozen=True):
    name: str = ""


class SELinuxOptions(ApiStruct, frozen=True):
    user: str = ""
    level: str = ""


class SecurityContext(ApiStruct, frozen=True):
    """A container's security context."""

    se_linux_options: SELinuxOptions | None = field(name="seLinuxOptions", default=None)


class Container(ApiStruct, frozen=True):
    """Which of the pod's volumes it uses, and how."""

    name: str = ""
    image: str = ""
    restart_policy: str | None = None
    security_context: SecurityContext | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    volume_devices: tuple[VolumeDevice, ...] | None = None


class PodSecurityContext(ApiStruct, frozen=True):
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    se_linux_options: SELinuxOptions | None = field(name="seLinuxOptions", default=None)
    se_linux_change_policy: str | None = field(name="seLinuxChangePolicy", default=None)


class PodSpec(ApiStruct, frozen=True):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    service_account_name: str = ""
    security_context: PodSecurityContext | None = None
    volumes: tuple[Volume, ...] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] | None = None

    @property
    def used(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the volumes that a container uses as a folder, and as a device. A kubelet mounts no others."""
        containers = (*(self.containers or ()), *(self.init_containers or ()))
        mounted = frozenset(mount.name for container in containers for mount in container.volume_mounts or ())
        return mounted, frozenset(device.name for container in containers for device in container.volume_devices or ())

    @property
    def unused_claims(self) -> tuple[str, ...]:
        """The names of the volumes with a claim that no container uses."""
        used = frozenset().union(*self.used)
        return tuple(
            one.name
            for one in self.volumes or ()
            if (one.persistent_volume_claim or one.ephemeral) and one.name not in used
        )


def unused_text(volume: str) -> str:
    """volume: of a pod, by its name there."""
    return f"volume {volume} is used by no container: the kubelet does not mount it"


class ContainerMoment(ApiStruct, frozen=True):
    """A state that a container is in; no more is needed than that it is there."""


class ContainerState(ApiStruct, frozen=True):
    """The state of a container. At most one is there; none at all counts as running."""

    waiting: ContainerMoment | None = None
    running: ContainerMoment | None = None
    terminated: ContainerMoment | None = None


class ContainerStatus(ApiStruct, frozen=True):
    state: ContainerState = ContainerState()


class PodStatus(ApiStruct, frozen=True):
    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


PODS: Final = Kind("", "v1", "Pod", "pods", True, Pod)
