"""Many seeds, or one: `python -m tests.sim --seeds 1000`, `python -m tests.sim --part attacher --seed 7`.

Exit code 1 when an invariant was broken; the failing seed's story and its replay command are on standard output.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections import Counter

from tests.sim.course import Part
from tests.sim.parts import PARTS, failures
from tests.sim.pool import Progress, side_by_side
from tests.sim.shrinking import shrunk

CHUNK = 50


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if options.seed is None and (options.cut or options.shrink):
        parser.error("--cut and --shrink are for one --seed")
    if options.part is None and (options.seed is not None or options.bug is not None):
        parser.error("one seed, or one bug, is of one --part")
    names = list(PARTS) if options.part is None else [options.part]
    known = PARTS[names[0]].bugs
    if options.bug is not None and options.bug not in known:
        parser.error(f"the {names[0]} has these bugs to plant: {', '.join(known)}")
    if options.seed is not None:
        part, cuts = PARTS[names[0]], tuple(options.cut)
        if options.shrink:
            cuts = shrunk(part, options.seed, options.bug, cuts)
        return _one(part, options.seed, options.bug, options.whole, cuts)
    seeds = range(options.first, options.first + options.seeds)
    for name in names:
        print(f"{name}: seeds {seeds.start} to {seeds.stop - 1}", flush=True)
        if code := _many(PARTS[name], seeds, options.bug, options.jobs, options.keep_going):
            return code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="The deterministic simulation.")
    parser.add_argument(
        "--part",
        choices=sorted(PARTS),
        help="what is simulated, else all of them in turn; provisioner: with the binder; snapshots: both of their "
        "programs",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its story")
    parser.add_argument("--whole", action="store_true", help="with --seed: the whole story, not only its end")
    parser.add_argument(
        "--cut", action="append", default=[], help="with --seed: a thing to leave out, as --shrink names it"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed: look for a smaller life that fails in the same way"
    )
    parser.add_argument("--bug", help="plant a bug, to see that it is found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--keep-going", action="store_true", help="go on after a failure; all failing seeds are named at the end"
    )
    return parser


def _one(part: Part, seed: int, bug: str | None, whole: bool, cuts: tuple[str, ...]) -> int:
    outcome = part.run_seed(seed, bug=bug, cuts=cuts)
    if whole:
        print("\n".join(map(str, outcome.story.steps)))
    print(outcome.report())
    print(f"story {outcome.story.digest()}, {len(outcome.story.steps)} steps, {outcome.lives_count} incarnations")
    return 1 if outcome.broken else 0


def _many(part: Part, seeds: range, bug: str | None, jobs: int, keep_going: bool) -> int:
    """Chunks of seeds side by side; failures are shown as they come."""
    progress = Progress("seeds", len(seeds))
    failed: Counter[str] = Counter()
    failing: list[int] = []
    chunks = (seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK))
    for chunk, found in side_by_side(jobs, chunks, functools.partial(failures, part.name, bug=bug)):
        for report, invariant, seed in found:
            failed[invariant] += 1
            failing.append(seed)
            if keep_going or failed.total() == 1:
                print(f"\n{report}\n", flush=True)
        progress.add(len(chunk), len(found))
        if failed and not keep_going:
            break
    print(progress)
    for invariant, count in failed.most_common():
        print(f"  {invariant}: {count}")
    if failing and not keep_going:
        print(f"looking for a smaller life of seed {failing[0]} that fails in the same way", flush=True)
        _one(part, failing[0], bug, whole=False, cuts=shrunk(part, failing[0], bug))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
