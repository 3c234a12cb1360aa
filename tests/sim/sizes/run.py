"""One scenario at one size, and the law over three sizes."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.base import log
from tests.sim.sizes.scenarios import SCENARIOS
from tests.sim.sizes.steps import Steps
from tests.sim.states.world import StateWorld, template
from tests.support.virtual_loop import VirtualLoop

RATIO_MAX: Final = 2.3
"""Of the increments; 2 is linear."""
PAGE_MAX: Final = 25
"""Objects in a list's page at the quick sizes: with pages as large as these sizes, everything would seem to grow."""
BYTES_MAX: Final = 1 << 18
"""Of one object at the whole size: so much an API server takes as the annotations of one, and the provisioner's
journal stands in some.
"""
STRETCH_MAX: Final = 1_000_000
"""Steps of one callback at the whole size: some 50 to 100 ms."""


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """Of a scenario at one size. longest: the most steps of one callback. longest_of: its task. heaviest: bytes of the
    largest object that was written.
    """

    size: int
    steps: int
    longest: int
    longest_of: str
    heaviest: int


def count(name: str, size: int) -> Count:
    """Runs the scenario. The same count each time."""
    scenario = SCENARIOS[name]
    template()
    steps = Steps(of_server=scenario.of_server)

    heaviest = [0]

    def weigh(_resource: Resource, change: StoredChange) -> None:
        if change.new is not None:
            heaviest[0] = max(heaviest[0], len(change.new.body))

    async def live() -> None:
        world = StateWorld(
            scenario.bodies(size), scenario.driver(), page_max=PAGE_MAX if size <= 8 * scenario.quick else 500
        )
        world.store.on_change(weigh)
        log.configure(verbosity=0, stream=world.log, wall_s=lambda: 0.0)
        with steps.counting():
            async with asyncio.TaskGroup() as group:
                world.parts += [group.create_task(part) for part in scenario.parts(world)]
                await asyncio.sleep(scenario.seconds)
                for task in world.parts:
                    task.cancel()
        assert scenario.done(world, size), f"{name} at {size} did not come to its end: {world.log.lines[:3]}"

    try:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(7)) as runner:
            runner.run(live())
    finally:
        log.configure()
    return Count(size, steps.count, steps.longest, steps.longest_of, heaviest[0])


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """counts: for a size, its double and the double of that."""

    name: str
    counts: tuple[Count, Count, Count]

    @property
    def ratio(self) -> float:
        """Of the increments of all steps: 2 for linear work, 4 for quadratic work."""
        one, two, four = (each.steps for each in self.counts)
        return (four - two) / max(1, two - one)

    @property
    def longest_at_whole(self) -> float:
        """The longest callback as it is at the whole size, if it grows on as it does here."""
        return self._at_whole([one.longest for one in self.counts])

    @property
    def heaviest_at_whole(self) -> float:
        """The same of the largest object."""
        return self._at_whole([one.heaviest for one in self.counts])

    def _at_whole(self, values: list[int]) -> float:
        two, four = self.counts[1], self.counts[2]
        each = max(0.0, (values[2] - values[1]) / (four.size - two.size))
        return values[2] + each * max(0, SCENARIOS[self.name].whole - four.size)

    @property
    def wrong(self) -> str:
        """What breaks the law, "" for nothing."""
        if self.ratio > RATIO_MAX:
            return f"the work grows by {self.ratio:.2f} where the size grows by 2"
        if self.longest_at_whole > STRETCH_MAX:
            return (
                f"one callback of {self.counts[-1].longest_of} takes {self.longest_at_whole:,.0f} steps at "
                f"{SCENARIOS[self.name].whole:,}"
            )
        if self.heaviest_at_whole > BYTES_MAX:
            return f"one object takes {self.heaviest_at_whole:,.0f} bytes at {SCENARIOS[self.name].whole:,}"
        return ""

    def report(self) -> str:
        """A line for each size."""
        at_whole = (
            f"at {SCENARIOS[self.name].whole:,} {self.longest_at_whole:,.0f} steps at once, "
            f"{self.heaviest_at_whole:,.0f} bytes"
        )
        lines = [f"{self.name}: ratio {self.ratio:.2f}, {at_whole}"]
        for one in self.counts:
            each = one.steps / one.size
            lines.append(
                f"  {one.size:>6,}: {one.steps:>12,} steps, {each:>8,.0f} each; longest {one.longest:>9,} of "
                f"{one.longest_of}"
            )
        replay = f"replay: .venv/bin/python -m tests.sim.sizes --scenario {self.name} --size {self.counts[0].size}"
        return "\n".join((*lines, *([f"BROKEN {self.wrong}", replay] if self.wrong else [])))


def growth(name: str, size: int | None = None) -> Growth:
    first = size or SCENARIOS[name].quick
    return Growth(name, (count(name, first), count(name, 2 * first), count(name, 4 * first)))
