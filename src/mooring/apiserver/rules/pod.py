"""core/v1 Pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.apiserver import api_errors, deletion
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, OtherObjects, Resource, Status
from mooring.apiserver.rules import (
    podactions,
    podcontainers,
    poddefaults,
    podplacement,
    podresources,
    podspec,
    podstatus,
    podupdate,
    podvolumes,
    podwarnings,
)
from mooring.apiserver.rules.podshape import MESSAGES
from mooring.base.clock import parse_rfc3339, rfc3339

_FINISHED: Final = ("Succeeded", "Failed")
_PRIORITIES: Final = {"": 0, "system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_PREEMPTION: Final = "PreemptLowerPriority"
_BY_CLASS: Final = "priority admission controller computed"
_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_ACCOUNTS: Final = ("", "v1", "serviceaccounts")
_ACCOUNT: Final = "default"
_FIELDS: Final = (
    ("spec", "nodeName"),
    ("spec", "restartPolicy"),
    ("spec", "schedulerName"),
    ("spec", "serviceAccountName"),
    ("status", "phase"),
    ("status", "podIP"),
    ("status", "nominatedNodeName"),
)


def _admit(new: Json, view: OtherObjects) -> None:
    """Priorities, the built-in runtime classes, and the account `default` where there is one. No pod is refused for its
    account.
    """
    spec, meta = new["spec"], new["metadata"]
    if not spec.get("serviceAccountName") and view.get(_ACCOUNTS, _ACCOUNT, meta["namespace"]) is not None:
        spec["serviceAccountName"] = spec["serviceAccount"] = _ACCOUNT
    priority = _PRIORITIES.get(spec.get("priorityClassName", ""))
    if priority is None:
        raise api_errors.not_admitted(PODS, meta, f"no PriorityClass with name {spec['priorityClassName']} was found")
    if spec.get("priority", priority) != priority:
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; {_BY_CLASS} "
            f"{priority} from the given"
        )
        raise api_errors.not_admitted(PODS, meta, f"{text} PriorityClass name")
    if spec.get("preemptionPolicy", _PREEMPTION) != _PREEMPTION:
        text = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"{_BY_CLASS}"
        )
        raise api_errors.not_admitted(PODS, meta, f"{text} {_PREEMPTION} from the given PriorityClass name")
    spec["priority"], spec["preemptionPolicy"] = priority, _PREEMPTION
    if spec.get("runtimeClassName"):
        raise api_errors.not_admitted(PODS, meta, f'pod rejected: RuntimeClass "{spec["runtimeClassName"]}" not found')


def _admit_valid(new: Json) -> None:
    """The overhead is the runtime class's to say. Looked at last: what is wrong with the pod is told first."""
    if new["spec"].get("overhead"):
        name = new["metadata"]["name"]
        raise api_errors.forbidden(
            PODS, name, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )


def _prepare_create(new: Json, now: float) -> None:
    new["metadata"]["generation"] = 1
    said = (new.get("status") or {}).get("qosClass")  # a creation may say it, and nobody checks that
    new["status"] = {"phase": "Pending", "qosClass": said or podresources.quality(new["spec"])}
    podplacement.merge_match_keys(new)
    if new["spec"].get("schedulingGates"):
        podactions.set_condition(new["status"], _GATED, now)


def _prepare_update(new: Json, old: Json, _now: float) -> None:
    new["status"] = old["status"]
    for part in ("priority", "preemptionPolicy"):
        if part in old["spec"]:
            new["spec"].setdefault(part, old["spec"][part])
    podactions.count_change(new, old)


def _prepare_status(new: Json, old: Json, _now: float) -> None:
    """Owners, the begun end and quality of service stay what they are."""
    meta, before = new["metadata"], old["metadata"]
    for part in ("deletionTimestamp", "ownerReferences"):
        meta.pop(part, None)
        if part in before:
            meta[part] = before[part]
    new.setdefault("status", {})
    if "qosClass" in old["status"]:
        new["status"].setdefault("qosClass", old["status"]["qosClass"])
    podstatus.keep_generations(new["status"], old["status"])


def _delete(obj: Json, options: DeleteOptions, now: float) -> Json | None:
    """A pod gets time to end, and the kubelet removes it. The time may be shortened, never extended."""
    meta = obj["metadata"]
    given = 1 if options.grace_s is not None and options.grace_s < 0 else options.grace_s
    pending = meta.get("deletionGracePeriodSeconds", 0)
    if meta.get("deletionTimestamp"):
        if not pending:
            return deletion.plain(obj, options, now)
        if given is None or given >= pending:
            return obj
        since, grace_s = parse_rfc3339(meta["deletionTimestamp"]) - _in_64_bits(pending), given
        if since + _in_64_bits(given) < now:
            since, grace_s = (now, 0) if not given else (now - 1, 1)  # (the kubelet still has to end it)
    else:
        since, grace_s = now, _grace_s(obj, given)
        if meta.get("generation", 0) > 0:
            meta["generation"] += 1
    meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = rfc3339(since + _in_64_bits(grace_s)), grace_s
    deletion.follow(meta, options)
    return obj


def _in_64_bits(seconds: int) -> float:
    """The seconds as a signed 64-bit number of nanoseconds has them: it overflows after 292 years, as in the real
    server.
    """
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) / 10**9


def _grace_s(pod: Json, given: int | None) -> int:
    """Zero for a pod that is not running."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in _FINISHED:
        return 0
    grace_s: int = pod["spec"]["terminationGracePeriodSeconds"] if given is None else given
    return 1 if grace_s < 0 else grace_s


def _validate(pod: Json) -> Iterator[FieldCause]:
    yield from podspec.validate(pod["spec"], pod["metadata"].get("name", ""))
    yield from podvolumes.validate_tokens(pod["spec"])
    yield from podcontainers.validate_images(pod["spec"])


def _fields(pod: Json) -> Mapping[str, str]:
    found = {f"{part}.{name}": str(pod[part].get(name, "")) for part, name in _FIELDS}
    return {**found, "spec.hostNetwork": str(pod["spec"].get("hostNetwork", False)).lower()}


PODS: Final = Resource(
    group="",
    kind="Pod",
    plural="pods",
    namespaced=True,
    short_names=("po",),
    categories=("all",),
    beginnings=("",),
    message=MESSAGES["Pod"],
    status=Status.WITH_METADATA,
    status_keeps=("deletionTimestamp", "ownerReferences"),
    default=poddefaults.default,
    admit=_admit,
    admit_valid=_admit_valid,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    prepare_status=_prepare_status,
    delete=_delete,
    graceful=True,
    validate=_validate,
    validate_create=podupdate.validate_created,
    validate_update=podupdate.validate,
    validate_status=podstatus.validate,
    warnings=podwarnings.warnings,
    field_names=frozenset({"spec.hostNetwork", *(f"{part}.{name}" for part, name in _FIELDS)}),
    fields=_fields,
    indexed="spec.nodeName",
    actions=podactions.ACTIONS,
)
