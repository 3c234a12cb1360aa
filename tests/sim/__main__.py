"""Many seeds, or one: `python -m tests.sim --seeds 1000`, `python -m tests.sim --part attacher --seed 7`.

Exit code 1 when an invariant was broken; the failing seed's story and its replay command are on standard output.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import sys
import time
from collections import Counter
from typing import Any, Final

from tests.sim import bugs, run
from tests.sim.driver import bugs as driver_bugs
from tests.sim.driver import run as driver_run
from tests.sim.growth import bugs as growth_bugs
from tests.sim.growth import run as growth_run
from tests.sim.node import bugs as node_bugs
from tests.sim.node import run as node_run
from tests.sim.plane import bugs as plane_bugs
from tests.sim.plane import run as plane_run
from tests.sim.provisioning import bugs as claim_bugs
from tests.sim.provisioning import run as claim_run
from tests.sim.shrinking import shrunk
from tests.sim.snapshots import bugs as snapshot_bugs
from tests.sim.snapshots import run as snapshot_run

PARTS: Final = {
    "attacher": (run, bugs.BUGS),
    "provisioner": (claim_run, claim_bugs.BUGS),
    "node": (node_run, node_bugs.BUGS),
    "driver": (driver_run, driver_bugs.BUGS),
    "plane": (plane_run, plane_bugs.BUGS),
    "resizer": (growth_run, growth_bugs.BUGS),
    "snapshots": (snapshot_run, snapshot_bugs.BUGS),
}
"""What is simulated: how a seed is lived, and the bugs that can be planted."""

CHUNK = 50
SHOWN_EVERY_S = 5.0


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if options.seed is None and (options.cut or options.shrink):
        parser.error("--cut and --shrink are for one --seed")
    if options.part is None and (options.seed is not None or options.bug is not None):
        parser.error("one seed, or one bug, is of one --part")
    names = list(PARTS) if options.part is None else [options.part]
    known = PARTS[names[0]][1]
    if options.bug is not None and options.bug not in known:
        parser.error(f"the {names[0]} has these bugs to plant: {', '.join(known)}")
    if options.seed is not None:
        part, cuts = PARTS[names[0]][0], tuple(options.cut)
        if options.shrink:
            cuts = shrunk(part, options.seed, options.bug, cuts)
        return _one(part, options.seed, options.bug, options.whole, cuts)
    seeds = range(options.first, options.first + options.seeds)
    for name in names:
        print(f"{name}: seeds {seeds.start} to {seeds.stop - 1}", flush=True)
        if code := _many(PARTS[name][0], seeds, options.bug, options.jobs, options.keep_going):
            return code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="The deterministic simulation.")
    parser.add_argument(
        "--part",
        choices=sorted(PARTS),
        help="what is simulated, else all of them in turn; provisioner: with the binder; snapshots: both of their programs",
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


def _one(part: Any, seed: int, bug: str | None, whole: bool, cuts: tuple[str, ...]) -> int:
    outcome = part.run_seed(seed, bug=bug, cuts=cuts)
    if whole:
        print("\n".join(map(str, outcome.story.steps)))
    print(outcome.report())
    print(f"story {outcome.story.digest()}, {len(outcome.story.steps)} steps, {outcome.lives_count} incarnations")
    return 1 if outcome.broken else 0


def _many(part: Any, seeds: range, bug: str | None, jobs: int, keep_going: bool) -> int:
    """Chunks of seeds side by side; failures are shown as they come."""
    began, shown_at, done = time.monotonic(), time.monotonic(), 0
    failed: Counter[str] = Counter()
    failing: list[int] = []
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
        running = {pool.submit(part.failures, chunk, bug): len(chunk) for chunk in chunks}
        for future in concurrent.futures.as_completed(running):
            done += running[future]
            for report, invariant, seed in future.result():
                failed[invariant] += 1
                failing.append(seed)
                if keep_going or failed.total() == 1:
                    print(f"\n{report}\n", flush=True)
            if failed and not keep_going:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            if time.monotonic() - shown_at > SHOWN_EVERY_S:
                shown_at = time.monotonic()
                print(_progress(done, len(seeds), shown_at - began, sum(failed.values())), file=sys.stderr, flush=True)
    print(_progress(done, len(seeds), time.monotonic() - began, sum(failed.values())))
    for invariant, count in failed.most_common():
        print(f"  {invariant}: {count}")
    if failing and not keep_going:
        print(f"looking for a smaller life of seed {failing[0]} that fails in the same way", flush=True)
        _one(part, failing[0], bug, whole=False, cuts=shrunk(part, failing[0], bug))
    return 1 if failed else 0


def _progress(done: int, count: int, seconds: float, failed: int) -> str:
    rate = done / max(seconds, 1e-9)
    left_s = (count - done) / max(rate, 1e-9)
    eta = f", {left_s:.0f} s to go" if done < count else ""
    return f"{done}/{count} seeds, {rate:.1f} a second, {failed} failed{eta}"


if __name__ == "__main__":
    sys.exit(main())
