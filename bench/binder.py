"""`mooring binder` beside kube-controller-manager's PV controller: from the volume to the bound claim. Part of
`make bench-provision`.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.claims import Json, a_claim, a_volume
from bench.contender import Contender, Strangers, quantile, running
from bench.load import Load, a_load
from bench.tables import Table
from bench.turns import Turns
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolumeClaim
from mooring.api.storage import STORAGE_CLASSES
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, WatchEvent
from mooring.kube.errors import AlreadyExists
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

PART = "--controllers=persistentvolume-binder-controller"
DRIVER = "binding.bench.mooring.dev"
IDLE_S = 47.0
"""Three of the peer's rounds through all claims, and a bit."""

SINGLES, BURST = 100, 200
GO_NO_LIMIT = ("--kube-api-qps=-1",)
OURS = ("POST persistentvolumes 201", "POST persistentvolumeclaims 201")


@dataclasses.dataclass
class Run:
    """p50_ms, p99_ms: one volume after the other. burst_...: all at once. writes, cpu_ms: per claim, of all."""

    p50_ms: float
    p99_ms: float
    burst_p50_ms: float
    burst_p99_ms: float
    burst_rate: float
    writes: Mapping[str, float]
    cpu_ms: float
    strangers: float


@dataclasses.dataclass
class Idle:
    """Per minute: processor time, and writes."""

    cpu_s: float
    writes: float
    rss: float
    strangers: float = 0.0


