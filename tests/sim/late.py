"""Writes that are carried out after the attacher gave them up: they lay on the way, and the next of their name may be there by then."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from mooring.kube.cluster import Request
from mooring.kube.errors import ApiError, Unreachable
from tests.sim.laws import Write
from tests.sim.line import Line

LATE_S_MAX: Final = 10.0


class LateLine(Line):
    """A line on which that can happen to any write."""

    async def _patched(self, write: Write, request: Request) -> Any:
        randomness = self._world.randomness["late"]
        write.excused = write.excused or request.name in self._world.late_names
        if not self._world.faulty or not randomness.happens(self._world.plan.late):
            return await super()._patched(write, request)
        await self._asked(write.what, writes=True)
        uid, after_s = self._world.truth.uid(request.kind, request.name), randomness.uniform(0.0, LATE_S_MAX)
        self._tell(f"{write.what}: given up, on its way for {after_s:.3f} s")
        self._world.group.create_task(self._carry_out(request, uid, after_s), name=f"late/{write.what}/{self._world.clock.now()}")
        self._world.late_count += 1
        self._world.late_names.add(request.name)
        raise Unreachable("timed out")

    async def _carry_out(self, request: Request, uid: str, after_s: float) -> None:
        """Whatever it does to the object that it was made for is bad luck; to another one it must do nothing."""
        truth, kind, name = self._world.truth, request.kind, request.name
        await self._world.clock.sleep(after_s)
        self._world.late_count -= 1
        before = truth.uid(kind, name), truth.version(kind, name)
        with contextlib.suppress(ApiError):
            await self._world.cluster.ask(request)
        did = truth.version(kind, name) != before[1]
        self._world.story.tell("API server", f"{self._mortal.who}'s late {request.kind.plural} {name}: {'done' if did else 'refused'}")
        if did and before[0] != uid:
            self._world.fail("late-astray", f"a write to {name} that was given up changed the next of that name: {request.body.body}")
