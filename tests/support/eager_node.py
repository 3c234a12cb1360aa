"""A node on any cluster that runs every pod as soon as it is there, and ends it when it is deleted: no volumes, no
containers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from mooring.api.pods import PODS
from mooring.base.clock import Clock, parse_rfc3339, rfc3339
from mooring.kube.errors import ApiError
from tests.support.builders import Json
from tests.support.cluster_world import ClusterUser


class EagerNode:
    """ready_s: until a pod is ready. end_s: until a deleted pod is gone. look_s: how often it looks. saw: is given the
    pods of each look.

    sick: beginnings of the names of pods that never become ready. ends: the phase in which pods end at once whose names
    begin so.
    """

    def __init__(self, user: ClusterUser, clock: Clock, *, ready_s: float, end_s: float, look_s: float) -> None:
        self._user, self._clock = user, clock
        self._ready_s, self._end_s, self._look_s = ready_s, end_s, look_s
        self.sick: tuple[str, ...] = ()
        self.ends: dict[str, str] = {}
        self.saw: Callable[[list[Json]], None] = lambda _pods: None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._look_s)
            pods = await self._user.list(PODS)
            self.saw(pods)
            for pod in pods:
                with contextlib.suppress(ApiError):
                    await self._step(pod)

    def _step(self, pod: Json) -> Awaitable[object]:
        meta, now = pod["metadata"], self._clock.wall_s()
        if meta.get("deletionTimestamp"):
            return self._end(pod, now)
        if not pod["spec"].get("nodeName"):
            target = {"target": {"kind": "Node", "name": "n1"}}
            return self._user.users.post(
                PODS, meta["name"], "binding", {"metadata": {"name": meta["name"]}, **target}, meta["namespace"]
            )
        if pod["status"]["phase"] == "Pending" and not meta["name"].startswith(self.sick or ("no such name",)):
            return self._start(pod, now)
        return asyncio.sleep(0)

    async def _end(self, pod: Json, now: float) -> None:
        meta = pod["metadata"]
        grace_s = meta["deletionGracePeriodSeconds"]
        if grace_s and now - (parse_rfc3339(meta["deletionTimestamp"]) - grace_s) >= self._end_s:
            await self._user.users.delete(PODS, meta["name"], meta["namespace"], grace_period_s=0)

    async def _start(self, pod: Json, now: float) -> None:
        meta = pod["metadata"]
        if now - parse_rfc3339(meta["creationTimestamp"]) >= self._ready_s:
            await self._user.patch(
                PODS, meta["name"], {"status": self._status(meta["name"], now)}, meta["namespace"], "status"
            )

    def _status(self, name: str, now: float) -> Json:
        for beginning, phase in self.ends.items():
            if name.startswith(beginning):
                return {"phase": phase}
        return {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(now)}],
        }
