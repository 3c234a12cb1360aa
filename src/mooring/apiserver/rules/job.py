"""batch/v1 Job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.rules import checks, podtemplate

MESSAGES: Final = podtemplate.MESSAGES.extended("""
Job: 1 metadata ObjectMeta!, 2 spec JobSpec!, 3 status JobStatus!
JobSpec: 1 parallelism i32?, 2 completions i32?, 3 activeDeadlineSeconds i64?, 11 podFailurePolicy PodFailurePolicy?, 16 successPolicy SuccessPolicy?, 7 backoffLimit i32?, 12 backoffLimitPerIndex i32?, 13 maxFailedIndexes i32?, 4 selector LabelSelector?, 5 manualSelector b?, 6 template PodTemplateSpec!, 8 ttlSecondsAfterFinished i32?, 9 completionMode s?, 10 suspend b?, 14 podReplacementPolicy s?, 15 managedBy s?
PodFailurePolicy: 1 rules *PodFailurePolicyRule!
PodFailurePolicyRule: 1 action s!, 2 onExitCodes PodFailurePolicyOnExitCodesRequirement?, 3 onPodConditions *PodFailurePolicyOnPodConditionsPattern
PodFailurePolicyOnExitCodesRequirement: 1 containerName s?, 2 operator s!, 3 values *i32!
PodFailurePolicyOnPodConditionsPattern: 1 type s!, 2 status s!
SuccessPolicy: 1 rules *SuccessPolicyRule!
SuccessPolicyRule: 1 succeededIndexes s?, 2 succeededCount i32?
JobStatus: 1 conditions *JobCondition@type, 2 startTime time?, 3 completionTime time?, 4 active i32, 5 succeeded i32, 6 failed i32, 11 terminating i32?, 7 completedIndexes s, 10 failedIndexes s?, 8 uncountedTerminatedPods UncountedTerminatedPods?, 9 ready i32?
JobCondition: 1 type s!, 2 status s!, 3 lastProbeTime time!, 4 lastTransitionTime time!, 5 reason s, 6 message s
UncountedTerminatedPods: 1 succeeded *s@, 2 failed *s@
""")  # noqa: E501

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_BACKOFF_LIMIT: Final = 6
_NO_LIMIT: Final = 2**31 - 1
_POLICIES: Final = ("OnFailure", "Never")
_FROZEN: Final = ("completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy")
_COUNTS: Final = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")


def _default(new: Json) -> None:
    spec = new["spec"]
    podtemplate.default(spec["template"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else _BACKOFF_LIMIT)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not new["metadata"].get("labels"):
        new["metadata"]["labels"] = labels  # (the same map: what a new Job's template gets, the Job gets, too)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _prepare_create(new: Json, now: float) -> None:
    podtemplate.prepare_create(new, now)
    spec, meta = new["spec"], new["metadata"]
    if spec["manualSelector"]:
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    is_shared = meta.get("labels") is labels or not meta.get("labels")
    for key in ("controller-uid", CONTROLLER_UID):
        labels.setdefault(key, meta["uid"])
    for key in ("job-name", JOB_NAME):
        labels.setdefault(key, meta.get("name", ""))
    if is_shared:
        meta["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(CONTROLLER_UID, meta["uid"])


def _validate(new: Json) -> Iterator[Cause]:
    spec = new["spec"]
    yield from podtemplate.validate_counts(spec, *_COUNTS)
    yield from checks.one_of(spec["completionMode"], "spec.completionMode", ("NonIndexed", "Indexed"))
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        yield field_errors.required("spec.completions", "when completion mode is Indexed")
    yield from checks.one_of(spec["podReplacementPolicy"], "spec.podReplacementPolicy", ("Failed", "TerminatingOrFailed"))
    if "selector" not in spec:
        yield field_errors.required("spec.selector")
    else:
        yield from podtemplate.validate_selected(spec)
    yield from podtemplate.validate(spec["template"])
    policy, field = spec["template"]["spec"]["restartPolicy"], f"{podtemplate.FIELD}.spec.restartPolicy"
    if policy == "Always":
        yield field_errors.required(field, 'valid values: "OnFailure", "Never"')
    else:
        yield from checks.one_of(policy, field, _POLICIES)


def _validate_update(new: Json, old: Json) -> Iterator[Cause]:
    for part in _FROZEN:
        yield from checks.unchanged(new["spec"], old["spec"], part, f"spec.{part}")


def _fields(job: Json) -> dict[str, str]:
    return {"status.successful": str(job["status"].get("succeeded", 0))}


JOBS: Final = Resource(
    group="batch",
    kind="Job",
    plural="jobs",
    namespaced=True,
    categories=("all",),
    message=MESSAGES["Job"],
    status=Status.WITH_METADATA,
    orphans="child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning",
    default=_default,
    prepare_create=_prepare_create,
    prepare_update=podtemplate.prepare_update,
    validate=_validate,
    validate_update=_validate_update,
    warnings=podtemplate.warnings,
    fields=_fields,
    field_names=frozenset({"status.successful"}),
)
