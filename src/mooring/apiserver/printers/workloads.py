"""Deployments, ReplicaSets, StatefulSets, their revisions, and Jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.printers.column import AGE, NAME, NONE, Column, at, is_deleted, plain, short_age
from mooring.apiserver.resource import Json
from mooring.apiserver.rules.podtemplate import selector_text
from mooring.base.clock import parse_rfc3339


def _containers(part: str) -> Callable[[Json], str]:
    def names(obj: Json) -> str:
        return ",".join(one.get(part, "") for one in obj["spec"]["template"]["spec"].get("containers") or ())

    return names


def _selector(obj: Json) -> str:
    return selector_text(obj["spec"].get("selector") or {}) or NONE


_CONTAINERS: Final = Column("Containers", plain(_containers("name")), "The containers of its pods.", priority=1)
_IMAGES: Final = Column("Images", plain(_containers("image")), "The images of these.", priority=1)
_SELECTOR: Final = Column("Selector", plain(_selector), "The labels of its pods.", priority=1)


def _ready(obj: Json) -> str:
    return f"{obj['status'].get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


DEPLOYMENT: Final = (
    NAME,
    Column("Ready", plain(_ready), "How many pods are ready, of those wished for."),
    Column("Up-to-date", at("status", "updatedReplicas", default=0), "How many pods have the newest template."),
    Column("Available", at("status", "availableReplicas", default=0), "How many pods have been ready long enough."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)

REPLICA_SET: Final = (
    NAME,
    Column("Desired", at("spec", "replicas", default=0), "How many pods are wished for.", type="integer"),
    Column("Current", at("status", "replicas", default=0), "How many pods there are.", type="integer"),
    Column("Ready", at("status", "readyReplicas", default=0), "How many pods are ready.", type="integer"),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)

STATEFUL_SET: Final = (
    NAME,
    Column("Ready", plain(_ready), "How many pods are ready, of those wished for."),
    AGE,
    _CONTAINERS,
    _IMAGES,
)


def _owner(revision: Json) -> str:
    owners = [one for one in revision["metadata"].get("ownerReferences") or () if one.get("controller")]
    if not owners:
        return NONE
    group = owners[0]["apiVersion"].rpartition("/")[0]
    kind = owners[0]["kind"].lower()
    return f"{kind}.{group}/{owners[0]['name']}" if group else f"{kind}/{owners[0]['name']}"


CONTROLLER_REVISION: Final = (
    NAME,
    Column("Controller", plain(_owner), "Whose state it keeps."),
    Column("Revision", at("revision", default=0), "Its number."),
    AGE,
)


def _completions(job: Json) -> str:
    succeeded, spec = job["status"].get("succeeded", 0), job["spec"]
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _state(job: Json) -> str:
    true = {one["type"] for one in job["status"].get("conditions") or () if one["status"] == "True"}
    for condition, shown in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in true:
            return shown
    if is_deleted(job):
        return "Terminating"
    for condition, shown in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return shown
    return "Running"


def _duration(job: Json, now: float) -> Any:
    status = job["status"]
    if not status.get("startTime"):
        return ""
    ended = [one for one in status.get("conditions") or () if one["type"] == "Failed" and one["status"] == "True"]
    end = status.get("completionTime") or (ended[0]["lastTransitionTime"] if ended else None)
    return short_age((parse_rfc3339(end) if end else now) - parse_rfc3339(status["startTime"]))


JOB: Final = (
    NAME,
    Column("Status", plain(_state), "Whether it runs, or how it ended."),
    Column("Completions", plain(_completions), "How many pods have succeeded, of those wished for."),
    Column("Duration", _duration, "How long it has run."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
