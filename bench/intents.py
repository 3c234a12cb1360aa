"""What an intent before CreateVolume costs, on a real etcd (with fsync) and kube-apiserver: `python -m bench.intents`.

Three ways to remember what is being created: not at all, as external-provisioner; a finalizer and an annotation on the
claim; the shared journal. A burst has all claims at once, a hundred in flight, with a driver that answers at once; a
trickle has one claim after the other. Each claim is begun, its PersistentVolume is stored, it is ended: no more of a
provisioner than that.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from bench.contender import quantile
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SecretReference
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.cluster import Patch, PatchType
from mooring.sidecars.provisioner.intents.journal import Intents, Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation, encoded
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent
from tests.support.control_plane import ControlPlane

IN_FLIGHT = 100
DRIVER = "hostpath.csi.k8s.io"
FINALIZER = "mooring.dev/intent"


class Counting:
    """Counts the writes of what is measured, by kind."""

    def __init__(self, cluster: HttpCluster) -> None:
        self._cluster = cluster
        self.writes: collections.Counter[str] = collections.Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)
        if name in ("create", "replace", "patch", "delete"):

            async def counted(kind: Any, *args: Any, **options: Any) -> Any:
                self.writes[f"{name} {kind.plural}"] += 1
                return await method(kind, *args, **options)

            return counted
        return method


class Memory(Protocol):
    async def write(self, entry: ClaimIntents) -> None: ...
    async def end(self, uid: str) -> None: ...


class OnTheClaim:
    """The other candidate: a finalizer keeps the claim, an annotation says what was asked for."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._names: dict[str, tuple[str, str]] = {}

    async def write(self, entry: ClaimIntents) -> None:
        self._names[entry.uid] = entry.namespace, entry.claim_name
        await self._patch(entry.uid, [FINALIZER, "kubernetes.io/pvc-protection"], encoded(entry).decode())

    async def end(self, uid: str) -> None:
        await self._patch(uid, ["kubernetes.io/pvc-protection"], None)

    async def _patch(self, uid: str, finalizers: list[str], note: str | None) -> None:
        namespace, name = self._names[uid]
        body = {"metadata": {"finalizers": finalizers, "annotations": {FINALIZER: note}}}
        await self._cluster.patch(PERSISTENT_VOLUME_CLAIMS, name, Patch(PatchType.MERGE, body), namespace)


def an_intent(uid: str, name: str) -> ClaimIntents:
    """Of the size of a usual one: a class with four parameters, three zones, two secrets."""
    zones = ",".join(f'{{"segments":{{"topology.{DRIVER}/zone":"zone-{zone}"}}}}' for zone in "abc")
    request = (
        f'{{"name":"pvc-{uid}","capacity_range":{{"required_bytes":"1073741824"}},'
        f'"volume_capabilities":[{{"mount":{{"fs_type":"ext4"}},'
        f'"access_mode":{{"mode":"SINGLE_NODE_WRITER"}}}}],"parameters":{{"type":"fast","pool":"gold",'
        f'"replicas":"3","encrypted":"true"}},'
        f'"accessibility_requirements":{{"requisite":[{zones}],"preferred":[{zones}]}}}}'
    )
    reference = (
        f'{{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"default","name":"{name}","uid":"{uid}",'
        f'"resourceVersion":"1"}}'
    )
    secret = '{"name":"storage-secret","namespace":"kube-system"}'
    volume = (
        f'{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"pvc-{uid}",'
        f'"annotations":{{"pv.kubernetes.io/provisioned-by":'
        f'"{DRIVER}","volume.kubernetes.io/provisioner-deletion-secret-name":"storage-secret","volume.kubernetes.io/'
        f'provisioner-deletion-secret-namespace":"kube-system"}},'
        f'"finalizers":["external-provisioner.volume.kubernetes.io/finalizer"]}},'
        f'"spec":{{"accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Delete",'
        f'"storageClassName":"fast","claimRef":{reference},'
        f'"csi":{{"driver":"{DRIVER}","fsType":"ext4","nodeStageSecretRef":{secret}}}}}}}'
    )
    secret_ref = SecretReference("storage-secret", "kube-system")
    intent = Intent(uid, "default", name, f"pvc-{uid}", request, volume, secret_ref, class_name="fast")
    return ClaimIntents(uid, (intent,))


