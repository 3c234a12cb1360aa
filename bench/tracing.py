"""The traces' cost: Mooring's attacher with `--tracing` and without, in turns on one real API server.
`python -m bench.tracing`.

Processor time and memory as in bench/attach.py; the spans go to a collector in the bench's own process, which decodes
them.
"""

from __future__ import annotations

import argparse
import asyncio
import os

from bench.attach import beside_itself, table
from bench.tables import heading
from tests.support.otlp_receiver import Receiver


async def measure(options: argparse.Namespace, collector: Receiver) -> str:
    runs, share = await beside_itself({"without": (), "traced": ("--tracing",)}, options.count, options.rounds)
    count = len(collector.spans) / (options.rounds * (options.count + 1))
    size = sum(map(len, collector.raw)) / len(collector.spans)
    told = (
        f"Processor time per attach: {share:.3f} of that without. {count:.1f} spans per attachment, {size:.0f} "
        "bytes each."
    )
    return f"{heading('the same without traces')}\n\n{table('Traces', runs)}\n\n{told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="attachments at once")
    parser.add_argument("--rounds", type=int, default=5)
    with Receiver() as collector:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.endpoint
        print(asyncio.run(measure(parser.parse_args(), collector)))


if __name__ == "__main__":
    main()
