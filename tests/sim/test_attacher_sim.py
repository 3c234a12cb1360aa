"""The attacher's simulation, as far as every run of the tests takes it.

More seeds: `python -m tests.sim --part attacher --seeds 20000`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.bugs import BUGS
from tests.sim.course import STORY_STEPS
from tests.sim.planting import assert_found
from tests.sim.run import run_seed
from tests.support.seeds import chunks

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 200
CHUNK = 20
BUG_LIVES_MAX = 400


@pytest.mark.slow
@pytest.mark.parametrize("first", chunks(SEEDS, CHUNK))
def test_no_invariant_is_broken(first):
    for seed in range(first, first + CHUNK):
        outcome = run_seed(seed)
        assert outcome.broken is None, outcome.report()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name):
    assert_found(run_seed, BUGS, name, BUG_LIVES_MAX)


def test_a_failure_shows_the_end_of_its_story_and_how_to_see_it_again():
    outcome = run_seed(0, bug="publish-before-finalizer")
    assert outcome.broken is not None
    lines = outcome.report().splitlines()
    assert "seed 0" == lines[0]
    assert str(outcome.broken) == lines[-2]
    assert "replay: .venv/bin/python -m tests.sim --part attacher --seed 0 --bug publish-before-finalizer" == lines[-1]
    assert len(lines) <= STORY_STEPS + 4
    assert "publish-no-finalizer" in lines[-3]
