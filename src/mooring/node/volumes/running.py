"""A pod's status: for one that has all its volumes, and one that was deleted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.api.meta import finalizers_of
from mooring.api.nodes import FALSE, READY, TRUE
from mooring.api.pods import Container, Pod
from mooring.base.clock import rfc3339
from mooring.node.volumes.view import FINISHED

_KINDS: Final = ("Initialized", "ContainersReady", READY)


def is_said_unready(pod: Pod) -> bool:
    """True where somebody else has said so, mostly node health while the node was silent: no kubelet leaves it at that."""
    return any(one.type == READY and one.status == FALSE for one in pod.status.conditions or ())


def is_kept_unended(pod: Pod) -> bool:
    """True for a deleted pod that stays for its finalizers, and does not say that it has ended: whoever holds it may wait for that.

    A kubelet says so of each pod that it has ended; one that nobody holds goes in the next moment.
    """
    return bool(finalizers_of(pod)) and pod.status.phase not in FINISHED


def lacks_containers(pod: Pod) -> bool:
    """True where nothing is said of the containers of a pod that has some: it counts as not ready, 0/1 to kubectl."""
    return bool(pod.spec.containers) and not pod.status.container_statuses


def running_containers(pod: Pod, now: float) -> dict[str, list[dict[str, Any]]]:
    """Each container runs and is ready; those that come before them have ended, but for sidecars. {} where others have said more."""
    if not lacks_containers(pod):
        return {}
    runs = {"running": {"startedAt": rfc3339(now)}}
    ended = _ended(0, "Completed", now)
    before = [_of(one, runs if one.restart_policy == "Always" else ended) for one in pod.spec.init_containers or ()]
    return _statuses([_of(one, runs) for one in pod.spec.containers or ()], before)


def ended_containers(pod: Pod, now: float) -> dict[str, list[dict[str, Any]]]:
    """Each has ended with its pod."""
    killed = _ended(137, "Error", now)
    before = [_of(one, killed if one.restart_policy == "Always" else _ended(0, "Completed", now)) for one in pod.spec.init_containers or ()]
    return _statuses([_of(one, killed) for one in pod.spec.containers or ()], before)


def _statuses(containers: Iterable[dict[str, Any]], before: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = {"containerStatuses": list(containers), "initContainerStatuses": list(before)}
    return {field: statuses for field, statuses in found.items() if statuses}


def _of(container: Container, state: Mapping[str, Any]) -> dict[str, Any]:
    is_well = "running" in state or state["terminated"]["exitCode"] == 0
    status = {"name": container.name, "image": container.image, "imageID": "", "restartCount": 0}
    return {**status, "ready": is_well, "started": "running" in state, "state": state, "lastState": {}}


def _ended(code: int, reason: str, now: float) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": rfc3339(now)}}


def running_conditions(pod: Pod, now: float) -> list[dict[str, str]]:
    """Those of a pod that runs; one that was otherwise says since when. now: seconds since the epoch."""
    changed = {one.type for one in pod.status.conditions or () if one.status != TRUE}
    return [{"type": kind, "status": TRUE, **({"lastTransitionTime": rfc3339(now)} if kind in changed else {})} for kind in _KINDS]
