"""Mooring's provisioner and binder beside the Go ones: `make bench-provision`.

All run on one real etcd (with fsync, as in production) and kube-apiserver, one after the other in each round, each
provisioner with a driver of its own that answers at once (bench/driver). The load comes from one more client, the same
for all; claims carry the annotations that a PV controller would have written. Measured are rate, time from the claim's
creation to its PersistentVolume as a watch shows it, processor time of the contender, writes by kind, driver calls,
memory. Capacity: bench/capacity.py. Binding: bench/binder.py.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench import binder, capacity
from bench.claims import ProvisionLoad
from bench.contender import NO_LIMIT, Contender, LoadDriver, Shares, Strangers, build_driver, quantile, running
from bench.load import a_load, per_object
from bench.tables import Table, heading
from bench.turns import Turns
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

PARTS = ("provision", "capacity", "memory", "binder")
BUSY = "processors that others kept busy"
NO_PROTECTION = "--disable-admission-plugins=StorageObjectInUseProtection"
"""Nobody is there who would take those finalizers off."""

OURS = ("POST persistentvolumeclaims 201", "DELETE persistentvolumeclaims 200", "PATCH persistentvolumes/status 200")
"""Writes of the load."""


@dataclasses.dataclass
class Run:
    """One contender in one round. Times in seconds, memory in MiB; writes and calls per volume. shares: processor time
    of each part of the bench until the last volume is there, in ms per volume. strangers: processors busy elsewhere.
    """

    rate: float
    p50_s: float
    p99_s: float
    cpu_ms: float
    delete_rate: float
    delete_cpu_ms: float
    writes: Mapping[str, float]
    delete_writes: Mapping[str, float]
    calls: Mapping[str, float]
    rss_idle: float
    rss_after: float
    shares: Mapping[str, float]
    strangers: float


@dataclasses.dataclass
class Backlog:
    rate: float
    strangers: float


@dataclasses.dataclass
class Alone:
    """One claim after the other, in milliseconds."""

    p50: float
    p99: float
    strangers: float


@dataclasses.dataclass
class Memory:
    """In MiB."""

    rss: float
    strangers: float = 0.0


class Bench:
    """The rounds on one control plane."""

    def __init__(self, plane: ControlPlane, driver: Path) -> None:
        self._plane, self._driver_program = plane, driver
        self._number = 0

    def _new(self, contender: Contender) -> tuple[LoadDriver, Path, Path]:
        """Its driver, its kubeconfig, and where its log goes."""
        self._number += 1
        driver = LoadDriver(
            self._driver_program, self._plane.folder / f"driver-{self._number}.sock", contender.driver_name
        )
        return driver, self._plane.kubeconfig(contender.name), self._plane.folder / f"contender-{self._number}.log"

    async def round(self, contender: Contender, count: int, flags: tuple[str, ...], timeout_s: float) -> Run:
        """count claims made as fast as the server takes them; then all volumes released."""
        async with a_load(self._plane, ProvisionLoad) as load:
            driver, kubeconfig, log = self._new(contender)
            tag, name_of = f"b{self._number}", contender.driver_name
            names, first = [f"{tag}-{number}" for number in range(count)], f"{tag}-first"
            await load.make_class(name_of)
            with running(contender, kubeconfig, driver, log, flags) as started:
                await load.claim(first, name_of)  # the sign that it is up
                await load.until(load.made_at, [first], 30)
                await asyncio.sleep(2)
                strangers = Strangers([*self._plane.pids(), started.pid, driver.pid])
                rss_idle, cpu_before = started.rss_mib, started.cpu_s
                writes_before, calls_before = await load.settled(), driver.counts()
                began, shares = time.monotonic(), self._shares(started.pid, driver.pid)
                await load.each(load.claim(name, name_of) for name in names)
                await load.until(load.made_at, names, timeout_s)
                spent = shares.ms_per(count)
                made_s = max(load.made_at[name] for name in names) - began
                writes_made = await load.settled()
                cpu_made, calls_made = started.cpu_s, driver.counts()
                await load.each(load.drop(name) for name in [*names, first])
                released = time.monotonic()
                await load.each(load.release(name) for name in names)
                await load.until(load.gone_at, names, timeout_s)
                gone_s = max(load.gone_at[name] for name in names) - released
                writes_gone, cpu_gone, rss_after = await load.settled(), started.cpu_s, started.rss_mib
                calls_gone, busy = driver.counts(), strangers.busy()
                await load.release(first)
                await load.until(load.gone_at, [first], 30)
        waits = [load.made_at[name] - load.created_at[name] for name in names]
        return Run(
            rate=count / made_s,
            p50_s=quantile(waits, 0.5),
            p99_s=quantile(waits, 0.99),
            cpu_ms=(cpu_made - cpu_before) / count * 1000,
            delete_rate=count / gone_s,
            delete_cpu_ms=(cpu_gone - cpu_made) / count * 1000,
            writes=_each(writes_before, writes_made, count),
            delete_writes=_each(writes_made, writes_gone, count),
            calls=_each(calls_before, calls_made, count) | _each(calls_made, calls_gone, count),
            rss_idle=rss_idle,
            rss_after=rss_after,
            shares=spent,
            strangers=busy,
        )

    def _shares(self, contender: int, driver: int) -> Shares:
        parts = {"kube-apiserver and etcd": self._plane.pids(), "the provisioner": (contender,)}
        return Shares({**parts, "load and driver": (os.getpid(), driver)})

    async def backlog(self, contender: Contender, count: int) -> Backlog:
        """Volumes a second when so many claims wait already as the contender starts: from the first volume to the
        last.
        """
        async with a_load(self._plane, ProvisionLoad) as load:
            driver, kubeconfig, log = self._new(contender)
            names = [f"k{self._number}-{number}" for number in range(count)]
            await load.make_class(contender.driver_name)
            await load.each(load.claim(name, contender.driver_name) for name in names)
            with running(contender, kubeconfig, driver, log, NO_LIMIT) as started:
                strangers = Strangers([*self._plane.pids(), started.pid, driver.pid])
                await load.until(load.made_at, names, 600)
                busy = strangers.busy()
                await load.settled()
                await load.each(load.drop(name) for name in names)
                await load.each(load.release(name) for name in names)
                await load.until(load.gone_at, names, 600)
        times = sorted(load.made_at[name] for name in names)
        return Backlog((count - 1) / (times[-1] - times[0]), busy)

    async def trickle(self, contender: Contender, count: int) -> Alone:
        """Claims one after the other, each once the one before has its volume."""
        async with a_load(self._plane, ProvisionLoad) as load:
            driver, kubeconfig, log = self._new(contender)
            names = [f"t{self._number}-{number}" for number in range(count + 1)]
            await load.make_class(contender.driver_name)
            with running(contender, kubeconfig, driver, log, NO_LIMIT) as started:
                strangers = Strangers([*self._plane.pids(), started.pid, driver.pid])
                for name in names:
                    await load.claim(name, contender.driver_name)
                    await load.until(load.made_at, [name], 30)
                    await asyncio.sleep(0.02)
                busy = strangers.busy()
                await load.each(load.drop(name) for name in names)
                await load.each(load.release(name) for name in names)
                await load.until(load.gone_at, names, 60)
        waits = [(load.made_at[name] - load.created_at[name]) * 1000 for name in names[1:]]
        return Alone(quantile(waits, 0.5), quantile(waits, 0.99), busy)

    async def memory(self, contender: Contender) -> Memory:
        """Resident memory once its caches hold what is in the cluster."""
        driver, kubeconfig, log = self._new(contender)
        with running(contender, kubeconfig, driver, log, NO_LIMIT) as started:
            return Memory(await started.settled_rss_mib())


def _each(before: Mapping[str, int], after: Mapping[str, int], count: int) -> dict[str, float]:
    return per_object(before, after, count, OURS)


def table(title: str, runs: Mapping[str, list[Run]]) -> str:
    """Medians over the rounds, one column a contender."""
    made = Table(title, runs)
    made.row("provision rate (1/s)", "{:.1f}", lambda run: run.rate, each_round=True)
    made.row("claim created → volume, p50 (ms)", "{:.0f}", lambda run: run.p50_s * 1000)
    made.row("claim created → volume, p99 (ms)", "{:.0f}", lambda run: run.p99_s * 1000)
    made.row("processor time per volume (ms)", "{:.2f}", lambda run: run.cpu_ms, each_round=True)
    made.rows("… of {}, until the last volume (ms)", "{:.2f}", lambda run: run.shares)
    made.rows("{} per volume", "{:.2f}", lambda run: run.writes)
    made.row("deletion rate (1/s)", "{:.1f}", lambda run: run.delete_rate, each_round=True)
    made.row("processor time per deletion (ms)", "{:.2f}", lambda run: run.delete_cpu_ms)
    made.rows("{} per deletion", "{:.2f}", lambda run: run.delete_writes)
    made.rows("{} per volume", "{:.2f}", lambda run: run.calls)
    made.row("memory at the start (MiB)", "{:.0f}", lambda run: run.rss_idle)
    made.row("memory after (MiB)", "{:.0f}", lambda run: run.rss_after)
    made.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return str(made)


async def measure(options: argparse.Namespace) -> str:
    scripts = Path(sys.executable).parent
    contenders = [
        Contender("Go", (str(binary("csi-provisioner")),)),
        Contender("Mooring", (str(scripts / "csi-provisioner"),)),
    ]
    if options.least:
        contenders.append(Contender("the least in Python", (sys.executable, "-m", "bench.least_provisioner")))
    turns = Turns(contenders, options.rounds, options.quiet)
    plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"], apiserver_flags=[NO_PROTECTION])
    parts: list[str] = []
    try:
        bench = Bench(plane, build_driver(plane.folder))
        if "provision" in options.what:
            parts += await _provisioning(bench, turns, options)
        if "capacity" in options.what:
            parts += await capacity.measured(plane, plane.folder / "bench-driver", turns, options.segments)
        if "memory" in options.what:
            parts.append(await _memory(bench, plane, turns, options.volumes))
    finally:
        plane.stop()
    if "binder" in options.what:
        parts += await binder.measured(options.pending, options.rounds, options.quiet)
    return "\n\n".join(
        [f"{heading('csi-provisioner v6.3 and kube-controller-manager v1.36')} Medians over rounds.", *parts]
    )


async def _provisioning(bench: Bench, turns: Turns[Contender], options: argparse.Namespace) -> list[str]:
    unlimited = await turns.take("No limit", lambda one: bench.round(one, options.count, NO_LIMIT, 600))
    backlogs = await turns.take("Backlog", lambda one: bench.backlog(one, options.count))
    single = await turns.take("One by one", lambda one: bench.trickle(one, options.singles))
    shipped = await turns.take("As shipped", lambda one: bench.round(one, options.shipped, (), 600), 1)
    waiting = Table(f"No client limit: {options.count} claims wait at the start", backlogs)
    waiting.row("provision rate (1/s)", "{:.1f}", lambda run: run.rate, each_round=True)
    waiting.row(BUSY, "{:.2f}", lambda run: run.strangers)
    alone = Table(f"No client limit: {options.singles} claims, each once the one before has its volume", single)
    alone.row("claim created → volume, p50 (ms)", "{:.1f}", lambda run: run.p50)
    alone.row("claim created → volume, p99 (ms)", "{:.1f}", lambda run: run.p99)
    alone.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return [
        table(f"No client limit: {options.count} claims at once", unlimited),
        str(waiting),
        str(alone),
        table(f"Flags as shipped: {options.shipped} claims at once", shipped),
    ]


async def _memory(bench: Bench, plane: ControlPlane, turns: Turns[Contender], volumes: int) -> str:
    idle = await turns.take("Idle", bench.memory, 1)
    print(f"making {volumes} other volumes and claims", file=sys.stderr, flush=True)
    async with a_load(plane, ProvisionLoad) as load:
        await load.fill(volumes)
    filled = await turns.take("Filled", bench.memory, 1)
    made = Table("Memory", {name: [(idle[name][0].rss, filled[name][0].rss)] for name in idle})
    made.row("idle, next to nothing in the cluster (MiB)", "{:.0f}", lambda both: both[0])
    made.row(f"{volumes} volumes of another driver, each with its claim (MiB)", "{:.0f}", lambda both: both[1])
    return str(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=PARTS, default=PARTS, help="parts of the bench")
    parser.add_argument(
        "--least", action="store_true", help="also the least that Python can do (bench/least_provisioner.py)"
    )
    parser.add_argument("--count", type=int, default=500, help="claims at once without a client limit")
    parser.add_argument("--shipped", type=int, default=40, help="claims at once with flags as shipped")
    parser.add_argument("--singles", type=int, default=100, help="claims one after the other")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quiet", type=float, default=2.0, help="measure a round again in which others kept more processors busy"
    )
    parser.add_argument("--volumes", type=int, default=20000, help="other volumes and claims for the memory figure")
    parser.add_argument("--segments", type=int, default=1000, help="places for capacity, each with five classes")
    parser.add_argument("--pending", type=int, default=5000, help="claims that wait while the binders are idle")
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
