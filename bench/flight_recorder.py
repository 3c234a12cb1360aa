"""The flight recorder's cost: Mooring's attacher with it and without, in turns on one real API server. `python -m bench.flight_recorder`.

Processor time and memory as in bench/attach.py. The rounds alternate, and so does who begins: the machine's own mood hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from pathlib import Path

from bench.attach import Bench, Run, table
from bench.contender import NO_LIMIT, Contender, build_driver
from tests.support.control_plane import ControlPlane

ATTACHER = str(Path(sys.executable).parent / "csi-attacher")


async def measure(options: argparse.Namespace) -> str:
    contenders = [Contender("without", (ATTACHER, "--flight-recorder=false")), Contender("recorded", (ATTACHER,))]
    runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
    plane = ControlPlane.start()
    try:
        bench = Bench(plane, build_driver(plane.folder))
        for number in range(options.rounds):
            for contender in contenders if number % 2 == 0 else reversed(contenders):
                run = await bench.round(contender, options.count, NO_LIMIT, 600)
                runs[contender.name].append(run)
                print(f"round {number + 1}, {contender.name}: {run.attach_cpu_ms:.3f} ms per attach", file=sys.stderr)
    finally:
        plane.stop()
    before, after = (statistics.median(run.attach_cpu_ms for run in runs[contender.name]) for contender in contenders)
    return f"{table('The flight recorder', runs)}\n\nProcessor time per attach: {after / before:.3f} of that without."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="attachments at once")
    parser.add_argument("--rounds", type=int, default=5)
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
