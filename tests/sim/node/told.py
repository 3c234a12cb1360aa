"""What the users of pods are told, in lives where an event is on its way at once.

| law         | broken when                                                                                            |
| ----------- | ------------------------------------------------------------------------------------------------------ |
| untold      | a driver refused a pod a volume, the agent lived on, and the pod has no event that says so             |
| told-astray | users are told that a driver does not answer, and no call of that agent has been under way for so long |
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from mooring.kube.cluster import Request, Verb
from mooring.node.volumes.steps.announcements import SLOW_S
from tests.sim.node.plan import Plan

TOLD_S: Final = 10.0
"""By then an event has been asked for."""
LATE_S: Final = 5.0
"""From the beginning of a step to that of its call, and from the end of a call: what is read before it, and the
event's own way.
"""
TAKEN_BACK: Final = "the driver says that it has taken the volume back, but "
"""What is told of a refusal after which the disk failed, too."""
REASONS: Final = ("FailedMount", "FailedMapVolume")
NOT_ANSWERED: Final = "has not answered for"
Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _Refused:
    """error: the driver's. what: for the complaint. due_s: when the pod's users know."""

    uid: str
    error: str
    what: str
    due_s: float
    lives: Callable[[], bool]


class Told:
    """pods: the uids of those that there are. is_at_once: whether what is told is judged."""

    def __init__(self, pods: Collection[str], fail: Callable[[str, str], None], now: Callable[[], float]) -> None:
        self._pods, self._fail, self._now = pods, fail, now
        self.is_at_once = False
        self._refused: deque[_Refused] = deque()
        self._of_pods: dict[str, list[str]] = defaultdict(list)
        self._pod_of: dict[tuple[str, str], str] = {}  # by an agent and the name of its Event
        self._under_way: dict[int, tuple[str, float]] = {}
        self._calls_count = 0
        self._ended: deque[tuple[float, str, float]] = deque()

    @contextlib.contextmanager
    def call(self, who: str) -> Iterator[None]:
        """A driver is asked, and waited for."""
        self._calls_count += 1
        number = self._calls_count
        self._under_way[number] = who, self._now()
        try:
            yield
        finally:
            self._ended.append((self._now(), *self._under_way.pop(number)))
            while self._ended[0][0] < self._now() - LATE_S:
                self._ended.popleft()

    def refused(self, path: str, error: str, what: str, lives: Callable[[], bool]) -> None:
        """A driver did not publish at this path. lives: whether the agent that asked it still does."""
        if self.is_at_once and (uid := next((uid for uid in self._pods if uid in path), "")):
            self._refused.append(_Refused(uid, error, f"{what}: {error}", self._now() + TOLD_S, lives))

    def event(self, who: str, request: Request) -> None:
        """An agent asks for an Event, whatever the API server says. A change counts, too: Events that are similar
        become one.
        """
        is_new = request.verb is Verb.CREATE
        body: Json = request.body if is_new else request.body.body
        if is_new and body.get("reason") in REASONS:
            self._pod_of[who, request.name] = body["involvedObject"].get("uid", "")
        text = body.get("message", "")
        if (uid := self._pod_of.get((who, request.name))) is not None:
            self._of_pods[uid].append(text)
        if self.is_at_once and NOT_ANSWERED in text and not self._is_waiting(who):
            self._fail("told-astray", text)

    def _is_waiting(self, who: str) -> bool:
        now = self._now()
        begun = [began for one, began in self._under_way.values() if one == who]
        begun += [began for ended, one, began in self._ended if one == who and ended >= now - LATE_S]
        return any(began <= now - SLOW_S + LATE_S for began in begun)

    def look(self) -> None:
        """At what is due."""
        while self._refused and self._refused[0].due_s <= self._now():
            refused = self._refused.popleft()
            is_told = any(refused.error in text or TAKEN_BACK in text for text in self._of_pods[refused.uid])
            if refused.lives() and refused.uid in self._pods and not is_told:
                self._fail("untold", f"{refused.what}, {TOLD_S:g} s ago, and the pod has no event that says so")


def is_at_once(plan: Plan) -> bool:
    """True where neither the API server, nor the disk, nor a process that stands still holds up what an agent has to
    tell.
    """
    api, server = plan.api, plan.server
    is_quick = not (
        api.refused or api.lost or api.slow or plan.disk.hung or plan.stops.still or plan.habits.slow_claims
    )
    return is_quick and not (server.late or server.odd or server.lasting)
