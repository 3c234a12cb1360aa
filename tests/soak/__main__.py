"""Hours in the life of `mooring apiserver`: `python -m tests.soak --minutes 30`, or `make soak`.

Mixed load on a server of its own that keeps its objects on disk. Exit code 1 when memory, files on disk, open files or
latency grew in the second half of the run, or when a request failed. A line each ten seconds says how it goes. A run of
less than ten minutes says nothing about memory, disk and latency: the server's history of events has not come to its
full length before, and a neighbour's minute would count.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.soak.load import Load
from tests.soak.meter import LIMITS, Sample, grown, take
from tests.support.programs import Program

_START_S_MAX = 20.0
_JUDGED_FROM_MINUTES = 10.0


def main() -> int:
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="mooring-soak-") as folder:
        return asyncio.run(_soak(Path(folder), options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description="Mixed load on mooring apiserver, and whether it grows."
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long")
    parser.add_argument(
        "--rate", type=float, default=30.0, help="lives of a volume begun in a second, nine writes each"
    )
    parser.add_argument("--writers", type=int, default=16, help="lives at a time")
    parser.add_argument("--followers", type=int, default=50, help="watch caches")
    return parser


async def _soak(folder: Path, options: argparse.Namespace) -> int:
    kubeconfig, state = folder / "kubeconfig", folder / "state"
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "apiserver",
        f"--state={state}",
        f"--kubeconfig={kubeconfig}",
    ]
    program = Program(command, folder / "log")
    clock, randomness = LoopClock(), Random(1)
    try:
        _wait_for(kubeconfig, program)
        async with HttpCluster(
            load(str(kubeconfig), {}), clock=clock, randomness=randomness, user_agent="soak"
        ) as cluster:
            load_ = Load(
                cluster, clock, randomness, writers=options.writers, followers=options.followers, rate=options.rate
            )
            samples = await _measured(load_, program, state, options.minutes * 60.0)
        code = program.stop()
    finally:
        program.kill()
    is_judged = options.minutes >= _JUDGED_FROM_MINUTES
    limits = LIMITS if is_judged else tuple(limit for limit in LIMITS if limit.what == "open files")
    problems = [*grown(samples, limits), *(f"{count} times: {text}" for text, count in load_.failures.most_common(10))]
    if code not in (0, 143):
        problems.append(f"the server ended with {code}:\n{program.log_tail()}")
    verdict = (
        "nothing grew, nothing failed"
        if is_judged
        else "nothing failed, open files did not grow; too short to judge the rest"
    )
    print(f"{load_.requests_count} requests in {options.minutes:g} minutes: {'; '.join(problems) or verdict}")
    return 1 if problems else 0


def _wait_for(kubeconfig: Path, program: Program) -> None:
    deadline = time.monotonic() + _START_S_MAX
    while not kubeconfig.exists():
        if program.exit_code is not None or time.monotonic() > deadline:
            raise SystemExit(f"the server does not start:\n{program.log_tail()}")
        time.sleep(0.05)


async def _measured(load_: Load, program: Program, state: Path, length_s: float) -> list[Sample]:
    """Samples of a run, taken while it goes on."""
    samples: list[Sample] = []
    step_s = min(10.0, length_s / 20)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(load_.run(), name="soak/load")
        began = shown_at = time.monotonic()
        while time.monotonic() - began < length_s:
            await asyncio.sleep(step_s)
            now = time.monotonic()
            latencies_s, load_.latencies_s = load_.latencies_s, []
            samples.append(take(program.pid, state, now - began, latencies_s, now - shown_at))
            shown_at = now
            _show(samples[-1], length_s)
        running.cancel()
    return samples


def _show(sample: Sample, length_s: float) -> None:
    parts = (
        f"{sample.at_s:6.0f}/{length_s:.0f} s",
        f"{sample.requests_per_s:5.0f} requests/s",
        f"p50 {sample.p50_ms:6.1f} ms",
        f"p99 {sample.p99_ms:6.1f} ms",
        f"memory {sample.rss_mib:6.1f} MiB",
        f"disk {sample.disk_mib:5.1f} MiB",
        f"files {sample.files}",
    )
    print("  ".join(parts), flush=True)


if __name__ == "__main__":
    sys.exit(main())
