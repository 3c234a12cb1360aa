"""One life from its seed to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
from collections.abc import Iterator
from typing import Any, Final

from mooring.base import log
from tests.sim.actor import Actor
from tests.sim.acts import Acts
from tests.sim.bugs import planted
from tests.sim.checkers import complaints, fingerprint
from tests.sim.hands import Hands
from tests.sim.life import Supervisor
from tests.sim.plan import Plan, plan_of
from tests.sim.story import Broken, Story
from tests.sim.world import World
from tests.support.virtual_loop import Deadlock, VirtualLoop

CALM_S_MAX: Final = 300.0
"""How long everything may take to come to rest. The longest way there: a watch in its longest back-off, then a key in its own."""
CALM_STEP_S: Final = 0.5
REST_S: Final = 30.0
TURNS_MAX: Final = 5000
"""Turns of the loop in a virtual second."""
STORY_STEPS: Final = 60
SIGNS: Final = ("unexpected", "The driver failed")
"""What the log says when an exception was caught that nobody meant to raise: in the attacher, or in the backend's model."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """broken: None for a life without fault. attachers: how many lived. rested_s: the virtual time at which all was well."""

    seed: int
    bug: str | None
    broken: Broken | None
    story: Story
    attachers: int
    rested_s: float
    part: str = "attacher"

    def report(self) -> str:
        """What broke, the story's end, and how to see it again."""
        bug = f" --bug {self.bug}" if self.bug else ""
        part = "" if self.part == "attacher" else f" --part {self.part}"
        replay = f"replay: .venv/bin/python -m tests.sim{part} --seed {self.seed}{bug}"
        return f"seed {self.seed}\n{self.story.tail(STORY_STEPS)}\n{self.broken or 'nothing broke'}\n{replay}"


def run_seed(seed: int, *, bug: str | None = None) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted in the attacher for this life."""
    life = _Life(plan_of(seed))
    with planted(bug), watched_log(life):
        loop = BoundedLoop(seed)
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(life.run())
        except (Deadlock, RunsHot) as error:
            life.broken = Broken("hot-loop" if isinstance(error, RunsHot) else "standstill", str(error), loop.time())
        except BaseException as error:
            error.add_note(f"in the simulation of seed {seed}")
            raise
    return Outcome(seed, bug, life.broken, life.story, life.attachers, life.rested_s)


def failures(seeds: range, bug: str | None) -> list[tuple[str, str]]:
    """Of each failing seed, its report and the invariant that was broken."""
    outcomes = (run_seed(seed, bug=bug) for seed in seeds)
    return [(outcome.report(), outcome.broken.invariant) for outcome in outcomes if outcome.broken]


class _Life:
    """The course of one life: chaos, peace, rest."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.world: World | None = None
        self.broken: Broken | None = None
        self.story = Story(lambda: 0.0)
        self.attachers = 0
        self.rested_s = 0.0

    async def run(self) -> None:
        """Until its end, or until a law is broken."""
        async with asyncio.TaskGroup() as group:
            self.world = world = World(self._plan, group)
            self.story = world.story
            life = group.create_task(self._live(world), name="sim/life")
            either: list[asyncio.Future[Any]] = [life, world.verdict]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if world.verdict.done():
                self.broken = world.verdict.result()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    async def _live(self, world: World) -> None:
        supervisor, hands = Supervisor(world), Hands(world)
        actor = Actor(world, hands)
        acts = Acts(world, actor, hands, supervisor)
        await actor.prepare()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(supervisor.run(), name="sim/supervisor")
            await self._chaos(world, actor, acts)
            world.heal()
            await actor.make_peace()
            await self._calm(world, actor, supervisor)
            await self._rest(world, actor)
            self.attachers = supervisor.started_count
            running.cancel()

    async def _chaos(self, world: World, actor: Actor, acts: Acts) -> None:
        while world.clock.now() < self._plan.chaos_s:
            await world.clock.sleep(world.chances["actor"].uniform(0.0, 2 * self._plan.pause_s))
            await acts.disturb()
            await actor.tend()

    async def _calm(self, world: World, actor: Actor, supervisor: Supervisor) -> None:
        """Waits until all is well, and the attacher has heard of it; it must be so in time."""
        deadline = world.clock.now() + CALM_S_MAX
        while found := [*complaints(world, actor), *(("unsettled", what) for what in supervisor.unsettled())]:
            if world.clock.now() > deadline:
                world.fail(found[0][0], f"not well {CALM_S_MAX:g} s after the last fault: {'; '.join(text for _, text in found)}")
                return
            await actor.tend()
            await world.clock.sleep(CALM_STEP_S)
        self.rested_s = world.clock.now()
        world.story.tell("world", "all is well")

    async def _rest(self, world: World, actor: Actor) -> None:
        """A world that is well stays as it is: nothing is written, nothing is called; but for what is still to be taken back."""
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in complaints(world, actor):
            world.fail(invariant, f"all was well, and then: {text}")
        if fingerprint(world) != before and not world.laws.torn:
            world.fail("restless", f"all was well, and then something was done: {before} became {fingerprint(world)}")


class RunsHot(Exception):
    """Turn after turn of the loop without end."""


class BoundedLoop(VirtualLoop):
    """Too many turns in a second are a loop without end. It is told once, so that what runs can still be ended."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._turns_count, self._second = 0, 0

    def _process_events(self, event_list: Any) -> None:
        super()._process_events(event_list)
        if int(self.time()) != self._second:
            self._turns_count, self._second = 0, int(self.time())
        self._turns_count += 1
        if self._turns_count == TURNS_MAX:
            raise RunsHot(f"{TURNS_MAX} turns of the loop in a second: something runs hot without a request")


class _Log(io.StringIO):
    """The log of a life. A worker that survives a bug of ours says so there, and nowhere else."""

    def __init__(self, life: _Life) -> None:
        super().__init__()
        self._life = life

    def write(self, line: str) -> int:
        if any(sign in line for sign in SIGNS) and self._life.world is not None:
            self._life.world.fail("unexpected-error", line.strip())
        return len(line)


@contextlib.contextmanager
def watched_log(life: _Life) -> Iterator[None]:
    log.configure(stream=_Log(life), wall_s=lambda: 0.0)
    try:
        yield
    finally:
        log.configure()
