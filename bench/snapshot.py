"""Mooring's snapshot controller with its snapshotter beside both Go ones: `make bench-snapshot`.

Both pairs run on one real etcd (with fsync, as in production) and kube-apiserver, one after the other in each round,
each with a driver of its own (bench/driver). The load comes from one more client, the same for both. Measured are rate,
time from the snapshot's creation to `readyToUse`, as a watch shows it, processor time of each program, writes by kind,
driver calls, memory; and, with a driver whose snapshots take a while, each as long as the parameter of its class says,
the time from the moment when one is ready in the driver to `readyToUse`. A round that is not done within `--bound` is
told as that, and its pair has no more of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from bench.contender import NO_LIMIT, Contender, LoadDriver, Pair, Running, Strangers, build_driver, quantile, running
from bench.load import Load, a_load, per_object, writes_alone
from bench.resize import BUSY, NO_PROTECTION, REST
from bench.snapshots import SnapshotLoad, driver_name
from bench.tables import Table, heading, print_parts
from bench.turns import Turns
from mooring.dev.extras import install
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

OURS = ("POST volumesnapshots 201", "DELETE volumesnapshots 200")
"""The load's writes: nobody else makes or deletes snapshots that are in no group."""

SNAPSHOTS_PER_CLAIM = 20


@dataclasses.dataclass
class Run:
    """One pair in one round. Times in seconds, memory in MiB, that and processor time of controller and sidecar; the
    latter, writes and calls per snapshot. strangers: processors busy elsewhere.
    """

    rate: float
    p50_s: float
    p99_s: float
    cpu_ms: tuple[float, float]
    delete_rate: float
    delete_cpu_ms: tuple[float, float]
    writes: Mapping[str, float]
    delete_writes: Mapping[str, float]
    calls: Mapping[str, float]
    rss_after: tuple[float, float]
    strangers: float


@dataclasses.dataclass
class Slow:
    """lags_s: from the moment when the driver has a snapshot ready to readyToUse. writes, calls: per snapshot, until
    all are ready.
    """

    lags_s: list[float]
    writes: Mapping[str, float]
    calls: Mapping[str, float]
    strangers: float


@dataclasses.dataclass
class Memory:
    """Of controller and sidecar, in MiB. writes: while they settle, which says whether there was something to do."""

    rss: tuple[float, float]
    writes: float
    strangers: float = 0.0


