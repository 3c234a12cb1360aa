"""A process that hangs is ended from within: no port decides about that."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

import pytest

from mooring.base import watchdog
from mooring.base.watchdog import UNWELL_BEATS_MAX, watched

HANGS = """
import asyncio, sys
from mooring.base.clock import LoopClock
from mooring.base import watchdog
watchdog.HUNG_S = 0.05
async def main():
    async with watchdog.watched(LoopClock(), lambda: "", sys.exit, "watchdog"):
        await asyncio.sleep(0)
        hang_here()
def hang_here():
    import re
    re.match("(a*)*b", "a" * 64)  # holds the interpreter's lock, so that no thread of Python's would run
asyncio.run(main())
"""


class Over(Exception):
    """The test is over."""


class Beats:
    """A clock that counts, and ends the test."""

    def __init__(self, beats_max: int) -> None:
        self.count, self.beats_max = 0, beats_max

    def now(self) -> float:
        return self.count * watchdog.BEAT_S

    def wall_s(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        assert seconds < watchdog.HUNG_S / 2, "the next beat comes in time"
        self.count += 1
        if self.count == self.beats_max:
            raise Over


class Left(Exception):
    """The process would have left. args: its code."""


def leaves(code: int) -> NoReturn:
    raise Left(code)


async def alive_under(clock: Beats, unwell: Callable[[], str]) -> None:
    async with watched(clock, unwell, leaves, "watchdog"):
        await asyncio.Event().wait()


@pytest.mark.slow
def test_a_process_without_stderr_runs_on() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, HANGS.replace("hang_here()", "pass", 1)],
        timeout=60,
        check=False,
    )
    assert 0 == done.returncode


@pytest.mark.slow
def test_a_loop_that_does_not_turn_ends_the_process_and_says_where_it_stands() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=False)
    assert 1 == done.returncode
    assert "Timeout" in done.stderr
    assert "in hang_here" in done.stderr


async def test_a_loop_that_turns_goes_on() -> None:
    with pytest.raises(Over):
        await alive_under(Beats(1_000), lambda: "")


async def test_a_lease_that_stays_unrenewed_ends_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Beats(1_000)
    with pytest.raises(Left) as ended:
        await alive_under(clock, lambda: "failed election to renew leadership")
    assert (1, UNWELL_BEATS_MAX) == (*ended.value.args, clock.count)
    assert 'reason="failed election to renew leadership"' in capsys.readouterr().err


async def test_a_lease_that_is_renewed_in_the_end_does_not() -> None:
    clock = Beats(1_000)
    with pytest.raises(Over):
        await alive_under(clock, lambda: "" if clock.count % UNWELL_BEATS_MAX == 0 else "late")
