"""How many of the planted bugs the simulation finds: `make sim-bugs`, or `python -m tests.sim.bug_meter`.

Each bug is planted, and the lives, points, states or sizes of its world are searched from the first on. The table has a
row for each, as soon as it is known: what showed the bug, and by which invariant. A life that breaks another invariant
before that stands in a column of its own: the bug shows in a way that nobody expected, or the life has a defect without
it.

It is a meter, and no test: any change of behaviour draws other lives. The share found before a change and after it says
whether the simulation sees as much as before. The exit code is 0 whatever was found.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tests.sim.disorder import DISORDER_FROM
from tests.sim.parts import PARTS
from tests.sim.points import bugs as points
from tests.sim.pool import Progress, side_by_side
from tests.sim.sizes.bugs import BUGS as SIZES
from tests.sim.sizes.run import growth
from tests.sim.states.bugs import BUGS as STATES
from tests.sim.states.shares import ROOMS, quick, run_one

BUG_LIVES_MAX: Final[Mapping[str, int]] = {
    "attacher": 400,
    "provisioner": 150,
    "node": 100,
    "driver": 60,
    "plane": 100,
    "resizer": 400,
    "snapshots": 200,
}
"""How many lives of a part are searched for one bug."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    #: A part of the simulation, or points, states or sizes.
    world: str
    bug: str


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What a search saw; empty texts for what it did not see."""

    #: The life, point, state or scenario that showed the bug.
    shown_by: str = ""
    #: The invariant that was broken there.
    invariant: str = ""
    #: The first life that broke an invariant which does not tell of the bug, and that invariant.
    unexpected: str = ""


def in_lives(part: str, name: str) -> Found:
    bug, unexpected = PARTS[part].bugs[name], ""
    first = DISORDER_FROM if bug.disorderly else 0
    for seed in range(first, first + BUG_LIVES_MAX[part]):
        broken = PARTS[part].run_seed(seed, bug=name).broken
        if broken is not None and broken.invariant in bug.found_by:
            return Found(f"life {seed}", broken.invariant, unexpected)
        if broken is not None:
            unexpected = unexpected or f"{broken.invariant} (life {seed})"
    return Found(unexpected=unexpected)


def in_points(name: str) -> Found:
    found = points.found_by(name, points.KNOWN[name])
    return Found(found.point, found.invariant) if found else Found()


def in_states(name: str) -> Found:
    bug, unexpected = STATES[name], ""
    for state in quick(bug.room):
        laws = {law for law, _ in run_one(bug.room, state, name).complaints}
        if told := laws & bug.found_by:
            return Found(ROOMS[bug.room].space.id_of(state), ", ".join(sorted(told)), unexpected)
        if laws:
            unexpected = unexpected or ", ".join(sorted(laws))
    return Found(unexpected=unexpected)


def in_sizes(name: str) -> Found:
    with SIZES[name].plant():
        wrong = growth(SIZES[name].scenario).wrong
    if SIZES[name].tells in wrong:
        return Found(SIZES[name].scenario, SIZES[name].tells)
    return Found(unexpected=str(wrong) if wrong else "")


SEARCHES: Final[Mapping[str, Callable[[str], Found]]] = {"points": in_points, "states": in_states, "sizes": in_sizes}


def jobs(worlds: list[str]) -> Iterator[Job]:
    """Yield a job for each bug of these worlds; of all, where none is named."""
    bugs = {part: PARTS[part].bugs for part in PARTS} | {"points": points.KNOWN, "states": STATES, "sizes": SIZES}
    yield from (Job(world, name) for world in worlds or bugs for name in bugs[world])


def search(job: Job) -> Found:
    return SEARCHES[job.world](job.bug) if job.world in SEARCHES else in_lives(job.world, job.bug)


class Table:
    """Rows with columns as wide as these jobs need; what a search saw is told as long as it is."""

    def __init__(self, wanted: list[Job]) -> None:
        self._widths = [max(map(len, cells)) for cells in zip(*map(dataclasses.astuple, [_HEAD, *wanted]), strict=True)]

    def row(self, job: Job, found: Found) -> str:
        return self._line(job, found.shown_by or "NOT FOUND", found.invariant, found.unexpected)

    def head(self) -> str:
        return self._line(_HEAD, "shown by", "invariant", "unexpected")

    def _line(self, job: Job, *found: str) -> str:
        cells = zip((*dataclasses.astuple(job), *found), (*self._widths, 15, 20, 0), strict=True)
        return "  ".join((text or "-").ljust(width) for text, width in cells).rstrip()


_HEAD: Final = Job("world", "bug")


def shares(rows: Mapping[Job, Found]) -> str:
    """Return the share found in each world, and in all, and the bugs that were not found."""
    worlds = dict.fromkeys(job.world for job in rows)
    lines = [_share(world, {job: found for job, found in rows.items() if job.world == world}) for world in worlds]
    return "\n".join([*lines, _share("all", rows)])


def _share(world: str, rows: Mapping[Job, Found]) -> str:
    missed = [job.bug for job, found in rows.items() if not found.shown_by]
    told = f"; not found: {', '.join(missed)}" if missed and world != "all" else ""
    count = len(rows) - len(missed)
    return f"{world}: {count} of {len(rows)} planted bugs found ({100 * count / max(1, len(rows)):.0f} %){told}"


def main() -> None:
    worlds = [*BUG_LIVES_MAX, *SEARCHES]
    parser = argparse.ArgumentParser(prog="python -m tests.sim.bug_meter", description="Counts planted bugs found.")
    parser.add_argument("worlds", nargs="*", choices=[*worlds, []], help=f"of {', '.join(worlds)}; all of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    began_s, rows = time.monotonic(), {}
    wanted = list(jobs(options.worlds))
    progress, table = Progress("bugs", len(wanted)), Table(wanted)
    print(table.head(), flush=True)
    for job, found in side_by_side(options.jobs, wanted, search):
        rows[job] = found
        print(table.row(job, found), flush=True)
        progress.add(1, 0 if found.shown_by else 1)
    print(shares({job: rows[job] for job in wanted}))
    print(f"{time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
