"""Many claims at once: what is wished for, what must have come of it, and who provisions meanwhile.

Half of the claims are bound at once, the other half with the pod that uses them, in the pod's zone. A `Storm` judges by
what the API server and the driver's backend have, not by what the provisioner says.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import STORAGE_CLASSES
from mooring.base.randomness import Random
from mooring.kube.cluster import Cluster
from mooring.sidecars.provisioner.intents import lease_codec
from tests.support.binding import POD, PVC, Tenant
from tests.support.builders import a_claim, a_class, a_csi_node
from tests.support.unreliable_volumes import ZONE, UnreliableVolumes

ZONES: Final = ("a", "b", "c")
NODES_PER_ZONE: Final = 2
MAKERS: Final = 20
"""Objects that are made or deleted side by side."""

ELECTION: Final = "--leader-election"
ELECTING: Final = (
    ELECTION,
    "--leader-election-lease-duration=4s",
    "--leader-election-renew-deadline=3s",
    "--leader-election-retry-period=300ms",
    "--v=2",
)
CALLS: Final = ("--timeout=2s", "--retry-interval-start=200ms", "--retry-interval-max=2s")
FLAGS: Final = (*ELECTING, *CALLS)
"""Of a sidecar."""


class Replica(abc.ABC):
    """A provisioner among others that stand for one Lease."""

    @property
    @abc.abstractmethod
    def leads(self) -> bool: ...

    @abc.abstractmethod
    async def kill(self) -> None:
        """kill -9."""

    @abc.abstractmethod
    def assert_alive(self) -> None: ...


class Replicas:
    """Those that stand for one Lease. make: one more, by its number."""

    def __init__(self, world: Tenant, make: Callable[[int], Replica]) -> None:
        self._world, self._make = world, make
        self._living: list[Replica] = []
        self._started_count = 0

    def add(self) -> None:
        self._started_count += 1
        self._living.append(self._make(self._started_count))

    async def kill_leader(self) -> None:
        """And another one stands by from now on."""
        found: Replica = await self._world.until(self._leader, what="somebody leads")
        self._living.remove(found)
        await found.kill()
        self.add()

    async def _leader(self) -> Replica | None:
        self.assert_alive()
        leading = [one for one in self._living if one.leads]
        assert len(leading) <= 1, "two lead"
        return leading[0] if leading else None

    async def kill_all(self) -> None:
        for one in self._living:
            await one.kill()

    def assert_alive(self) -> None:
        for one in self._living:
            one.assert_alive()


class Storm(abc.ABC):
    """cluster: as everybody else reaches it. count: of claims."""

    def __init__(
        self, cluster: Cluster, driver: UnreliableVolumes, count: int, *, wait_s: float, look_s: float
    ) -> None:
        self.world = Tenant(cluster, wait_s=wait_s, look_s=look_s)
        self.driver = driver
        self.count = count
        self._replicas = Replicas(self.world, lambda number: self.a_replica(number))
        self._cluster = cluster
        self._zones: dict[str, str] = {}  # by node

    @abc.abstractmethod
    def a_replica(self, number: int) -> Replica:
        """A provisioner with `FLAGS`."""

    # -- who provisions

    def add_replica(self) -> None:
        self._replicas.add()

    async def kill_leader(self) -> None:
        await self._replicas.kill_leader()

    async def kill_all(self) -> None:
        await self._replicas.kill_all()

    def assert_alive(self) -> None:
        self._replicas.assert_alive()

    # -- what is wished for

    async def prepare(self) -> None:
        """Classes, and nodes in every zone."""
        for base, wffc in (("now", False), ("later", True)):
            await self.world.create(a_class(self.world(base), provisioner=self.driver.name, wffc=wffc))
        for number in range(NODES_PER_ZONE * len(ZONES)):
            await self._add_node(number)

    async def _add_node(self, number: int) -> None:
        zone = ZONES[number % len(ZONES)]
        name = await self.world.make_node(f"n{number}", **{ZONE: zone})
        await self.world.create(a_csi_node(name, {self.driver.name: name}, keys=[ZONE]))
        self._zones[name] = zone

    async def wish(self) -> None:
        """All claims, and a pod for every other one: two of three pods ask for a zone."""
        await side_by_side(self._wish(number) for number in range(self.count))

    async def _wish(self, number: int) -> None:
        name, waits = self.world(f"c{number}"), number % 2 == 1
        await self.world.create(a_claim(name, sc=self.world("later" if waits else "now")))
        if waits:
            place = {ZONE: ZONES[number // 2 % len(ZONES)]} if number % 3 else {}
            await self.world.make_pod(name, base=f"p{number}", nodeSelector=place)

    async def change_minds(self, randomness: Random, times: int) -> None:
        """Claims are deleted, their pods with them, and made anew under the same names; classes, too."""
        for _ in range(times):
            number = randomness.below(self.count)
            if number % 2:
                await self.world.delete(POD, self.world(f"p{number}"))
            await self.world.delete(PVC, self.world(f"c{number}"))
            if randomness.happens(0.2):
                await self.world.delete(STORAGE_CLASSES, self.world("now"))
                await asyncio.sleep(randomness.uniform(0.0, 1.0))
                await self.world.create(a_class(self.world("now"), provisioner=self.driver.name))
            await self.world.gone(PVC, self.world(f"c{number}"))
            await self._wish(number)
            await asyncio.sleep(randomness.uniform(0.0, 0.5))

    async def bound(self, share: float) -> None:
        """At least this share of the claims is bound."""

        async def enough() -> bool:
            self.assert_alive()
            return len([one for one in await self._claims() if one.status.phase == "Bound"]) >= share * self.count

        await self.world.until(enough, what=f"{share:.0%} are bound\n{self.driver.codes}")

    async def end(self) -> None:
        """Deletes all pods and claims."""
        pods = [pod.metadata.name for pod in (await self._cluster.list(PODS)).items]
        await side_by_side(self.world.delete(POD, name) for name in pods)
        await side_by_side(self.world.delete(PVC, one.metadata.name) for one in await self._claims())

    async def over(self) -> None:
        """Nothing is left in the API and in the driver, and nobody thinks that something might be."""

        left: dict[str, list[str]] = {}

        async def nothing() -> bool:
            self.assert_alive()
            left.clear()
            left["backend"] = sorted(self.driver.volumes)
            left["volumes"] = [
                f"{pv.metadata.name} {pv.status.phase} {pv.metadata.finalizers}" for pv in await self._volumes()
            ]
            left["claims"] = [f"{one.metadata.name} {one.metadata.finalizers}" for one in await self._claims()]
            left["intents"] = await self._open_intents()
            return not any(left.values())

        try:
            await self.world.until(nothing, what="all is gone")
        except AssertionError as error:
            error.add_note(str({what: (len(names), names[:5]) for what, names in left.items()}))
            raise

    # -- judging

    async def judge_bound(self) -> None:
        """Each claim has one volume, each volume one claim, in the API and in the backend; and it is where its pod
        is.
        """
        await self.world.until(self._nobody_is_too_many, what="what nobody wants any more is gone")
        claims, volumes = await self._claims(), {pv.metadata.name: pv for pv in await self._volumes()}
        assert self.count == len(claims) == len(volumes)
        backend = self.driver.volumes
        assert sorted(backend) == sorted(_handle(pv) for pv in volumes.values())
        assert {one.metadata.uid for one in claims} == {_claim_uid(pv) for pv in volumes.values()}
        assert all(_claim_uid(volumes[one.spec.volume_name]) == one.metadata.uid for one in claims)
        assert {pv.metadata.name: backend[_handle(pv)].zone for pv in volumes.values()} == {
            name: _zone(pv) for name, pv in volumes.items()
        }
        await self._judge_pods({one.metadata.name: _zone(volumes[one.spec.volume_name]) for one in claims})

    async def _nobody_is_too_many(self) -> bool:
        return self.count == len(await self._volumes()) == len(self.driver.volumes)

    def judge_made_once(self) -> None:
        again = {name: times for name, times in self.driver.made.items() if times > 1}
        assert {} == again, "made more than once"

    async def _judge_pods(self, zones: dict[str, str]) -> None:
        """zones: of the claims."""
        await self.world.until(self._all_scheduled, what="every pod has a node")
        pods = (await self._cluster.list(PODS)).items
        assert self.count // 2 == len(pods)
        assert set(ZONES) == {self._zones[pod.spec.node_name] for pod in pods}
        for pod in pods:
            (volume,) = [one for one in pod.spec.volumes or () if one.persistent_volume_claim is not None]
            assert volume.persistent_volume_claim is not None
            assert self._zones[pod.spec.node_name] == zones[volume.persistent_volume_claim.claim_name], (
                pod.metadata.name
            )

    async def _all_scheduled(self) -> bool:
        return all(pod.spec.node_name for pod in (await self._cluster.list(PODS)).items)

    async def _claims(self) -> list[PersistentVolumeClaim]:
        return list((await self._cluster.list(PERSISTENT_VOLUME_CLAIMS)).items)

    async def _volumes(self) -> list[PersistentVolume]:
        return list((await self._cluster.list(PERSISTENT_VOLUMES)).items)

    async def _open_intents(self) -> list[str]:
        kind: Kind[Any] = LEASES.whole()
        return [
            intent.uid for lease in (await self._cluster.list(kind)).items for intent in lease_codec.entries_of(lease)
        ]


def _handle(pv: PersistentVolume) -> str:
    assert pv.spec.csi is not None
    return pv.spec.csi.volume_handle


def _claim_uid(pv: PersistentVolume) -> str:
    assert pv.spec.claim_ref is not None
    return pv.spec.claim_ref.uid


def _zone(pv: PersistentVolume) -> str:
    affinity = pv.spec.node_affinity
    assert affinity is not None
    assert affinity.required is not None
    (term,) = affinity.required.node_selector_terms or ()
    (expression,) = term.match_expressions or ()
    assert expression.key == ZONE
    (zone,) = expression.values or ()
    return zone


async def side_by_side(works: Iterable[Any]) -> None:
    """`MAKERS` at a time."""
    turns = asyncio.Semaphore(MAKERS)

    async def one(work: Any) -> None:
        async with turns:
            await work

    async with asyncio.TaskGroup() as group:
        for number, work in enumerate(works):
            group.create_task(one(work), name=f"maker/{number}")
