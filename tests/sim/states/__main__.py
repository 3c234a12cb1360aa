"""The states of all rooms: `python -m tests.sim.states`; one of them: `--room attacher --state pv=deleting,va=new`.

Exit code 1 when a law was broken; the story of the state and its replay command are on standard output.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.sim.pool import Progress, side_by_side
from tests.sim.states.bugs import BUGS
from tests.sim.states.shares import ROOMS, failures, quick, run_one
from tests.sim.states.space import State

CHUNK: Final = 50
SHOWN_MAX: Final = 3
"""Failures of a room that are shown whole."""


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if options.state is not None:
        if options.room is None:
            parser.error("one state is of one --room")
        outcome = run_one(options.room, ROOMS[options.room].space.state_of(options.state), options.bug)
        print(outcome.report())
        return 1 if outcome.complaints else 0
    failed = 0
    for name in [options.room] if options.room else ROOMS:
        failed += _many(name, _states(name, options), options.bug, options.jobs)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.states", description="From any state, everything comes to rest."
    )
    parser.add_argument("--room", choices=sorted(ROOMS), help="one room, else all of them in turn")
    parser.add_argument(
        "--state", help="only this one, with its story: axis=value,... where it is not the ordinary value"
    )
    parser.add_argument(
        "--strength", type=int, help="each choice of values of so many axes, in place of the room's own quick share"
    )
    parser.add_argument("--whole", action="store_true", help="every state of the product")
    parser.add_argument(
        "--share", default="0/1", help="one part of the whole: 2/8 is every eighth state, from the third on"
    )
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a bug, to see that it is found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser


def _states(room: str, options: argparse.Namespace) -> Iterator[State]:
    if not options.whole:
        return quick(room, options.strength)
    part, _, of = options.share.partition("/")
    return itertools.islice(ROOMS[room].space.whole(), int(part), None, int(of))


def _many(room: str, states: Iterator[State], bug: str | None, jobs: int) -> int:
    """Chunks of states side by side. Gives how many failed."""
    progress, laws = Progress(f"states of {room}"), Counter[str]()
    chunks = iter(lambda: list(itertools.islice(states, CHUNK)), [])
    for _, (count, bad) in side_by_side(jobs, chunks, functools.partial(failures, room, bug=bug)):
        for number, (report, found) in enumerate(bad, progress.failed):
            laws.update(found)
            if number < SHOWN_MAX:
                print(f"\n{report}\n", flush=True)
        progress.add(count, len(bad))
    print(progress, flush=True)
    for law, count in laws.most_common():
        print(f"  {law}: {count}")
    return progress.failed


if __name__ == "__main__":
    sys.exit(main())
