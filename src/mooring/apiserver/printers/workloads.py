"""Deployments, ReplicaSets, StatefulSets, their revisions, and Jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.printers.column import NONE, is_deleted, plain, short_age, table
from mooring.apiserver.resource import Json
from mooring.apiserver.rules.podtemplate import selector_text
from mooring.base.clock import parse_rfc3339


def _containers(part: str) -> Callable[[Json], str]:
    def names(obj: Json) -> str:
        return ",".join(one.get(part, "") for one in obj["spec"]["template"]["spec"].get("containers") or ())

    return names


def _selector(obj: Json) -> str:
    return selector_text(obj["spec"].get("selector") or {}) or NONE


def _ready(obj: Json) -> str:
    return f"{obj['status'].get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


_TEMPLATE: Final = """
    Containers*  containers  The containers of its pods.
    Images*      images      The images of these.
"""
_SELECTED: Final = f"{_TEMPLATE.rstrip()}\n    Selector*    selector    The labels of its pods."
_CELLS: Final = {
    "ready": plain(_ready),
    "containers": plain(_containers("name")),
    "images": plain(_containers("image")),
    "selector": plain(_selector),
}

DEPLOYMENT: Final = table(
    f"""
    Name
    Ready       ready                       How many pods are ready, of those wished for.
    Up-to-date  .status.updatedReplicas=0   How many pods have the newest template.
    Available   .status.availableReplicas=0  How many pods have been ready long enough.
    Age{_SELECTED}
    """,
    **_CELLS,
)
REPLICA_SET: Final = table(
    f"""
    Name
    Desired:integer  .spec.replicas=0         How many pods are wished for.
    Current:integer  .status.replicas=0       How many pods there are.
    Ready:integer    .status.readyReplicas=0  How many pods are ready.
    Age{_SELECTED}
    """,
    **_CELLS,
)
STATEFUL_SET: Final = table(
    f"""
    Name
    Ready  ready  How many pods are ready, of those wished for.
    Age{_TEMPLATE.rstrip()}
    """,
    **_CELLS,
)


def _owner(revision: Json) -> str:
    owners = [one for one in revision["metadata"].get("ownerReferences") or () if one.get("controller")]
    if not owners:
        return NONE
    group = owners[0]["apiVersion"].rpartition("/")[0]
    kind = owners[0]["kind"].lower()
    return f"{kind}.{group}/{owners[0]['name']}" if group else f"{kind}/{owners[0]['name']}"


CONTROLLER_REVISION: Final = table(
    """
    Name
    Controller  owner        Whose state it keeps.
    Revision    .revision=0  Its number.
    Age
    """,
    owner=plain(_owner),
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


JOB: Final = table(
    f"""
    Name
    Status       state        Whether it runs, or how it ended.
    Completions  completions  How many pods have succeeded, of those wished for.
    Duration     duration     How long it has run.
    Age{_SELECTED}
    """,
    **_CELLS,
    state=plain(_state),
    completions=plain(_completions),
    duration=_duration,
)
