"""Pods as workloads see them: whether they count, since when, which goes first; and templates: new pods, hashes,
shares. Pure.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import Condition, Object, annotation, is_deleting
from mooring.api.pods import Pod
from mooring.base.clock import parse_rfc3339

Json = dict[str, Any]

FINISHED: Final = ("Succeeded", "Failed")
BURST_MAX: Final = 500
"""Pods made or deleted in one turn."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1}
_RUNNING: Final = 2


def is_active(pod: Pod, going: Collection[str]) -> bool:
    """True for a pod that has neither ended nor is to end. going: the uids of those that we have deleted."""
    return pod.status.phase not in FINISHED and not is_going(pod, going)


def is_going(pod: Pod, going: Collection[str]) -> bool:
    return is_deleting(pod) or pod.metadata.uid in going


def is_ready(pod: Pod) -> bool:
    ready = _ready(pod)
    return ready is not None and ready.status == "True"


def is_running_and_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and is_ready(pod)


def available_in_s(pod: Pod, min_ready_s: int, now: float) -> float | None:
    """Seconds until the pod has been ready for so long, 0 for already, None for a pod that is not ready. now: seconds
    since the epoch.
    """
    return max(0.0, left_s(ready_since(pod), min_ready_s, now)) if is_ready(pod) else None


def left_s(began_at: float, length_s: float, now: float) -> float:
    """Seconds of a time that are left, below 0 once it is over. At most length_s: a clock that is behind may be set
    right meanwhile.
    """
    return min(float(length_s), began_at + length_s - now)


def is_available(pod: Pod, min_ready_s: int, now: float) -> bool:
    return available_in_s(pod, min_ready_s, now) == 0


def soonest_s(pods: Iterable[Pod], min_ready_s: int, now: float) -> float | None:
    """Seconds until the next of them becomes available by time alone; None for never."""
    waits = [wait for pod in pods if (wait := available_in_s(pod, min_ready_s, now))]
    return min(waits, default=None)


def ready_since(pod: Pod) -> float:
    """When the pod became ready, in seconds since the epoch. A condition without a time counts from the pod's creation:
    node agents may leave it out.
    """
    ready = _ready(pod)
    return _seconds(
        ready.last_transition_time if ready and ready.last_transition_time else pod.metadata.creation_timestamp
    )


def created_at(obj: Object) -> float:
    return _seconds(obj.metadata.creation_timestamp)


def first_to_go(pods: Iterable[Pod], count: int, beside: Iterable[Pod] = ()) -> tuple[Pod, ...]:
    """So many pods, those that are missed least: without a node, not ready, cheap, on a crowded node, young.

    beside: other pods that make a node crowded.
    """
    all_pods = tuple(pods)
    crowd = Counter(pod.spec.node_name for pod in (*all_pods, *beside))

    def worth(pod: Pod) -> tuple[Any, ...]:
        phase = _PHASES.get(pod.status.phase, _RUNNING)
        ready = is_ready(pod)
        cost = _whole(annotation(pod, DELETION_COST))
        since = -ready_since(pod) if ready else 0.0
        return (
            bool(pod.spec.node_name),
            phase,
            ready,
            cost,
            -crowd[pod.spec.node_name],
            since,
            -created_at(pod),
            pod.metadata.name,
        )

    return tuple(sorted(all_pods, key=worth)[:count])


def from_template(template: Mapping[str, Any], owner: Json, *, generate_name: str = "") -> Json:
    """A new pod's body. owner: the reference to its controller."""
    meta = template.get("metadata") or {}
    metadata: Json = {part: copy.copy(meta[part]) for part in ("labels", "annotations", "finalizers") if meta.get(part)}
    if generate_name:
        metadata["generateName"] = generate_name
    metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template.get("spec") or {})}


def _ready(pod: Pod) -> Condition | None:
    return next((one for one in pod.status.conditions or () if one.type == "Ready"), None)


def _seconds(timestamp: str | None) -> float:
    return parse_rfc3339(timestamp) if timestamp else 0.0


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of a hash, of which no bad word is made."""


def template_hash(template: Mapping[str, Any], collisions: int | None) -> str:
    """The template's hash, which looks like upstream's and differs: that hashes Go's structs. collisions: how often it
    met another template's.
    """
    text = msgspec.json.encode([template, collisions], order="deterministic")
    number = int.from_bytes(hashlib.blake2b(text, digest_size=4).digest())
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def share_of(share: int | str | None, total: int, *, up: bool) -> int:
    """A number of pods, given as it is or as a percentage. up: rounds up."""
    if share is None:
        return 0
    if isinstance(share, int):
        return share
    part = int(share.removesuffix("%")) * total / 100
    return math.ceil(part) if up else math.floor(part)


def with_label(template: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    meta = template.get("metadata") or {}
    return {**template, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), name: value}}}


def without_label(template: Mapping[str, Any], name: str) -> dict[str, Any]:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != name}
    rest = {key: value for key, value in meta.items() if key != "labels"}
    return {**template, "metadata": {**rest, **({"labels": labels} if labels else {})}}
