"""batch/v1 Job."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api import names
from mooring.api.matching import selects
from mooring.api.meta import LabelSelector
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.rules import checks, jobpolicies, podtemplate, selectors

MESSAGES: Final = podtemplate.MESSAGES.extended("""
Job: 1 metadata ObjectMeta!, 2 spec JobSpec!, 3 status JobStatus!
JobSpec: 1 parallelism i32?, 2 completions i32?, 3 activeDeadlineSeconds i64?, 11 podFailurePolicy PodFailurePolicy?, 16 successPolicy SuccessPolicy?, 7 backoffLimit i32?, 12 backoffLimitPerIndex i32?, 13 maxFailedIndexes i32?, 4 selector LabelSelector?, 5 manualSelector b?, 6 template PodTemplateSpec!, 8 ttlSecondsAfterFinished i32?, 9 completionMode s?, 10 suspend b?, 14 podReplacementPolicy s?, 15 managedBy s?
PodFailurePolicy: 1 rules *PodFailurePolicyRule!
PodFailurePolicyRule: 1 action s!, 2 onExitCodes PodFailurePolicyOnExitCodesRequirement?, 3 onPodConditions *PodFailurePolicyOnPodConditionsPattern
PodFailurePolicyOnExitCodesRequirement: 1 containerName s?, 2 operator s!, 3 values *i32!
PodFailurePolicyOnPodConditionsPattern: 1 type s!, 2 status s!
SuccessPolicy: 1 rules *SuccessPolicyRule!
SuccessPolicyRule: 1 succeededIndexes s?, 2 succeededCount i32?
JobStatus: 1 conditions *JobCondition@type~=, 2 startTime time?, 3 completionTime time?, 4 active i32, 5 succeeded i32, 6 failed i32, 11 terminating i32?, 7 completedIndexes s, 10 failedIndexes s?, 8 uncountedTerminatedPods UncountedTerminatedPods?, 9 ready i32?
JobCondition: 1 type s!, 2 status s!, 3 lastProbeTime time!, 4 lastTransitionTime time!, 5 reason s, 6 message s
UncountedTerminatedPods: 1 succeeded *s~, 2 failed *s~
""")  # noqa: E501

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_BACKOFF_LIMIT: Final = 6
_NO_LIMIT: Final = 2**31 - 1
_POLICIES: Final = ("OnFailure", "Never")
_MANY: Final = (
    "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able "
    "to track completedIndexes when a big number of indexes fail"
)
_FROZEN: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "successPolicy",
    "backoffLimitPerIndex",
    "managedBy",
)
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def _default(new: Json) -> None:
    spec = new["spec"]
    podtemplate.default(spec["template"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else _BACKOFF_LIMIT)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern["status"] or "True"
    labels = spec["template"]["metadata"].get("labels")
    if labels and not new["metadata"].get("labels"):
        new["metadata"]["labels"] = labels  # (the same map: what a new Job's template gets, the Job gets, too)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _prepare_status(new: Json, _old: Json, _now: float) -> None:
    """A Job without labels has those of its template, whoever takes them away."""
    labels = new["spec"]["template"]["metadata"].get("labels")
    if labels and not new["metadata"].get("labels"):
        new["metadata"]["labels"] = dict(labels)


def _prepare_create(new: Json, now: float) -> None:
    podtemplate.prepare_create(new, now)
    spec, meta = new["spec"], new["metadata"]
    if spec["manualSelector"]:
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    is_shared = meta.get("labels") is labels or not meta.get("labels")
    for key, value in _labels(meta).items():
        labels.setdefault(key, value)
    if is_shared:
        meta["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(CONTROLLER_UID, meta["uid"])


def _validate(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    yield from podtemplate.validate_counts(spec, "spec", *_COUNTS)
    yield from checks.one_of(spec["completionMode"], "spec.completionMode", ("NonIndexed", "Indexed"))
    if spec["completionMode"] == "Indexed":
        yield from _validate_indexed(new["metadata"], spec)
    yield from jobpolicies.validate(spec)
    yield from _validate_selector(spec)
    yield from podtemplate.validate(spec["template"])
    policy, field = spec["template"]["spec"]["restartPolicy"], f"{podtemplate.FIELD}.spec.restartPolicy"
    if policy == "Always":
        yield field_errors.required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in _POLICIES:
        yield from checks.one_of(policy, field, _POLICIES)
    elif "podFailurePolicy" in spec and policy != "Never":
        yield field_errors.invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_indexed(meta: Json, spec: Json) -> Iterator[FieldCause]:
    completions = spec.get("completions")
    if completions is None:
        yield field_errors.required("spec.completions", "when completion mode is Indexed")
    if spec["parallelism"] > jobpolicies.INDEXES_MAX:
        text = f"must be less than or equal to {jobpolicies.INDEXES_MAX} when completion mode is Indexed"
        yield field_errors.invalid("spec.parallelism", spec["parallelism"], text)
    if completions is not None and completions > 0:
        host = f"{meta.get('name', '')}-{completions - 1}"
        if names.dns_label(host):
            text = f"will not able to create pod with invalid DNS label: {host}"
            yield field_errors.invalid("metadata.name", meta.get("name", ""), text)


def _validate_selector(spec: Json) -> Iterator[FieldCause]:
    if "selector" not in spec:
        yield field_errors.required("spec.selector")
        yield podtemplate.unselected_labels(spec)
        return
    wrong = list(selectors.validate_labels(spec["selector"], "spec.selector"))
    yield from wrong
    if not wrong and not podtemplate.selects_own(spec):
        yield podtemplate.unselected_labels(spec)


def _validate_create(new: Json) -> Iterator[FieldCause]:
    return _validate_generated(new["spec"], _labels(new["metadata"]))


def _validate_generated(spec: Json, wanted: Mapping[str, str]) -> Iterator[FieldCause]:
    """The labels and the selector that a Job without one of its own gets."""
    if spec["manualSelector"] or "selector" not in spec:
        return
    labels = spec["template"]["metadata"].get("labels") or {}
    for key, value in wanted.items():
        field = f"{podtemplate.FIELD}.metadata.labels[{key}]"
        if key not in labels:
            yield field_errors.required(field, f"must be '{value}'")
        elif labels[key] != value:
            yield field_errors.invalid(field, labels, f"must be '{value}'")
    is_readable = not any(selectors.validate_labels(spec["selector"], ""))
    if is_readable and not selects(msgspec.convert(spec["selector"], LabelSelector), wanted):
        yield field_errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _labels(meta: Json) -> dict[str, str]:
    uid, name = meta.get("uid", ""), meta.get("name", "")
    return {"controller-uid": uid, CONTROLLER_UID: uid, "job-name": name, JOB_NAME: name}


_WHERE: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _validate_template(new: Json, old: Json) -> list[FieldCause]:
    """In a Job that waits and has no pods it may change where they run and what they ask for."""
    if not _waits(old):
        return checks.unchanged(new["spec"], old["spec"], "template", podtemplate.FIELD)
    after, before = new["spec"]["template"]["spec"], copy.deepcopy(old["spec"]["template"]["spec"])
    for part in _WHERE:
        _take(part, after, before)
    _take_node_affinity(after.get("affinity"), before)
    for part in ("initContainers", "containers"):
        _take_resources(after.get(part) or [], before.get(part) or [])
    return [] if after == before else [field_errors.immutable(f"{podtemplate.FIELD}.spec", after)]


def _waits(job: Json) -> bool:
    """It is suspended, and nothing of it runs or has been started since."""
    status = job["status"]
    is_told = any((one["type"], one["status"]) == ("Suspended", "True") for one in status.get("conditions") or ())
    return job["spec"]["suspend"] and ("startTime" not in status or is_told) and not status.get("active")


def _take(part: str, given: Mapping[str, Any], to: Json) -> None:
    to.pop(part, None)
    if part in given:
        to[part] = given[part]


def _take_node_affinity(after: Json | None, spec: Json) -> None:
    """An affinity that has nothing else may come and go with it."""
    before = spec.get("affinity", {} if after is not None else None)
    if before is None:
        return
    _take("nodeAffinity", after or {}, before)
    spec["affinity"] = before
    if after is None and not before:
        del spec["affinity"]


def _take_resources(given: list[Json], containers: list[Json]) -> None:
    if len(given) == len(containers):
        for one, container in zip(given, containers, strict=True):
            if one["name"] == container["name"]:
                _take("resources", one, container)


def _validate_update(new: Json, old: Json) -> Iterator[FieldCause]:
    had, wanted = old["spec"]["template"]["metadata"].get("labels") or {}, _labels(new["metadata"])
    if not {CONTROLLER_UID, JOB_NAME} <= had.keys():  # (a Job of before there were these)
        wanted = {key: value for key, value in wanted.items() if key not in (CONTROLLER_UID, JOB_NAME)}
    yield from _validate_generated(new["spec"], wanted)
    yield from _validate_template(new, old)
    yield from checks.all_unchanged(new["spec"], old["spec"], _FROZEN, "spec.")
    completions = new["spec"].get("completions")
    if completions == old["spec"].get("completions"):
        return
    if new["spec"]["completionMode"] != "Indexed":
        yield from checks.unchanged(new["spec"], old["spec"], "completions", "spec.completions")
    elif completions is not None and completions != new["spec"]["parallelism"]:
        yield field_errors.invalid(
            "spec.completions", completions, "can only be modified in tandem with spec.parallelism"
        )


_COUNTED: Final = ("active", "succeeded", "failed", "ready", "terminating")


def _validate_status(new: Json, _old: Json) -> Iterator[FieldCause]:
    """Differs from kube-apiserver: the numbers are looked at, and nothing that must follow from what."""
    return podtemplate.validate_counts(new["status"], "status", *_COUNTED)


def _warnings(new: Json, old: Json | None) -> Iterator[str]:
    spec = new["spec"]
    many = spec.get("completions", 0) > jobpolicies.INDEXES_MAX and spec["parallelism"] > jobpolicies.OF_MANY_MAX
    if many and spec["completionMode"] == "Indexed" and podtemplate.is_changed(new, old):
        yield _MANY
    yield from podtemplate.named_warnings(new, old)


def _fields(job: Json) -> dict[str, str]:
    return {"status.successful": str(job["status"].get("succeeded", 0))}


JOBS: Final = Resource(
    group="batch",
    kind="Job",
    plural="jobs",
    namespaced=True,
    categories=("all",),
    beginnings=("",),
    message=MESSAGES["Job"],
    status=Status.WITH_METADATA,
    delete_answers_object=False,
    orphans="child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set "
    "propagationPolicy=Orphan to suppress this warning",
    default=_default,
    prepare_create=_prepare_create,
    prepare_update=podtemplate.prepare_update,
    prepare_status=_prepare_status,
    validate=_validate,
    validate_create=_validate_create,
    validate_update=_validate_update,
    validate_status=_validate_status,
    warnings=_warnings,
    fields=_fields,
    field_names=frozenset({"status.successful"}),
)
