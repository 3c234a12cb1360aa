"""The traces' cost: Mooring's attacher with `--tracing` and without, in turns on one real API server. `python -m bench.tracing`.

Processor time and memory as in bench/attach.py; the spans go to a collector in the bench's own process, which decodes them. The rounds
alternate, and so does who begins: the machine's own mood hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
from pathlib import Path

from bench.attach import Bench, Run, table
from bench.contender import NO_LIMIT, Contender, build_driver
from bench.tables import heading
from tests.support.control_plane import ControlPlane
from tests.support.otlp_receiver import Receiver

ATTACHER = str(Path(sys.executable).parent / "csi-attacher")


async def measure(options: argparse.Namespace, collector: Receiver) -> str:
    contenders = [Contender("without", (ATTACHER,)), Contender("traced", (ATTACHER, "--tracing"))]
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
    count = len(collector.spans) / (options.rounds * (options.count + 1))
    size = sum(map(len, collector.raw)) / len(collector.spans)
    told = f"Processor time per attach: {after / before:.3f} of that without. {count:.1f} spans per attachment, {size:.0f} bytes each."
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
