"""Random requests that are too much of something: python -m tests.fuzz --minutes 60"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.attacks import attacks
from tests.fuzz.judge import judging

SHOWN_EVERY_S = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one")
    options = parser.parse_args()
    seeds = itertools.count(options.first) if options.seed is None else iter((options.seed,))
    until = shown_at = time.monotonic()
    until += 60 * options.minutes
    found = done = 0
    with tempfile.TemporaryDirectory() as folder, judging(Path(folder)) as judge:
        schemas = judge.target.schemas()
        for seed in seeds:
            if time.monotonic() > until:
                break
            if finding := judge.finding(tuple(attacks(seed, schemas))):
                found += 1
                print(f"{finding}\nreplay: python -m tests.fuzz --seed {seed}\n", flush=True)
            done += 1
            if time.monotonic() - shown_at > SHOWN_EVERY_S:
                shown_at = time.monotonic()
                print(f"{done} sequences, {judge}, {found} findings", file=sys.stderr, flush=True)
        print(f"{done} sequences, {judge}, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
