"""Jobs: what is asked, how pods end, what a user does meanwhile, and when the controller begins anew.

A node beside it runs each pod, and ends it when it is deleted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api.pods import PODS
from mooring.api.workloads import JOBS
from tests.sim.states.rooms.working import END_S, LOOK_S, READY_S, controllers, until_still
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import Json, a_job
from tests.support.cluster_world import ClusterUser
from tests.support.eager_node import EagerNode
from tests.support.scripted_driver import ScriptedDriver

_COMPLETIONS: Final[dict[str, Json]] = {"one": {"completions": 1}, "three": {"completions": 3}, "any": {}}
_ENDS: Final = {"succeed": 0, "fail": 10**6, "fail-once": 1, "fail-twice": 2}
_MEANWHILE: Final = ("nothing", "suspended", "pod-deleted")
_RESTART: Final[dict[str, float | None]] = {"never": None, "at-once": 0.5, "soon": 3.5, "later": 15.0}


class JobsRoom:
    """ends: how many pods fail before the others succeed. meanwhile: suspended for a while, or the first pod is
    deleted.
    """

    name = "jobs"
    rounds = ()
    space = Space(
        Axis("completions", tuple(_COMPLETIONS)),
        Axis("parallelism", ("1", "2")),
        Axis("limit", ("2", "1", "0")),
        Axis("ends", tuple(_ENDS)),
        Axis("meanwhile", _MEANWHILE),
        Axis("restart", tuple(_RESTART)),
    )

    def bodies(self, state: State) -> list[Json]:
        asked = {"parallelism": int(state["parallelism"]), "backoffLimit": int(state["limit"])}
        return [a_job(**_COMPLETIONS[state["completions"]], **asked)]

    def driver(self, state: State) -> ScriptedDriver:
        return ScriptedDriver()

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        user = ClusterUser(world.users)
        node = _Node(user, world, fails=_ENDS[state["ends"]])
        return [controllers(world, _RESTART[state["restart"]]), until_still(node), _user(user, state)]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        [job] = world.all(JOBS)
        pods, status = world.all(PODS), job["status"]
        ended = Counter(pod["status"]["phase"] for pod in pods)
        conditions = {one["type"] for one in status.get("conditions") or () if one["status"] == "True"}
        for pod in pods:
            if pod["metadata"].get("finalizers"):
                yield "pod-held", f"{pod['metadata']['name']} is held: {pod['metadata']['finalizers']}"
        counted = {phase: status.get(phase.lower(), 0) for phase in ("Succeeded", "Failed")}
        gone = {
            phase: counted[phase] - ended[phase] for phase in counted
        }  # a Job that failed deletes pods that end in the same moment
        may_be_gone = int(state["parallelism"]) if state["meanwhile"] == "pod-deleted" or "Failed" in conditions else 0
        if (
            (gone["Succeeded"] > 0 and "Failed" not in conditions)
            or min(gone.values()) < 0
            or sum(gone.values()) > may_be_gone
        ):
            yield "miscounted", f"{dict(ended)} have ended, and the status says {counted}"
        if status.get("active") or status.get("uncountedTerminatedPods"):
            yield "miscounted", f"nothing runs any more, and the status says {status}"
        failures, limit = counted["Failed"], int(state["limit"])
        if failures > limit + int(state["parallelism"]):
            yield "beyond-limit", f"{failures} pods have failed, {limit} may"
        if "Failed" in conditions and failures <= limit:
            yield "failed-early", f"it has failed, and {failures} of its pods have: {limit} may"
        if not conditions & {"Complete", "Failed"}:
            yield "not-over", f"it has not ended: {status}"
        wanted = _COMPLETIONS[state["completions"]].get("completions", 1)
        if "Complete" in conditions and counted["Succeeded"] < wanted:
            yield "complete-early", f"it is complete with {counted['Succeeded']} of {wanted}"


class _Node(EagerNode):
    """The first pods that are started fail."""

    def __init__(self, user: ClusterUser, world: StateWorld, *, fails: int) -> None:
        super().__init__(user, world.clock, ready_s=READY_S, end_s=END_S, look_s=LOOK_S)
        self._fails = fails
        self._failed: set[str] = set()

    def _status(self, name: str, now: float) -> Json:
        if len(self._failed) < self._fails:
            self._failed.add(name)
        return {"phase": "Failed" if name in self._failed else "Succeeded"}


async def _user(user: ClusterUser, state: State) -> None:
    await asyncio.sleep(1.5)
    if state["meanwhile"] == "suspended":
        await user.patch(JOBS, "sum", {"spec": {"suspend": True}})
        await asyncio.sleep(60.0)
        await user.patch(JOBS, "sum", {"spec": {"suspend": False}})
    if state["meanwhile"] == "pod-deleted" and (pods := await user.list(PODS)):
        await user.delete(PODS, pods[0]["metadata"]["name"])
    await asyncio.Event().wait()
