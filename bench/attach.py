"""Mooring's attacher beside the Go one: `make bench-attach`.

Both run on one real etcd (with fsync, as in production) and kube-apiserver, one after the other in each round, each
with a driver of its own that answers at once (bench/driver). The load comes from one more client, the same for both.
Measured are rate, time from the attachment's creation to `attached: true` as a watch shows it, processor time of the
contender, writes by kind, driver calls, memory.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.contender import NO_LIMIT, Contender, LoadDriver, build_driver, quantile, running
from bench.load import Load, a_load
from bench.tables import Table, heading, one_row
from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, WatchEvent
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

ATTACHER = str(Path(sys.executable).parent / "csi-attacher")


@dataclasses.dataclass
class Run:
    """One contender in one round. Times in seconds, memory in MiB; writes and calls per attachment."""

    attach_rate: float
    attach_p50_s: float
    attach_p99_s: float
    attach_cpu_ms: float
    detach_rate: float
    detach_cpu_ms: float
    writes: dict[str, float]
    calls: dict[str, float]
    rss_idle: float
    rss_after: float


class AttachLoad(Load):
    """Makes volumes, nodes and attachments."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.created_at: dict[str, float] = {}
        self.attached_at: dict[str, float] = {}
        self.gone_at: dict[str, float] = {}

    async def make_volumes(self, names: Iterable[str], driver: str) -> None:
        await self.each(self._cluster.create(PERSISTENT_VOLUMES.whole(), _pv(name, driver)) for name in names)

    async def make_nodes(self, names: Iterable[str], driver: str) -> None:
        drivers = [{"name": driver, "nodeID": "n", "topologyKeys": None}]
        bodies = ({"metadata": {"name": name}, "spec": {"drivers": drivers}} for name in names)
        await self.each(self._cluster.create(CSI_NODES.whole(), body) for body in bodies)

    async def attach(self, name: str, driver: str, node: str) -> None:
        spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": name}}
        await self._cluster.create(VOLUME_ATTACHMENTS.whole(), {"metadata": {"name": name}, "spec": spec})
        self.created_at[name] = time.monotonic()

    async def detach(self, names: Iterable[str]) -> None:
        await self.each(self._cluster.delete(VOLUME_ATTACHMENTS, name) for name in names)

    async def watch(self) -> None:
        await self.follow(VOLUME_ATTACHMENTS, self._happened)

    def _happened(self, event: WatchEvent[VolumeAttachment]) -> None:
        assert event.object is not None
        name = event.object.metadata.name
        if event.type is EventType.DELETED:
            self.gone_at.setdefault(name, time.monotonic())
        elif event.object.status.attached:
            self.attached_at.setdefault(name, time.monotonic())

    async def patches(self) -> collections.Counter[str]:
        """PATCH and PUT requests so far: only the contender patches here."""
        found = await self.writes(("persistentvolumes", "volumeattachments"))
        return collections.Counter({key: count for key, count in found.items() if key.startswith(("PATCH", "PUT"))})


def _pv(name: str, driver: str) -> dict[str, Any]:
    source = {
        "driver": driver,
        "volumeHandle": name,
        "fsType": "ext4",
        "volumeAttributes": {"pool": "gold", "backend": f"array-{name}"},
    }
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": source,
    }
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "bench"},
            "annotations": {"pv.kubernetes.io/provisioned-by": driver},
        },
        "spec": spec,
    }


