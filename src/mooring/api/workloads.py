"""apps/v1 and batch/v1: the kinds that make pods. A pod's template is a JSON object, since it is handed on whole."""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from mooring.api.meta import ApiStruct, Condition, Kind, LabelSelector, ObjectMeta

Json = dict[str, Any]


class CountedMeta(ObjectMeta, frozen=True):
    """generation: counts the changes of the spec."""

    generation: int = 0


class UpdatedCondition(Condition, frozen=True):
    """A Deployment's condition."""

    last_update_time: str | None = None


class ProbedCondition(Condition, frozen=True):
    """A Job's condition."""

    last_probe_time: str | None = None


class RollingUpdate(ApiStruct, frozen=True):
    """max_unavailable, max_surge: of Deployments, numbers or percentages. partition: of StatefulSets."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None
    partition: int = 0


class Strategy(ApiStruct, frozen=True):
    """type: RollingUpdate, Recreate, OnDelete."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(ApiStruct, frozen=True):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: Json = field(default_factory=dict)
    strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(ApiStruct, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[UpdatedCondition, ...] | None = None
    collision_count: int | None = None


class Deployment(ApiStruct, frozen=True):
    has_json = True
    metadata: CountedMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(ApiStruct, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: Json = field(default_factory=dict)


class ReplicaSetStatus(ApiStruct, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] | None = None


class ReplicaSet(ApiStruct, frozen=True):
    has_json = True
    metadata: CountedMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ClaimRetention(ApiStruct, frozen=True):
    """Retain or Delete."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(ApiStruct, frozen=True):
    start: int = 0


class StatefulSetSpec(ApiStruct, frozen=True):
    """volume_claim_templates: whole claims, without their names' ends."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: Json = field(default_factory=dict)
    volume_claim_templates: tuple[Json, ...] | None = None
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: Strategy = Strategy()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()
    ordinals: Ordinals = Ordinals()


class StatefulSetStatus(ApiStruct, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    available_replicas: int = 0


class StatefulSet(ApiStruct, frozen=True):
    has_json = True
    metadata: CountedMeta
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class ControllerRevision(ApiStruct, frozen=True):
    """data: a patch that brings the owner's template back."""

    has_json = True
    metadata: ObjectMeta
    data: Any = None
    revision: int = 0


class JobSpec(ApiStruct, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int = 6
    selector: LabelSelector | None = None
    template: Json = field(default_factory=dict)
    ttl_seconds_after_finished: int | None = None
    completion_mode: str = ""
    suspend: bool = False
    pod_replacement_policy: str = ""
    managed_by: str | None = None


class Uncounted(ApiStruct, frozen=True):
    """The uids of ended pods that the counters do not hold yet."""

    succeeded: tuple[str, ...] | None = None
    failed: tuple[str, ...] | None = None


class JobStatus(ApiStruct, frozen=True):
    conditions: tuple[ProbedCondition, ...] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    uncounted_terminated_pods: Uncounted | None = None
    ready: int | None = None


class Job(ApiStruct, frozen=True):
    has_json = True
    metadata: CountedMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


DEPLOYMENTS: Final = Kind("apps", "v1", "Deployment", "deployments", True, Deployment)
REPLICA_SETS: Final = Kind("apps", "v1", "ReplicaSet", "replicasets", True, ReplicaSet)
STATEFUL_SETS: Final = Kind("apps", "v1", "StatefulSet", "statefulsets", True, StatefulSet)
CONTROLLER_REVISIONS: Final = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", True, ControllerRevision)
JOBS: Final = Kind("batch", "v1", "Job", "jobs", True, Job)
