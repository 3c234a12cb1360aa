"""The enumeration in sittings: what is left of it."""

from __future__ import annotations

import pytest

from tests.sim.disorder import DISORDER_FROM
from tests.sim.sittings import Chunk, left, shares_of, whole

SEEDS = 250


def _names(chunks: list[Chunk]) -> list[str]:
    return [chunk.name for chunk in chunks]


def test_nothing_has_run_at_first() -> None:
    assert [*whole(SEEDS)] == left([], SEEDS)


def test_what_was_clean_is_not_run_again() -> None:
    ran = "lives node 100-199 | 0123abcd | 60 s | 55 CPU s | clean | 100/100 seeds, 1.8 a second, 0 failed"
    assert {"lives node 100-199"} == {*_names([*whole(SEEDS)])} - {*_names(left([ran], SEEDS))}


@pytest.mark.parametrize("result", ["exit code 1", "exit code -2"])
def test_what_failed_or_was_broken_off_is_run_again(result: str) -> None:
    ran = f"lives node 100-199 | 0123abcd | 60 s | 55 CPU s | {result} | 100/100 seeds, 1.8 a second, 1 failed"
    assert "lives node 100-199" in _names(left([ran], SEEDS))


def test_every_seed_is_in_one_chunk() -> None:
    spans = [chunk.name.split()[2].split("-") for chunk in whole(SEEDS) if chunk.name.startswith("lives plane ")]
    wanted = [*range(SEEDS), *range(DISORDER_FROM, DISORDER_FROM + SEEDS // 10)]
    assert wanted == [seed for first, last in spans for seed in range(int(first), int(last) + 1)]


@pytest.mark.parametrize(("states", "shares"), [(315, 1), (3000, 1), (46_800, 16), (92_160, 32)])
def test_a_share_of_states_takes_a_minute_or_two(states: int, shares: int) -> None:
    assert shares == shares_of(states)
