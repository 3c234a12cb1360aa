"""The flight recorder's cost: Mooring's programs with it and without, in turns on one real API server. `python -m bench.flight_recorder`.

Processor time and memory as in bench/attach.py and bench/snapshot.py. A pair is two rounds that follow each other, so that the machine's
mood hits both; what counts is the median over the pairs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from bench import attach, snapshot
from bench.contender import NO_LIMIT, Contender, Pair
from bench.tables import print_parts

FLAGS: Mapping[str, tuple[str, ...]] = {"without": ("--flight-recorder=false",), "recorded": ()}


async def snapshots(count: int, rounds: int) -> str:
    """Of snapshot-controller and csi-snapshotter, each with a recorder of its own."""
    scripts = Path(sys.executable).parent
    programs = [str(scripts / name) for name in ("snapshot-controller", "csi-snapshotter")]
    pairs = [Pair(*(Contender(name, (program, *flags)) for program in programs)) for name, flags in FLAGS.items()]
    runs: dict[str, list[snapshot.Run]] = {name: [] for name in FLAGS}
    async with snapshot.a_bench(["--unsafe-no-fsync=false"], 240.0) as bench:
        for number in range(rounds):
            for pair in pairs if number % 2 == 0 else reversed(pairs):
                run = await bench.round(pair, count, NO_LIMIT)
                runs[pair.name].append(run)
                print(
                    f"round {number + 1}, {pair.name}: {sum(run.cpu_ms):.3f} ms per snapshot",
                    file=sys.stderr,
                    flush=True,
                )
    lines = (
        _share("Processor time per snapshot", [[sum(run.cpu_ms) for run in one] for one in runs.values()]),
        _share("Processor time per deletion", [[sum(run.delete_cpu_ms) for run in one] for one in runs.values()]),
    )
    return "\n".join((snapshot.table("The flight recorder", runs), "", *lines))


async def attachments(count: int, rounds: int) -> str:
    runs, _ = await attach.beside_itself(dict(FLAGS), count, rounds)
    line = _share("Processor time per attach", [[run.attach_cpu_ms for run in one] for one in runs.values()])
    return "\n".join((attach.table("The flight recorder", runs), "", line))


def _share(what: str, columns: Sequence[Sequence[float]]) -> str:
    without, recorded = columns
    shares = sorted(other / one for one, other in zip(without, recorded, strict=True))
    return f"{what}: {statistics.median(shares):.3f} of that without ({shares[0]:.3f} to {shares[-1]:.3f} in {len(shares)} pairs)."


async def measure(options: argparse.Namespace) -> AsyncIterator[str]:
    """Gives each part of the results when it is known."""
    if options.snapshots:
        yield await snapshots(options.snapshots, options.rounds)
    if options.count:
        yield await attachments(options.count, options.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="attachments at once, 0 leaves them out")
    parser.add_argument("--snapshots", type=int, default=300, help="snapshots at once, 0 leaves them out")
    parser.add_argument("--rounds", type=int, default=5)
    print_parts(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
