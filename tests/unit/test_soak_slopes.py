"""Growth is told by slopes: noise, outliers and steps are none."""

from __future__ import annotations

import random

import pytest

from tests.soak.slopes import POINTS_MAX, Bound, growth, slope_per_h
from tests.support.rows import each_row

MEMORY = Bound("memory, MiB", 0.02, 1.0)


def noisy(slope: float, *, count: int = 180, noise: float = 2.0, every_s: float = 10.0) -> list[tuple[float, float]]:
    """slope: in an hour."""
    randomness = random.Random(1)
    return [(n * every_s, 100.0 + slope * n * every_s / 3600 + randomness.uniform(-noise, noise)) for n in range(count)]


@each_row("slope", [-20.0, 0.0, 5.0, 40.0])
def test_the_slope_is_found_in_noise(slope: float):
    assert slope_per_h(noisy(slope)) == pytest.approx(slope, abs=1.5)


def test_what_grows_is_told_with_its_measure_and_slope():
    assert growth(noisy(20.0), MEMORY).startswith("memory, MiB grows by ")


@each_row("slope", [-50.0, 0.0, 1.0])
def test_noise_is_no_growth(slope: float):
    assert growth(noisy(slope), MEMORY) == ""


def test_outliers_are_no_growth():
    points = noisy(0.0)
    points[::6] = [(at, value * 3) for at, value in points[::6]]
    assert growth(points, MEMORY) == ""


def in_lives(slope: float, lives: int, *, life_s: float = 200.0) -> tuple[list[tuple[float, float]], list[int]]:
    """Each life is looked at while it is young, and rises then. slope: from life to life, in an hour. Gives the ages,
    too.
    """
    points, ages = [], []
    for number in range(lives):
        for age in range(3, 9):
            at = number * life_s + 10.0 * age
            points.append((at, 400.0 + slope * at / 3600 + 4.0 * age))
            ages.append(age)
    return points, ages


def test_the_rise_of_each_life_is_no_growth():
    points, ages = in_lives(0.0, 4)
    assert slope_per_h(points) > 10.0, "what is compared at all ages"
    assert slope_per_h(points, ages) == pytest.approx(0.0, abs=0.1)


def test_what_grows_from_life_to_life_is_found():
    points, ages = in_lives(40.0, 7)
    assert slope_per_h(points, ages) == pytest.approx(40.0, abs=0.1)
    assert growth(points, Bound("memory, MiB", 0.05, 10.0), ages).startswith("memory, MiB grows by 40.0 an hour")


def test_many_points_are_thinned_out():
    points = noisy(30.0, count=20 * POINTS_MAX, every_s=1.0)
    assert slope_per_h(points) == pytest.approx(30.0, abs=1.5)


def test_too_few_points_prove_nothing():
    with pytest.raises(AssertionError, match="too few"):
        growth(noisy(0.0, count=19), MEMORY)
