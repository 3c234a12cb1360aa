"""The course of one life, whatever lives it: from its seed to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import io
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from mooring.base import log
from tests.sim.disorder import disorder
from tests.sim.standing import StandingLoop, WorldGroup
from tests.sim.story import Broken, Story
from tests.sim.world import SimWorld
from tests.support.virtual_loop import Deadlock

W = TypeVar("W", bound=SimWorld)

CALM_STEP_S: Final = 0.5
REST_S: Final = 30.0
TOLD_S: Final = 70.0
"""Until everybody who waits has heard why: some words come after a minute."""
TURNS_MAX: Final = 5000
"""Turns of the loop in a virtual second."""
COLLECT_AFTER: Final = 50_000
"""Objects more than there were: a life makes cycles by the thousand, and is over soon."""
STORY_STEPS: Final = 60
SIGNS: Final = ("unexpected", "The driver failed")
"""What the log says when an exception was caught that nobody meant to raise: in the attacher, or in the backend's model."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """broken: None for a life without fault. lives_count: how many of the controller there were. part: what is simulated.

    rested_s: the virtual time at which all was well. cuts: those that its plan was made smaller by.
    """

    seed: int
    bug: str | None
    broken: Broken | None
    story: Story
    lives_count: int
    rested_s: float
    part: str
    cuts: tuple[str, ...] = ()

    def report(self) -> str:
        """What broke, the story's end, and how to see it again; with --shrink at its end, that makes the life smaller."""
        bug = f" --bug {self.bug}" if self.bug else ""
        cuts = "".join(f" --cut {one}" for one in self.cuts)
        replay = f"replay: .venv/bin/python -m tests.sim --part {self.part} --seed {self.seed}{bug}{cuts}"
        return f"seed {self.seed}\n{self.story.tail(STORY_STEPS)}\n{self.broken or 'nothing broke'}\n{replay}"


class Course(Generic[W]):
    """Chaos, peace, rest. make_world: given the group that owns the world's tasks."""

    def __init__(self, make_world: Callable[[WorldGroup], W]) -> None:
        self._make_world = make_world
        self.world: W | None = None
        self.broken: Broken | None = None
        self.story = Story(lambda: 0.0)
        self.lives_count = 0
        self.rested_s = 0.0

    async def run(self) -> None:
        """Until its end, or until a law is broken."""
        async with WorldGroup() as group:
            self.world = world = self._make_world(group)
            self.story = world.story
            life = group.create_task(self.live(world), name="sim/life")
            either: list[asyncio.Future[Any]] = [life, world.verdict]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if world.verdict.done():
                self.broken = world.verdict.result()
            loop = asyncio.get_running_loop()
            assert isinstance(loop, StandingLoop), "what stands still could not end"
            loop.resume_all()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    async def live(self, world: W) -> None:
        raise NotImplementedError


def lived(
    course: Course[Any],
    seed: int,
    bug: str | None,
    part: str,
    cuts: tuple[str, ...],
    *,
    make_loop: Callable[[int], BoundedLoop] | None = None,
    verbosity: int = 0,
) -> Outcome:
    """The outcome of a course. bug, cuts: what is planted and cut already, for the report. verbosity: of the log."""
    with seldom_collected(), watched_log(course, verbosity), disorder(seed):
        loop = (make_loop or BoundedLoop)(seed)
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(course.run())
        except (Deadlock, RunsHot) as error:
            course.broken = Broken("hot-loop" if isinstance(error, RunsHot) else "standstill", str(error), loop.time())
        except BaseException as error:
            error.add_note(f"in the simulation of the {part}, seed {seed}")
            raise
    return Outcome(seed, bug, course.broken, course.story, course.lives_count, course.rested_s, part, cuts)


def failures_of(outcomes: Iterator[Outcome]) -> list[tuple[str, str, int]]:
    """Of each life that failed, its report, the invariant that was broken, and the seed."""
    return [(outcome.report(), outcome.broken.invariant, outcome.seed) for outcome in outcomes if outcome.broken]


class RunsHot(Exception):
    """Turn after turn of the loop without end."""


class BoundedLoop(StandingLoop):
    """Too many turns in a second are a loop without end. It is told once, so that what runs can still be ended."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._turns_count, self._second = 0, 0

    def _process_events(self, event_list: Any) -> None:
        super()._process_events(event_list)
        if (second := int(self.time())) != self._second:
            self._turns_count, self._second = 0, second
        self._turns_count += 1
        if self._turns_count == TURNS_MAX:
            raise RunsHot(f"{TURNS_MAX} turns of the loop in a second: something runs hot without a request")


class _Log(io.StringIO):
    """The log of a life. A worker that survives a bug of ours says so there, and nowhere else."""

    def __init__(self, course: Course[Any]) -> None:
        super().__init__()
        self._course = course

    def write(self, line: str) -> int:
        world = self._course.world
        if world is not None:
            world.log_line(line)
            if any(sign in line for sign in SIGNS):
                world.fail("unexpected-error", line.strip())
        return len(line)


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """The garbage of a life is looked for in large heaps."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def watched_log(course: Course[Any], verbosity: int = 0) -> Iterator[None]:
    log.configure(verbosity=verbosity, stream=_Log(course), wall_s=lambda: 0.0)
    try:
        yield
    finally:
        log.configure()
