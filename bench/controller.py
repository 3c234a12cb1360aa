"""Attacher, provisioner and attach/detach controller in one process, beside one process each and the Go programs:
`make bench-controller`.

Memory is that of all processes of a contender. Go has its attach/detach controller in kube-controller-manager, which
runs with it alone: there is no smaller program that has it.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.attach import AttachLoad
from bench.contender import NO_LIMIT, Contender, LoadDriver, Running, Strangers, build_driver, running
from bench.load import a_load
from bench.tables import Table, heading
from bench.turns import Turns
from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.kube.cluster import EventType, Patch, PatchType, WatchEvent
from tests.support.builders import NS, a_claim, a_node, a_pod, a_pv
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

SCRIPTS = Path(sys.executable).parent
OTHERS = "other.bench.mooring.dev"
NODE_COUNT = 10
TOLD = ("volumeattachments", "nodes", "persistentvolumes")
"""The writes that are counted; all of them are the contenders'."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One process of a contender. has_driver: it takes --csi-address."""

    command: tuple[str, ...]
    flags: tuple[str, ...] = NO_LIMIT
    has_driver: bool = True


KCM = ("--controllers=persistentvolume-attach-detach-controller", "--leader-elect=false", "--secure-port=0")


def parts(name: str) -> tuple[Part, ...]:
    mooring = str(SCRIPTS / "mooring")
    if name == "Go":
        manager = Part(
            (str(binary("kube-controller-manager")),),
            (*KCM, "--kube-api-qps=1000", "--kube-api-burst=2000"),
            has_driver=False,
        )
        return (*(Part((str(binary(one)),)) for one in ("csi-attacher", "csi-provisioner")), manager)
    if name == "Mooring, three processes":
        manager = Part((mooring, "attachdetach"), ("--leader-elect=false", *NO_LIMIT), has_driver=False)
        return (*(Part((str(SCRIPTS / one),)) for one in ("csi-attacher", "csi-provisioner")), manager)
    return (Part((mooring, "controller", "--enable=attacher,provisioner,attachdetach")),)


@dataclasses.dataclass
class Run:
    """attachdetach_mib: of the process with that controller. watches: that the contender holds open. writes: per
    attachment, from pod to end. strangers: processors busy elsewhere.
    """

    memory_mib: float
    attachdetach_mib: float
    watches: float
    attach_s: float
    cpu_ms: float
    writes: Mapping[str, float]
    memory_after_mib: float
    strangers: float


class PodLoad(AttachLoad):
    """Pods with bound claims on nodes; attachments are known by their volumes, since each controller names them in its
    own way.
    """

    def _happened(self, event: WatchEvent[VolumeAttachment]) -> None:
        assert event.object is not None
        name = event.object.spec.source.persistent_volume_name or ""
        if event.type is EventType.DELETED:
            self.gone_at.setdefault(name, time.monotonic())
        elif event.object.status.attached:
            self.attached_at.setdefault(name, time.monotonic())

    async def make_places(self, names: Sequence[str], driver: str) -> None:
        await self.make_nodes(names, driver)
        bodies = ({**a_node(name), "metadata": {"name": name, "annotations": {MANAGED: "true"}}} for name in names)
        await self.each(self._cluster.create(NODES.whole(), body) for body in bodies)

    async def make_claimed(self, name: str, driver: str) -> None:
        """A volume and a claim, bound to each other."""
        claims = PERSISTENT_VOLUME_CLAIMS.whole()
        made = await self._cluster.create(claims, a_claim(name, sc="", volume=name), NS)
        source = {"csi": {"driver": driver, "volumeHandle": name}}
        await self._cluster.create(PERSISTENT_VOLUMES.whole(), a_pv(name, source=source, claim=made))
        bound = Patch(PatchType.MERGE, {"status": {"phase": "Bound"}})
        await self._cluster.patch(claims, name, bound, NS, subresource="status")

    async def use(self, name: str, node: str) -> None:
        await self._cluster.create(PODS.whole(), a_pod(name, name, node=node), NS)

    async def leave(self, name: str) -> None:
        await self._cluster.delete(PODS, name, NS, grace_period_s=0)

    async def open_watches(self) -> float:
        return sum(
            value
            for _, labels, value in await self.samples("apiserver_longrunning_requests")
            if labels["verb"] == "WATCH"
        )

    async def told(self) -> collections.Counter[str]:
        """The contender's writes so far: attachments are made and deleted by it alone, volumes and nodes only
        patched.
        """
        found = await self.settled(TOLD)
        ours = re.compile("(POST|DELETE) (nodes|persistentvolumes)")
        return collections.Counter({key: count for key, count in found.items() if not ours.match(key)})


