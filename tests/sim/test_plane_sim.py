"""The simulation of the whole plane, as far as every run of the tests takes it; `.ci/run` takes it to 2,000 seeds.

More: `python -m tests.sim --part plane --seeds 20000`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.plane.attachment_laws import TWOFOLD
from tests.sim.plane.bugs import BUGS
from tests.sim.plane.plan import plan_of
from tests.sim.plane.run import run_seed
from tests.sim.planting import assert_found
from tests.support.seeds import chunks

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 150
CHUNK = 10
BUG_LIVES_MAX = 100
KILLED_FIRST, KILLED_SEEDS_MAX = 0, 600


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
    assert_found(run_seed, BUGS, name, BUG_LIVES_MAX)


@pytest.mark.slow
@pytest.mark.long
def test_two_attachments_after_a_kill_in_a_post_are_reported_and_published_once() -> None:
    """The process is killed, its POST comes late, and the next one has attached the volume elsewhere meanwhile. The laws say the rest."""
    found = 0
    for seed in range(KILLED_FIRST, KILLED_FIRST + KILLED_SEEDS_MAX):
        if "lose_request" in plan_of(seed).manners.acts:
            outcome = run_seed(seed)
            assert outcome.broken is None, outcome.report()
            found += any(TWOFOLD in step.what for step in outcome.story.steps)
        if found:
            return
    raise AssertionError("no POST came when the volume was attached elsewhere")
