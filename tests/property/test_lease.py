"""Never two leaders at once, and always one again: candidates under crashes, lost answers, delays, refusals and
hangs.
"""

import asyncio
import contextlib

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.control.lease.elector import Candidate, LeaderElector, LeaseTimes, WorkOutlivesLease
from tests.support.virtual_loop import run_virtual
from tests.unit.kube.fake_cluster import FakeCluster
from tests.unit.kube.wire import Wire

TIMES = LeaseTimes(lease_s=15, renew_s=10, retry_s=5)
END_S_MAX = 4.5  # how long work takes to end: within lease duration minus renew deadline


class Process:
    """One life of a candidate. A crash takes it off the network and stops its work in the same instant."""

    def __init__(self, cluster: FakeCluster, name: str, randomness: Random, at_work: dict[str, float]) -> None:
        self.name = name
        self.at_work = at_work
        self.randomness = randomness
        self.crashed = False
        self.wire = Wire(cluster, randomness)
        candidate = Candidate("lock", "ns", name, TIMES, {})
        clock = LoopClock(epoch_s=randomness.uniform(0, 2e9))  # wall clocks may show anything
        self.elector = LeaderElector(self.wire, candidate, clock=clock, randomness=randomness)  # type: ignore[arg-type]
        self.task = asyncio.get_running_loop().create_task(self.elector.run(self.work), name=name)

    async def work(self) -> None:
        others = [name for name in self.at_work if name != self.name]
        assert others == [], f"{self.name} works beside {others}"
        self.at_work[self.name] = asyncio.get_running_loop().time()
        try:
            await asyncio.Event().wait()
        finally:
            if not self.crashed:
                await asyncio.sleep(self.randomness.uniform(0, END_S_MAX))
            self.at_work.pop(self.name, None)

    async def crash(self) -> None:
        self.crashed = True
        self.wire.refusing = True
        self.at_work.pop(self.name, None)
        self.task.cancel()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, WorkOutlivesLease):
            await self.task

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, WorkOutlivesLease):
            await self.task


async def scenario(seed: int, step_count: int = 60) -> None:
    randomness, cluster, at_work = Random(seed), FakeCluster(), {}
    processes: dict[int, Process] = {}
    born = 0
    for _ in range(step_count):
        slot = randomness.below(3)
        process = processes.get(slot)
        if process is None:
            born += 1
            processes[slot] = Process(cluster, f"candidate-{born}", randomness, at_work)
        else:
            assert not process.task.done(), process.task
            match randomness.below(10):
                case 0:
                    await processes.pop(slot).crash()
                case 1:
                    await processes.pop(slot).stop()
                case 2:
                    process.wire.refusing = not process.wire.refusing
                case 3:
                    process.wire.hanging = not process.wire.hanging
                case 4:
                    process.wire.loss = randomness.uniform(0, 0.8)
                case 5:
                    process.wire.delay_s_max = randomness.uniform(0, 12)
                case 6:
                    cluster.end_watches()
                case _:
                    process.wire.refusing = process.wire.hanging = False
                    process.wire.loss = process.wire.delay_s_max = 0.0
        await asyncio.sleep(randomness.uniform(0, 12))
    for process in processes.values():
        process.wire.refusing = process.wire.hanging = False
        process.wire.loss = process.wire.delay_s_max = 0.0
    if processes:
        await asyncio.sleep(90)
        assert len(at_work) == 1, "nobody leads though all is well again"
    for process in processes.values():
        await process.stop()
    assert at_work == {}


@pytest.mark.slow
@pytest.mark.long
@settings(max_examples=150, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_two_never_lead_at_once_and_one_leads_in_the_end(seed: int):
    run_virtual(scenario(seed), seed)
