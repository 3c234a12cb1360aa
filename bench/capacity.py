"""Capacity of many places: from the start to an object for each item, and what a second round costs. Part of
`make bench-provision`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from pathlib import Path

from bench.contender import NO_LIMIT, Contender, LoadDriver, Running, Strangers, running
from bench.load import Load, a_load
from bench.tables import Table
from bench.turns import Turns
from mooring.api.core import NODES
from mooring.api.storage import CSI_NODES, CSI_STORAGE_CAPACITIES, STORAGE_CLASSES, CSIStorageCapacity
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, WatchEvent
from tests.support.control_plane import ControlPlane

CLASSES = 5
POLL_S = 60
QUIET_S = 0.03
"""Processor time within a second of one that does nothing."""

NAMESPACE = "default"
OBJECTS = ("csistoragecapacities",)
FLAGS = (
    "--enable-capacity",
    "--capacity-ownerref-level=-1",
    f"--capacity-poll-interval={POLL_S}s",
    "--kube-api-capacity-qps=-1",
    "--kube-api-capacity-burst=1",
    *NO_LIMIT,
)


@dataclasses.dataclass
class Run:
    """calls, writes: per item. again_...: of the second round. strangers: processors busy elsewhere in the first."""

    whole_s: float
    cpu_s: float
    calls: float
    writes: float
    again_cpu_s: float
    again_calls: float
    again_writes: float
    rss: float
    strangers: float


class CapacityLoad(Load):
    """Nodes of places, classes, and the objects that come of them."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.items: dict[str, float] = {}
        self._names: set[str] = set()

    async def make_ground(self, driver: str, segments: int) -> None:
        key = f"topology.{driver}/zone"
        for number in range(CLASSES):
            body = {
                "metadata": {"name": f"{driver}-{number}"},
                "provisioner": driver,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
            await self._cluster.create(STORAGE_CLASSES.whole(), body)
        for kind, spec in (
            (NODES, {}),
            (CSI_NODES, {"drivers": [{"name": driver, "nodeID": "n", "topologyKeys": [key]}]}),
        ):
            bodies = (
                {"metadata": {"name": f"{driver}-{number}", "labels": {key: f"zone-{number}"}}, "spec": spec}
                for number in range(segments)
            )
            await self.each(self._cluster.create(kind.whole(), body) for body in bodies)

    async def clear(self, driver: str, segments: int) -> None:
        await self.each(self._cluster.delete(STORAGE_CLASSES, f"{driver}-{number}") for number in range(CLASSES))
        await self.each(self._cluster.delete(NODES, f"{driver}-{number}") for number in range(segments))
        await self.each(self._cluster.delete(CSI_NODES, f"{driver}-{number}") for number in range(segments))
        await self.each(self._cluster.delete(CSI_STORAGE_CAPACITIES, name, NAMESPACE) for name in list(self._names))

    async def all_there(self, count: int, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while len(self.items) < count:
                self._changed.clear()
                await self._changed.wait()

    async def watch(self) -> None:
        await self.follow(CSI_STORAGE_CAPACITIES, self._happened)

    def _happened(self, event: WatchEvent[CSIStorageCapacity]) -> None:
        assert event.object is not None
        topology = event.object.node_topology
        place = "" if topology is None else str(sorted((topology.match_labels or {}).items()))
        if event.type is not EventType.DELETED:
            self._names.add(event.object.metadata.name)
            self.items.setdefault(f"{event.object.storage_class_name} {place}", time.monotonic())
        else:
            self._names.discard(event.object.metadata.name)


async def measured(plane: ControlPlane, driver_program: Path, turns: Turns[Contender], segments: int) -> list[str]:
    """The tables."""
    runs = await turns.take("Capacity", lambda one: _round(plane, driver_program, one, segments))
    made = Table(f"Capacity: {segments} places, {CLASSES} classes; no client limit, one worker as shipped", runs)
    made.row("start → an object for each item (s)", "{:.1f}", lambda run: run.whole_s, each_round=True)
    made.row("processor time until then (s)", "{:.1f}", lambda run: run.cpu_s)
    made.row("GetCapacity per item", "{:.2f}", lambda run: run.calls)
    made.row("writes per item", "{:.2f}", lambda run: run.writes)
    made.row("second round: processor time (s)", "{:.1f}", lambda run: run.again_cpu_s)
    made.row("second round: GetCapacity per item", "{:.2f}", lambda run: run.again_calls)
    made.row("second round: writes per item", "{:.4f}", lambda run: run.again_writes)
    made.row("memory after (MiB)", "{:.0f}", lambda run: run.rss)
    made.row("processors that others kept busy", "{:.2f}", lambda run: run.strangers)
    return [str(made)]


async def _round(plane: ControlPlane, driver_program: Path, contender: Contender, segments: int) -> Run:
    name, items = contender.driver_name, segments * CLASSES
    driver = LoadDriver(driver_program, plane.folder / f"{contender.name}-capacity.sock", name, "topology")
    log = plane.folder / f"{contender.name}-capacity.log"
    async with a_load(plane, CapacityLoad) as load:
        await load.make_ground(name, segments)
        before, began = await load.writes(OBJECTS), time.monotonic()
        env = {"NAMESPACE": NAMESPACE}
        with running(contender, plane.kubeconfig(contender.name), driver, log, FLAGS, env) as started:
            strangers = Strangers([*plane.pids(), started.pid, driver.pid])
            await load.all_there(items, 600)
            whole_s = max(load.items.values()) - began
            cpu_s, busy = started.cpu_s, strangers.busy()
            written = await load.settled(OBJECTS)
            called = driver.counts().get("GetCapacity", 0)
            await _polled(driver, started, called + items)
            again_cpu_s, again_called = started.cpu_s - cpu_s, driver.counts().get("GetCapacity", 0)
            again_written, rss = await load.writes(OBJECTS), started.rss_mib
        await load.clear(name, segments)
    return Run(
        whole_s=whole_s,
        cpu_s=cpu_s,
        calls=called / items,
        writes=(written - before).total() / items,
        again_cpu_s=again_cpu_s,
        again_calls=(again_called - called) / items,
        again_writes=(again_written - written).total() / items,
        rss=rss,
        strangers=busy,
    )


async def _polled(driver: LoadDriver, started: Running, count: int) -> None:
    """Returns once the driver has been asked so often, and it is quiet."""
    before, called = -1.0, 0
    async with asyncio.timeout(3 * POLL_S):
        while called < count or started.cpu_s - before > QUIET_S:
            before = started.cpu_s
            await asyncio.sleep(1)
            called = driver.counts().get("GetCapacity", 0)
