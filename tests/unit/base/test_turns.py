"""Shares of the loop's turns: who has a place in them, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from mooring.base import turns
from mooring.base.turns import Turns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processor time, in its only item."""
    now = [0.0]
    monkeypatch.setattr(turns, "processor_s", lambda: now[0])
    return now


def nobody(_held_s: float) -> None:
    """Nobody is told."""


async def test_what_is_over_the_share_has_the_next_turn(clock: list[float]) -> None:
    done: list[int] = []
    shared = Turns()

    def job(number: int) -> None:
        clock[0] += turns.SHARE_S / 2
        done.append(number)

    for number in range(5):
        shared.line().take(lambda number=number: job(number), nobody)
    assert done == [0, 1]
    seen = []
    for _ in range(3):
        await asyncio.sleep(0)
        seen.append(len(done))
    assert seen == [4, 5, 5]
    assert done == [0, 1, 2, 3, 4], "in the order in which they came"


async def test_a_job_that_fails_stops_no_other(clock: list[float]) -> None:
    failed, done = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failed.append(context["exception"]))
    shared = Turns()

    def job() -> None:
        clock[0] += turns.SHARE_S
        done.append(1)

    def fail() -> None:
        raise KeyError("a bug")

    for each in (job, fail, job, job):
        shared.line().take(each, nobody)
    for _ in range(4):
        await asyncio.sleep(0)
    assert (3, [KeyError]) == (len(done), [type(error) for error in failed])
    with pytest.raises(KeyError):
        shared.line().take(fail, nobody)
    shared.line().take(job, nobody)
    assert 4 == len(done)


async def test_what_a_job_brings_follows_and_counts_once(clock: list[float]) -> None:
    """An answer leads to the next request of its connection: one in another, both would count for the first."""
    done: list[int] = []
    shared = Turns()

    def job(number: int) -> None:
        clock[0] += turns.SHARE_S / 4
        if number < 5:
            shared.line().take(lambda: job(number + 1), nobody)
        done.append(number)

    shared.line().take(lambda: job(0), nobody)
    assert done == [0, 1, 2, 3]
    await asyncio.sleep(0)
    assert done == [0, 1, 2, 3, 4, 5]


class Client:
    """Asks for a whole share each time, and again when it has had it, so many times."""

    def __init__(self, shared: Turns, clock: list[float], served: list[str], name: str) -> None:
        self._line, self._clock, self._served, self._name = shared.line(), clock, served, name

    def ask(self, times: int) -> None:
        def job() -> None:
            self._clock[0] += turns.SHARE_S
            self._served.append(self._name)
            if times > 1:
                self.ask(times - 1)

        self._line.take(job, nobody)


async def test_who_has_been_served_least_goes_first(clock: list[float]) -> None:
    """Who asks once waits for a turn or two, however many others have asked, and how much."""
    shared, served = Turns(), list[str]()
    for number in range(10):
        Client(shared, clock, served, f"many {number}").ask(20)
    while len(served) < 30:  # noqa: ASYNC110  (each turn serves one)
        await asyncio.sleep(0)
    Client(shared, clock, served, "one").ask(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "one" in served


async def test_who_was_away_neither_pays_nor_makes_up_for_it(clock: list[float]) -> None:
    shared, served = Turns(), list[str]()
    old, young = Client(shared, clock, served, "old"), Client(shared, clock, served, "young")
    young.ask(1)
    old.ask(50)
    while len(served) < 51:  # noqa: ASYNC110
        await asyncio.sleep(0)
    served.clear()
    old.ask(20)
    young.ask(20)
    for _ in range(20):
        await asyncio.sleep(0)
    assert abs(served.count("old") - served.count("young")) <= 2
