"""What the search for a planted bug says."""

from __future__ import annotations

import contextlib
import dataclasses
from types import SimpleNamespace

import pytest

from tests.sim import planting
from tests.sim.planting import Bug, assert_all_found, assert_found
from tests.sim.story import Broken

BUGS = {"worse": Bug(contextlib.nullcontext, {"left"}, first_seed=7)}


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    broken: Broken | None


def _shown_by(seed_of_it: int, invariant: str = "left") -> SimpleNamespace:
    def run_seed(seed: int, *, bug: str) -> _Outcome:
        assert bug == "worse"
        return _Outcome(Broken(invariant, "it is there", 1.0) if seed == seed_of_it else None)

    return SimpleNamespace(name="fake", bugs=BUGS, run_seed=run_seed)


def test_a_life_that_shows_the_bug_ends_the_search() -> None:
    assert_found(_shown_by(9), "worse", 3)


def test_a_bug_that_is_not_found_is_told_with_the_lives_that_were_searched() -> None:
    with pytest.raises(AssertionError, match="worse: not found in seeds 7 to 9"):
        assert_found(_shown_by(10), "worse", 3)


def test_a_bug_that_another_law_tells_of_is_not_found() -> None:
    with pytest.raises(AssertionError, match="overlap"):
        assert_found(_shown_by(8, "overlap"), "worse", 3)


def test_a_search_ends_after_its_time_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting, "SEARCH_S", -1.0)
    with pytest.raises(AssertionError, match="worse: not found in seeds 7 to 7"):
        assert_found(_shown_by(9), "worse", 3)


def test_of_several_bugs_each_is_searched_and_told() -> None:
    searched = []

    def search(name: str) -> None:
        searched.append(name)
        if name != "found":
            raise AssertionError(f"{name}: not found")

    with pytest.raises(AssertionError, match=r"^first: not found\nlast: not found$"):
        assert_all_found(search, ["first", "found", "last"])
    assert ["first", "found", "last"] == searched
