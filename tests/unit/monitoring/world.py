"""A cluster in virtual time with all controllers as the programs that run in production, and a Prometheus that scrapes
them.

async with monitored() as world:
    await asyncio.sleep(3600)
world.scrapes.series        what Prometheus has then

The programs are their own: flags, election, driver session, caches, controllers, metrics; only the ports are in
process. The test plays users, kubelets and scheduler: volumes come, are attached, grow, have snapshots, move and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator, Callable, Container, Mapping
from typing import Any, Final

from mooring.api.core import NODES as _NODES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.flags import parse
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli import (
    attachdetach,
    binder,
    csi_attacher,
    csi_provisioner,
    csi_resizer,
    csi_snapshotter,
    snapshot_controller,
)
from mooring.cli.life import Life
from mooring.cli.process import Command, Machine, Setup
from mooring.cli.sidecar import Sidecar, SidecarLife
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.control.manager import Work
from mooring.control.program.terms import LeasedWork, LeasedWorks
from mooring.control.runtime import Runtime
from tests.support.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_new_snapshot,
    a_pod,
    a_ready_node,
    a_snapshot_class,
)
from tests.support.cluster_world import ClusterWorld
from tests.support.full_driver import FullDriver
from tests.unit.cli.sidecar_life import PortsInProcess

SCRAPE_S: Final = 30.0
NODES: Final = ("n1", "n2")
SIDECARS: Final = ("attacher", "provisioner", "resizer", "snapshotter")
"""Containers of one pod, beside the driver: a ServiceMonitor gives them one job."""
ROLES: Final = (*SIDECARS, "snapshot-controller", "attachdetach", "binder")
Series = tuple[str, tuple[tuple[str, str], ...]]
"""A name, and labels in order."""


class Scrapes:
    """What Prometheus has of programs: by series the values, None where a scrape did not have it. kept: names of
    metrics; None keeps all.

    pods: the labels and metrics of each, by name.
    """

    def __init__(self, kept: Container[str] | None = None) -> None:
        self.pods: dict[str, tuple[Mapping[str, str], Metrics]] = {}
        self.series: dict[Series, list[float | None]] = {}
        self.count = 0
        self._kept = kept

    async def run(self) -> None:
        while True:
            for labels, metrics in self.pods.values():
                for family in metrics.registry.collect():
                    for sample in family.samples:
                        if not sample.name.endswith("_created") and (self._kept is None or sample.name in self._kept):
                            own = {
                                f"exported_{name}" if name in labels else name: value
                                for name, value in sample.labels.items()
                            }
                            self._keep((sample.name, tuple(sorted({**own, **labels}.items()))), sample.value)
            self.count += 1
            await asyncio.sleep(SCRAPE_S)

    def _keep(self, key: Series, value: float) -> None:
        values = self.series.setdefault(key, [])
        values += [None] * (self.count - len(values))
        values.append(value)


class Manager(Life[Any]):
    """A program without a driver. world: its cluster."""

    def __init__(
        self, name: str, setup: Setup[Any], make: Callable[[Runtime], Work], ports: PortsInProcess, **how: Any
    ) -> None:
        super().__init__(name, setup, how.pop("machine"), **how)
        self._make, self._ports = make, ports
        self._known.set()

    def _connect(self) -> Any:
        return self._ports.cluster()

    async def _begin(self, runtime: Runtime, stack: contextlib.AsyncExitStack) -> None:
        await self._lead(LeasedWorks((LeasedWork(self._name, self._name, lambda: self._make(runtime)),)))


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """One running program."""

    life: Life[Any]
    ports: PortsInProcess


class MonitoredWorld(ClusterWorld):
    """pods: by name. make_cluster: makes the API server as the next program sees it. kept: as for Scrapes."""

    def __init__(self, faults: ServerFaults | None = None, kept: Container[str] | None = None) -> None:
        super().__init__()
        self.faults, self.scrapes = faults, Scrapes(kept)
        self.make_cluster: Callable[..., LocalCluster] = LocalCluster
        self.driver = FullDriver(DRIVER)
        self.pods: dict[str, Pod] = {}
        self._numbers = itertools.count(1)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # -- programs

    def start(self, role: str, replica: int = 1) -> Pod:
        """Runs a program, as a replica of its Deployment."""
        name, machine = (
            f"{role}-{replica}",
            Machine(environ={"POD_NAMESPACE": "storage"}, host_name=lambda: f"{role}-{replica}"),
        )
        api = self.make_cluster(self.store, clock=self.clock, randomness=Random(hash_of(name)), faults=self.faults)
        ports, metrics = PortsInProcess(self.driver, self.clock, cluster=api), Metrics()
        how: dict[str, Any] = {"clock": self.clock, "randomness": Random(hash_of(name)), "metrics": metrics}
        life = _life(role, machine, ports, how)
        pod = self.pods[name] = Pod(life, ports)
        job = "csi-controller" if role in SIDECARS else role
        labels = {"namespace": "storage", "job": job, "pod": f"{job}-{replica}", "container": role}
        self.scrapes.pods[name] = labels, metrics
        self._tasks[name] = asyncio.create_task(life.run(), name=name)
        return pod

    async def replace(self, role: str, replica: int) -> None:
        """A rollout: another pod comes, and once it stands by this one ends in good order."""
        self.start(role, replica + 10)
        await asyncio.sleep(10)
        name = f"{role}-{replica}"
        self.pods[name].life.end()
        await self._tasks.pop(name)
        del self.pods[name], self.scrapes.pods[name]

    async def end(self) -> None:
        for task in self._tasks.values():
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # -- users, kubelets, the scheduler

    async def prepare(self) -> None:
        await self.make_snapshot_kinds()
        await self.make_namespace("storage")
        await self.create(a_class(allowVolumeExpansion=True), a_snapshot_class(), a_csi_driver())
        for node in NODES:
            await self.create({**a_ready_node(node)}, a_csi_node(node, {DRIVER: f"id-{node}"}))
            await self.patch(_NODES, node, {"metadata": {"annotations": {MANAGED: "true"}}})

    async def traffic(self) -> None:
        """The life of a volume each two minutes."""
        while True:
            await self.volume_lives()
            await asyncio.sleep(60)

    async def volume_lives(self) -> None:
        name = f"books{next(self._numbers)}"
        await self.create(a_claim(name))
        await self.shown(PERSISTENT_VOLUME_CLAIMS, name, lambda claim: claim["status"]["phase"] == "Bound", "bound")
        for number, node in enumerate(NODES):
            pod = f"{name}-{number}"
            await self.create(a_pod(pod, name, node=node, terminationGracePeriodSeconds=0))
            await self._attached(node, True)
            await asyncio.sleep(10)
            await self.users.delete(PODS, pod, "default", grace_period_s=0)
            await self._attached(node, False)
        await self.patch(PERSISTENT_VOLUME_CLAIMS, name, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
        await self.shown(
            PERSISTENT_VOLUME_CLAIMS, name, lambda claim: claim["status"]["capacity"]["storage"] == "2Gi", "grown"
        )
        await self.create(a_new_snapshot(f"{name}-snap", claim=name))
        await self.shown(VOLUME_SNAPSHOTS, f"{name}-snap", lambda one: one.get("status", {}).get("readyToUse"), "ready")
        await self.remove(VOLUME_SNAPSHOTS, f"{name}-snap")
        await self.remove(PERSISTENT_VOLUME_CLAIMS, name)

    async def _attached(self, node: str, there: bool) -> None:
        async def is_so() -> bool:
            found = [one for one in await self.list(VOLUME_ATTACHMENTS) if one["spec"]["nodeName"] == node]
            return bool(found) == there and all((one.get("status") or {}).get("attached") for one in found)

        await self.until(is_so, what=f"attached to {node}: {there}")

    def seen(self) -> str:
        return ""


def hash_of(name: str) -> int:
    """A seed, the same in every run."""
    return sum(map(ord, name))


def _setup(command: Command[Any], *words: str) -> Setup[Any]:
    parsed = parse(command.table, words, command.removed, command.spellings)
    return Setup(
        command.about, parsed.flags, parsed.given, {name: gate.default for name, gate in command.gates.items()}
    )


def _life(role: str, machine: Machine, ports: PortsInProcess, how: Mapping[str, Any]) -> Life[Any]:
    elects = ("--leader-election", "--leader-election-namespace=storage")
    sidecars: dict[str, tuple[Command[Any], Callable[[Setup[Any]], Sidecar[Any]]]] = {
        "attacher": (csi_attacher.COMMAND, csi_attacher.sidecar),
        "provisioner": (csi_provisioner.COMMAND, lambda setup: csi_provisioner.sidecar(setup, machine)),
        "resizer": (csi_resizer.COMMAND, csi_resizer.sidecar),
        "snapshotter": (csi_snapshotter.COMMAND, lambda setup: csi_snapshotter.sidecar(setup, machine)),
    }
    if role in sidecars:
        command, sidecar = sidecars[role]
        setup = _setup(command, *elects)
        return SidecarLife(sidecar(setup), setup, machine, ports, **how)
    managers: dict[str, tuple[Command[Any], Callable[[Setup[Any], Runtime], Work]]] = {
        "attachdetach": (attachdetach.COMMAND, attachdetach.make_work),
        "snapshot-controller": (snapshot_controller.COMMAND, snapshot_controller.make_work),
        "binder": (binder.COMMAND, binder.make_work),
    }
    command, make_work = managers[role]
    setup = _setup(command, *(() if role == "attachdetach" else elects))  # that one elects by default, in kube-system
    return Manager(role, setup, lambda runtime: make_work(setup, runtime), ports, machine=machine, **how)


@contextlib.asynccontextmanager
async def monitored(
    *roles: str, replicas: int = 1, faults: ServerFaults | None = None, kept: Container[str] | None = None
) -> AsyncIterator[MonitoredWorld]:
    """A cluster whose programs run and are scraped. roles: all by default."""
    world = MonitoredWorld(faults, kept)
    await world.prepare()
    scraping = asyncio.create_task(world.scrapes.run(), name="prometheus")
    try:
        for role in roles or ROLES:
            for replica in range(1, replicas + 1):
                world.start(role, replica)
        yield world
        if scraping.done():
            scraping.result()
        await world.end()
    finally:
        scraping.cancel()
        await asyncio.gather(scraping, return_exceptions=True)
