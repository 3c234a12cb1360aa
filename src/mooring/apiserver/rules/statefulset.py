"""apps/v1 StatefulSet, and the ControllerRevisions that keep its former templates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.rules import checks, claimspec, persistentvolumeclaim, podtemplate
from mooring.apiserver.rules.deployment import validate_share

MESSAGES: Final = (podtemplate.MESSAGES | persistentvolumeclaim.MESSAGES).extended("""
StatefulSet: 1 metadata ObjectMeta!, 2 spec StatefulSetSpec!, 3 status StatefulSetStatus!
StatefulSetSpec: 1 replicas i32?, 2 selector LabelSelector!?, 3 template PodTemplateSpec!, 4 volumeClaimTemplates *ClaimTemplate, 5 serviceName s!, 6 podManagementPolicy s, 7 updateStrategy StatefulSetUpdateStrategy!, 8 revisionHistoryLimit i32?, 9 minReadySeconds i32, 10 persistentVolumeClaimRetentionPolicy StatefulSetPersistentVolumeClaimRetentionPolicy?, 11 ordinals StatefulSetOrdinals?
ClaimTemplate: 14 kind s, 15 apiVersion s, 1 metadata ObjectMeta!, 2 spec PersistentVolumeClaimSpec!, 3 status PersistentVolumeClaimStatus!
StatefulSetUpdateStrategy: 1 type s, 2 rollingUpdate RollingUpdateStatefulSetStrategy?
RollingUpdateStatefulSetStrategy: 1 partition i32?, 2 maxUnavailable intstr?
StatefulSetPersistentVolumeClaimRetentionPolicy: 1 whenDeleted s, 2 whenScaled s
StatefulSetOrdinals: 1 start i32!
StatefulSetStatus: 1 observedGeneration i64, 2 replicas i32!, 3 readyReplicas i32, 4 currentReplicas i32, 5 updatedReplicas i32, 6 currentRevision s, 7 updateRevision s, 9 collisionCount i32?, 10 conditions *StatefulSetCondition@type, 11 availableReplicas i32!
StatefulSetCondition: 1 type s!, 2 status s!, 3 lastTransitionTime time!, 4 reason s, 5 message s
ControllerRevision: 1 metadata ObjectMeta!, 2 data any?~=, 3 revision i64!
""")  # noqa: E501

_HISTORY: Final = 10
_POLICIES: Final = ("OrderedReady", "Parallel")
_STRATEGIES: Final = ("RollingUpdate", "OnDelete")
_RETENTIONS: Final = ("Retain", "Delete")
_FREE: Final = frozenset(
    (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
)
_FROZEN: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _default(new: Json) -> None:
    spec = new["spec"]
    podtemplate.default(spec["template"])
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for part in ("whenDeleted", "whenScaled"):
        retention[part] = retention.get(part) or "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        claimspec.default(claim["spec"])
        claim["status"].setdefault("phase", "Pending")


def _validate(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    policy, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
    if policy not in _POLICIES:
        yield field_errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _validate_strategy(strategy)
    for part in ("whenDeleted", "whenScaled"):
        given = spec["persistentVolumeClaimRetentionPolicy"][part]
        yield from checks.one_of(given, f"spec.persistentVolumeClaimRetentionPolicy.{part}", _RETENTIONS)
    yield from podtemplate.validate_counts(spec, "spec", "replicas", "minReadySeconds")
    if "ordinals" in spec:
        yield from checks.at_least(spec["ordinals"]["start"], "spec.ordinals.start", 0)
    yield from podtemplate.validate_selected(
        spec, "statefulset", lambda template: podtemplate.validate(_as_its_pods(template, spec)), ""
    )
    text = "activeDeadlineSeconds in StatefulSet is not Supported"
    yield from podtemplate.validate_endless(
        spec["template"], field_errors.forbidden(f"{podtemplate.FIELD}.spec.activeDeadlineSeconds", text)
    )


def _as_its_pods(template: Json, spec: Json) -> Json:
    """The template without a name of the host, which the controller sets, and with a volume for each claim, as its pods
    have them.

    The claims' volumes count in place of those that the template has under their names.
    """
    claims = {claim["metadata"].get("name", ""): claim for claim in spec.get("volumeClaimTemplates") or ()}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [volume for volume in template["spec"].get("volumes") or () if volume["name"] not in claims]
    pod = {part: value for part, value in template["spec"].items() if part not in ("hostname", "subdomain")}
    return {**template, "spec": {**pod, "volumes": volumes} if claims else pod}


def _validate_create(new: Json) -> Iterator[FieldCause]:
    """Rules for a creation; a stored StatefulSet may break them."""
    spec = new["spec"]
    if spec["serviceName"]:
        yield from field_errors.named(spec["serviceName"], "spec.serviceName", names.dns_label)
    for field, claim in checks.each(spec.get("volumeClaimTemplates"), "spec.volumeClaimTemplates"):
        yield from claimspec.validate(claim["spec"], f"{field}.spec")


def _validate_strategy(strategy: Json) -> Iterator[FieldCause]:
    kind, rolling, field = strategy["type"], strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind not in _STRATEGIES:
        yield field_errors.invalid(field, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif kind == "OnDelete" and rolling is not None:
        yield field_errors.invalid(f"{field}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
    elif rolling is not None:
        yield from checks.at_least(rolling.get("partition"), f"{field}.rollingUpdate.partition", 0)
        if "maxUnavailable" in rolling:
            yield from validate_share(rolling["maxUnavailable"], f"{field}.rollingUpdate.maxUnavailable")


def _validate_update(new: Json, old: Json) -> Iterator[FieldCause]:
    after, before = ({part: value for part, value in obj["spec"].items() if part not in _FREE} for obj in (new, old))
    if after != before:
        yield field_errors.forbidden("spec", _FROZEN)


_PARTS: Final = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def _warnings(new: Json, old: Json | None) -> Iterator[str]:
    spec = new["spec"]
    yield from podtemplate.warnings(new, old)
    for field, claim in checks.each(spec.get("volumeClaimTemplates"), "spec.volumeClaimTemplates"):
        yield from claimspec.warnings(
            claim["spec"], field if old is None else f"{field}.Spec"
        )  # (so the real one says)
    if spec["revisionHistoryLimit"] < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )


STATEFUL_SETS: Final = podtemplate.with_scale(
    Resource(
        group="apps",
        kind="StatefulSet",
        plural="statefulsets",
        namespaced=True,
        short_names=("sts",),
        categories=("all",),
        message=MESSAGES["StatefulSet"],
        status=Status.WITH_METADATA,
        delete_answers_object=False,
        name_rule=names.dns_label,
        default=_default,
        prepare_create=podtemplate.prepare_counted("replicas", "availableReplicas"),
        prepare_update=podtemplate.prepare_update,
        validate=_validate,
        validate_create=_validate_create,
        validate_update=_validate_update,
        validate_status=partial(podtemplate.validate_status, parts=_PARTS, ready="status.readyReplicas"),
        warnings=_warnings,
    )
)


def _validate_data(new: Json) -> Iterator[FieldCause]:
    if new.get("data") is None:
        yield field_errors.required("data", "data is mandatory")
    elif not isinstance(new["data"], dict):
        yield field_errors.required("data", "data must be a valid JSON object")


CONTROLLER_REVISIONS: Final = Resource(
    group="apps",
    kind="ControllerRevision",
    plural="controllerrevisions",
    namespaced=True,
    message=MESSAGES["ControllerRevision"],
    delete_answers_object=False,
    prepare_update=lambda _new, _old, _now: None,
    validate=lambda new: checks.at_least(new["revision"], "revision", 0),
    validate_create=_validate_data,
    validate_update=lambda new, old: checks.unchanged(new, old, "data", "data"),
)