class Bench:
    """The rounds on one control plane."""

    def __init__(self, plane: ControlPlane, driver: Path) -> None:
        self._plane, self._driver_program, self._number = plane, driver, 0

    @contextlib.contextmanager
    def _running(self, contender: Contender) -> Iterator[tuple[Running, ...]]:
        """All processes of a contender, beside one driver."""
        folder, tag = self._plane.folder, f"contender-{self._number}"
        with contextlib.ExitStack() as stack:
            driver = LoadDriver(self._driver_program, folder / f"{self._number}.sock", contender.driver_name)
            stack.callback(driver.stop)
            yield tuple(
                stack.enter_context(
                    running(
                        Contender(contender.name, part.command),
                        self._plane.kubeconfig(tag),
                        None,
                        folder / f"{tag}-{number}.log",
                        (*((f"--csi-address={driver.socket}",) if part.has_driver else ()), *part.flags),
                    )
                )
                for number, part in enumerate(parts(contender.name))
            )

    async def round(self, contender: Contender, count: int) -> Run:
        """Memory and watches at rest, then so many pods with a volume each come and go."""
        self._number += 1
        async with a_load(self._plane, PodLoad) as load:
            names = [f"c{self._number}-{number}" for number in range(count)]
            nodes = [f"c{self._number}-node{number}" for number in range(NODE_COUNT)]
            await load.make_places(nodes, contender.driver_name)
            await load.each(load.make_claimed(name, contender.driver_name) for name in names)
            watches = await load.open_watches()
            with self._running(contender) as processes:
                for one in processes:
                    await one.settled_rss_mib()
                memory, alone, held = _memory(processes), processes[-1].rss_mib, await load.open_watches() - watches
                before, cpu_before, strangers = (
                    await load.told(),
                    _cpu_s(processes),
                    Strangers([one.pid for one in processes]),
                )
                began = time.monotonic()
                await load.each(load.use(name, nodes[number % NODE_COUNT]) for number, name in enumerate(names))
                await load.until(load.attached_at, names, 300)
                attach_s = max(load.attached_at[name] for name in names) - began
                await load.each(load.leave(name) for name in names)
                await load.until(load.gone_at, names, 300)
                writes = await load.told() - before
                return Run(
                    memory_mib=memory,
                    attachdetach_mib=alone,
                    watches=held,
                    attach_s=attach_s,
                    cpu_ms=(_cpu_s(processes) - cpu_before) / count * 1000,
                    writes={key: value / count for key, value in sorted(writes.items())},
                    memory_after_mib=_memory(processes),
                    strangers=strangers.busy(),
                )

    async def fill(self, count: int) -> None:
        """So many PersistentVolumes of another driver."""
        async with a_load(self._plane, AttachLoad) as load:
            await load.make_volumes((f"other-{number}" for number in range(count)), OTHERS)


def _memory(processes: Sequence[Running]) -> float:
    return sum(one.rss_mib for one in processes)


def _cpu_s(processes: Sequence[Running]) -> float:
    return sum(one.cpu_s for one in processes)


async def measure(options: argparse.Namespace) -> str:
    contenders = [Contender(name, ()) for name in ("Go", "Mooring, one process", "Mooring, three processes")]
    turns = Turns(contenders, options.rounds, options.quiet)
    plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"])
    try:
        bench = Bench(plane, build_driver(plane.folder))
        await bench.fill(options.volumes)
        runs = await turns.take("One process", lambda one: bench.round(one, options.count))
    finally:
        plane.stop()
    made = Table(
        f"One process: {options.volumes} volumes of another driver, {options.count} pods with one each; no "
        "client limit",
        runs,
    )
    made.row("at rest, all processes (MiB)", "{:.0f}", lambda run: run.memory_mib, each_round=True)
    made.row("watches held open", "{:.0f}", lambda run: run.watches)
    made.row("all pods → all attached (s)", "{:.1f}", lambda run: run.attach_s, each_round=True)
    made.row("processor time, pod to its end (ms)", "{:.2f}", lambda run: run.cpu_ms)
    made.rows("{} per pod", "{:.2f}", lambda run: run.writes)
    made.row("after, all processes (MiB)", "{:.0f}", lambda run: run.memory_after_mib)
    made.row("processors that others kept busy", "{:.2f}", lambda run: run.strangers)
    alone = Table(
        "The attach/detach controller alone, at rest", {"Go": runs["Go"], "Mooring": runs["Mooring, three processes"]}
    )
    alone.row("memory (MiB)", "{:.0f}", lambda run: run.attachdetach_mib)
    beside = heading("csi-attacher v4.12, csi-provisioner v6.3 and kube-controller-manager v1.36")
    return f"{beside} Medians over rounds.\n\n{made}\n\n{alone}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="pods with a volume each")
    parser.add_argument("--volumes", type=int, default=20000, help="PersistentVolumes of another driver")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quiet", type=float, default=0.3, help="processors that others may keep busy")
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
