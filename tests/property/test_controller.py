"""Controllers under any order of changes: no key in two hands, nothing lost between wait and tell, an orderly end."""

import asyncio
import itertools
from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.controller import Controller
from mooring.control.queue import BackOff
from mooring.control.result import Result, Retry, Stale
from mooring.control.runtime import Runtime
from tests.support.virtual_loop import run_virtual
from tests.unit.kube.fake_cluster import FakeCluster

KEYS = ("a", "b", "c")
DOORS = ("x", "y")


class Doors:
    """Doors that open and close, and keys that want to go through one: they wait for it, or fail for it until it
    heals.
    """

    def __init__(self, seed: int, workers: int) -> None:
        self.randomness = Random(seed)
        self.open = dict.fromkeys(DOORS, False)
        self.door_of = {key: DOORS[number % len(DOORS)] for number, key in enumerate(KEYS)}
        self.went: set[str] = set()
        self.in_hand: Counter[str] = Counter()
        runtime = Runtime(FakeCluster(), LoopClock(), Random(seed), Metrics())
        self.controller: Controller[str] = Controller(
            runtime, "doors", self.reconcile, workers=workers, backoff=BackOff(1e6, 1e6, jitter=0.0)
        )

    async def reconcile(self, key: str) -> Result:
        self.in_hand[key] += 1
        assert self.in_hand[key] == 1, "one worker at a time"
        try:
            door = self.door_of[key]
            is_open = self.open[door]  # judged here, and told while the rest goes on
            await asyncio.sleep(self.randomness.below(3))
            if is_open:
                self.went.add(key)
                return Result("went through", done="went")
            match self.randomness.below(3):
                case 0:
                    raise Retry("closed", heals=[door])
                case 1 if self.open[door]:
                    raise Stale(door)
                case _:
                    return Result("closed", waits_for=frozenset({door}))
        finally:
            self.in_hand[key] -= 1

    def swing(self, door: str, is_open: bool) -> None:
        self.open[door] = is_open
        self.controller.tell(door)


STEP = st.tuples(st.integers(0, 3), st.sampled_from(DOORS), st.booleans())


@given(seed=st.integers(0, 2**32), workers=st.integers(1, 3), steps=st.lists(STEP, max_size=12))
def test_whoever_waits_for_what_has_happened_goes_on(seed, workers, steps):
    """Back-offs here last for days, so only a topic can bring a key back in time."""

    async def live() -> None:
        world = Doors(seed, workers)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.controller.run())
            for key in KEYS:
                world.controller.add(key)
            for pause_s, door, is_open in steps:
                await asyncio.sleep(pause_s)
                world.swing(door, is_open)
            for door in DOORS:
                world.swing(door, True)
            await asyncio.sleep(60)
            assert set(KEYS) == world.went
            assert await world.controller.drain(10)

    run_virtual(live(), seed)


@given(seed=st.integers(0, 2**32), workers=st.integers(1, 3), after_s=st.integers(0, 6))
def test_a_drain_ends_with_the_work_in_hand_whenever_it_comes(seed, workers, after_s):
    async def live() -> None:
        world = Doors(seed, workers)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(world.controller.run())
            for key in KEYS:
                world.controller.add(key)
            await asyncio.sleep(after_s)
            world.swing("x", True)
            assert await world.controller.drain(10)
            await running
            assert not +world.in_hand
            world.controller.add("a")
            world.swing("y", True)
            await asyncio.sleep(10)
            assert not +world.in_hand

    run_virtual(live(), seed)


@given(seed=st.integers(0, 2**32), failures=st.integers(1, 8), base_s=st.integers(1, 5))
def test_back_off_doubles_up_to_its_cap_and_begins_anew_after_a_success(seed, failures, base_s):
    cap_s = 20.0

    async def live() -> None:
        times: list[float] = []
        left = failures

        async def reconcile(key: str) -> Result:
            nonlocal left
            times.append(asyncio.get_running_loop().time())
            left -= 1
            if left >= 0:
                raise Retry("no")
            return Result("settled")

        runtime = Runtime(FakeCluster(), LoopClock(), Random(seed), Metrics())
        backoff = BackOff(base_s, cap_s, jitter=0.0)
        controller: Controller[str] = Controller(runtime, "fails", reconcile, workers=1, backoff=backoff)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(controller.run())
            for expected in (failures, 1):
                left, times[:] = expected, []
                controller.add("a")
                await asyncio.sleep(1000)
                gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
                assert [min(cap_s, base_s * 2.0**number) for number in range(expected)] == gaps
            task.cancel()

    run_virtual(live(), seed)
