"""How the attach/detach controller bears a large cluster, in one process with the embedded store:
`python -m bench.attachdetach_scale`.

5,000 nodes and 20,000 volumes, each attached for a pod. The controller starts anew beside them in three situations: all
is well; every report is lost; one pod of ten has gone meanwhile. Memory is the growth of the process, the objects of
the store not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

from bench.podload import NS, a_claim, a_node, a_pod, a_volume, unique
from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Cluster, Patch, PatchType

DRIVER = "scale.bench.mooring.dev"
LOOK_S = 0.05
QUEUES = ("attachdetach-volumes", "attachdetach-nodes")
WELL, UNREPORTED, UNWANTED = "all is well", "every report is lost", "one pod of ten is gone"


@dataclasses.dataclass(frozen=True)
class Size:
    nodes: int
    volumes: int

    def node_of(self, number: int) -> str:
        return f"n{number % self.nodes}"


class Place:
    """A store with the objects, and a cluster to change and to watch it."""

    def __init__(self, size: Size) -> None:
        self.size, self.clock, self.randomness, self.metrics = size, LoopClock(), Random(1), Metrics()
        self.cluster: Cluster = LocalCluster(
            new_store(self.randomness, self.clock.wall_s()), clock=self.clock, randomness=self.randomness
        )

    async def fill(self, *, reported: bool) -> None:
        listed: dict[str, list[str]] = {}
        for number in range(self.size.volumes):
            listed.setdefault(self.size.node_of(number), []).append(unique(DRIVER, f"v{number}"))
        for number in range(self.size.nodes):
            await self._node(f"n{number}", sorted(listed.get(f"n{number}", ())) if reported else [])
        for number in range(self.size.volumes):
            await self._volume(f"v{number}", self.size.node_of(number))

    async def _node(self, name: str, listed: list[str]) -> None:
        await self.cluster.create(NODES.whole(), a_node(name))
        attached = [{"name": one, "devicePath": ""} for one in listed]
        await self._status(NODES, name, {**a_node(name)["status"], "volumesAttached": attached or None})

    async def _volume(self, name: str, node: str) -> None:
        made = await self.cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), a_claim(name), NS)
        await self._status(PERSISTENT_VOLUME_CLAIMS, name, {"phase": "Bound"}, NS)
        await self.cluster.create(PERSISTENT_VOLUMES.whole(), a_volume(name, DRIVER, made["metadata"]["uid"]))
        await self.cluster.create(PODS.whole(), a_pod(name, node), NS)
        va = attachment_name(DRIVER, name, node)
        spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": name}}
        await self.cluster.create(VOLUME_ATTACHMENTS.whole(), {"metadata": {"name": va}, "spec": spec})
        await self._status(VOLUME_ATTACHMENTS, va, {"attached": True})

    async def _status(self, kind: Kind[Any], name: str, status: dict[str, Any], namespace: str = "") -> None:
        await self.cluster.patch(
            kind, name, Patch(PatchType.MERGE, {"status": status}), namespace, subresource="status"
        )

    async def drop_pods(self) -> None:
        for number in range(0, self.size.volumes, 10):
            await self.cluster.delete(PODS, f"v{number}", NS, grace_period_s=0)

    # -- the controller

    @contextlib.asynccontextmanager
    async def controller(self) -> AsyncIterator[AttachDetach]:
        made = AttachDetach(Runtime(self.cluster, self.clock, self.randomness, self.metrics), AttachDetachOptions())
        async with asyncio.TaskGroup() as group:
            task = group.create_task(made.run(), name="controller")
            yield made
            task.cancel()

    def is_idle(self) -> bool:
        """Nothing waits for a worker, and no worker is busy."""
        found = [self.metrics.registry.get_sample_value(name, {"name": queue}) for queue in QUEUES for name in _WORK]
        return all(value == 0 for value in found)

    async def counts(self) -> tuple[int, int]:
        """Attachments, and volumes in reports."""
        listed = sum(len(node.status.volumes_attached or ()) for node in (await self.cluster.list(NODES)).items)
        return len((await self.cluster.list(VOLUME_ATTACHMENTS)).items), listed


_WORK = ("workqueue_depth", "workqueue_unfinished_work_seconds")


async def measure(situation: str, size: Size) -> tuple[float, float, float]:
    """Seconds from the start until all is as it should be, processor seconds of that, and MiB that the controller
    took.
    """
    place = Place(size)
    await place.fill(reported=situation != UNREPORTED)
    if situation == UNWANTED:
        await place.drop_pods()
    gc.collect()
    rss, cpu, began = _rss_mib(), time.process_time(), time.monotonic()
    gone = len(range(0, size.volumes, 10)) if situation == UNWANTED else 0
    async with place.controller() as controller:
        while not (controller.has_synced and place.is_idle() and await place.counts() == (size.volumes - gone,) * 2):
            await place.clock.sleep(LOOK_S)
        took_s, used_s = time.monotonic() - began, time.process_time() - cpu
        gc.collect()
        return took_s, used_s, _rss_mib() - rss


def _rss_mib() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def table(size: Size, rows: Iterable[tuple[str, str]]) -> str:
    """rows: a situation, and what its own process measured."""
    heads = "| the controller starts, and | settled after (s) | processor time (s) | memory (MiB) |\n|---|---|---|---|"
    lines = [f"| {situation} | " + " | ".join(told.split()) + " |" for situation, told in rows]
    return "\n".join(
        [f"### {size.nodes} nodes and {size.volumes} attached volumes, on the in-process port", "", heads, *lines]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--volumes", type=int, default=20000)
    parser.add_argument("--situation", default="", help="this one alone, in this process")
    options = parser.parse_args()
    size = Size(options.nodes, options.volumes)
    if options.situation:
        print("{:.1f} {:.1f} {:.0f}".format(*asyncio.run(measure(options.situation, size))))
        return
    words = [sys.executable, "-m", "bench.attachdetach_scale", f"--nodes={size.nodes}", f"--volumes={size.volumes}"]
    rows = []
    for situation in (WELL, UNREPORTED, UNWANTED):
        told = subprocess.run([*words, f"--situation={situation}"], check=True, capture_output=True, text=True)
        print(f"{situation}: {told.stdout.strip()}", file=sys.stderr)
        rows.append((situation, told.stdout))
    print(table(size, rows))


if __name__ == "__main__":
    main()
