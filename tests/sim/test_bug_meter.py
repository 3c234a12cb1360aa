"""What the meter of planted bugs counts, and what it says."""

from __future__ import annotations

import contextlib
import dataclasses
from types import SimpleNamespace

import pytest

from tests.sim import bug_meter
from tests.sim.bug_meter import Found, Job, Table, in_lives, jobs, search, shares
from tests.sim.disorder import DISORDER_FROM
from tests.sim.parts import PARTS
from tests.sim.planting import Bug
from tests.sim.story import Broken

BUGS = {
    "worse": Bug(contextlib.nullcontext, {"left"}),
    "in-any-order": Bug(contextlib.nullcontext, {"left"}, disorderly=True),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    broken: Broken | None


@pytest.fixture
def broken_in(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """The invariants that lives of a part "fake" break, by seed."""
    lives: dict[int, str] = {}

    def run_seed(seed: int, *, bug: str) -> _Outcome:
        assert bug in BUGS
        return _Outcome(Broken(lives[seed], "it is there", 1.0) if seed in lives else None)

    monkeypatch.setattr(bug_meter, "PARTS", {"fake": SimpleNamespace(name="fake", bugs=BUGS, run_seed=run_seed)})
    monkeypatch.setattr(bug_meter, "BUG_LIVES_MAX", {"fake": 3})
    return lives


def test_a_life_that_breaks_an_invariant_of_the_bug_shows_it(broken_in: dict[int, str]) -> None:
    broken_in[2] = "left"
    assert Found("life 2", "left") == in_lives("fake", "worse")


def test_lives_behind_the_last_one_are_not_searched(broken_in: dict[int, str]) -> None:
    broken_in[3] = "left"
    assert Found() == in_lives("fake", "worse")


def test_another_invariant_is_noted_and_the_search_goes_on(broken_in: dict[int, str]) -> None:
    broken_in.update({0: "overlap", 1: "hot-loop", 2: "left"})
    assert Found("life 2", "left", "overlap (life 0)") == in_lives("fake", "worse")


def test_a_bug_of_order_is_searched_where_queues_have_none(broken_in: dict[int, str]) -> None:
    broken_in.update({0: "left", DISORDER_FROM + 1: "left"})
    assert Found(f"life {DISORDER_FROM + 1}", "left") == in_lives("fake", "in-any-order")


def test_every_part_has_a_bound() -> None:
    assert PARTS.keys() == bug_meter.BUG_LIVES_MAX.keys()


def test_all_worlds_have_bugs() -> None:
    assert {*PARTS, "points", "states", "sizes"} == {job.world for job in jobs([])}
    assert {"points"} == {job.world for job in jobs(["points"])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "invariant"),
    [
        (Job("attacher", "publish-before-finalizer"), "publish-no-finalizer"),
        (Job("states", "release-before-unpublish"), "finalizer-dropped"),
    ],
)
def test_real_bugs_are_found(job: Job, invariant: str) -> None:
    assert invariant == search(job).invariant


def test_each_bug_has_a_row_and_each_world_its_share() -> None:
    rows = {
        Job("node", "late"): Found(),
        Job("node", "early"): Found("life 7", "left"),
        Job("points", "lost"): Found("attach:lost:3", "two-nodes", "left"),
    }
    table = Table(list(rows))
    assert [table.head(), *(table.row(job, found) for job, found in rows.items())] == [
        "world   bug    shown by         invariant             unexpected",
        "node    late   NOT FOUND        -                     -",
        "node    early  life 7           left                  -",
        "points  lost   attach:lost:3    two-nodes             left",
    ]
    assert shares(rows).splitlines() == [
        "node: 1 of 2 planted bugs found (50 %); not found: late",
        "points: 1 of 1 planted bugs found (100 %)",
        "all: 2 of 3 planted bugs found (67 %)",
    ]
