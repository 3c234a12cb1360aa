"""The flight recorder's cost: Mooring's attacher with it and without, in turns on one real API server. `python -m bench.flight_recorder`.

Processor time and memory as in bench/attach.py.
"""

from __future__ import annotations

import argparse
import asyncio

from bench.attach import beside_itself, table


async def measure(options: argparse.Namespace) -> str:
    flags = {"without": ("--flight-recorder=false",), "recorded": ()}
    runs, share = await beside_itself(flags, options.count, options.rounds)
    return f"{table('The flight recorder', runs)}\n\nProcessor time per attach: {share:.3f} of that without."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="attachments at once")
    parser.add_argument("--rounds", type=int, default=5)
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
