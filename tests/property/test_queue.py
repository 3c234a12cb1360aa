"""The work queue against a model that looks at everything each second."""

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.control.queue import BackOff, WorkQueue
from tests.support.rows import each_row
from tests.support.virtual_loop import VirtualLoop, run_virtual

KEYS = st.sampled_from(["a", "b", "c"])


class QueueMachine(RuleBasedStateMachine):
    """The model: which keys are due (in order), in hand, due again, delayed until when. Delays are whole seconds and a
    half apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.queue: WorkQueue[str] = WorkQueue(
            "model", clock=LoopClock(), randomness=Random(1), backoff=BackOff(1, 8, jitter=0)
        )
        self.ready: list[str] = []
        self.in_hand: set[str] = set()
        self.again: set[str] = set()
        self.delayed: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def teardown(self) -> None:
        self.in_loop(self.queue.close)
        self.loop.close()

    def in_loop(self, action, *args):
        async def act():
            return action(*args)

        return self.loop.run_until_complete(act())

    def model_add(self, key: str) -> None:
        self.delayed.pop(key, None)
        if key in self.in_hand:
            self.again.add(key)
        elif key not in self.ready:
            self.ready.append(key)

    def model_delay(self, key: str, seconds: float) -> None:
        self.delayed[key] = min(self.delayed.get(key, float("inf")), self.loop.time() + seconds)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.in_loop(self.queue.add, key)
        self.model_add(key)

    @rule(key=KEYS, seconds=st.integers(1, 5))
    def add_after(self, key: str, seconds: int) -> None:
        self.in_loop(self.queue.add_after, key, seconds)
        self.model_delay(key, seconds)

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        expected = min(8, 2 ** self.failures.get(key, 0))
        assert self.in_loop(self.queue.retry, key) == expected
        self.failures[key] = self.failures.get(key, 0) + 1
        self.model_delay(key, expected)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.in_loop(self.queue.reset_failures, key)
        self.failures.pop(key, None)

    @precondition(lambda self: self.ready)
    @rule()
    def take(self) -> None:
        key = self.loop.run_until_complete(self.queue.get())
        assert key == self.ready.pop(0)
        assert key not in self.in_hand
        self.in_hand.add(key)

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def put_down(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_hand)))
        self.in_loop(self.queue.done, key)
        self.in_hand.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.ready.append(key)

    @rule(seconds=st.integers(1, 3))
    def time_passes(self, seconds: int) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        due = [(until, key) for key, until in self.delayed.items() if until <= self.loop.time() + 1e-3]
        seen = list(self.queue._queue)
        for _, key in sorted(
            due, key=lambda item: (item[0], seen.index(item[1]) if item[1] in seen else 0)
        ):  # ties: as the queue has it
            self.model_add(key)

    @invariant()
    def model_and_queue_agree(self) -> None:
        assert list(self.queue._queue) == self.ready
        assert len(self.queue) == len(self.ready)
        for key in "abc":
            assert self.queue.failures(key) == self.failures.get(key, 0)
            until, _ = self.queue._waiting.get(key, (None, 0))
            assert (until is None) == (key not in self.delayed)
            assert until is None or until == pytest.approx(self.delayed[key])


QueueMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestQueue = pytest.mark.slow(QueueMachine.TestCase)


@pytest.mark.slow
@each_row("seed", range(20))
def test_every_change_is_worked_on_after_it_was_added(seed: int):
    """Level-triggered work: the last add of a key is always followed by a run that began after it, and no key has two
    workers.
    """

    async def scenario() -> None:
        randomness = Random(seed)
        queue: WorkQueue[int] = WorkQueue("t", clock=LoopClock(), randomness=randomness, backoff=BackOff(0.1, 1))
        added: dict[int, int] = {}
        seen: dict[int, int] = {}
        busy: set[int] = set()

        async def work() -> None:
            while True:
                key = await queue.get()
                assert key not in busy
                busy.add(key)
                state = added[key]
                await asyncio.sleep(randomness.uniform(0, 0.5))
                busy.remove(key)
                if randomness.happens(0.3):
                    queue.retry(key)
                else:
                    seen[key] = state
                    queue.reset_failures(key)
                queue.done(key)

        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(4)]
            for number in range(200):
                key = randomness.below(10)
                added[key] = number
                queue.add(key)
                await asyncio.sleep(randomness.uniform(0, 0.1))
            await asyncio.sleep(60)
            for worker in workers:
                worker.cancel()
        assert seen == added

    run_virtual(scenario(), seed)
