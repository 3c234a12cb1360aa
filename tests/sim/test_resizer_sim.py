"""The simulation of the resizer, as far as every run of the tests takes it.

More seeds: `python -m tests.sim --part resizer --seeds 20000`.
"""

from __future__ import annotations

import pytest

from tests.sim.growth.bugs import BUGS
from tests.sim.growth.run import run_seed
from tests.sim.planting import assert_found
from tests.support.seeds import chunks

pytestmark = pytest.mark.slow
SEEDS = 100
CHUNK = 20
BUG_LIVES_MAX = 400
FAILED_BEFORE = (4, 173, 198, 293, 307, 877, 1201)
"""A size overtook the one that the process before had asked for when it died; a node's part, shown by an answer, was not noticed."""
FAILED_WITH_LOST_ANSWERS = (2816, 3625, 4076, 4170, 5786, 7221, 7661, 12078)
"""A class overtook one that was applied already; a refusal took a volume from its node."""
FAILED_WITH_A_SERVER_SET_BACK = (
    2782,
    3957,
    4299,
    6436,
    7129,
    8617,
    8868,
    9248,
    9634,
    10088,
    10526,
    11419,
    11452,
    11518,
    11837,
    14098,
)
"""A cache did not notice it, or what it knew was believed: of a volume's class, of a claim's size, of a node's turn."""
FAILED_WITH_LATE_MARKS = (3337, 9166)
"""A mark that a dead process had sent was carried out during the next one's call, and another size overtook that."""


@pytest.mark.parametrize("first", chunks(SEEDS, CHUNK))
def test_no_invariant_is_broken(first: int) -> None:
    for seed in range(first, first + CHUNK):
        outcome = run_seed(seed)
        assert outcome.broken is None, outcome.report()


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [*FAILED_BEFORE, *FAILED_WITH_LOST_ANSWERS, *FAILED_WITH_A_SERVER_SET_BACK, *FAILED_WITH_LATE_MARKS]
)
def test_what_failed_before_does_not_fail_again(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.broken is None, outcome.report()


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert_found(run_seed, BUGS, name, BUG_LIVES_MAX)


def test_a_seed_lives_the_same_life_again() -> None:
    for seed in range(5):
        first, second = run_seed(seed), run_seed(seed)
        assert first.story.steps == second.story.steps