class BindLoad(Load):
    """Claims, and volumes for them."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.posted_at: dict[str, float] = {}
        self.bound_at: dict[str, float] = {}
        self._claims: dict[str, Json] = {}

    async def make_class(self) -> None:
        try:
            await self._cluster.create(STORAGE_CLASSES.whole(), {"metadata": {"name": DRIVER}, "provisioner": DRIVER})
        except AlreadyExists:
            return

    async def claim(self, name: str) -> None:
        self._claims[name] = await self._cluster.create(
            PERSISTENT_VOLUME_CLAIMS.whole(), a_claim(name, DRIVER), "default"
        )

    async def volume(self, name: str) -> None:
        await self._cluster.create(PERSISTENT_VOLUMES.whole(), a_volume(name, DRIVER, self._claims[name]))
        self.posted_at[name] = time.monotonic()

    async def watch(self) -> None:
        await self.follow(PERSISTENT_VOLUME_CLAIMS, self._happened)

    def _happened(self, event: WatchEvent[PersistentVolumeClaim]) -> None:
        assert event.object is not None
        if event.type is not EventType.DELETED and event.object.status.phase == "Bound":
            self.bound_at.setdefault(event.object.metadata.name, time.monotonic())

    def waits_ms(self, names: list[str]) -> list[float]:
        return [(self.bound_at[name] - self.posted_at[name]) * 1000 for name in names]


async def measured(pending: int, rounds: int, quiet: float) -> list[str]:
    """The tables."""
    plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"])
    try:
        go = Contender("Go", (*_controller_manager(plane),))
        mooring = Contender("Mooring", (str(Path(sys.executable).parent / "mooring"), "binder", PART))
        turns = Turns([go, mooring], rounds, quiet)
        numbers = iter(range(1000))
        runs = await turns.take("Binding", lambda one: _round(plane, one, f"b{next(numbers)}"))
        async with a_load(plane, BindLoad) as load:
            await load.each(load.claim(f"pending-{number}") for number in range(pending))
        idle = await turns.take("Idle", lambda one: _idle(plane, one), 1)
    finally:
        plane.stop()
    bound = Table("Binding: a volume is posted for a claim that waits, no client limit", runs)
    bound.row("volume posted → claim Bound, one by one, p50 (ms)", "{:.1f}", lambda run: run.p50_ms, each_round=True)
    bound.row("the same, p99 (ms)", "{:.1f}", lambda run: run.p99_ms)
    bound.row(f"{BURST} volumes at once, p50 (ms)", "{:.0f}", lambda run: run.burst_p50_ms)
    bound.row("the same, p99 (ms)", "{:.0f}", lambda run: run.burst_p99_ms)
    bound.row("claims bound a second then", "{:.0f}", lambda run: run.burst_rate)
    bound.row("processor time per claim (ms)", "{:.2f}", lambda run: run.cpu_ms)
    bound.rows("{} per claim", "{:.2f}", lambda run: run.writes)
    bound.row("processors that others kept busy", "{:.2f}", lambda run: run.strangers)
    waiting = Table(f"Idle, flags as shipped: {pending} claims wait for volumes that nobody makes", idle)
    waiting.row("processor time a minute (s)", "{:.2f}", lambda run: run.cpu_s)
    waiting.row("writes a minute", "{:.0f}", lambda run: run.writes)
    waiting.row("memory (MiB)", "{:.0f}", lambda run: run.rss)
    return [str(bound), str(waiting)]


def _controller_manager(plane: ControlPlane) -> tuple[str, ...]:
    key = plane.folder / "service-accounts.key"
    return (
        str(binary("kube-controller-manager")),
        PART,
        f"--service-account-private-key-file={key}",
        "--leader-elect=false",
        "--secure-port=0",
    )


async def _round(plane: ControlPlane, contender: Contender, tag: str) -> Run:
    """Claims wait; volumes come one by one, then many at once."""
    singles, burst = [f"{tag}-s{number}" for number in range(SINGLES)], [f"{tag}-m{number}" for number in range(BURST)]
    log, flags = plane.folder / f"{tag}.log", GO_NO_LIMIT if contender.name == "Go" else ()
    async with a_load(plane, BindLoad) as load:
        await load.make_class()
        await load.claim(f"{tag}-first")
        with running(contender, plane.kubeconfig(contender.name), None, log, flags) as started:
            await load.volume(f"{tag}-first")
            await load.until(load.bound_at, [f"{tag}-first"], 60)
            await load.each(load.claim(name) for name in [*singles, *burst])
            before, cpu_before = await load.settled(), started.cpu_s
            strangers = Strangers([*plane.pids(), started.pid])
            for name in singles:
                await load.volume(name)
                await load.until(load.bound_at, [name], 60)
                await asyncio.sleep(0.01)
            began = time.monotonic()
            await load.each(load.volume(name) for name in burst)
            await load.until(load.bound_at, burst, 120)
            whole_s = max(load.bound_at[name] for name in burst) - began
            busy, after, cpu_after = strangers.busy(), await load.settled(), started.cpu_s
    alone, many, count = load.waits_ms(singles), load.waits_ms(burst), SINGLES + BURST
    return Run(
        p50_ms=quantile(alone, 0.5),
        p99_ms=quantile(alone, 0.99),
        burst_p50_ms=quantile(many, 0.5),
        burst_p99_ms=quantile(many, 0.99),
        burst_rate=BURST / whole_s,
        writes={key: value / count for key, value in _others(after - before).items()},
        cpu_ms=(cpu_after - cpu_before) / count * 1000,
        strangers=busy,
    )


async def _idle(plane: ControlPlane, contender: Contender) -> Idle:
    """From a minute after the start, when all claims have been looked at."""
    log = plane.folder / f"{contender.name}-idle.log"
    async with a_load(plane, BindLoad) as load:
        with running(contender, plane.kubeconfig(contender.name), None, log, ()) as started:
            await asyncio.sleep(60)
            before, cpu_before, began = await load.writes(), started.cpu_s, time.monotonic()
            await asyncio.sleep(IDLE_S)
            minutes = (time.monotonic() - began) / 60
            written = _others(await load.writes() - before).total()
            return Idle((started.cpu_s - cpu_before) / minutes, written / minutes, started.rss_mib)


def _others(writes: collections.Counter[str]) -> collections.Counter[str]:
    """Without the load's own, and without the API server's own Leases."""
    return collections.Counter(
        {key: count for key, count in writes.items() if key not in OURS and " leases " not in key}
    )
