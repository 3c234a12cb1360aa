"""The workloads that users have, as they write them."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.workloads import DEPLOYMENTS, JOBS, STATEFUL_SETS
from tests.sim.plane.plan import RWO, RWX, Plan
from tests.sim.plane.stands import Json
from tests.sim.plane.workload_plan import DeploymentPlan, JobPlan, SetPlan
from tests.support.builders import CONTAINER, a_claim, a_job, a_template, a_workload

SET, DEPLOYMENT, JOB = "web", "shop", "sum"
DATA: Final = "-data"
"""What the names of claims end with that all pods of a workload use."""
NOTE: Final = "users.example.com/round"
"""An annotation of templates: another one is another template."""
RELEASED: Final = "users.example.com/released"
"""A label of pods that a user took from their workloads."""


def a_pod_template(
    plan: Plan, app: str, claims: tuple[str, ...] = (), *, mounts: tuple[str, ...] = (), **spec: Any
) -> Json:
    """claims: that all its pods use. mounts: of volumes that each gets by its workload."""
    seconds = int(plan.tolerated_s)
    tolerated = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in ("not-ready", "unreachable")
    ]
    container = {**CONTAINER, "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in (*claims, *mounts)]}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    template = a_template(
        labels={"app": app}, tolerations=tolerated, **({"volumes": volumes} if volumes else {}), **spec
    )
    template["spec"]["containers"] = [container]
    template["metadata"]["annotations"] = {NOTE: "0"}
    return template


def a_set(plan: Plan, own: SetPlan, storage_class: str) -> Json:
    claims = [_template_claim(name, storage_class) for name in own.templates]
    return a_workload(
        "StatefulSet",
        SET,
        own.replicas,
        a_pod_template(plan, SET, mounts=own.templates),
        selector={"matchLabels": {"app": SET}},
        volumeClaimTemplates=claims,
        podManagementPolicy="Parallel" if own.parallel else "OrderedReady",
        updateStrategy={"type": "OnDelete" if own.on_delete else "RollingUpdate"},
        persistentVolumeClaimRetentionPolicy={"whenDeleted": own.when_deleted, "whenScaled": own.when_scaled},
        minReadySeconds=own.min_ready_s,
        ordinals={"start": own.start},
        revisionHistoryLimit=2,
    )


def _template_claim(name: str, storage_class: str) -> Json:
    claim = a_claim(name, sc=storage_class, modes=[RWO])
    return {"metadata": {"name": name}, "spec": claim["spec"]}


def a_deployment(plan: Plan, own: DeploymentPlan) -> Json:
    rolls = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": own.surge, "maxUnavailable": own.unavailable}}
    return a_workload(
        "Deployment",
        DEPLOYMENT,
        own.replicas,
        a_pod_template(plan, DEPLOYMENT, (f"{DEPLOYMENT}{DATA}",)),
        selector={"matchLabels": {"app": DEPLOYMENT}},
        strategy={"type": "Recreate"} if own.recreates else rolls,
        minReadySeconds=own.min_ready_s,
        revisionHistoryLimit=2,
    )


def a_users_job(plan: Plan, own: JobPlan) -> Json:
    return a_job(
        JOB,
        template=a_pod_template(plan, JOB, (f"{JOB}{DATA}",), restartPolicy="Never"),
        completions=own.completions,
        parallelism=own.parallelism,
        backoffLimit=own.backoff_limit,
        podReplacementPolicy=own.replacement,
        ttlSecondsAfterFinished=own.ttl_s,
        activeDeadlineSeconds=own.deadline_s,
    )


def bodies(plan: Plan, storage_class: str) -> list[tuple[Kind[Any], Json]]:
    """All that the users want, as it was at first."""
    own = plan.workloads
    found: list[tuple[Kind[Any], Json]] = []
    if own.stateful_set is not None:
        found.append((STATEFUL_SETS, a_set(plan, own.stateful_set, storage_class)))
    if own.deployment is not None:
        found.append(
            (
                PERSISTENT_VOLUME_CLAIMS,
                _a_shared_claim(DEPLOYMENT, storage_class, RWO if own.deployment.single else RWX),
            )
        )
        found.append((DEPLOYMENTS, a_deployment(plan, own.deployment)))
    if own.job is not None:
        found.append((PERSISTENT_VOLUME_CLAIMS, _a_shared_claim(JOB, storage_class, RWX)))
        found.append((JOBS, a_users_job(plan, own.job)))
    return found


def _a_shared_claim(owner: str, storage_class: str, mode: str) -> Json:
    return a_claim(f"{owner}{DATA}", sc=storage_class, modes=[mode])
