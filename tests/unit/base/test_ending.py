"""B1: a program that others may hold up ends when it is asked to: in good order while that gets on, by force where it
does not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from mooring.base import ending as endings
from mooring.base.ending import Ending
from tests.support.rows import each_row

HANG_S = 60.0


class Ended(Exception):
    """In place of the end of the process."""


class World:
    """An ending whose last word is noted."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.codes: list[int] = []
        self.over = threading.Event()
        self.ending = Ending(self._exit_now)  # type: ignore[arg-type]

    def _exit_now(self, code: int) -> None:
        self.codes.append(code)
        self.over.set()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(endings, "STILL_S", 0.01)
    monkeypatch.setattr(endings, "BY_FORCE_S", 0.01)
    return World()


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    assert before == {number: signal.getsignal(number) for number in before}, "they are those of before again"
    signal.signal(signal.SIGHUP, inherited)


@each_row("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_the_first_signal_asks_for_the_end(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    world, asked = World(), threading.Event()
    monkeypatch.setattr(endings, "STILL_S", HANG_S)
    world.ending.when_asked(asked.set)
    with world.ending.on_signals():
        assert not world.ending.is_asked
        os.kill(os.getpid(), number)
        assert asked.wait(HANG_S)
        assert world.ending.is_asked
    assert [] == world.codes, "what ends in good order is not ended by force"


def test_under_nohup_a_closed_terminal_ends_nothing(world: World) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with world.ending.on_signals():
            assert signal.SIG_IGN is signal.getsignal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_who_comes_late_hears_it_at_once(world: World) -> None:
    world.ending.ask()
    world.ending.when_asked(lambda: world.done.append("asked"))
    assert ["asked"] == world.done


def test_what_does_not_end_is_ended_by_force_also_where_the_main_thread_is_held(world: World) -> None:
    """The main thread waits here, as in a driver that blocks the event loop: nobody but the thread of the ending can do
    anything.
    """
    with (
        world.ending.at_last(lambda: world.done.append("folder")),
        world.ending.at_last(lambda: world.done.append("programs")),
    ):
        with world.ending.at_last(lambda: world.done.append("is over already")):
            pass
        with world.ending.on_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            assert world.over.wait(HANG_S)
    assert (["programs", "folder"], [0]) == (world.done, world.codes), "the latest first"


def test_a_last_act_that_fails_or_hangs_keeps_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "LAST_S_MAX", 0.2)
    hanging = threading.Event()

    def hang() -> None:
        hanging.wait(HANG_S)

    def fail() -> None:
        raise OSError("the disk is gone")

    acts = (hang, lambda: world.done.append("b"), fail)
    with contextlib.ExitStack() as stack:
        for act in acts:
            stack.enter_context(world.ending.at_last(act))
        stack.enter_context(world.ending.on_signals())
        os.kill(os.getpid(), signal.SIGINT)
        assert world.over.wait(HANG_S)
    hanging.set()
    assert (["b"], [0]) == (world.done, world.codes)


def test_a_second_signal_is_the_end_of_patience_and_a_third_one_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "STILL_S", HANG_S)
    world, asked = World(), threading.Event()
    world.ending.when_asked(asked.set)
    with world.ending.at_last(lambda: world.done.append("folder")), world.ending.on_signals():
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.wait(HANG_S)
        os.kill(os.getpid(), signal.SIGINT)
        assert world.over.wait(HANG_S)
        assert signal.SIG_DFL is signal.getsignal(signal.SIGINT)
    assert (["folder"], [0]) == (world.done, world.codes)


def test_a_step_has_its_time_anew_after_each_that_came_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(endings.time, "monotonic", lambda: now[0])
    ending = Ending()
    assert endings.ENDING_S_MAX == ending.left_s, "nobody has asked: as long as ever"
    ending.ask()
    assert endings.STILL_S == ending.left_s
    now[0] += endings.STILL_S / 2
    assert endings.STILL_S / 2 == pytest.approx(ending.left_s)
    ending.goes_on()
    assert endings.STILL_S == pytest.approx(ending.left_s)
    now[0] += endings.STILL_S
    ending.goes_on()
    assert 0 == ending.left_s, "that took too long: what comes after it has no time of its own"


def test_all_steps_together_have_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(endings.time, "monotonic", lambda: now[0])
    ending = Ending()
    ending.ask()
    for _ in range(int(endings.ENDING_S_MAX / endings.STILL_S) * 4):
        now[0] += endings.STILL_S / 4
        ending.goes_on()
    assert 0 == ending.left_s
