"""Mooring's resizer beside the Go one: `make bench-resize`.

Both run on one real etcd (with fsync, as in production) and kube-apiserver, one after the other in each round, each
with a driver of its own that grows a volume at once and leaves nothing to the node (bench/driver). The load comes from
one more client, the same for both. Measured are rate, time from the claim's new size to the same size in its status, as
a watch shows it, processor time, writes by kind, driver calls, memory. A round that is not done within `--bound` is
told as that, and its contender has no more of them.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from bench.contender import NO_LIMIT, Contender, LoadDriver, Strangers, build_driver, quantile, running
from bench.growths import GrowthLoad
from bench.load import a_load, per_object, writes_alone
from bench.tables import Table, heading, print_parts
from bench.turns import Turns
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

BUSY = "processors that others kept busy"
NO_PROTECTION = "--disable-admission-plugins=StorageObjectInUseProtection"
"""Nobody is there who would take those finalizers off."""

OURS = ("PATCH persistentvolumeclaims 200",)
"""The load's writes: claims ask for more. What a resizer writes about a claim is in its status."""

REST = "rest.bench.mooring.dev"


@dataclasses.dataclass
class Run:
    """One contender in one round. Times in seconds, memory in MiB; writes and calls per growth. strangers: processors
    busy elsewhere.
    """

    rate: float
    p50_s: float
    p99_s: float
    cpu_ms: float
    writes: Mapping[str, float]
    calls: Mapping[str, float]
    rss_idle: float
    rss_after: float
    strangers: float


@dataclasses.dataclass
class Alone:
    """One growth after the other, in milliseconds."""

    p50: float
    p99: float
    strangers: float


@dataclasses.dataclass
class Memory:
    """In MiB. writes: while it settles, which says whether there was something to do."""

    rss: float
    writes: float
    strangers: float = 0.0


class Bench:
    """The rounds on one control plane. bound_s: of what is waited for."""

    def __init__(self, plane: ControlPlane, driver: Path, bound_s: float) -> None:
        self._plane, self._driver_program, self._bound_s = plane, driver, bound_s
        self._number = 0

    def _new(self, contender: Contender, driver_name: str) -> tuple[LoadDriver, Path, Path]:
        """Its driver, its kubeconfig, and where its log goes."""
        self._number += 1
        driver = LoadDriver(
            self._driver_program, self._plane.folder / f"driver-{self._number}.sock", driver_name, "grow"
        )
        return driver, self._plane.kubeconfig(contender.name), self._plane.folder / f"contender-{self._number}.log"

    async def round(self, contender: Contender, count: int, flags: tuple[str, ...]) -> Run:
        """count claims asked to grow as fast as the server takes it."""
        driver, kubeconfig, log = self._new(contender, contender.driver_name)
        names, first = [f"g{self._number}-{number}" for number in range(count)], f"g{self._number}-first"
        async with a_load(self._plane, GrowthLoad) as load:
            try:
                await load.make_class(contender.driver_name)
                await load.make_bound([*names, first], contender.driver_name)
                with running(contender, kubeconfig, driver, log, flags) as started:
                    await load.ask_first(first)  # the sign that it is up
                    await load.until(load.grown_at, [first], self._bound_s)
                    await asyncio.sleep(2)
                    strangers = Strangers([*self._plane.pids(), started.pid, driver.pid])
                    rss_idle, cpu_before = started.rss_mib, started.cpu_s
                    writes, calls = await load.settled(), driver.counts()
                    began = time.monotonic()
                    await load.each(load.ask(name) for name in names)
                    await load.until(load.grown_at, names, self._bound_s)
                    written = await load.settled()
                    waits = [load.grown_at[name] - load.asked_at[name] for name in names]
                    return Run(
                        rate=count / (max(load.grown_at[name] for name in names) - began),
                        p50_s=quantile(waits, 0.5),
                        p99_s=quantile(waits, 0.99),
                        cpu_ms=(started.cpu_s - cpu_before) / count * 1000,
                        writes=per_object(writes, written, count, OURS),
                        calls=per_object(calls, driver.counts(), count),
                        rss_idle=rss_idle,
                        rss_after=started.rss_mib,
                        strangers=strangers.busy(),
                    )
            finally:
                await load.remove_bound([*names, first])

    async def trickle(self, contender: Contender, count: int) -> Alone:
        """Growths one after the other, each once the one before is done."""
        driver, kubeconfig, log = self._new(contender, contender.driver_name)
        names = [f"t{self._number}-{number}" for number in range(count + 1)]
        async with a_load(self._plane, GrowthLoad) as load:
            try:
                await load.make_class(contender.driver_name)
                await load.make_bound(names, contender.driver_name)
                with running(contender, kubeconfig, driver, log, NO_LIMIT) as started:
                    strangers = Strangers([*self._plane.pids(), started.pid, driver.pid])
                    for name in names:
                        await load.ask_first(name)
                        await load.until(load.grown_at, [name], self._bound_s)
                    waits = [(load.grown_at[name] - load.asked_at[name]) * 1000 for name in names[1:]]
                    return Alone(quantile(waits, 0.5), quantile(waits, 0.99), strangers.busy())
            finally:
                await load.remove_bound(names)

    async def memory(self, contender: Contender) -> Memory:
        """Resident memory once its caches hold what is in the cluster."""
        driver, kubeconfig, log = self._new(contender, REST)
        async with a_load(self._plane, GrowthLoad) as load:
            before = await load.settled()
            with running(contender, kubeconfig, driver, log, NO_LIMIT) as started:
                rss = await started.settled_rss_mib()
                return Memory(rss, writes_alone(await load.settled() - before))

    async def fill(self, count: int) -> None:
        """So many claims of the driver, each with its volume, and nothing to do."""
        async with a_load(self._plane, GrowthLoad) as load:
            await load.make_class(REST)
            await load.make_bound((f"rest-{number}" for number in range(count)), REST)


