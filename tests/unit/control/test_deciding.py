"""decide → explain → perform → result: the loop that no room writes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from mooring.control.controller import Controller
from mooring.control.decision import PATIENCE, Deciding, Decision, Destroys, Failed
from mooring.control.events import REPEAT_S, SLACK_S
from mooring.control.queue import BackOff
from mooring.control.result import Result, Stale
from mooring.control.runtime import Runtime
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.control.test_controller import a_runtime

pytestmark = in_virtual_time


@dataclasses.dataclass(frozen=True)
class Full:
    error: str = "no room"

    def __str__(self) -> str:
        return f"waits: {self.error}"


class Room:
    """Plays decisions, and what comes of performing them, the last one for ever."""

    def __init__(self, *decisions: Decision[str], outcomes: tuple[Exception | Result | None, ...] = (None,)) -> None:
        self.decisions, self.outcomes = list(decisions), list(outcomes)
        self.story: list[str] = []
        self.shown: list[tuple[float, str, object]] = []
        self.performed_at: list[float] = []
        self.backoff = BackOff(1.0, 1.0, jitter=0.0)
        self.reads: tuple[Exception | None, ...] = ()

    def decide(self, key: str) -> Decision[str]:
        self.story.append("decides")
        return self.decisions.pop(0) if len(self.decisions) > 1 else self.decisions[0]

    async def perform(self, key: str, decision: Decision[str]) -> Result | None:
        self.performed_at.append(asyncio.get_running_loop().time())
        self.story += decision.actions
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def reads_of(self, key: str, decision: Decision[str]) -> list[Callable[[], Awaitable[None]]]:
        """For a decision to destroy: one for each of `reads`, which fails with its error."""

        async def read(error: Exception | None) -> None:
            self.story.append("reads")
            if error is not None:
                raise error

        return [functools.partial(read, error) for error in self.reads if "destroy" in decision.actions]

    async def show(self, key: str, decision: Decision[str], failure: Failed) -> None:
        self.shown.append((asyncio.get_running_loop().time(), str(failure), failure.problem))

    def explained(self, name: str, key: object, because: object) -> None:
        self.story.append(str(because))

    def controller(self) -> Controller[str]:
        runtime: Runtime = msgspec.structs.replace(a_runtime(), explained=self.explained)
        deciding = Deciding(self.decide, self.perform, self.show, work="grow", reads=self.reads_of)
        return Controller(runtime, "test", deciding, workers=1, backoff=self.backoff)

    @contextlib.asynccontextmanager
    async def working(self, seconds: float) -> AsyncIterator[Controller[str]]:
        controller = self.controller()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(controller.run())
            controller.add("a")
            await asyncio.sleep(seconds)
            yield controller
            task.cancel()


NOTHING: Decision[str] = Decision("all is done")


async def test_a_decision_is_explained_before_it_is_performed():
    room = Room(Decision("grows", ("mark", "call"), again=True), NOTHING)
    async with room.working(1):
        pass
    assert ["decides", "grows", "mark", "call", "decides", "all is done", "all is done"] == room.story


async def test_a_decision_that_waits_wakes_by_its_topic_and_keeps_the_back_off():
    waits: Decision[str] = Decision("waits", waits_for=frozenset({"call/v1"}))
    room = Room(
        Decision("grows", ("call",)),
        waits,
        Decision("grows", ("call",)),
        outcomes=(Failed("no"), None, Failed("no"), None),
    )
    room.backoff = BackOff(1.0, 60.0, jitter=0.0)
    async with room.working(100) as controller:
        assert [0, 1] == room.performed_at
        controller.tell("call/v1")
        await asyncio.sleep(10)
    assert [0, 1, 100, 102] == room.performed_at


async def test_perform_may_come_to_another_result():
    room = Room(Decision("polls", ("ask",)), outcomes=(Result("not ready", after_s=7.0),))
    async with room.working(10):
        pass
    assert [0, 7] == room.performed_at


async def test_before_it_destroys_it_reads_and_decides_again():
    room = Room(Decision("goes", ("destroy",)), Decision("goes", ("destroy",)), NOTHING, NOTHING)
    room.reads = (None, None)
    async with room.working(1):
        pass
    assert ["decides", "goes", "reads", "reads", "decides", "destroy", "goes"] == room.story


class Destroy(Destroys, str):
    @property
    def destroys(self) -> bool:
        return self != "sweep"


async def test_what_destroys_is_not_performed_where_nothing_was_read(caplog: pytest.LogCaptureFixture) -> None:
    room = Room(Decision("goes", (Destroy("destroy"),)))
    async with room.working(0.5):
        pass
    assert ["decides", "goes"] == room.story
    assert "by the cache alone: goes" in caplog.text


async def test_what_had_ended_anyway_goes_without_a_read() -> None:
    room = Room(Decision("goes", (Destroy("sweep"),)), NOTHING)
    async with room.working(0.5):
        pass
    assert ["decides", "goes", "sweep", "goes"] == room.story


async def test_what_the_cache_has_missed_keeps_it_from_being_destroyed():
    room = Room(Decision("goes", ("destroy",)), Decision("is kept"))
    room.reads = (None,)
    async with room.working(1):
        pass
    assert ["decides", "goes", "reads", "decides", "decides", "is kept", "is kept"] == room.story


async def test_what_was_decided_on_one_object_is_not_done_for_another_of_its_name():
    """The same actions: they are about the object that was read, and its uid goes along with them."""
    before, after = (Decision("goes", ("destroy",), uid=uid) for uid in ("uid-1", "uid-2"))
    room = Room(before, after, NOTHING)
    room.reads = (None,)
    async with room.working(1):
        pass
    assert ["decides", "goes", "reads", "decides", "decides", "all is done", "all is done"] == room.story


async def test_a_read_that_fails_keeps_it_from_being_destroyed_and_is_shown():
    room = Room(Decision("goes", ("destroy",)))
    room.reads = (Failed("no answer"),)
    async with room.working(0.5):
        pass
    assert "destroy" not in room.story
    assert [(0, "no answer", None)] == room.shown


@each_row("failures", range(1, PATIENCE + 2))
async def test_what_mostly_passes_is_shown_once_it_lasts(failures: int):
    room = Room(Decision("grows", ("call",)), outcomes=(*[Failed("cut", patience=PATIENCE)] * failures, None))
    async with room.working(failures + 1):
        pass
    assert [at for at, *_ in room.shown] == [at for at in range(failures) if at >= PATIENCE - 1]
    assert failures + 1 == len(room.performed_at)


async def test_a_failure_is_shown_unless_users_were_told(caplog: pytest.LogCaptureFixture):
    room = Room(Decision("grows", ("call",)), outcomes=(Failed("no"), Failed("told", is_shown=True), None))
    async with room.working(5):
        pass
    assert [(0, "no", None)] == room.shown
    assert ["failed to grow: no", "failed to grow: told"] == [line.partition(" key=")[0] for line in caplog.messages]


async def test_a_failure_is_over_at_once_when_what_heals_it_is_told():
    room = Room(Decision("grows", ("call",)), outcomes=(Failed("no", heals=["room/n1"]), None))
    async with room.working(0.5) as controller:
        controller.tell("room/n1")
        await asyncio.sleep(0.1)
    assert [0, 0.5] == room.performed_at


async def test_a_stale_decision_is_made_anew_and_nobody_hears_of_it():
    room = Room(Decision("grows", ("call",)), outcomes=(Stale("moved"), None))
    async with room.working(5):
        pass
    assert ([0, 0], []) == (room.performed_at, room.shown)


async def test_a_problem_without_anything_to_wait_for_is_a_failure():
    problem = Full()
    room = Room(Decision("grows", ("mark",), problem), NOTHING)
    async with room.working(5):
        pass
    assert [(0, "no room", problem)] == room.shown
    assert [0, 1] == room.performed_at, "after the back-off"


async def test_a_problem_that_waits_is_told_now_and_then():
    problem = Full()
    room = Room(Decision(problem, problem=problem, waits_for=frozenset({"room"})))
    async with room.working(2 * REPEAT_S):
        pass
    assert [(0, "no room", problem), (REPEAT_S + SLACK_S, "no room", problem)] == room.shown