class Bench:
    """The rounds on one control plane. bound_s: of what is waited for."""

    def __init__(self, plane: ControlPlane, driver: Path, bound_s: float) -> None:
        self._plane, self._driver_program, self._bound_s = plane, driver, bound_s
        self._number = 0

    async def prepare(self) -> None:
        """The kinds are served from here on."""
        async with a_load(self._plane, Kinds) as load:
            await load.install()

    @contextlib.contextmanager
    def _running(
        self, pair: Pair, driver_of: str, flags: tuple[str, ...]
    ) -> Iterator[tuple[LoadDriver, tuple[Running, Running]]]:
        """A driver of this name, with controller and sidecar at work."""
        self._number += 1
        folder, config = self._plane.folder, self._plane.kubeconfig(pair.name)
        driver = LoadDriver(self._driver_program, folder / f"driver-{self._number}.sock", driver_of, "snapshot")
        with (
            running(pair.sidecar, config, driver, folder / f"sidecar-{self._number}.log", flags) as sidecar,
            running(pair.controller, config, None, folder / f"controller-{self._number}.log", flags) as controller,
        ):
            yield driver, (controller, sidecar)

    @contextlib.asynccontextmanager
    async def _claims(self, pair: Pair, tag: str, count: int) -> AsyncIterator[tuple[SnapshotLoad, list[str]]]:
        """So many bound claims and a class for their snapshots, both by the tag; nothing is left behind. Gives the
        claims' names.
        """
        names = [f"{tag}-{number}" for number in range(count)]
        async with a_load(self._plane, SnapshotLoad) as load:
            try:
                await load.make_snapshot_class(tag, pair.sidecar.driver_name)
                await load.make_bound([*names, f"{tag}-first"], pair.sidecar.driver_name)
                yield load, names
            finally:
                await load.remove_snapshots()
                await load.remove_bound([*names, f"{tag}-first"])

    async def round(self, pair: Pair, count: int, flags: tuple[str, ...]) -> Run:
        """count snapshots made as fast as the server takes them; then all are deleted."""
        tag = f"s{self._number}"
        async with self._claims(pair, tag, count) as (load, names):
            with self._running(pair, pair.sidecar.driver_name, flags) as (driver, programs):
                await self._first(load, tag)
                strangers = Strangers([*self._plane.pids(), *(one.pid for one in programs), driver.pid])
                cpu, writes, calls = _cpu_s(programs), await load.settled(), driver.counts()
                began = time.time()
                await load.each(load.snap(name, name, tag) for name in names)
                await load.until(load.ready_at, names, self._bound_s)
                writes_made = await load.settled()
                cpu_made = _cpu_s(programs)
                dropped = time.time()
                await load.each(load.drop(name) for name in names)
                await load.until(load.gone_at, names, self._bound_s)
                await load.until(load.content_gone_at, names, self._bound_s)
                writes_gone, cpu_gone = await load.settled(), _cpu_s(programs)
                waits = [load.ready_at[name] - load.created_at[name] for name in names]
                return Run(
                    rate=count / (max(load.ready_at[name] for name in names) - began),
                    p50_s=quantile(waits, 0.5),
                    p99_s=quantile(waits, 0.99),
                    cpu_ms=_per_ms(cpu, cpu_made, count),
                    delete_rate=count
                    / (max(max(load.gone_at[name], load.content_gone_at[name]) for name in names) - dropped),
                    delete_cpu_ms=_per_ms(cpu_made, cpu_gone, count),
                    writes=per_object(writes, writes_made, count, OURS),
                    delete_writes=per_object(writes_made, writes_gone, count, OURS),
                    calls=per_object(calls, driver.counts(), count),
                    rss_after=_rss(programs),
                    strangers=strangers.busy(),
                )

    async def slow(self, pair: Pair, count: int, longest_s: float) -> Slow:
        """Snapshots that take from longest_s / count to longest_s, in equal steps, all made at once."""
        tag = f"l{self._number}"
        async with self._claims(pair, tag, count) as (load, names):
            with self._running(pair, pair.sidecar.driver_name, NO_LIMIT) as (driver, programs):
                for number, name in enumerate(names):
                    after = {"readyAfter": f"{longest_s * (number + 1) / count:.3f}s"}
                    await load.make_snapshot_class(name, pair.sidecar.driver_name, after)
                await self._first(load, tag)
                strangers = Strangers([*self._plane.pids(), *(one.pid for one in programs), driver.pid])
                writes, calls = await load.settled(), driver.counts()
                await load.each(load.snap(name, name, name) for name in names)
                await load.until(load.ready_at, names, self._bound_s)
                there = driver.ask("ready")
                return Slow(
                    lags_s=[load.ready_at[name] - there[driver_name(load.uid_of[name])] / 1e9 for name in names],
                    writes=per_object(writes, await load.settled(), count, OURS),
                    calls=per_object(calls, driver.counts(), count),
                    strangers=strangers.busy(),
                )

    async def _first(self, load: SnapshotLoad, tag: str) -> None:
        """The sign that both are up."""
        await load.snap(f"{tag}-first", f"{tag}-first", tag)
        await load.until(load.ready_at, [f"{tag}-first"], self._bound_s)
        await asyncio.sleep(2)

    async def memory(self, pair: Pair) -> Memory:
        """Resident memory once their caches hold what is in the cluster."""
        async with a_load(self._plane, SnapshotLoad) as load:
            before = await load.settled()
            with self._running(pair, REST, NO_LIMIT) as (_, (controller, sidecar)):
                rss = await controller.settled_rss_mib(), await sidecar.settled_rss_mib()
                return Memory(rss, writes_alone(await load.settled() - before))

    async def fill(self, count: int) -> None:
        """So many snapshots, all ready, with their contents."""
        async with a_load(self._plane, SnapshotLoad) as load:
            await load.make_snapshot_class(REST, REST)
            claims = [f"rest-{number}" for number in range(-(-count // SNAPSHOTS_PER_CLAIM))]
            await load.make_bound(claims, REST)
            await load.each(
                load.make_ready(f"rest-{number}", claims[number % len(claims)], REST, REST) for number in range(count)
            )


class Kinds(Load):
    """Has the kinds of snapshots served."""

    async def install(self) -> None:
        await install(self._cluster)

    async def watch(self) -> None:
        return


def _cpu_s(programs: tuple[Running, Running]) -> tuple[float, float]:
    return programs[0].cpu_s, programs[1].cpu_s


def _rss(programs: tuple[Running, Running]) -> tuple[float, float]:
    return programs[0].rss_mib, programs[1].rss_mib


def _per_ms(before: tuple[float, float], after: tuple[float, float], count: int) -> tuple[float, float]:
    """Milliseconds for one of so many, from seconds."""
    return (after[0] - before[0]) / count * 1000, (after[1] - before[1]) / count * 1000


def table(title: str, runs: Mapping[str, list[Run]]) -> str:
    """Medians over the rounds, one column a pair."""
    made = Table(title, runs)
    made.row("snapshot rate (1/s)", "{:.1f}", lambda run: run.rate, each_round=True)
    made.row("snapshot created → readyToUse, p50 (ms)", "{:.0f}", lambda run: run.p50_s * 1000)
    made.row("snapshot created → readyToUse, p99 (ms)", "{:.0f}", lambda run: run.p99_s * 1000)
    made.row("processor time per snapshot (ms)", "{:.2f}", lambda run: sum(run.cpu_ms), each_round=True)
    made.row("… of that the controller's (ms)", "{:.2f}", lambda run: run.cpu_ms[0])
    made.row("writes per snapshot, events and leases aside", "{:.2f}", lambda run: writes_alone(run.writes))
    made.rows("{} per snapshot", "{:.2f}", lambda run: run.writes)
    made.row("deletion rate (1/s)", "{:.1f}", lambda run: run.delete_rate, each_round=True)
    made.row("processor time per deletion (ms)", "{:.2f}", lambda run: sum(run.delete_cpu_ms))
    made.row("… of that the controller's (ms)", "{:.2f}", lambda run: run.delete_cpu_ms[0])
    made.row("writes per deletion, events and leases aside", "{:.2f}", lambda run: writes_alone(run.delete_writes))
    made.rows("{} per deletion", "{:.2f}", lambda run: run.delete_writes)
    made.rows("{} per snapshot", "{:.2f}", lambda run: run.calls)
    made.row("controller, memory after (MiB)", "{:.0f}", lambda run: run.rss_after[0])
    made.row("sidecar, memory after (MiB)", "{:.0f}", lambda run: run.rss_after[1])
    made.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return str(made)


def slow_table(title: str, runs: Mapping[str, list[Slow]]) -> str:
    made = Table(title, runs)
    made.row("ready in the driver → readyToUse, p50 (s)", "{:.2f}", lambda run: quantile(run.lags_s, 0.5))
    made.row("ready in the driver → readyToUse, the longest (s)", "{:.2f}", lambda run: max(run.lags_s))
    made.row("writes per snapshot, events and leases aside", "{:.2f}", lambda run: writes_alone(run.writes))
    made.rows("{} per snapshot", "{:.2f}", lambda run: run.writes)
    made.rows("{} per snapshot", "{:.2f}", lambda run: run.calls)
    made.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return str(made)


async def measure(options: argparse.Namespace) -> AsyncIterator[str]:
    """Gives each part of the results when it is known."""
    scripts = Path(sys.executable).parent
    go = Pair(
        Contender("Go", (str(binary("snapshot-controller")),)), Contender("Go", (str(binary("csi-snapshotter")),))
    )
    ours = Pair(*(Contender("Mooring", (str(scripts / name),)) for name in ("snapshot-controller", "csi-snapshotter")))
    turns = Turns([go, ours], options.rounds, options.quiet, options.bound)
    yield f"{heading('snapshot-controller and csi-snapshotter v8.6')} Medians over rounds."
    if options.count or options.slow or options.shipped:
        async with a_bench(["--unsafe-no-fsync=false"], options.bound) as bench:
            async for part in _snapshots(bench, turns, options):
                yield part
    if options.memory:
        async with a_bench([], options.bound) as bench:  # etcd does not sync: it is only filled
            for part in await _memory(bench, turns, options.memory):
                yield part
    for line in turns.unfinished:
        yield line


@contextlib.asynccontextmanager
async def a_bench(etcd_flags: list[str], bound_s: float) -> AsyncIterator[Bench]:
    plane = ControlPlane.start(etcd_flags=etcd_flags, apiserver_flags=[NO_PROTECTION])
    try:
        bench = Bench(plane, build_driver(plane.folder), bound_s)
        await bench.prepare()
        yield bench
    finally:
        plane.stop()


async def _snapshots(bench: Bench, turns: Turns[Pair], options: argparse.Namespace) -> AsyncIterator[str]:
    if options.count:
        many = await turns.take("No limit", lambda one: bench.round(one, options.count, NO_LIMIT))
        yield table(f"No client limit: {options.count} snapshots at once", many)
    if options.slow:
        title = f"No client limit: {options.slow} snapshots that take up to {options.longest:.0f} s"
        yield slow_table(title, await turns.take("Slow", lambda one: bench.slow(one, options.slow, options.longest), 1))
    if options.shipped:
        shipped = await turns.take("As shipped", lambda one: bench.round(one, options.shipped, ()), 1)
        yield table(f"Flags as shipped: {options.shipped} snapshots at once", shipped)


async def _memory(bench: Bench, turns: Turns[Pair], count: int) -> list[str]:
    """A table for each program."""
    idle = await turns.take("Idle", bench.memory, 1)
    print(f"making {count} snapshots and contents", file=sys.stderr, flush=True)
    await bench.fill(count)
    filled = await turns.take("Filled", bench.memory, 1)
    both = {name: list(zip(idle[name], filled[name], strict=False)) for name in idle}
    tables = [Table("Snapshot controller: memory", both), Table("Snapshotter: memory", both)]
    for at, made in enumerate(tables):
        made.row("idle, next to nothing in the cluster (MiB)", "{:.0f}", lambda one, at=at: one[0].rss[at])  # type: ignore[misc]
        made.row(f"{count} snapshots, each with its content (MiB)", "{:.0f}", lambda one, at=at: one[1].rss[at])  # type: ignore[misc]
        made.row("writes of both at the start beside them", "{:.0f}", lambda one: one[1].writes)
    return [str(made) for made in tables]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--count", type=int, default=300, help="snapshots at once without a client limit, 0 leaves them out"
    )
    parser.add_argument("--slow", type=int, default=20, help="snapshots that are not ready at once, 0 leaves them out")
    parser.add_argument("--longest", type=float, default=60.0, help="seconds that the slowest of them takes")
    parser.add_argument(
        "--shipped", type=int, default=20, help="snapshots at once with flags as shipped, 0 leaves them out"
    )
    parser.add_argument(
        "--memory", type=int, default=20000, help="snapshots and contents for the memory figure, 0 leaves it out"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quiet", type=float, default=0.3, help="measure a round again in which others kept more processors busy"
    )
    parser.add_argument("--bound", type=float, default=240.0, help="seconds that a round may take")
    print_parts(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
