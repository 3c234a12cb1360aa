"""What it takes to set each field of the kinds that make pods. Their template's pod is a plain one: pods have samples
of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.support.podsamples import OMIT

_LABELS: Final = {"app": "sampled"}
_CONTAINER: Final = {"name": "c", "image": "i"}


def _template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": _LABELS, "annotations": {"a": "b"}}, "spec": {"containers": [_CONTAINER], **spec}}


_ENDLESS: Final = ("DeploymentSpec", "ReplicaSetSpec", "StatefulSetSpec")
_PER_INDEX: Final = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")
_AT: Final = "2024-01-02T03:04:05Z"

WORKLOAD_RULES: Final[Mapping[str, Any]] = {
    **{f"{spec}.template": _template() for spec in _ENDLESS},
    **{f"{spec}.selector": {"matchLabels": _LABELS} for spec in (*_ENDLESS, "JobSpec")},
    "DeploymentSpec.progressDeadlineSeconds": 70,
    "DeploymentStrategy.type": "RollingUpdate",
    "RollingUpdateDeployment.maxUnavailable": 2,
    "RollingUpdateDeployment.maxSurge": "30%",
    "StatefulSetSpec.podManagementPolicy": "Parallel",
    "StatefulSetUpdateStrategy.type": "RollingUpdate",
    "RollingUpdateStatefulSetStrategy.maxUnavailable": 2,
    "StatefulSetPersistentVolumeClaimRetentionPolicy.whenDeleted": "Delete",
    "StatefulSetPersistentVolumeClaimRetentionPolicy.whenScaled": "Delete",
    "ClaimTemplate.apiVersion": "v1",
    "ClaimTemplate.kind": "PersistentVolumeClaim",
    "ClaimTemplate.metadata": {"name": "data", "labels": {"a": "b"}},
    # what belongs to Indexed alone is not asked for
    **{f"JobSpec.{part}": OMIT for part in _PER_INDEX},
    **{f"JobStatus.{part}": OMIT for part in ("completedIndexes", "failedIndexes", "completionTime")},
    "JobSpec.template": _template(restartPolicy="OnFailure"),
    "JobSpec.completionMode": "NonIndexed",
    "JobSpec.podReplacementPolicy": "Failed",
    "JobSpec.managedBy": "example.com/somebody",
    "JobStatus.conditions": [
        {
            "type": "Suspended",
            "status": "True",
            "lastProbeTime": _AT,
            "lastTransitionTime": _AT,
            "reason": "JobSuspended",
            "message": "Job suspended",
        }
    ],
    "UncountedTerminatedPods.succeeded": ["a-uid"],
    "UncountedTerminatedPods.failed": ["b-uid"],
}
