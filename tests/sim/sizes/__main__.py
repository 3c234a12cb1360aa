"""Growth with size: `python -m tests.sim.sizes`; one scenario: `--scenario places --size 500`, of which 1,000 and 2,000
are counted, too.

Exit code 1 when the law was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from tests.sim.sizes.bugs import BUGS
from tests.sim.sizes.run import growth
from tests.sim.sizes.scenarios import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.sizes", description="The work per object stays the same when there are more."
    )
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="one, else all of them in turn")
    parser.add_argument(
        "--size", type=int, help="the first of three sizes, each twice the one before; else the quick one"
    )
    parser.add_argument(
        "--whole", action="store_true", help="up to the size of a large cluster: some minutes for each scenario"
    )
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a bug, to see that it is found")
    options = parser.parse_args()
    wrong = 0
    for name in [options.scenario] if options.scenario else SCENARIOS:
        began = time.monotonic()
        size = SCENARIOS[name].whole // 4 if options.whole else options.size
        with BUGS[options.bug].plant() if options.bug else contextlib.nullcontext():
            found = growth(name, size)
        print(f"{found.report()}\n  in {time.monotonic() - began:.1f} s", flush=True)
        wrong += bool(found.wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
