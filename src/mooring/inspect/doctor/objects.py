"""The objects that checks read, as far as they read them, and where each of them was found."""

from __future__ import annotations

import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import field

from mooring.api.coordination import LEASES
from mooring.api.core import NAMESPACES, NODES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES, VolumeGroupSnapshotClass
from mooring.api.meta import ApiStruct, Kind, LabelSelector, Object, ObjectMeta
from mooring.api.pods import Toleration
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VolumeSnapshotClass
from mooring.api.storage import (
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUME_ATTRIBUTES_CLASSES,
    StorageClass,
    VolumeAttributesClass,
)

T_co = TypeVar("T_co", bound=Object, covariant=True)


class EnvVar(ApiStruct, frozen=True):
    name: str = ""
    value: str = ""


class ContainerSecurity(ApiStruct, frozen=True):
    privileged: bool = False


class Container(ApiStruct, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    security_context: ContainerSecurity = ContainerSecurity()


class HostPath(ApiStruct, frozen=True):
    path: str = ""


class PodVolume(ApiStruct, frozen=True):
    name: str = ""
    host_path: HostPath | None = None


class PodSpec(ApiStruct, frozen=True):
    containers: tuple[Container, ...] = ()
    service_account_name: str = ""
    service_account: str = ""
    """The old name of the same, which the API server still reads."""
    tolerations: tuple[Toleration, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: dict[str, Any] = field(default_factory=dict)
    volumes: tuple[PodVolume, ...] = ()
    host_network: bool = False
    host_pid: bool = field(name="hostPID", default=False)


class Template(ApiStruct, frozen=True):
    spec: PodSpec = PodSpec()


class WorkloadSpec(ApiStruct, frozen=True):
    replicas: int = 1
    template: Template = Template()


class Workload(ApiStruct, frozen=True):
    """A Deployment, a StatefulSet or a DaemonSet."""

    has_json = True
    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()


class BarePod(ApiStruct, frozen=True):
    """A Pod that nobody makes anew."""

    has_json = True
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()


class Rule(ApiStruct, frozen=True):
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class Aggregation(ApiStruct, frozen=True):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class Role(ApiStruct, frozen=True):
    """A Role or a ClusterRole."""

    metadata: ObjectMeta
    rules: tuple[Rule, ...] = ()
    aggregation_rule: Aggregation | None = None


class RoleRef(ApiStruct, frozen=True):
    kind: str = ""
    name: str = ""


class Subject(ApiStruct, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class Binding(ApiStruct, frozen=True):
    """A RoleBinding or a ClusterRoleBinding."""

    metadata: ObjectMeta
    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()


class DefinitionVersion(ApiStruct, frozen=True):
    name: str = ""
    served: bool = False


class DefinitionSpec(ApiStruct, frozen=True):
    versions: tuple[DefinitionVersion, ...] = ()


class Definition(ApiStruct, frozen=True):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta
    spec: DefinitionSpec = DefinitionSpec()


class Bare(ApiStruct, frozen=True):
    """An object of which only the metadata counts."""

    metadata: ObjectMeta


_RBAC: Final = "rbac.authorization.k8s.io"
DEPLOYMENTS: Final = Kind("apps", "v1", "Deployment", "deployments", True, Workload)
STATEFUL_SETS: Final = Kind("apps", "v1", "StatefulSet", "statefulsets", True, Workload)
DAEMON_SETS: Final = Kind("apps", "v1", "DaemonSet", "daemonsets", True, Workload)
BARE_PODS: Final = Kind("", "v1", "Pod", "pods", True, BarePod)
ROLES: Final = Kind(_RBAC, "v1", "Role", "roles", True, Role)
CLUSTER_ROLES: Final = Kind(_RBAC, "v1", "ClusterRole", "clusterroles", False, Role)
ROLE_BINDINGS: Final = Kind(_RBAC, "v1", "RoleBinding", "rolebindings", True, Binding)
CLUSTER_ROLE_BINDINGS: Final = Kind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, Binding)
DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, Definition
)
BARE_NAMESPACES: Final = NAMESPACES.decoded_as(Bare)
BARE_SECRETS: Final = Kind("", "v1", "Secret", "secrets", True, Bare)

WORKLOADS: Final[tuple[Kind[Workload], ...]] = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS)
WITH_RIGHTS: Final[tuple[Kind[Any], ...]] = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
LISTED: Final[tuple[Kind[Any], ...]] = (
    *WORKLOADS,
    *WITH_RIGHTS,
    BARE_NAMESPACES,
    NODES,
    CSI_NODES,
    CSI_DRIVERS,
    STORAGE_CLASSES,
    VOLUME_ATTRIBUTES_CLASSES,
    VOLUME_SNAPSHOT_CLASSES,
    GROUP_SNAPSHOT_CLASSES,
    LEASES,
)
"""The kinds that are read as a whole. Of pods, definitions and secrets some are chosen (`cluster.py`)."""
READ: Final[tuple[Kind[Any], ...]] = (*LISTED, BARE_PODS, DEFINITIONS, BARE_SECRETS)

AnyClass = StorageClass | VolumeAttributesClass | VolumeSnapshotClass | VolumeGroupSnapshotClass
VALUES_MAX: Final = 500_000
"""Values of one file once its aliases are written out: more of them are no manifest."""


def without_nulls(value: Any, budget: list[int]) -> Any:
    """A null stands for what is not there. budget: how many values may still come. Raises ValueError."""
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError(f"it has more than {VALUES_MAX} values")
    if isinstance(value, dict):
        return {str(key): without_nulls(one, budget) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one, budget) for one in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


class Marks(Protocol):
    """Where an object stands in a file."""

    def at(self, *path: str | int) -> str:
        """`FILE:LINE` of what the path leads to, or of the last thing on it that is there."""


class Item(msgspec.Struct, Generic[T_co], frozen=True):
    """An object of a file or a cluster. marks: None for one of a cluster."""

    kind: Kind[Any]
    obj: T_co
    marks: Marks | None = None

    @property
    def name(self) -> str:
        return self.obj.metadata.name

    @property
    def namespace(self) -> str:
        """The object's namespace, `default` where it names none; "" for a kind without."""
        return (self.obj.metadata.namespace or "default") if self.kind.namespaced else ""

    def __str__(self) -> str:
        return f"{self.kind.name} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.name} {self.name}"

    def where(self, *path: str | int) -> str:
        """The place to change: in its file, or the command that opens it."""
        if self.marks is not None:
            return self.marks.at(*path)
        scope = f"-n {self.namespace} " if self.namespace else ""
        return f"kubectl {scope}edit {self.kind.name.lower()} {self.name}"