class Measured:
    """One way, one round. begun_s: how long each begin took."""

    def __init__(self, cluster: Counting, intents: Memory) -> None:
        self._cluster, self._intents = cluster, intents
        self.begun_s: list[float] = []
        self.whole_s: list[float] = []

    async def provision(self, intent: ClaimIntents) -> None:
        began = time.perf_counter()
        await self._intents.write(intent)
        self.begun_s.append(time.perf_counter() - began)
        source = {"driver": DRIVER, "volumeHandle": intent.volume_name}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source}
        body = {"metadata": {"name": intent.volume_name}, "spec": spec}
        await self._cluster.create(PERSISTENT_VOLUMES.whole(), body)
        await self._intents.end(intent.uid)
        self.whole_s.append(time.perf_counter() - began)


async def claims(cluster: HttpCluster, start: str, count: int) -> list[ClaimIntents]:
    made = []
    for number in range(count):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        }
        body = {"metadata": {"name": f"{start}-{number}", "namespace": "default"}, "spec": spec}
        claim = await cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), body, "default")
        made.append(an_intent(claim["metadata"]["uid"], f"{start}-{number}"))
    return made


async def measure(plane: ControlPlane, way: str, round_: int, burst: int, trickle: int) -> None:
    config = load(str(plane.kubeconfig("bench")), os.environ)
    async with HttpCluster(
        config, clock=LoopClock(), randomness=Random(), user_agent="mooring-bench", concurrency_max=IN_FLIGHT
    ) as http:
        for load_name, count in (("burst", burst), ("trickle", trickle)):
            wanted = await claims(http, f"{way}-{load_name}-{round_}", count)
            counting = Counting(http)
            made: dict[str, Callable[[], Any]] = {
                "nothing": Intents,
                "claim": lambda counting=counting: OnTheClaim(counting),
                "journal": lambda counting=counting: Journal(
                    counting, JournalLocation("default", DRIVER), "bench", LoopClock()
                ),
            }
            intents = made[way]()
            running = None
            if isinstance(intents, Journal):
                await intents.start()
                running = asyncio.create_task(intents.run(), name="bench/journal")
            counting.writes.clear()
            measured = Measured(counting, intents)
            cpu, began = time.process_time(), time.perf_counter()
            await (at_once if load_name == "burst" else one_by_one)(measured.provision, wanted)
            wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
            if isinstance(intents, Journal):
                await intents.tidy()
            if running is not None:
                running.cancel()
            tell(way, load_name, count, counting, measured, wall_s, cpu_s)


async def at_once(provision: Callable[[ClaimIntents], Awaitable[None]], wanted: list[ClaimIntents]) -> None:
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(intent: ClaimIntents) -> None:
        async with slots:
            await provision(intent)

    async with asyncio.TaskGroup() as group:
        for intent in wanted:
            group.create_task(one(intent))


async def one_by_one(provision: Callable[[ClaimIntents], Awaitable[None]], wanted: list[ClaimIntents]) -> None:
    for intent in wanted:
        await provision(intent)


def tell(
    way: str, load_name: str, count: int, counting: Counting, measured: Measured, wall_s: float, cpu_s: float
) -> None:
    others = {what: number for what, number in counting.writes.items() if what != "create persistentvolumes"}
    print(
        f"{load_name:8} {way:8} {count / wall_s:7.0f}/s  begin p50 {statistics.median(measured.begun_s) * 1e3:6.2f} ms"
        f"  p99 {quantile(measured.begun_s, 0.99) * 1e3:6.2f} ms  whole p50 "
        f"{statistics.median(measured.whole_s) * 1e3:6.2f} ms"
        f"  cpu {cpu_s / count * 1e3:5.2f} ms  intent writes/claim {sum(others.values()) / count:5.3f}  {others}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.intents")
    parser.add_argument("--claims", type=int, default=500)
    parser.add_argument("--trickle", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"an intent has {len(encoded(an_intent('0' * 36, 'claim-0')))} bytes", flush=True)
    plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"])
    try:
        for round_ in range(options.rounds):
            for way in ("nothing", "claim", "journal"):
                asyncio.run(measure(plane, way, round_, options.claims, options.trickle))
    finally:
        plane.stop()


if __name__ == "__main__":
    main()
