"""Workloads as the laws look at them: which states each has had, and since when; and which pods it has had."""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.sim.plane.line import PlaneWrite
from tests.sim.plane.stands import FINISHED, Json

SLACK_S: Final = 60.0
"""How long ago a turn may have begun whose writes still come: what it was decided by may be as old, whatever was
shown meanwhile.
"""
KINDS: Final = ("StatefulSet", "Deployment", "ReplicaSet", "Job")


def controller_of(obj: Json) -> Json | None:
    """The reference to it."""
    return next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)


@dataclasses.dataclass(slots=True)
class PodStand:
    """made: the version of its creation. ended: that of the first state in which it did not live any more, None while
    it does.

    succeeded: of its success; done: the same of one that nobody had deleted before. owners: uids of all controllers
    that it ever had. left: of those that it has no more, or by whose selector it is not meant any more, since which
    version.
    """

    made: int
    uid: str
    name: str
    ended: int | None = None
    succeeded: int | None = None
    done: int | None = None
    is_gone: bool = False
    ready: bool = False
    owners: set[str] = dataclasses.field(default_factory=set)
    left: dict[str, int] = dataclasses.field(default_factory=dict)

    def lived_for(self, owner: str, version: int) -> bool:
        """Whether it lived later than that, as one of this owner's."""
        ends = [end for end in (self.ended, self.left.get(owner)) if end is not None]
        return not ends or min(ends) > version

    def lives_for(self, owner: str) -> bool:
        return self.ended is None and owner not in self.left


class WorkloadStands:
    """pods: by uid, all that ever were. states: of workloads, by uid: (version, object), None at the end."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.pods: dict[str, PodStand] = {}
        self.states: dict[str, list[tuple[int, Json | None]]] = defaultdict(list)
        self._times: list[float] = []
        self._versions: list[int] = []

    def known(self, write: PlaneWrite, plural: str) -> int:
        """The newest version that the write can have been decided by for sure."""
        return min(write.knows(plural), self._version_at(self._now() - SLACK_S))

    def since(self, uid: str, version: int) -> Iterator[Json | None]:
        """The states of a workload from the one of this version on; all for one that is younger."""
        states = self.states[uid]
        first = bisect.bisect_right(states, version, key=lambda one: one[0])
        return (state for _, state in states[max(0, first - 1) :])

    def pods_of(self, uid: str) -> list[PodStand]:
        return [pod for pod in self.pods.values() if uid in pod.owners]

    def _version_at(self, at_s: float) -> int:
        place = bisect.bisect_right(self._times, at_s)
        return self._versions[place - 1] if place else 0

    def _passes(self, version: int) -> None:
        self._times.append(self._now())
        self._versions.append(version)

    def _workload_changed(self, version: int, new: Json | None, uid: str) -> None:
        self.states[uid].append((version, new))

    def _pod_stands(self, version: int, new: Json | None, uid: str) -> None:
        stand = self.pods.get(uid)
        if new is None:
            if stand is not None:
                stand.is_gone = True
                stand.ended = version if stand.ended is None else stand.ended
            return
        if stand is None:
            stand = self.pods[uid] = PodStand(version, uid, new["metadata"]["name"])
        owner, phase = controller_of(new), phase_of(new)
        stand.ready = any(
            one["type"] == "Ready" and one["status"] == "True" for one in new["status"].get("conditions") or ()
        )
        now_of = {owner["uid"]} if owner is not None and "app" in (new["metadata"].get("labels") or {}) else set()
        for former in stand.owners - now_of:
            stand.left.setdefault(former, version)
        for uid in now_of:
            stand.left.pop(uid, None)
        stand.owners |= now_of
        if phase == "Succeeded" and stand.succeeded is None:
            stand.succeeded = version
            stand.done = version if stand.ended is None else None
        if stand.ended is None and ("deletionTimestamp" in new["metadata"] or phase in FINISHED):
            stand.ended = version


def phase_of(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def pod_names(stateful_set: Json) -> list[str]:
    """Of the pods that are wished for, in order."""
    return [f"{stateful_set['metadata']['name']}-{ordinal}" for ordinal in ordinals_of(stateful_set)]


def ordinals_of(stateful_set: Json) -> range:
    spec: dict[str, Any] = stateful_set["spec"]
    start = int((spec.get("ordinals") or {}).get("start", 0))
    return range(start, start + int(spec["replicas"]))
