"""Every point of every script: `python -m tests.sim.points`, or of some of them; one again by its name, with its story.

    python -m tests.sim.points --list              the scripts, and how many points each has
    python -m tests.sim.points attach detach       all points of these
    python -m tests.sim.points attach:lost:3       one point, with its story
    python -m tests.sim.points attach --points     what the undisturbed run did, with its numbers

Exit code 1 when a law was broken or a run came to another end; the story and how to see it again are on standard
output.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tests.sim.planting import planted_of
from tests.sim.points.bugs import ALL, Found, failures, found_by
from tests.sim.points.run import all_trials, play, recorded, tried
from tests.sim.points.table import SCRIPTS
from tests.sim.points.trial import Trial, trial_of
from tests.sim.pool import Progress, side_by_side

CHUNK: Final = 25
FAILURES_SHOWN: Final = 3


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    trials = [trial_of(name) for name in options.names if ":" in name]
    names = [name for name in options.names if ":" not in name] or ([] if trials else list(SCRIPTS))
    if unknown := [name for name in (*names, *(trial.script for trial in trials)) if name not in SCRIPTS]:
        parser.error(f"no script {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    if options.bug is not None and options.bug not in ALL:
        parser.error(f"the bugs to plant are {', '.join(ALL)}")
    if options.bugs:
        return _bugs(names, options.jobs)
    if options.list:
        return _list(names)
    if trials:
        return max(_one(trial, options.bug) for trial in trials)
    return max(_points(name) for name in names) if options.points else _all(names, options.bug, options.jobs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.points", description="Every point of every script.")
    parser.add_argument("names", nargs="*", help="scripts, or single points as attach:lost:3; all scripts without any")
    parser.add_argument("--list", action="store_true", help="the scripts, and how many points of each kind they have")
    parser.add_argument("--points", action="store_true", help="what the undisturbed runs did, with numbers")
    parser.add_argument("--bug", help="plant a bug, to see that it is found")
    parser.add_argument(
        "--bugs", action="store_true", help="plant each bug in turn, and show which script finds it, and how"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser


def _list(names: Sequence[str]) -> int:
    total = 0
    for name in names:
        ways = Counter(trial.way.value for trial in all_trials(SCRIPTS[name], recorded(SCRIPTS[name])))
        total += ways.total()
        print(
            f"{name:<18} {ways.total():5}  "
            f"{SCRIPTS[name].about}\n{'':26}{', '.join(f'{way} {count}' for way, count in ways.items())}"
        )
    print(f"{total} points in {len(names)} scripts")
    return 0


def _points(name: str) -> int:
    record = recorded(SCRIPTS[name]).record
    print(f"{name}: {SCRIPTS[name].about}")
    for told in (record.touches, record.shown):
        print("\n".join(map(str, told)))
    touches, events = record.acts[-1]
    print(f"{touches} touches and {events} events were before the last act")
    return 0


def _one(trial: Trial, bug: str | None) -> int:
    script = SCRIPTS[trial.script]
    with planted_of(ALL, bug):
        record = recorded(script)
        outcome = tried(script, record, trial)
    print("\n".join(map(str, outcome.story.steps)))
    print(outcome.broken or "nothing broke")
    return 1 if outcome.broken else 0


def _all(names: Sequence[str], bug: str | None, jobs: int) -> int:
    chunks = list(_chunks(names, bug))
    progress, of_script = Progress("points", sum(map(len, chunks))), Counter[str]()
    print(f"{sum(map(len, chunks))} points in {len(names)} scripts", flush=True)
    for chunk, found in side_by_side(jobs, chunks, functools.partial(failures, bug=bug)):
        for number, (trial, report) in enumerate(found, progress.failed):
            of_script[f"{trial.script}:{trial.way}"] += 1
            if number < FAILURES_SHOWN:
                print(f"\n{report}\n", flush=True)
        progress.add(len(chunk), len(found))
    print(progress)
    for name, how_many in of_script.most_common():
        print(f"  {name}: {how_many}")
    return 1 if progress.failed else 0


def _chunks(names: Sequence[str], bug: str | None) -> Iterator[list[Trial]]:
    for name in names:
        with planted_of(ALL, bug):
            record = play(SCRIPTS[name])
        if record.broken is not None:
            print(f"{name} fails undisturbed\n{record.report(bug or '')}", flush=True)
            continue
        trials = list(all_trials(SCRIPTS[name], record))
        yield from (trials[start : start + CHUNK] for start in range(0, len(trials), CHUNK))


def _bugs(names: Sequence[str], jobs: int) -> int:
    """A table: the bug, the point that shows it first, and how."""
    found: dict[str, Found | None] = {}
    for bug, one in side_by_side(jobs, ALL, functools.partial(found_by, names=tuple(names))):
        found[bug] = one
        print(f"{bug:<48} {'not found' if one is None else one}", flush=True)
    print(f"{sum(one is not None for one in found.values())} of {len(found)} found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
