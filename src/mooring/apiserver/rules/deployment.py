"""apps/v1 Deployment and ReplicaSet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.rules import checks, podtemplate

MESSAGES: Final = podtemplate.MESSAGES.extended("""
Deployment: 1 metadata ObjectMeta!, 2 spec DeploymentSpec!, 3 status DeploymentStatus!
DeploymentSpec: 1 replicas i32?, 2 selector LabelSelector!?, 3 template PodTemplateSpec!, 4 strategy DeploymentStrategy!, 5 minReadySeconds i32, 6 revisionHistoryLimit i32?, 7 paused b, 9 progressDeadlineSeconds i32?
DeploymentStrategy: 1 type s, 2 rollingUpdate RollingUpdateDeployment?
RollingUpdateDeployment: 1 maxUnavailable intstr?, 2 maxSurge intstr?
DeploymentStatus: 1 observedGeneration i64, 2 replicas i32, 3 updatedReplicas i32, 7 readyReplicas i32, 4 availableReplicas i32, 5 unavailableReplicas i32, 9 terminatingReplicas i32?, 6 conditions *DeploymentCondition@type, 8 collisionCount i32?
DeploymentCondition: 1 type s!, 2 status s!, 6 lastUpdateTime time!, 7 lastTransitionTime time!, 4 reason s, 5 message s
ReplicaSet: 1 metadata ObjectMeta!, 2 spec ReplicaSetSpec!, 3 status ReplicaSetStatus!
ReplicaSetSpec: 1 replicas i32?, 4 minReadySeconds i32, 2 selector LabelSelector!?, 3 template PodTemplateSpec!
ReplicaSetStatus: 1 replicas i32!, 2 fullyLabeledReplicas i32, 4 readyReplicas i32, 5 availableReplicas i32, 7 terminatingReplicas i32?, 3 observedGeneration i64, 6 conditions *ReplicaSetCondition@type
ReplicaSetCondition: 1 type s!, 2 status s!, 3 lastTransitionTime time!, 4 reason s, 5 message s
""")  # noqa: E501

_PART: Final = "25%"
_HISTORY: Final = 10
_DEADLINE_S: Final = 600
_UNREADABLE: Final = "invalid label selector"
_STRATEGIES: Final = ("Recreate", "RollingUpdate")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,400}")
_PERCENT: Final = re.compile(r"[0-9]+%")
_PERCENT_TEXT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    f"(e.g. '1%',  or '93%', regex used for validation is '{_PERCENT.pattern}')"
)


def _default_deployment(new: Json) -> None:
    spec = new["spec"]
    podtemplate.default(spec["template"])
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", _PART)
        rolling.setdefault("maxSurge", _PART)
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    spec.setdefault("progressDeadlineSeconds", _DEADLINE_S)


def _default_replica_set(new: Json) -> None:
    podtemplate.default(new["spec"]["template"])
    new["spec"].setdefault("replicas", 1)


def _prepare_deployment(new: Json, old: Json, now: float) -> None:
    """Annotations count, too: they are handed on to the ReplicaSets."""
    podtemplate.prepare_update(new, old, now)
    if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _prepare_status(new: Json, old: Json, _now: float) -> None:
    """Differs from other kinds: labels stay as they are."""
    new["metadata"].pop("labels", None)
    if "labels" in old["metadata"]:
        new["metadata"]["labels"] = old["metadata"]["labels"]


def _validate_deployment(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    yield from podtemplate.validate_counts(
        spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    yield from podtemplate.validate_selected(spec, "deployment", _validate_template, _UNREADABLE)
    yield from _validate_strategy(spec["strategy"])
    deadline_s = spec["progressDeadlineSeconds"]
    if deadline_s <= spec.get("minReadySeconds", 0):
        yield field_errors.invalid("spec.progressDeadlineSeconds", deadline_s, "must be greater than minReadySeconds")


def _validate_replica_set(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    yield from podtemplate.validate_counts(spec, "spec", "replicas", "minReadySeconds")
    yield from podtemplate.validate_selected(
        spec, "deployment", _validate_template, _UNREADABLE
    )  # (so the real one's text)


def _validate_template(template: Json) -> Iterator[FieldCause]:
    yield from podtemplate.validate(template)
    text = "activeDeadlineSeconds in ReplicaSet is not Supported"
    yield from podtemplate.validate_endless(
        template, field_errors.forbidden(f"{podtemplate.FIELD}.spec.activeDeadlineSeconds", text)
    )


def _validate_strategy(strategy: Json) -> Iterator[FieldCause]:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling is not None:
        yield field_errors.forbidden(
            "spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"
        )
    elif kind == "RollingUpdate":
        assert rolling is not None, "it was defaulted"
        yield from _validate_rolling(rolling)
    elif kind not in _STRATEGIES:
        yield field_errors.not_supported("spec.strategy", _as_in_go(strategy), _STRATEGIES)


def _as_in_go(strategy: Json) -> Json:
    """The strategy as the real server's text has it: the fields of its struct, by their names in Go."""
    rolling = strategy.get("rollingUpdate")
    bounds = (
        {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
        if rolling is not None
        else None
    )
    return {"Type": strategy["type"], "RollingUpdate": bounds}


def _validate_rolling(rolling: Json) -> Iterator[FieldCause]:
    field = "spec.strategy.rollingUpdate"
    for part in ("maxUnavailable", "maxSurge"):
        yield from validate_share(rolling[part], f"{field}.{part}")
    unavailable = rolling["maxUnavailable"]
    if _number(unavailable) == 0 == _number(rolling["maxSurge"]):
        yield field_errors.invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    if isinstance(unavailable, str) and _PERCENT.fullmatch(unavailable) and _number(unavailable) > 100:
        yield field_errors.invalid(f"{field}.maxUnavailable", unavailable, "must not be greater than 100%")


def validate_share(value: Any, field: str) -> list[FieldCause]:
    """A number of pods, or a percentage of them."""
    if isinstance(value, int):
        return checks.at_least(value, field, 0)
    return [] if _PERCENT.fullmatch(value) else [field_errors.invalid(field, value, _PERCENT_TEXT)]


def _number(share: Any) -> int:
    """0 for a text that is no number, as Go reads it, and no percentage."""
    if isinstance(share, int):
        return share
    return int(share.removesuffix("%")) if _PERCENT.fullmatch(share) or _NUMBER.fullmatch(share) else 0


def _validate_update(new: Json, old: Json) -> list[FieldCause]:
    return checks.unchanged(new["spec"], old["spec"], "selector", "spec.selector")


def _replica_fields(obj: Json) -> dict[str, str]:
    return {"status.replicas": str(obj["status"].get("replicas", 0))}


DEPLOYMENTS: Final = podtemplate.with_scale(
    Resource(
        group="apps",
        kind="Deployment",
        plural="deployments",
        namespaced=True,
        short_names=("deploy",),
        categories=("all",),
        message=MESSAGES["Deployment"],
        status=Status.WITH_METADATA,
        status_keeps=("labels",),
        delete_answers_object=False,
        default=_default_deployment,
        prepare_create=podtemplate.prepare_create,
        prepare_update=_prepare_deployment,
        prepare_status=_prepare_status,
        validate=_validate_deployment,
        validate_update=_validate_update,
        validate_status=partial(
            podtemplate.validate_status,
            parts=("updatedReplicas", "readyReplicas", "availableReplicas"),
            ready="readyReplicas",
        ),
        warnings=podtemplate.named_warnings,
    )
)

REPLICA_SETS: Final = podtemplate.with_scale(
    Resource(
        group="apps",
        kind="ReplicaSet",
        plural="replicasets",
        namespaced=True,
        short_names=("rs",),
        categories=("all",),
        message=MESSAGES["ReplicaSet"],
        status=Status.WITH_METADATA,
        delete_answers_object=False,
        default=_default_replica_set,
        prepare_create=podtemplate.prepare_counted("replicas"),
        prepare_update=podtemplate.prepare_update,
        validate=_validate_replica_set,
        validate_update=_validate_update,
        validate_status=partial(
            podtemplate.validate_status,
            parts=("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
            ready="readyReplicas",
        ),
        warnings=podtemplate.named_warnings,
        fields=_replica_fields,
        field_names=frozenset({"status.replicas"}),
    )
)
