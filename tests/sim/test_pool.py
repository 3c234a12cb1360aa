"""Work in several processes side by side."""

from __future__ import annotations

import operator
import time

import pytest

from tests.sim.pool import Late, Progress, side_by_side

pytestmark = pytest.mark.slow


def test_each_job_comes_with_its_result_and_few_are_drawn_ahead() -> None:
    drawn = []

    def jobs():
        for number in range(9):
            drawn.append(number)
            yield number

    found = side_by_side(1, jobs(), operator.neg)
    first = next(found)
    assert len(drawn) <= 3
    assert {number: -number for number in range(9)} == dict([first, *found])


def test_work_that_is_not_done_in_its_time_is_ended() -> None:
    with pytest.raises(Late):
        list(side_by_side(1, [600], time.sleep, seconds_max=0.5))


def test_an_error_in_the_work_is_raised() -> None:
    with pytest.raises(TypeError):
        list(side_by_side(1, ["a"], operator.neg))


def test_progress_counts() -> None:
    progress = Progress("seeds", 10)
    progress.add(4, 1)
    progress.add(3, 0)
    assert str(progress).startswith("7/10 seeds, ")
    assert ", 1 failed, " in str(progress)
    progress.add(3, 0)
    assert str(progress).endswith(" a second, 1 failed")
