"""The course of one life, whatever lives it: from its seed to its verdict.

`Life` is what the lives of all parts have in common. A part says in its `run.py` what its world and its programs are,
what happens in the chaos, and what must be so at the end; its `PART` is a row of the table in `parts.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import io
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from mooring.base import log
from mooring.kube.cache.reflector import WATCH_GRACE_S, WATCH_S
from tests.sim.checkers import Complaint
from tests.sim.disorder import disorder
from tests.sim.keeper import Keeper
from tests.sim.planting import Bug, planted_of
from tests.sim.shrinking import cut
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
STAND_STEPS: Final = 20
SIGNS: Final = ("unexpected", "The driver failed")
"""What the log says when an exception was caught that nobody meant to raise: in the attacher, or in the backend's
model.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """broken: None for a life without fault. lives_count: how many of the controller there were. part: what is
    simulated.

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
        """What broke, the story's end, and how to see it again; with --shrink at its end, that makes the life
        smaller.
        """
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


class Life(Course[W]):
    """A life of a plan: chaos, peace, and what must be so then.

    keepers: of its programs. counted: of those, whose incarnations the outcome counts, all by default. calm_s_max: how
    long it may take until all is well. looks_s: between two looks at a world that is not well yet, at first and after
    quick_looks. told_s: how long Events may be on their way when all is well. restless: the invariant of a world that
    does not stay as it is. acts: of the part. checkers: its module of that name.
    """

    world_type: ClassVar[Callable[[Any, Any], Any]]
    calm_s_max: ClassVar[float] = 300.0
    looks_s: ClassVar[tuple[float, float]] = (CALM_STEP_S, CALM_STEP_S)
    quick_looks: ClassVar[int] = 20
    told_s: float = TOLD_S
    restless: ClassVar[str] = "restless"
    acts: Any
    checkers: ClassVar[Any]

    def __init__(self, plan: Any) -> None:
        super().__init__(lambda group: type(self).world_type(plan, group))
        self.plan = plan
        self.keepers: Sequence[Keeper] = ()
        self.counted: Sequence[Keeper] | None = None

    async def live(self, world: W) -> None:
        await self.prepare(world)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(work, name=name) for name, work in self.works(world)]
            while world.clock.now() < self.plan.chaos_s:
                await world.clock.sleep(world.randomness["actor"].uniform(0.0, 2 * self.plan.pause_s))
                await self.disturb()
            world.heal()
            await self.make_peace(world)
            await self.end(world)
            self.lives_count = sum(keeper.started_count for keeper in self.counted or self.keepers)
            for task in running:
                task.cancel()

    # -- what a part says

    async def prepare(self, world: W) -> None:
        """Makes programs and actors, and the world before anything goes wrong."""
        raise NotImplementedError

    def works(self, world: W) -> Iterable[tuple[str, Coroutine[Any, Any, None]]]:
        """What runs until the end, each with its name."""
        return [("sim/keeper", keeper.run()) for keeper in self.keepers]

    async def disturb(self) -> None:
        """One act of the chaos, and what the controllers beside our programs do then."""
        await self.acts.disturb()
        await self.acts.tend()

    async def make_peace(self, world: W) -> None:
        """Gives back what is needed, and takes away what stands in the way."""
        await self.acts.make_peace()

    async def end(self, world: W) -> None:
        """All is well, and stays so."""
        if await self.is_soon(world, lambda: [*self.complaints(world), *self.unsettled()], "well"):
            await self.rest(world, lambda: self.complaints(world), "well")

    async def tend(self, waited_s: float) -> None:
        """One round of the controllers beside our programs, while the world comes to rest."""
        await self.acts.tend()

    async def gives_up(self) -> bool:
        """True where users still had to give up something."""
        return False

    def complaints(self, world: W) -> Sequence[Complaint]:
        """What is not as it must be when all is well."""
        found: Sequence[Complaint] = self.checkers.complaints(world)
        return found

    def calm_s_of(self, world: W) -> float:
        """How long it may take until all is well: a server that was set back as a watch began is noticed at its end."""
        return self.calm_s_max + (max(WATCH_S) + WATCH_GRACE_S if world.server.set_back_count else 0.0)

    def fingerprint(self, world: W) -> object:
        """Changes with every write and call."""
        return self.checkers.fingerprint(world)

    # -- its phases

    def unsettled(self) -> list[Complaint]:
        return [("unsettled", what) for keeper in self.keepers for what in keeper.unsettled()]

    async def stand(self, world: Any) -> None:
        """What stands in the way for good stays for a while: whoever waits has been told."""
        obstacle_s = self.plan.habits.obstacle_s
        end = world.clock.now() + obstacle_s
        while world.clock.now() < end:
            await self.acts.tend()
            await world.clock.sleep(obstacle_s / STAND_STEPS)
        for law, text in self.checkers.silent(world) if obstacle_s else ():
            world.fail(law, text)
        world.backend.relent()

    async def is_soon(self, world: W, wrong: Callable[[], Sequence[Complaint]], state: str) -> bool:
        """Waits until nothing is wrong any more. False when that takes too long, which is a broken law."""
        began, looks = world.clock.now(), 0
        while (found := wrong()) or await self.gives_up():
            looks += 1
            waited_s = world.clock.now() - began
            if found and waited_s > (calm_s := self.calm_s_of(world)):
                what = "; ".join(text for _, text in found)
                world.fail(found[0][0], f"not {state} after {calm_s:g} s: {what}")
                return False
            await self.tend(waited_s)
            await world.clock.sleep(self.looks_s[looks > self.quick_looks])
        self.rested_s = world.clock.now()
        world.story.tell("world", f"all is {state}")
        return True

    async def rest(self, world: W, wrong: Callable[[], Sequence[Complaint]], state: str) -> None:
        """Such a world stays as it is: nothing is written, nothing is called. Events get a while first."""
        if self.told_s:
            await world.clock.sleep(self.told_s)
        before = self.fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in wrong():
            world.fail(invariant, f"all was {state}, and then: {text}")
        if (after := self.fingerprint(world)) != before:
            world.fail(self.restless, f"all was {state}, and then something was done: {before} became {after}")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What is simulated, a row of `parts.py`.

    bugs: what can be planted in it. around: what is patched while a plan is lived. loop_of: the loop of a plan's life.
    """

    name: str
    plan_of: Callable[[int], Any]
    life_of: Callable[[Any], Course[Any]]
    bugs: Mapping[str, Bug]
    around: Callable[[Any], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    loop_of: Callable[[Any], Callable[[int], BoundedLoop]] = lambda plan: BoundedLoop

    def run_seed(self, seed: int, *, bug: str | None = None, cuts: tuple[str, ...] = ()) -> Outcome:
        """Lives the life of a seed. bug: one of `bugs`, planted for this life. cuts: as in `shrinking.py`."""
        plan = cut(self.plan_of(seed), cuts)
        life, verbosity = self.life_of(plan), getattr(plan, "verbosity", 0)
        try:
            with planted_of(self.bugs, bug), self.around(plan):
                return lived(life, seed, bug, self.name, cuts, make_loop=self.loop_of(plan), verbosity=verbosity)
        finally:
            if life.world is not None:
                life.world.close()


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
