"""A commit's share of the simulation: `make sim-share`, or `python -m tests.sim.share`.

Everything that a share runs is drawn from the commit's hash: lives of every part, points of the scripts, states of
every room, from the same spaces that `make sim-all` walks through. So a commit always runs the same list, and many
commits together walk through all of it. What one thing costs was measured (`COST_S`), and sets how many of each there
are: no clock ends the run, but for a bound far above what it should take.

Exit code 1 when something broke; its story and the command that repeats it are on standard output.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from mooring.base.randomness import Random
from tests.sim.disorder import DISORDER_FROM
from tests.sim.parts import PARTS, failures
from tests.sim.points import bugs as points
from tests.sim.points.run import all_trials, recorded
from tests.sim.points.table import SCRIPTS
from tests.sim.pool import Late, side_by_side
from tests.sim.states import shares as states
from tests.sim.states.shares import ROOMS
from tests.support.commits import head

LIVES: Final = 14_300
"""Of each part, the lives that `make sim-all` knows; of these, a tenth more have queues without an order."""
DISORDERLY: Final = 0.1
"""The share of lives that are drawn from those with such queues."""
UNMENDED: Final = {("provisioner", 1000675), ("snapshots", 5702)}
"""Lives with a defect that README.md names, and that is not mended yet."""
JOB_S: Final = 6.0
"""The length of a job: short enough that all processes end at about the same time."""
LATE: Final = 6.0
START_S: Final = 120.0
"""A run that takes so many times its budget, and a while for its start, is broken off, as something stands still."""

COST_S: Final = {
    "attacher": 0.05,
    "provisioner": 0.67,
    "node": 0.34,
    "driver": 0.1,
    "plane": 0.58,
    "resizer": 0.2,
    "snapshots": 0.35,
    "states": 0.05,
}
"""Processor seconds of one life or state, on average."""
ALL_POINTS_S: Final = 870.0
"""The same of all points."""
WEIGHTS: Final = {"plane": 6, "points": 4, "states": 4}
"""How the budget is divided; every other part has a weight of 2."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """kind: lives, points or states. of: a part, a script or a room. names: seeds, ids of states, or "2/8" for every
    eighth point from the third on.
    """

    kind: str
    of: str
    names: tuple[str, ...]


def jobs_of(commit: str, cpu_s: float) -> list[Job]:
    """The commit's list. cpu_s: about how long it takes one processor."""
    return [*_points(commit, cpu_s), *_lives(commit, cpu_s), *_states(commit, cpu_s)]


def _share_s(name: str, cpu_s: float) -> float:
    weights = {**dict.fromkeys(PARTS, 2), **WEIGHTS}
    return cpu_s * weights[name] / sum(weights.values())


def _random(commit: str, purpose: str) -> Random:
    """A source of its own for each purpose, so that another count of lives moves no point."""
    return Random(int(hashlib.sha256(f"{commit} {purpose}".encode()).hexdigest(), 16))


def _lives(commit: str, cpu_s: float) -> Iterator[Job]:
    for part in PARTS:
        randomness = _random(commit, part)
        seeds = {_seed(randomness) for _ in range(max(1, round(_share_s(part, cpu_s) / COST_S[part])))}
        names = [str(seed) for seed in sorted(seeds) if (part, seed) not in UNMENDED]
        yield from _jobs("lives", part, names)


def _seed(randomness: Random) -> int:
    if randomness.happens(DISORDERLY):
        return DISORDER_FROM + randomness.below(LIVES // 10)
    return randomness.below(LIVES)


def _points(commit: str, cpu_s: float) -> Iterator[Job]:
    """Of every script one point in so many, from a point on that the commit draws."""
    every = max(1, round(ALL_POINTS_S / _share_s("points", cpu_s)))
    for name in SCRIPTS:
        yield Job("points", name, (f"{_random(commit, name).below(every)}/{every}",))


def _states(commit: str, cpu_s: float) -> Iterator[Job]:
    for room, found in ROOMS.items():
        randomness = _random(commit, f"states {room}")
        count = max(1, round(_share_s("states", cpu_s) / len(ROOMS) / COST_S["states"]))
        names = dict.fromkeys(found.space.id_of(found.space.drawn(randomness)) for _ in range(count))
        yield from _jobs("states", room, [*names])


def _jobs(kind: str, of: str, names: list[str]) -> Iterator[Job]:
    size = max(1, round(JOB_S / COST_S[of if kind == "lives" else kind]))
    yield from (Job(kind, of, tuple(names[start : start + size])) for start in range(0, len(names), size))


def run(job: Job) -> tuple[int, list[str], float]:
    """How many lives, points or states it ran, reports of those that failed, and its processor seconds."""
    began_s = time.process_time()
    count, reports = len(job.names), []
    match job.kind:
        case "lives":
            reports = [report for report, _, _ in failures(job.of, map(int, job.names), None)]
        case "points":
            first, _, every = job.names[0].partition("/")
            trials = [*all_trials(SCRIPTS[job.of], recorded(SCRIPTS[job.of]))][int(first) :: int(every)]
            count = len(trials)
            reports = [report for _, report in points.failures(trials, None)] if trials else []
        case "states":
            space = ROOMS[job.of].space
            reports = [report for report, _ in states.failures(job.of, map(space.state_of, job.names), None)[1]]
    return count, reports, time.process_time() - began_s


def main() -> int:
    options = _parser().parse_args()
    commit = options.commit or head()
    jobs = jobs_of(commit, options.seconds * options.jobs)
    if options.list:
        print("\n".join(f"{job.kind} {job.of} {' '.join(job.names)}" for job in jobs))
        return 0
    print(f"the share of {commit}: {len(jobs)} jobs", flush=True)
    began_s, done, cpu_s, failed = time.monotonic(), Counter[tuple[str, str]](), 0.0, 0
    seconds_max = START_S + LATE * options.seconds
    try:
        for job, (count, reports, used_s) in side_by_side(options.jobs, jobs, run, seconds_max=seconds_max):
            done[job.kind, job.of] += count
            cpu_s += used_s
            failed += len(reports)
            for report in reports:
                print(f"\n{report}\n", flush=True)
    except Late:
        print(f"broken off after {seconds_max:g} s: the rest was not run", flush=True)
        failed += 1
    for kind in ("lives", "points", "states"):
        of = {name: count for (its, name), count in done.items() if its == kind and count}
        print(f"{sum(of.values())} {kind}: {', '.join(f'{name} {count}' for name, count in of.items())}")
    print(f"in {time.monotonic() - began_s:.0f} s, {cpu_s:.0f} s of processors: {failed or 'none'} broken")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.share", description="A commit's share of all lives.")
    parser.add_argument("--commit", help="the hash from which everything is drawn (HEAD's)")
    parser.add_argument("--seconds", type=float, default=150.0, help="about how long it takes on a quiet machine (150)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--list", action="store_true", help="only say what there is to run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
