"""Many seeds, or one: `python -m tests.differential --seeds 1000`, `python -m tests.differential --seed 7`.

Exit code 1 when the servers differ where they shall not; the shortest sequence that shows it and its replay command are
on standard output. Needs the real Kubernetes parts, but for --alone.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.differential.compare import Difference, Judge, crash_of
from tests.differential.generate import sequence
from tests.differential.known_differences import page
from tests.differential.schemas import Schemas
from tests.differential.servers import both, embedded_alone
from tests.differential.shrinking import shrunk
from tests.differential.steps import Step
from tests.support.control_plane import shared_control_plane

SHOWN_EVERY_S = 10.0
_ENDLESS = 10**9


def main() -> int:
    options = _parser().parse_args()
    if options.page:
        print(page())
        return 0
    count = _ENDLESS if options.minutes else options.seeds
    seeds = (
        range(options.first, options.first + count) if options.seed is None else range(options.seed, options.seed + 1)
    )
    with tempfile.TemporaryDirectory(prefix="mooring-differential-") as own:
        folder = Path(own)
        if options.alone:
            return _alone(folder, seeds)
        plane = shared_control_plane(options.plane or folder, os.getppid() if options.plane else os.getpid())
        with both(folder, plane) as targets:
            return _run(Judge(targets), targets[1].schemas(), seeds, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument(
        "--minutes", type=float, default=0, help="in place of a number of seeds: as many as there is time for"
    )
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--steps", help="with --seed: only these of its steps, such as 0,4,5")
    parser.add_argument(
        "--keep-going", action="store_true", help="go on after a difference; those of one sort are shown once"
    )
    parser.add_argument(
        "--brief", action="store_true", help="show differences as they are found, not the shortest sequence"
    )
    parser.add_argument("--alone", action="store_true", help="the embedded server alone: is everything answered?")
    parser.add_argument(
        "--page", action="store_true", help="print the known differences, as docs/apiserver.md has them, and end"
    )
    parser.add_argument("--plane", type=Path, help="a folder in which a control plane runs already, or is to be shared")
    return parser


def _run(judge: Judge, schemas: Schemas, seeds: Iterable[int], options: argparse.Namespace) -> int:
    began = shown_at = time.monotonic()
    done = 0
    failed: Counter[str] = Counter()
    for done, seed in enumerate(seeds, 1):
        if options.minutes and time.monotonic() - began > options.minutes * 60:
            break
        steps = _chosen(sequence(seed, schemas), options.steps)
        found = judge.first_difference(steps)
        if found is not None:
            sort = _sort(found)
            failed[sort] += 1
            if failed[sort] == 1:
                _report(judge, seed, steps, found, options.brief)
            if not options.keep_going:
                break
        if time.monotonic() - shown_at > SHOWN_EVERY_S:
            shown_at = time.monotonic()
            print(f"{done} sequences, {judge.requests / (shown_at - began):.0f} requests a second", file=sys.stderr)
    print(f"{done} sequences, {judge.requests} requests, {failed.total()} differ; {time.monotonic() - began:.0f} s")
    for name, count in judge.known.most_common():
        print(f"  known: {count} times {name}")
    for sort, count in failed.most_common():
        print(f"  DIFFER: {count} times {sort}")
    return 1 if failed else 0


def _alone(folder: Path, seeds: range) -> int:
    with embedded_alone(folder) as target:
        schemas = target.schemas()
        for seed in seeds:
            crash = crash_of(target, sequence(seed, schemas))
            if crash:
                print(f"seed {seed}:\n{crash}")
                return 1
    print(f"{len(seeds)} sequences, every request answered")
    return 0


def _chosen(steps: tuple[Step, ...], numbers: str | None) -> tuple[Step, ...]:
    if numbers is None:
        return steps
    chosen = {int(number) for number in numbers.split(",")}
    return tuple(step for step in steps if step.number in chosen)


def _sort(found: Difference) -> str:
    step = found.step
    kind = re.sub(r"\[\d+\]", "", found.kind)
    return f"{step.method} {kind} {found.answers[0].status}/{found.answers[1].status}"


def _report(judge: Judge, seed: int, steps: tuple[Step, ...], found: Difference, brief: bool) -> None:
    def fails(fewer: tuple[Step, ...]) -> bool:
        other = judge.first_difference(fewer)
        return other is not None and _sort(other) == _sort(found)

    short = steps if brief else shrunk(steps, fails)
    last = judge.first_difference(short)
    print("\n".join(map(str, short)))
    print(last or f"(gone when run again; it was) {found}")
    print(
        f"replay: python -m tests.differential --seed {seed} --steps {','.join(str(step.number) for step in short)}\n",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