def table(title: str, runs: Mapping[str, list[Run]]) -> str:
    """Medians over the rounds, one column a contender."""
    made = Table(title, runs)
    made.row("growth rate (1/s)", "{:.1f}", lambda run: run.rate, each_round=True)
    made.row("asked → grown, p50 (ms)", "{:.0f}", lambda run: run.p50_s * 1000)
    made.row("asked → grown, p99 (ms)", "{:.0f}", lambda run: run.p99_s * 1000)
    made.row("processor time per growth (ms)", "{:.2f}", lambda run: run.cpu_ms, each_round=True)
    made.row("writes per growth, events and leases aside", "{:.2f}", lambda run: writes_alone(run.writes))
    made.rows("{} per growth", "{:.2f}", lambda run: run.writes)
    made.rows("{} per growth", "{:.2f}", lambda run: run.calls)
    made.row("memory at the start (MiB)", "{:.0f}", lambda run: run.rss_idle)
    made.row("memory after (MiB)", "{:.0f}", lambda run: run.rss_after)
    made.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return str(made)


async def measure(options: argparse.Namespace) -> AsyncIterator[str]:
    """Gives each part of the results when it is known."""
    ours = str(Path(sys.executable).parent / "csi-resizer")
    contenders = [Contender("Go", (str(binary("csi-resizer")),)), Contender("Mooring", (ours,))]
    turns = Turns(contenders, options.rounds, options.quiet, options.bound)
    yield f"{heading('csi-resizer v2.2')} Medians over rounds."
    if options.count or options.singles or options.shipped:
        plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"], apiserver_flags=[NO_PROTECTION])
        try:
            async for part in _growing(Bench(plane, build_driver(plane.folder), options.bound), turns, options):
                yield part
        finally:
            plane.stop()
    if options.memory:
        yield await _memory(turns, options)
    for line in turns.unfinished:
        yield line


async def _growing(bench: Bench, turns: Turns[Contender], options: argparse.Namespace) -> AsyncIterator[str]:
    if options.count:
        many = await turns.take("No limit", lambda one: bench.round(one, options.count, NO_LIMIT))
        yield table(f"No client limit: {options.count} growths at once", many)
    if options.singles:
        single = await turns.take("One by one", lambda one: bench.trickle(one, options.singles))
        alone = Table(f"No client limit: {options.singles} growths, each once the one before is done", single)
        alone.row("asked → grown, p50 (ms)", "{:.1f}", lambda run: run.p50, each_round=True)
        alone.row("asked → grown, p99 (ms)", "{:.1f}", lambda run: run.p99)
        alone.row(BUSY, "{:.2f}", lambda run: run.strangers)
        yield str(alone)
    if options.shipped:
        shipped = await turns.take("As shipped", lambda one: bench.round(one, options.shipped, ()), 1)
        yield table(f"Flags as shipped: {options.shipped} growths at once", shipped)


async def _memory(turns: Turns[Contender], options: argparse.Namespace) -> str:
    """On a control plane whose etcd does not sync, since that is only filled."""
    plane = ControlPlane.start(apiserver_flags=[NO_PROTECTION])
    try:
        bench = Bench(plane, build_driver(plane.folder), options.bound)
        idle = await turns.take("Idle", bench.memory, 1)
        print(f"making {options.memory} claims and volumes", file=sys.stderr, flush=True)
        await bench.fill(options.memory)
        filled = await turns.take("Filled", bench.memory, 1)
    finally:
        plane.stop()
    made = Table("Memory", {name: list(zip(idle[name], filled[name], strict=False)) for name in idle})
    made.row("idle, next to nothing in the cluster (MiB)", "{:.0f}", lambda both: both[0].rss)
    made.row(f"{options.memory} claims of the driver, each with its volume (MiB)", "{:.0f}", lambda both: both[1].rss)
    made.row("writes at the start beside them", "{:.0f}", lambda both: both[1].writes)
    return str(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--count", type=int, default=500, help="growths at once without a client limit, 0 leaves them out"
    )
    parser.add_argument("--singles", type=int, default=100, help="growths one after the other, 0 leaves them out")
    parser.add_argument(
        "--shipped", type=int, default=40, help="growths at once with flags as shipped, 0 leaves them out"
    )
    parser.add_argument(
        "--memory", type=int, default=20000, help="claims and volumes for the memory figure, 0 leaves it out"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quiet", type=float, default=0.3, help="measure a round again in which others kept more processors busy"
    )
    parser.add_argument("--bound", type=float, default=180.0, help="seconds that a round may take")
    print_parts(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
