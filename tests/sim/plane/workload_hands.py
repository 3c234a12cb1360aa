"""The workloads that users have, as they write them."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.meta import Kind
from mooring.api.workloads import STATEFUL_SETS
from tests.sim.plane.plan import RWO, Plan
from tests.sim.plane.stands import Json
from tests.sim.plane.workload_plan import SetPlan
from tests.support.builders import CONTAINER, a_claim, a_template, a_workload

SET: Final = "web"
NOTE: Final = "users.example.com/round"
"""An annotation of templates: another one is another template."""
RELEASED: Final = "users.example.com/released"
"""A label of pods that a user took from their workloads."""


def a_pod_template(plan: Plan, app: str, claims: tuple[str, ...] = (), *, mounts: tuple[str, ...] = (), **spec: Any) -> Json:
    """claims: that all its pods use. mounts: of volumes that each gets by its workload."""
    seconds = int(plan.tolerated_s)
    tolerated = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in ("not-ready", "unreachable")
    ]
    container = {**CONTAINER, "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in (*claims, *mounts)]}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    template = a_template(labels={"app": app}, tolerations=tolerated, **({"volumes": volumes} if volumes else {}), **spec)
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


def bodies(plan: Plan, storage_class: str) -> list[tuple[Kind[Any], Json]]:
    """All that the users want, as it was at first."""
    own = plan.workloads
    return [(STATEFUL_SETS, a_set(plan, own.stateful_set, storage_class))] if own.stateful_set is not None else []
