"""One run of a script: undisturbed, or with one thing that goes wrong, from its beginning to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from tests.sim.course import CALM_STEP_S, REST_S, STORY_STEPS, Course, lived
from tests.sim.node.run import few_workers
from tests.sim.points.cluster import DirectedCluster
from tests.sim.points.directing import directed
from tests.sim.points.director import AFTER_ACT_S, DIRECTOR, Director
from tests.sim.points.ends import STORAGE, Ends, Uids, difference, ends_of
from tests.sim.points.script import Script, Stage
from tests.sim.points.trial import EARLY, Record, Trial, Way, trials_of
from tests.sim.story import Broken, Story

SEED: Final = 0
"""Of the order in which the loop runs what is ready, and of uids: the same in every run, so that a point is the same
point.
"""

REFUSED_S: Final = 310.0
"""A call that was refused for good is made again after five minutes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One run. ends: None where it did not come to its end. came: the trial's point was reached."""

    name: str
    broken: Broken | None
    story: Story
    record: Record
    ends: Ends | None
    came: bool

    def report(self, planted: str = "") -> str:
        """What broke, the story's end, and how to see it again."""
        replay = f"replay: .venv/bin/python -m tests.sim.points {self.name}{f' --bug {planted}' if planted else ''}"
        return f"{self.name}\n{self.story.tail(STORY_STEPS)}\n{self.broken or 'nothing broke'}\n{replay}"


class _Play(Course[Any]):
    """A script, played once."""

    def __init__(self, script: Script, trial: Trial | None) -> None:
        super().__init__(script.make_world)
        self._script, self._trial = script, trial
        self.director: Director | None = None
        self.ends: Ends | None = None

    async def live(self, world: Any) -> None:
        world.cluster = DirectedCluster(world.cluster)
        world.heal()
        uids = Uids(world.store)
        self.director = director = Director(world, self._trial)
        DIRECTOR.set(director)
        stage = self._script.make_stage(world, director)
        await stage.prepare()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(keeper.run(), name="sim/keeper") for keeper in stage.keepers]
            running += stage.begin(group)
            if await self._played(stage):
                await self._rest(stage)
                self.ends = ends_of(world.store, uids, stage.storage())
            self.lives_count = sum(keeper.started_count for keeper in stage.keepers)
            for task in running:
                task.cancel()

    async def _played(self, stage: Stage[Any]) -> bool:
        """True when each act came to its end."""
        if not await self._is_well(stage):
            return False
        for act in self._script.acts:
            stage.director.act_begins()
            await act(stage)
            if not await self._is_well(stage):
                return False
        return True

    def _wrong(self, stage: Stage[Any]) -> list[tuple[str, str]]:
        unsettled = [("unsettled", what) for keeper in stage.keepers for what in keeper.unsettled()]
        late = [("still-working", "a write is on its way")] if stage.world.server.late_count else []
        return [*stage.complaints(), *unsettled, *late]

    async def _is_well(self, stage: Stage[Any]) -> bool:
        world = stage.world
        doubted = self._trial is not None and self._trial.way is Way.DOUBT
        calm_s = max(self._script.calm_s, REFUSED_S) if doubted else self._script.calm_s
        deadline = world.clock.now() + calm_s
        while found := self._wrong(stage):
            if world.clock.now() > deadline:
                world.fail(found[0][0], f"not well after {calm_s:g} s: {'; '.join(text for _, text in found)}")
                return False
            await stage.tend()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CALM_STEP_S):
                    await stage.director.hurries.wait()
                    return True
        self.rested_s = world.clock.now()
        world.story.tell("world", "all is well")
        return True

    async def _rest(self, stage: Stage[Any]) -> None:
        """A world that is well stays as it is. Events may still be on their way, so they get a while first."""
        world = stage.world
        await world.clock.sleep(self._script.rest_s)
        before = stage.fingerprint()
        await world.clock.sleep(REST_S)
        if world.server.late_count:  # a Lease is renewed for ever: who renews it may have been killed in this moment
            await world.clock.sleep(AFTER_ACT_S)
        for invariant, text in stage.complaints():
            world.fail(invariant, f"all was well, and then: {text}")
        if stage.fingerprint() != before:
            world.fail("restless", f"all was well, and then something was done: {before} became {stage.fingerprint()}")


def play(script: Script, trial: Trial | None = None, *, expected: Ends | None = None, verbosity: int = 0) -> Outcome:
    """Plays a script once. expected: the ends that it has to come to."""
    course = _Play(script, trial)
    try:
        with directed(), few_workers():
            outcome = lived(course, SEED, None, script.name, (), make_loop=script.make_loop, verbosity=verbosity)
    finally:
        if course.world is not None:
            course.world.close()
    broken, director = outcome.broken, course.director
    assert director is not None
    assert broken is not None or course.ends is not None or director.excused
    if (
        broken is None
        and expected is not None
        and course.ends is not None
        and (what := _difference(director, expected, course.ends))
    ):
        broken = Broken("other-end", what, outcome.rested_s)
    name = script.name if trial is None else str(trial)
    return Outcome(name, broken, outcome.story, director.record(), course.ends, director.came)


def _difference(director: Director, expected: Ends, found: Ends) -> str:
    if director.acted_on_old_view:  # what that has made, or has left in the storage, is excused
        expected = {name: text for name, text in expected.items() if not name.startswith(STORAGE)}
        found = {name: text for name, text in found.items() if name in expected}
    return difference(expected, found)


class Undisturbed(Exception):
    """A script that fails by itself."""


def recorded(script: Script) -> Outcome:
    """The undisturbed run. Raises Undisturbed when it is not without fault."""
    outcome = play(script)
    if outcome.broken is not None:
        raise Undisturbed(outcome.report())
    assert outcome.ends is not None
    return outcome


def tried(script: Script, record: Outcome, trial: Trial) -> Outcome:
    """A trial. record: of the undisturbed run."""
    has_same_end = script.early_is_same or trial.way not in EARLY
    outcome = play(script, trial, expected=record.ends if has_same_end else None)
    if outcome.broken is None and not outcome.came:
        raise Undisturbed(f"{trial}: its point was never reached")
    return outcome


def all_trials(script: Script, record: Outcome) -> Iterator[Trial]:
    return trials_of(script.name, record.record, stops=script.stops)
