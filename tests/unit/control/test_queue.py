"""The work queue: client-go's semantics, and where ours differ."""

import asyncio
import itertools

import pytest

from mooring.base import heap
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control import queue as queue_module
from mooring.control.backlog import LONG
from mooring.control.queue import BackOff, QueueClosed, QueueMetrics, WorkQueue
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


def a_queue(
    *, base_s: float = 1.0, cap_s: float = 300.0, jitter: float = 0.0, metrics: QueueMetrics | None = None
) -> WorkQueue[str]:
    return WorkQueue(
        "test", clock=LoopClock(), randomness=Random(1), backoff=BackOff(base_s, cap_s, jitter), metrics=metrics
    )


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
async def queue() -> WorkQueue[str]:
    return a_queue()


async def test_keys_come_in_the_order_they_were_added(queue: WorkQueue[str]):
    for key in ("b", "a", "c"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["b", "a", "c"]


async def test_a_key_waits_once(queue: WorkQueue[str]):
    queue.add("a")
    queue.add("a")
    assert len(queue) == 1
    await queue.get()
    assert len(queue) == 0


async def test_a_key_is_never_in_two_hands_and_comes_again_after_done(queue: WorkQueue[str]):
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert len(queue) == 1
    queue.done(await queue.get())
    assert len(queue) == 0


async def test_a_getter_waits_for_a_key(queue: WorkQueue[str]):
    async with asyncio.TaskGroup() as group:
        getter = group.create_task(queue.get())
        await asyncio.sleep(5)
        assert not getter.done()
        queue.add("a")
    assert getter.result() == "a"


async def test_a_getter_that_is_cancelled_passes_its_key_on(queue: WorkQueue[str]):
    async with asyncio.TaskGroup() as group:
        first = group.create_task(queue.get())
        second = group.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")  # wakes the first
        first.cancel()
    assert second.result() == "a"


async def test_getters_given_up_leave_nothing_behind(queue: WorkQueue[str]):
    for _ in range(10):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await queue.get()
    assert len(queue._getters) == 0


async def test_a_delayed_add_comes_at_its_time(queue: WorkQueue[str]):
    queue.add_after("late", 20)
    queue.add_after("soon", 10)
    assert queue._waiting["soon"][0] == pytest.approx(10)
    assert (await queue.get(), round(now(), 3)) == ("soon", 10)
    assert (await queue.get(), round(now(), 3)) == ("late", 20)
    assert "late" not in queue._waiting


async def test_the_earliest_of_several_delayed_adds_counts(queue: WorkQueue[str]):
    queue.add_after("a", 10)
    queue.add_after("a", 30)
    queue.add_after("a", 5)
    queue.done(await queue.get())
    assert now() == pytest.approx(5)
    await asyncio.sleep(100)
    assert len(queue) == 0, "one of the others came as well"


async def test_a_plain_add_bypasses_the_delay_and_cancels_it(queue: WorkQueue[str]):
    queue.add_after("a", 10)
    queue.add("a")
    assert "a" not in queue._waiting
    queue.done(await queue.get())
    assert now() == 0
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_a_delay_of_nothing_is_a_plain_add(queue: WorkQueue[str]):
    queue.add_after("a", 0)
    assert len(queue) == 1


async def test_a_delayed_add_of_a_key_in_hand_comes_after_done(queue: WorkQueue[str]):
    queue.add("a")
    key = await queue.get()
    queue.add_after("a", 1)
    await asyncio.sleep(10)
    assert len(queue) == 0
    queue.done(key)
    assert len(queue) == 1


async def test_retries_double_up_to_the_cap(queue: WorkQueue[str]):
    assert [queue.retry("a") for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert queue.failures("a") == 11
    assert queue.failures("b") == 0


async def test_forget_begins_anew_and_leaves_the_delayed_add(queue: WorkQueue[str]):
    queue.retry("a")
    queue.retry("a")
    queue.reset_failures("a")
    assert queue.failures("a") == 0
    assert queue._waiting["a"][0] == 1
    assert queue.retry("a") == 1


async def test_keys_that_failed_together_come_back_apart():
    """W21: after an outage all keys would be tried in step."""
    queue = a_queue(jitter=0.1)
    delays = [queue.retry(str(number)) for number in range(100)]
    assert all(0.9 <= delay <= 1.1 for delay in delays)
    assert max(delays) - min(delays) > 0.1


async def test_one_timer_serves_all_delays(queue: WorkQueue[str]):
    for number in range(1000):
        queue.add_after(str(number), 1000 - number)
    live = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    assert len(live) == 1


async def test_cancelled_delays_leave_nothing_behind(queue: WorkQueue[str]):
    """A key that fails and is woken by events, over and over, must not fill the heap with timers of five minutes."""
    for _ in range(10_000):
        queue.add_after("a", 300)
        queue.add("a")
        queue.done(await queue.get())
    assert len(queue._heap) < 200


async def test_what_the_cleared_out_delays_leave_comes_at_its_time(queue: WorkQueue[str]):
    """Adds that cancel delays make the heap be cleared out; what stays in it keeps its order."""
    randomness = Random(2)
    delays = {str(number): randomness.uniform(10.0, 300.0) for number in range(400)}
    for key, delay_s in delays.items():
        queue.add_after(key, delay_s)
    for key in list(delays)[::2] + list(delays)[1::4]:
        del delays[key]
        queue.add(key)
        queue.done(await queue.get())
    queue.add_after("last", 400)
    assert len(queue._heap) == len(delays) + 1, "they were cleared out"
    for key, delay_s in sorted(delays.items(), key=lambda one: one[1]):
        assert (key, pytest.approx(delay_s, abs=0.01)) == (await queue.get(), now())


async def test_the_counts_of_failures_are_bounded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(queue_module, "FAILURES_MAX", 3)
    queue = a_queue()
    for key in ("a", "b", "c", "a", "d"):
        queue.retry(key)
    assert [queue.failures(key) for key in "abcd"] == [2, 0, 1, 1]
    assert "forgetting the failures" in capsys.readouterr().err


async def test_a_closed_queue_sends_its_workers_home(queue: WorkQueue[str]):
    async with asyncio.TaskGroup() as group:
        getters = [group.create_task(self_closing(queue)) for _ in range(3)]
        await asyncio.sleep(0)
        queue.add_after("late", 5)
        queue.close()
    assert [getter.result() for getter in getters] == ["closed"] * 3
    queue.add("a")
    queue.add_after("a", 1)
    await asyncio.sleep(10)
    assert len(queue) == 0


async def self_closing(queue: WorkQueue[str]) -> str:
    try:
        return await queue.get()
    except QueueClosed:
        return "closed"


async def test_a_key_in_hand_may_be_put_down_after_close(queue: WorkQueue[str]):
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.close()
    queue.done(key)
    assert len(queue) == 0


async def test_a_worker_outlives_what_its_work_raises_and_ends_with_the_queue():
    queue, seen = a_queue(), []

    async def handle(key: str) -> None:
        seen.append(key)
        if seen.count("bad") < 3 and key == "bad":
            raise ValueError("a bug")

    for key in ("bad", "good"):
        queue.add(key)
    worker = asyncio.create_task(queue.work(handle))
    await asyncio.sleep(100)
    assert ["bad", "good", "bad", "bad"] == seen
    queue.close()
    await worker


async def test_putting_down_what_is_not_in_hand_is_an_error():
    with pytest.raises(KeyError):
        a_queue().done("a")


async def test_metrics_have_upstreams_names_and_buckets():
    metrics = Metrics()
    queue = a_queue(metrics=QueueMetrics(metrics.registry))

    def value(series: str) -> float:
        lines = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines() if not line.startswith("#"))
        return float(lines[series])

    queue.add("a")
    queue.add("a")
    queue.add("b")
    queue.retry("c")
    assert value('workqueue_depth{name="test"}') == 2
    assert value('workqueue_adds_total{name="test"}') == 2
    assert value('workqueue_retries_total{name="test"}') == 1
    await asyncio.sleep(0.5)
    key = await queue.get()
    assert value('workqueue_depth{name="test"}') == 1
    await asyncio.sleep(0.25)
    await queue.get()
    assert value('workqueue_queue_duration_seconds_sum{name="test"}') == pytest.approx(0.5 + 0.75)
    await asyncio.sleep(0.5)
    assert value('workqueue_unfinished_work_seconds{name="test"}') == pytest.approx(0.75 + 0.5)
    assert value('workqueue_longest_running_processor_seconds{name="test"}') == pytest.approx(0.75)
    queue.done(key)
    assert value('workqueue_work_duration_seconds_sum{name="test"}') == pytest.approx(0.75)
    assert value('workqueue_work_duration_seconds_bucket{le="1",name="test"}') == 1
    for bound in (
        "1e-08",
        "1e-07",
        "1e-06",
        "9.999999999999999e-06",
        "9.999999999999999e-05",
        "0.001",
        "0.01",
        "0.1",
        "10",
        "+Inf",
    ):
        assert value(f'workqueue_queue_duration_seconds_bucket{{le="{bound}",name="test"}}') >= 0
    assert value('workqueue_unfinished_work_seconds{name="test"}') == pytest.approx(0.5)


async def test_the_oldest_key_is_the_one_that_longest_waits_is_in_hand_or_fails() -> None:
    metrics = Metrics()
    queue, is_stuck, fails = a_queue(metrics=QueueMetrics(metrics.registry)), asyncio.Event(), True

    async def handle(key: str) -> None:
        if key == "stuck":
            await is_stuck.wait()
        elif fails:
            queue.retry(key)
        else:
            queue.reset_failures(key)

    def shown() -> tuple[float | None, float | None]:
        value = metrics.registry.get_sample_value
        return value("mooring_oldest_key_seconds", {"name": "test"}), value("mooring_failing_keys", {"name": "test"})

    queue.add("early")
    assert (0, 0) == shown()  # nobody works yet
    worker = asyncio.create_task(queue.work(handle))
    await asyncio.sleep(100)
    assert (100, 1) == shown()  # in back-off, and failing since its first try
    queue.add("stuck")
    await asyncio.sleep(50)
    queue.add("late")
    await asyncio.sleep(20)
    assert (170, 1) == shown()
    fails = False
    is_stuck.set()
    await asyncio.sleep(300)
    assert (0, 0) == shown()
    queue.add_after("delayed", 1000)
    await asyncio.sleep(100)
    assert (0, 0) == shown()  # a mere delay is no wait
    queue.retry("delayed")
    worker.cancel()
    await asyncio.sleep(100)
    assert (0, 0) == shown()  # a term that is over


async def test_others_get_their_turn_while_many_keys_wait_that_need_nobody(queue: WorkQueue[str]):
    """After a resync most keys need nothing: thousands of them in one go would keep the process from everything
    else.
    """
    handled: list[str] = []
    seen: list[int] = []

    async def handle(key: str) -> None:
        handled.append(key)

    async def other() -> None:
        while len(handled) < 500:
            seen.append(len(handled))
            await asyncio.sleep(0)

    for number in range(500):
        queue.add(str(number))
    worker, beside = asyncio.create_task(queue.work(handle)), asyncio.create_task(other())
    await beside
    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= queue_module.KEYS_IN_TURN
    queue.close()
    await worker


# -- the backlog


@each_row("are_due", [True, False])
async def test_all_workers_together_take_a_share_of_a_turn_for_a_backlog(are_due: bool):
    queue = a_queue()
    handled: list[str] = []
    looked_up: list[int] = []
    seen: list[tuple[int, int]] = []

    async def handle(key: str) -> None:
        handled.append(key)

    def keys():
        for number in range(2000):
            looked_up.append(number)
            yield str(number) if are_due else None

    async def other() -> None:
        while len(looked_up) < 2000:
            seen.append((len(looked_up), len(handled)))
            await asyncio.sleep(0)

    queue.add_later(keys())
    workers = [asyncio.create_task(queue.work(handle)) for _ in range(30)]
    await asyncio.create_task(other())
    draws, works = (max(later[n] - earlier[n] for earlier, later in itertools.pairwise(seen)) for n in (0, 1))
    assert 0 < draws <= 2 * queue_module.DRAWS_IN_TURN, "one share before its turn, and one after it"
    assert works <= 2 * queue_module.KEYS_IN_TURN
    await asyncio.sleep(1)
    assert (2000 if are_due else 0) == len(handled)
    queue.close()
    await asyncio.gather(*workers)


async def test_a_worker_that_is_cancelled_while_others_have_their_turn_leaves_the_backlog_to_the_next(
    queue: WorkQueue[str],
):
    handled: list[str] = []

    async def handle(key: str) -> None:
        handled.append(key)

    queue.add_later(str(number) if number == 199 else None for number in range(200))
    first, second = (asyncio.create_task(queue.work(handle)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(1)
    assert ["199"] == handled
    queue.close()
    await second


async def test_what_has_time_comes_when_nothing_else_waits(queue: WorkQueue[str]):
    looked_up: list[str] = []

    def keys(*names: str):
        for name in names:
            looked_up.append(name)
            yield name

    queue.add_later(keys("a", "b", "c"), keys("x", "y"))
    assert not looked_up, "nobody has asked"
    assert "a" == await queue.get()
    assert ["a"] == looked_up
    queue.add("news")
    assert ["news", "x", "b", "y", "c"] == [await queue.get() for _ in range(5)], "the sources in turns"


async def test_a_key_of_the_backlog_comes_once_and_not_after_it_was_worked_on(queue: WorkQueue[str]):
    queue.add_later(["a", "b", "a", "c"], ["c", "b"])
    queue.add("c")
    for key in ("c", "a", "b"):
        assert key == await queue.get()
        queue.done(key)
    queue.add("end")
    assert "end" == await queue.get()


async def test_a_later_backlog_is_due_whatever_an_earlier_one_had(queue: WorkQueue[str]):
    queue.add_later(["a", "b"])
    queue.done(await queue.get())
    queue.add_later(["a"])
    assert ["b", "a"] == [await queue.get() for _ in range(2)]


async def test_a_key_in_hand_that_is_due_comes_again_after_done(queue: WorkQueue[str]):
    queue.add("a")
    await queue.get()
    queue.add_later(["a", "b"])
    assert "b" == await queue.get()
    queue.done("a")
    assert "a" == await queue.get()


async def test_the_collector_leaves_alone_what_a_long_backlog_has_made(
    queue: WorkQueue[str], monkeypatch: pytest.MonkeyPatch
):
    settled: list[str] = []
    monkeypatch.setattr(heap, "settle", lambda: settled.append("settled"))

    async def handle(key: str) -> None: ...

    working = asyncio.create_task(queue.work(handle))
    for _ in range(2):
        queue.add_later(None for _ in range(LONG // 2))
        await asyncio.sleep(1)
    assert not settled
    queue.add_later(None for _ in range(LONG))
    await asyncio.sleep(1)
    assert ["settled"] == settled
    queue.close()
    await working


async def test_a_backlog_wakes_idle_workers(queue: WorkQueue[str]):
    worked: list[str] = []

    async def handle(key: str) -> None:
        worked.append(key)
        await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(queue.work(handle))
        await asyncio.sleep(1)
        queue.add_later(f"k{number}" for number in range(4))
        await asyncio.sleep(1.5)
        assert ["k0", "k1", "k2", "k3"] == worked, "two at a time"
        queue.close()


async def test_a_worker_that_is_cancelled_passes_the_backlog_on(queue: WorkQueue[str]):
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(queue.get()), group.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add_later(["a"])
        first.cancel()
        assert "a" == await second


async def test_others_get_their_turn_while_a_backlog_is_looked_up(queue: WorkQueue[str]):
    """Keys that need nothing, and keys that all are the same."""
    worked, turns = 0, 0

    async def handle(key: str) -> None:
        nonlocal worked
        worked += 1

    async def other() -> None:
        nonlocal turns
        while worked < 1001:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        queue.add_later(
            (f"k{number}" for number in range(1000)), itertools.chain(itertools.repeat("same", 100_000), ["last"])
        )
        group.create_task(other())
        working = group.create_task(queue.work(handle))
        await asyncio.sleep(1)
        assert 1002 == worked
        assert turns > 60
        queue.close()
        await working


async def test_a_closed_queue_looks_nothing_up(queue: WorkQueue[str]):
    queue.add_later(["a"])
    queue.close()
    queue.add_later(["b"])
    with pytest.raises(QueueClosed):
        await queue.get()
