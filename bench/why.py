"""How long `mooring why` takes for one object of a large cluster, as a process from its start to its end:
`make bench-why`.

On a real etcd and kube-apiserver, with bound claims, their volumes, and an attachment for each. One pod can't get its
volume, since a pod on another node has it.
"""

from __future__ import annotations

import argparse
import asyncio
import operator
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.load import Load, a_load
from bench.tables import Table, heading, print_parts
from mooring.api.meta import Kind
from mooring.api.volume_names import attachment_name
from mooring.kube.cluster import Patch, PatchType
from tests.support.builders import (
    DRIVER,
    KINDS,
    Json,
    a_bound_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod,
    a_ready_node,
    a_volume,
    an_attached_va,
)
from tests.support.control_plane import ControlPlane

PER_NODE = 100
OBJECTS = {
    "a pod whose volume another node has": ("pod/stuck",),
    "a claim": ("pvc/claim-1",),
    "a PersistentVolume": ("pv/pv-1",),
    "a VolumeAttachment": (f"va/{attachment_name(DRIVER, 'handle-1', 'node-1')}",),
    "a node with its volumes": ("node/node-1",),
    "all that is stuck": (),
}


class _Cluster(Load):
    """The objects of a cluster whose volumes are all bound and attached, but for one."""

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def make(self, volumes: int) -> None:
        nodes = [f"node-{number}" for number in range(max(2, volumes // PER_NODE))]
        await self._create(a_class())
        await self._create(a_csi_driver())
        await self.each(
            self._create(one)
            for name in nodes
            for one in (a_ready_node(name), a_csi_node(name, {DRIVER: f"id-of-{name}"}))
        )
        await self.each(self._volume(number, nodes[number % len(nodes)]) for number in range(volumes))
        await self._create(a_pod("holder", "claim-0", node=nodes[0]))
        await self._create(a_pod("stuck", "claim-0", node=nodes[1]))

    async def _volume(self, number: int, node: str) -> None:
        claim, pv, handle = f"claim-{number}", f"pv-{number}", f"handle-{number}"
        bound = a_bound_claim(claim, pv)
        found = await self._create(bound)
        await self._status(bound)
        ref = {"namespace": "default", "name": claim, "uid": found.metadata.uid}
        await self._create(a_volume(pv, claimRef=ref, source={"csi": {"driver": DRIVER, "volumeHandle": handle}}))
        attached = an_attached_va(attachment_name(DRIVER, handle, node), pv, node, attacher=DRIVER)
        await self._create(attached)
        await self._status(attached)

    async def _create(self, body: Json) -> Any:
        kind: Kind[Any] = KINDS[body["kind"]]
        return await self._cluster.create(kind, body, "default" if kind.namespaced else "")

    async def _status(self, body: Json) -> None:
        kind: Kind[Any] = KINDS[body["kind"]]
        patch = Patch(PatchType.MERGE, {"status": body["status"]})
        await self._cluster.patch(
            kind, body["metadata"]["name"], patch, "default" if kind.namespaced else "", subresource="status"
        )


def took_s(kubeconfig: Path, *words: str) -> float:
    """Of one call. Ends the bench where it has no answer."""
    began = time.monotonic()
    command = [sys.executable, "-m", "mooring.cli.mooring", "why", f"--kubeconfig={kubeconfig}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    took = time.monotonic() - began
    if not done.stdout:
        raise SystemExit(done.stderr)
    return took


def a_round(kubeconfig: Path) -> dict[str, float]:
    """Seconds by object."""
    return {name: took_s(kubeconfig, *words) for name, words in OBJECTS.items()}


async def parts(given: argparse.Namespace) -> AsyncIterator[str]:
    yield heading("kube-apiserver")
    plane = await asyncio.to_thread(ControlPlane.start)
    try:
        async with a_load(plane, _Cluster) as load:
            await load.make(given.volumes)
        runs = [await asyncio.to_thread(a_round, plane.kubeconfig()) for _ in range(given.rounds)]
        table = Table(f"`mooring why` with {given.volumes:,} volumes: seconds", {"Mooring": runs})
        for name in OBJECTS:
            table.row(name, "{:.2f}", operator.itemgetter(name), each_round=True)
        yield str(table)
    finally:
        await asyncio.to_thread(plane.stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--volumes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print_parts(parts(given))


if __name__ == "__main__":
    main()
