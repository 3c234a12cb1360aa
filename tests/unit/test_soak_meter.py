"""The soak's judgement: growth is found, noise is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tests.soak.meter import Sample, grown
from tests.support.rows import each_row

QUIET = Sample(0.0, 100.0, 20.0, 60, 4.0, 20.0, 300.0)


def a_run(measure: str, value_at: Callable[[int], float]) -> list[Sample]:
    return [dataclasses.replace(QUIET, **{measure: value_at(number)}) for number in range(50)]


@each_row("measure", ["rss_mib", "disk_mib", "files", "p50_ms", "p99_ms"])
def test_what_doubles_in_the_second_half_is_found(measure):
    start = getattr(QUIET, measure)
    (problem,) = grown(a_run(measure, lambda number: start * (1 + max(0, number - 25) / 8)))
    assert "grew from" in problem


@each_row("measure", ["rss_mib", "disk_mib", "files", "p50_ms", "p99_ms"])
def test_what_grows_at_first_and_then_stays_is_no_growth(measure):
    start = getattr(QUIET, measure)
    assert [] == grown(a_run(measure, lambda number: start * min(3.0, 1 + number / 5)))


def test_one_outlier_is_noise():
    assert [] == grown(a_run("p99_ms", lambda number: 5000.0 if number == 48 else 20.0))
