"""A commit's share of the simulation: what it runs, and what it says."""

from __future__ import annotations

import sys
from concurrent import futures

import pytest

from tests.sim import share
from tests.sim.bugs import BUGS
from tests.sim.parts import PARTS
from tests.sim.planting import planted_of
from tests.sim.points.table import SCRIPTS
from tests.sim.share import Job, jobs_of, run
from tests.sim.states.shares import ROOMS

COMMIT, NEXT = "0" * 40, "1" * 40
CPU_S = 600.0


def test_a_commit_always_runs_the_same_and_the_next_one_something_else() -> None:
    assert jobs_of(COMMIT, CPU_S) == jobs_of(COMMIT, CPU_S)
    assert not {name for job in jobs_of(COMMIT, CPU_S) if job.kind == "lives" for name in job.names} <= {
        name for job in jobs_of(NEXT, CPU_S) if job.kind == "lives" for name in job.names
    }


def test_every_part_script_and_room_has_its_share() -> None:
    found = {(job.kind, job.of) for job in jobs_of(COMMIT, CPU_S)}
    wanted = {"lives": PARTS, "points": SCRIPTS, "states": ROOMS}
    assert {(kind, of) for kind, all_of in wanted.items() for of in all_of} == found


def test_a_share_is_as_long_as_its_budget() -> None:
    def lives_count(cpu_s: float) -> int:
        return sum(len(job.names) for job in jobs_of(COMMIT, cpu_s) if job.kind == "lives")

    assert lives_count(2 * CPU_S) == pytest.approx(2 * lives_count(CPU_S), rel=0.1)


def test_commits_together_take_every_point() -> None:
    """The offset is drawn from all that there are."""
    shares = {job.names[0] for number in range(300) for job in share._points(f"{number}", CPU_S) if job.of == "attach"}
    every = int(next(iter(shares)).partition("/")[2])
    assert {f"{first}/{every}" for first in range(every)} == shares


@pytest.mark.parametrize(
    "job",
    [
        Job("lives", "attacher", ("3", "4")),
        Job("states", "capacity", ("ordinary",)),
        Job("points", "detach", ("8/9",)),
    ],
)
def test_a_job_counts_what_it_ran(job: Job) -> None:
    count, reports, _ = run(job)
    assert ({"lives": 2, "states": 1, "points": 3}[job.kind], []) == (count, reports)


def test_what_breaks_is_told_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Job("lives", "attacher", ("0",))
    monkeypatch.setattr(share, "jobs_of", lambda commit, cpu_s: [broken])
    monkeypatch.setattr(futures, "ProcessPoolExecutor", lambda jobs, mp_context: futures.ThreadPoolExecutor(jobs))
    monkeypatch.setattr(sys, "argv", ["share", "--commit", COMMIT, "--jobs", "1"])
    with planted_of(BUGS, "publish-before-finalizer"):
        assert 1 == share.main()
    said = capsys.readouterr().out
    assert "replay: .venv/bin/python -m tests.sim --part attacher --seed 0\n" in said
    assert "1 lives: attacher 1\n" in said
