"""Growth with size is a law, counted in steps: the quick sizes of each scenario.

Those of a large cluster: `python -m tests.sim.sizes --whole`.
"""

from __future__ import annotations

import weakref

import pytest

from mooring.base.clock import LoopClock
from tests.sim.sizes.run import count, growth
from tests.sim.sizes.scenarios import SCENARIOS

pytestmark = pytest.mark.slow

DEAR = {"attachments-alone", "claims", "growths", "snapshots", "volumes-on-node"}
"""They take up to a quarter of a minute each."""


LIGHT = [name for name in SCENARIOS if name not in DEAR]


def assert_no_growth(name: str) -> None:
    found = growth(name)
    assert not found.wrong, found.report()


@pytest.mark.parametrize("name", LIGHT)
def test_the_work_per_object_stays_the_same(name: str) -> None:
    assert_no_growth(name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(DEAR))
def test_the_work_per_object_stays_the_same_in_dear_scenarios(name: str) -> None:
    assert_no_growth(name)


def test_a_count_is_the_same_each_time() -> None:
    count("growths", 10)  # (what a process keeps for good is made by the first)
    first = count("growths", 10)
    left = _left_behind()
    assert first == count("growths", 10)
    assert left() is None, "it is gone by now"


def _left_behind() -> weakref.ref[object]:
    """An object that waits for the collector, and whose end takes steps of the product."""
    clock = LoopClock()
    cycle: list[object] = [Ending(clock)]
    cycle.append(cycle)
    return weakref.ref(cycle[0])


class Ending:
    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock

    def __del__(self) -> None:
        self._clock.wall_s()
