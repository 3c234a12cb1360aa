"""The laws about what the users of pods are told, with the real recorder of Events: it makes one of many that are
similar.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from mooring.api.core import EVENTS, ObjectReference
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.control.events import COMBINED_PREFIX, SIMILAR_MAX, EventRecorder
from mooring.kube.cluster import Request
from tests.sim.node.told import NOT_ANSWERED, TOLD_S, Told
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster

pytestmark = in_virtual_time
PODS: Final = ("uid-a", "uid-b")
ERRORS: Final = [f"rpc error: code = Internal desc = reason {number:02}" for number in range(SIMILAR_MAX + 3)]


class Line(FakeCluster):
    """Shows the law what an agent asks for, as the line of a simulated agent does."""

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    async def ask(self, request: Request) -> Any:
        if request.kind is EVENTS:
            self._told.event("node1#1", request)
        return await super().ask(request)

    def texts(self) -> list[str]:
        return [one["message"] for (plural, _, _), one in self.objects.items() if plural == "events"]


class Life:
    """An agent whose driver refuses volumes."""

    def __init__(self) -> None:
        self.broken: list[tuple[str, str]] = []
        clock = LoopClock()
        self._told = Told(PODS, lambda law, text: self.broken.append((law, text)), lambda: clock.now())
        self._told.is_at_once = True
        self.line = Line(self._told)
        self._recorder = EventRecorder(self.line, "kubelet", clock=clock, randomness=Random(1))

    async def refuse(self, told_of: Callable[[str, str], bool]) -> None:
        """With each error, each pod; then the law has had its time. told_of: whether the users of this pod are told of
        this error.
        """
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self._recorder.run())
            for error in ERRORS:
                for uid in PODS:
                    self._told.refused(f"/pods/{uid}/mount", error, "publish handle", lambda: True)
                    if told_of(uid, error):
                        self.tell(uid, error)
                await asyncio.sleep(1)
            await self._recorder.drain(TOLD_S)
            await asyncio.sleep(TOLD_S)
            running.cancel()
        self._told.look()

    def tell(self, uid: str, text: str) -> None:
        pod = ObjectReference("v1", "Pod", "default", uid.replace("uid", "pod"), uid)
        self._recorder.event(pod, "Warning", "FailedMount", f'MountVolume.SetUp failed for volume "pv" : {text}')


async def test_what_a_combined_event_says_later_is_told() -> None:
    life = Life()
    await life.refuse(lambda uid, error: True)
    assert [] == life.broken
    assert len(PODS) * SIMILAR_MAX == len(life.line.texts())
    assert len(PODS) == sum(
        text.startswith(COMBINED_PREFIX) and text.endswith(ERRORS[-1]) for text in life.line.texts()
    )


async def test_a_combined_event_tells_nothing_of_what_it_never_said() -> None:
    """Nor does that of another pod."""
    life = Life()
    await life.refuse(lambda uid, error: error != ERRORS[-2] or uid == "uid-b")
    assert [("untold", f"publish handle: {ERRORS[-2]}, 10 s ago, and the pod has no event that says so")] == life.broken


async def test_a_combined_event_that_blames_a_driver_is_judged() -> None:
    life = Life()
    slow = f"{NOT_ANSWERED} 30 s"

    def told_of(uid: str, error: str) -> bool:
        if error == ERRORS[-1] and uid == "uid-a":
            life.tell(uid, slow)
        return True

    await life.refuse(told_of)
    assert [("told-astray", f'{COMBINED_PREFIX}MountVolume.SetUp failed for volume "pv" : {slow}')] == life.broken
