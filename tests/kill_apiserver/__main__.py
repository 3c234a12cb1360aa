"""Hundreds of kills: `python -m tests.kill_apiserver --kills 300`. Exit code 1, and the folder kept, when the server
broke its word.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.kill_apiserver.facts import Broken
from tests.kill_apiserver.rounds import Rounds

_SHOWN_EVERY_S = 15.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kill_apiserver", description="Kills mooring apiserver under load."
    )
    parser.add_argument("--kills", type=int, default=300, help="how many")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 32), help="what is drawn; the timing is the machine's"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kill-apiserver-"))
    rounds, began = Rounds(folder, options.seed), time.monotonic()
    shown_at = began
    print(f"seed {options.seed}, state in {folder}", flush=True)
    try:
        while rounds.kills < options.kills:
            rounds.run()
            if time.monotonic() > shown_at + _SHOWN_EVERY_S:
                shown_at = time.monotonic()
                print(rounds.summary(), flush=True)
    except Broken:
        traceback.print_exc(file=sys.stdout)
        print(f"BROKEN after {rounds.summary()}")
        return 1
    print(f"held: {rounds.summary()}, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