class Bench:
    """The rounds on one control plane."""

    def __init__(self, plane: ControlPlane, driver: Path) -> None:
        self._plane, self._driver_program = plane, driver
        self._number = 0

    def _started(self, contender: Contender) -> tuple[LoadDriver, Path]:
        """Its driver, and where its log goes."""
        self._number += 1
        driver = LoadDriver(
            self._driver_program, self._plane.folder / f"driver-{self._number}.sock", contender.driver_name
        )
        return driver, self._plane.folder / f"contender-{self._number}.log"

    async def round(self, contender: Contender, count: int, flags: tuple[str, ...], timeout_s: float) -> Run:
        """count attachments of fresh volumes made as fast as the server takes them, then all deleted."""
        async with a_load(self._plane, AttachLoad) as load_client:
            tag = f"b{self._number}"
            names = [f"{tag}-{number}" for number in range(count)]
            nodes = [f"{tag}-node{number}" for number in range(10)]
            driver_name = contender.driver_name
            await load_client.make_volumes([*names, f"{tag}-first"], driver_name)
            await load_client.make_nodes(nodes, driver_name)
            driver, log = self._started(contender)
            with running(contender, self._plane.kubeconfig(contender.name), driver, log, flags) as started:
                await load_client.attach(f"{tag}-first", driver_name, nodes[0])  # the sign that it is up
                await load_client.until(load_client.attached_at, [f"{tag}-first"], 30)
                await asyncio.sleep(2)
                rss_idle, cpu_before = started.rss_mib, started.cpu_s
                writes_before, calls_before = await load_client.patches(), driver.counts()
                began = time.monotonic()
                await load_client.each(
                    load_client.attach(name, driver_name, nodes[n % 10]) for n, name in enumerate(names)
                )
                await load_client.until(load_client.attached_at, names, timeout_s)
                attach_s = max(load_client.attached_at[name] for name in names) - began
                await asyncio.sleep(1)  # echoes count too
                cpu_attached = started.cpu_s
                writes, calls = await load_client.patches() - writes_before, driver.counts()
                detached = time.monotonic()
                await load_client.detach(names)
                await load_client.until(load_client.gone_at, names, timeout_s)
                detach_s = max(load_client.gone_at[name] for name in names) - detached
                await asyncio.sleep(1)
                cpu_detached, rss_after = started.cpu_s, started.rss_mib
                await load_client.detach([f"{tag}-first"])
                await load_client.until(load_client.gone_at, [f"{tag}-first"], 30)
        waits = [load_client.attached_at[name] - load_client.created_at[name] for name in names]
        return Run(
            attach_rate=count / attach_s,
            attach_p50_s=quantile(waits, 0.5),
            attach_p99_s=quantile(waits, 0.99),
            attach_cpu_ms=(cpu_attached - cpu_before) / count * 1000,
            detach_rate=count / detach_s,
            detach_cpu_ms=(cpu_detached - cpu_attached) / count * 1000,
            writes={key: value / count for key, value in sorted(writes.items())},
            calls={
                key: (calls[key] - calls_before.get(key, 0)) / count
                for key in calls
                if calls[key] > calls_before.get(key, 0)
            },
            rss_idle=rss_idle,
            rss_after=rss_after,
        )

    async def backlog(self, contender: Contender, count: int) -> float:
        """Attachments a second when so many wait already as the contender starts: from the first attached to the
        last.
        """
        async with a_load(self._plane, AttachLoad) as load_client:
            tag = f"k{self._number}"
            names = [f"{tag}-{number}" for number in range(count)]
            driver_name = contender.driver_name
            await load_client.make_volumes(names, driver_name)
            await load_client.make_nodes([f"{tag}-node"], driver_name)
            await load_client.each(load_client.attach(name, driver_name, f"{tag}-node") for name in names)
            driver, log = self._started(contender)
            with running(contender, self._plane.kubeconfig(contender.name), driver, log, NO_LIMIT):
                await load_client.until(load_client.attached_at, names, 600)
                await load_client.detach(names)
                await load_client.until(load_client.gone_at, names, 600)
        times = sorted(load_client.attached_at[name] for name in names)
        return (count - 1) / (times[-1] - times[0])

    async def memory(self, contender: Contender) -> float:
        """Resident memory once its caches hold what is in the cluster."""
        driver, log = self._started(contender)
        with running(contender, self._plane.kubeconfig(contender.name), driver, log, NO_LIMIT) as started:
            return await started.settled_rss_mib()

    async def fill(self, count: int) -> None:
        """So many PersistentVolumes of another driver."""
        async with a_load(self._plane, AttachLoad) as load_client:
            await load_client.make_volumes((f"other-{number}" for number in range(count)), "other.bench.mooring.dev")


