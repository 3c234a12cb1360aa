"""Counts, and prints what was counted beside the kept figures, and what differs from them. NOT TESTED where nothing can
be counted, or nothing is kept for this build of Python. A meter ends no run: the exit code is 0 whatever was counted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import bench.instructions
from bench.contender import ROOT
from bench.instructions import kept
from bench.instructions.counted import figures
from tests.support.layers import MARK


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=bench.instructions.__doc__)
    parser.add_argument("--source", type=Path, default=ROOT, help="another checkout whose programs are counted")
    parser.add_argument("--keep", metavar="WHY", help="write the figures to kept.json, with this reason")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print(f"{MARK}instructions: valgrind is not installed (Debian: apt install valgrind)", file=sys.stderr)
        return
    counted = {}
    with tempfile.TemporaryDirectory(prefix="mooring-meter-") as folder:
        for operation, instructions in figures(options.source.resolve(), Path(folder)):
            counted[operation] = instructions
            print(f"{operation}: {instructions:,}", file=sys.stderr, flush=True)
    if options.keep:
        kept.keep(counted, options.keep)
    known = kept.read().get(kept.build())
    print("\n".join(kept.table(known or {}, counted)))
    if known is None:
        print(f"{MARK}instructions: no figures are kept for {kept.build()}", file=sys.stderr)
        print(
            "to keep those above: make meter ARGS='--keep \"counted for the first time on this build\"'",
            file=sys.stderr,
        )
        return
    print(*kept.problems(known, counted), *kept.hints(known, counted), sep="\n")


if __name__ == "__main__":
    main()
