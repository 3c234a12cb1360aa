"""The simulation of the whole plane, as far as every run of the tests takes it; `.ci/run` takes it to 2,000 seeds.

More: `make sim SEEDS=100000 ARGS="--part plane"`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.plane.bugs import BUGS
from tests.sim.plane.run import run_seed
from tests.sim.planting import assert_found
from tests.support.seeds import chunks

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 150
CHUNK = 15
BUG_SEEDS_MAX = 2000


@pytest.mark.slow
@pytest.mark.parametrize("first", chunks(SEEDS, CHUNK))
def test_no_invariant_is_broken(first: int) -> None:
    for seed in range(first, first + CHUNK):
        outcome = run_seed(seed)
        assert outcome.broken is None, outcome.report()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert_found(run_seed, BUGS, name, BUG_SEEDS_MAX)
