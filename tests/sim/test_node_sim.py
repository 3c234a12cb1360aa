"""The simulation of the node agents, as far as every run of the tests takes it.

More seeds: `python -m tests.sim --part node --seeds 20000`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.node import world
from tests.sim.node.bugs import BUGS
from tests.sim.node.run import run_seed
from tests.sim.planting import assert_found
from tests.support.seeds import chunks

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 60
CHUNK = 10
BUG_LIVES_MAX = 100


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


def test_a_life_leaves_nothing_on_the_disk_of_whoever_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "MEMORY", tmp_path)
    assert run_seed(0, bug="records-missing").broken is not None
    assert [] == list(tmp_path.iterdir())
