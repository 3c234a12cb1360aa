"""The whole enumeration, in as many sittings as it takes: `python -m tests.sim.sittings`, which `make sim-all` calls.

It is cut into chunks of a minute or two. Each chunk that ran is a line of the ledger: its name, the commit, seconds,
processor seconds, the result, and the line in which it summed up. A sitting goes on with the chunks of which no line
says that they were clean, whatever the commit was. `--anew` begins again, `--only "lives plane"` takes the chunks whose
names begin so.

Exit code 1 when a chunk of this sitting failed; what it said is on standard output.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import itertools
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.sim.disorder import DISORDER_FROM
from tests.sim.parts import PARTS
from tests.sim.points.table import SCRIPTS
from tests.sim.sizes.scenarios import SCENARIOS
from tests.sim.states.shares import ROOMS

LIVES: Final = 100
STATES: Final = 3000
CLEAN: Final = "clean"
BETWEEN: Final = " | "


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """arguments: of Python's -m."""

    name: str
    arguments: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.sittings", description="All lives, points, states and sizes, bit by bit."
    )
    parser.add_argument(
        "--ledger", type=Path, default=Path(".sim-ledger"), help="where it stands what has run (.sim-ledger)"
    )
    parser.add_argument("--anew", action="store_true", help="also what has run")
    parser.add_argument("--only", default="", help='chunks whose names begin so: "states", "lives node"')
    parser.add_argument("--seeds", type=int, default=14_300, help="lives of each part")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="chunks side by side")
    options = parser.parse_args()
    known = [] if options.anew or not options.ledger.exists() else options.ledger.read_text().splitlines()
    chunks = [chunk for chunk in left(known, options.seeds) if chunk.name.startswith(options.only)]
    print(f"left to do: {len(chunks)}", flush=True)
    failed = 0
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        for future in concurrent.futures.as_completed([pool.submit(_run, chunk) for chunk in chunks]):
            line, said = future.result()
            with options.ledger.open("a") as ledger:
                ledger.write(f"{line}\n")
            print(line, flush=True)
            if not is_clean(line):
                failed += 1
                print(said, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    return 1 if failed else 0


def left(known: Iterable[str], seeds: int) -> list[Chunk]:
    """What is to be done. known: the lines of the ledger."""
    done = {line.split(BETWEEN)[0] for line in known if is_clean(line)}
    return [chunk for chunk in whole(seeds) if chunk.name not in done]


def is_clean(line: str) -> bool:
    return CLEAN in line.split(BETWEEN)


def whole(seeds: int) -> Iterator[Chunk]:
    """seeds: of each part; a tenth as many lives have queues without an order."""
    for room in ROOMS:
        shares = shares_of(_states_count(room))
        for share in range(shares):
            ran = "--whole", "--room", room, "--share", f"{share}/{shares}", "--jobs", "1"
            yield Chunk(f"states {room} {share}/{shares}", ("tests.sim.states", *ran))
    for script in SCRIPTS:
        yield Chunk(f"points {script}", ("tests.sim.points", script))
    for scenario in SCENARIOS:
        yield Chunk(f"sizes {scenario}", ("tests.sim.sizes", "--whole", "--scenario", scenario))
    for part, lives in itertools.product(PARTS, (range(seeds), range(DISORDER_FROM, DISORDER_FROM + seeds // 10))):
        for first in lives[::LIVES]:
            count = min(LIVES, lives.stop - first)
            ran = "--part", part, "--from", str(first), "--seeds", str(count), "--keep-going", "--jobs", "1"
            yield Chunk(f"lives {part} {first}-{first + count - 1}", ("tests.sim", *ran))


@functools.cache
def _states_count(room: str) -> int:
    return sum(1 for _ in ROOMS[room].space.whole())


def shares_of(states_count: int) -> int:
    """A power of two, so that shares of another size are easily compared."""
    return 2 ** max(0, round(math.log2(states_count / STATES)))


def _run(chunk: Chunk) -> tuple[str, str]:
    """Its line in the ledger, and what it said."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True
    ).stdout.strip()
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([sys.executable, "-m", *chunk.arguments], stdout=said, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    result = CLEAN if process.returncode == 0 else f"exit code {process.returncode}"
    summary = next((line for line in reversed(text.splitlines()) if " a second" in line), "")
    used_s = usage.ru_utime + usage.ru_stime
    fields = chunk.name, commit, f"{time.monotonic() - began:.0f} s", f"{used_s:.0f} CPU s", result, summary
    return BETWEEN.join(fields), text


if __name__ == "__main__":
    sys.exit(main())