def table(title: str, runs: dict[str, list[Run]]) -> str:
    """Medians over the rounds, one column a contender."""
    made = Table(title, runs)
    made.row("attach rate (1/s)", "{:.1f}", lambda run: run.attach_rate, each_round=True)
    made.row("created → attached, p50 (ms)", "{:.0f}", lambda run: run.attach_p50_s * 1000)
    made.row("created → attached, p99 (ms)", "{:.0f}", lambda run: run.attach_p99_s * 1000)
    made.row("processor time per attach (ms)", "{:.2f}", lambda run: run.attach_cpu_ms)
    made.row("detach rate (1/s)", "{:.1f}", lambda run: run.detach_rate)
    made.row("processor time per detach (ms)", "{:.2f}", lambda run: run.detach_cpu_ms)
    made.rows("{} per attach", "{:.2f}", lambda run: run.writes)
    made.rows("{} per attach", "{:.2f}", lambda run: run.calls)
    made.row("memory at the start (MiB)", "{:.0f}", lambda run: run.rss_idle)
    made.row("memory after (MiB)", "{:.0f}", lambda run: run.rss_after)
    return str(made)


async def beside_itself(
    flags: dict[str, tuple[str, ...]], count: int, rounds: int
) -> tuple[dict[str, list[Run]], float]:
    """Rounds of Mooring's attacher with these flags, by their names, in turns on one real API server. The rounds
    alternate, and so does who begins: the machine's own mood hits all. Also gives the last one's processor time per
    attach as a share of the first one's.
    """
    contenders = [Contender(name, (ATTACHER, *given)) for name, given in flags.items()]
    runs: dict[str, list[Run]] = {name: [] for name in flags}
    plane = ControlPlane.start()
    try:
        bench = Bench(plane, build_driver(plane.folder))
        for number in range(rounds):
            for contender in contenders if number % 2 == 0 else reversed(contenders):
                run = await bench.round(contender, count, NO_LIMIT, 600)
                runs[contender.name].append(run)
                print(f"round {number + 1}, {contender.name}: {run.attach_cpu_ms:.3f} ms per attach", file=sys.stderr)
    finally:
        plane.stop()
    first, *_, last = (statistics.median(run.attach_cpu_ms for run in runs[name]) for name in flags)
    return runs, last / first


async def measure(options: argparse.Namespace) -> str:
    contenders = [
        Contender("Go", (str(binary("csi-attacher")),)),
        Contender("Mooring", (ATTACHER,)),
    ]
    plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"])
    try:
        bench = Bench(plane, build_driver(plane.folder))
        idle = {contender.name: [await bench.memory(contender)] for contender in contenders}
        parts = [one_row("An empty cluster", "memory idle (MiB)", idle, "{:.0f}")]
        for title, count, flags, rounds in (
            (f"No client limit: {options.count} attachments at once", options.count, NO_LIMIT, options.rounds),
            (f"Flags as shipped: {options.shipped} attachments at once", options.shipped, (), 1),
        ):
            runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
            for number in range(rounds):
                for contender in contenders if number % 2 == 0 else reversed(contenders):
                    run = await bench.round(contender, count, flags, 600)
                    runs[contender.name].append(run)
                    print(f"{title}, round {number + 1}, {contender.name}: {run.attach_rate:.1f}/s", file=sys.stderr)
            parts.append(table(title, runs))
        rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
        for number in range(options.rounds):
            for contender in contenders if number % 2 == 0 else reversed(contenders):
                rates[contender.name].append(await bench.backlog(contender, options.count))
                print(
                    f"Backlog, round {number + 1}, {contender.name}: {rates[contender.name][-1]:.1f}/s", file=sys.stderr
                )
        parts.append(
            one_row(
                f"No client limit: {options.count} attachments wait at the start", "attach rate (1/s)", rates, "{:.1f}"
            )
        )
        if options.volumes:
            print(f"making {options.volumes} other volumes", file=sys.stderr)
            await bench.fill(options.volumes)
            cells = [f"{await bench.memory(contender):.0f}" for contender in contenders]
            heads = " | ".join(contender.name for contender in contenders)
            rows = f"| memory (MiB) | {' | '.join(cells)} |"
            parts.append(
                f"### {options.volumes} PersistentVolumes of another driver in the cluster\n\n| | {heads} "
                f"|\n|---|---|---|\n{rows}"
            )
    finally:
        plane.stop()
    return "\n\n".join([f"{heading('csi-attacher v4.12')} Medians over rounds.", *parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="attachments at once without a client limit")
    parser.add_argument("--shipped", type=int, default=40, help="attachments at once with flags as shipped")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--volumes", type=int, default=20000, help="other PersistentVolumes for the memory figure, 0 leaves it out"
    )
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
