"""Many growths and snapshots at once: what is wished for, what must have come of it, and the programs that see to it
meanwhile.

One growth in ten is too large for the array, one snapshot in ten is of a class that the array refuses, and one of a
claim that nobody has: these fail, and an event says why. A `GrowthStorm` judges by what the API server and the array
have.
"""

from __future__ import annotations

import abc
import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from mooring.api.core import EVENTS
from mooring.api.quantity import parse_quantity
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import BEING_CREATED
from mooring.dev.extras import install
from mooring.kube.cluster import Cluster
from tests.e2e.storms import Replica, Replicas, side_by_side
from tests.support.binding import PV, PVC, Tenant
from tests.support.builders import Json, a_claim, a_class, a_new_snapshot, a_snapshot_class
from tests.support.unreliable_array import NO_POOL, TOO_LARGE, UnreliableArray

VS, VSC = VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS
HUGE_GI: Final = 1 << 20
NO_CLAIM: Final = "failed to retrieve PVC"
WAY_OUT: Final = f"take the annotation {BEING_CREATED} off"


class GrowthStorm(abc.ABC):
    """cluster: as everybody else reaches it. count: of growths, and of snapshots. programs: how many replicas of each
    there are.
    """

    SETTLES_BY_HAND: ClassVar[bool] = False
    """True where there is no time for the driver's list, which counts after five minutes, to settle what an
    unanswered request has made.
    """

    def __init__(
        self,
        cluster: Cluster,
        driver: UnreliableArray,
        count: int,
        programs: Mapping[str, int],
        *,
        wait_s: float,
        look_s: float,
    ) -> None:
        self.world = Tenant(cluster, wait_s=wait_s, look_s=look_s)
        self.driver, self.count = driver, count
        self._cluster, self._counts = cluster, programs
        self._programs = {name: Replicas(self.world, self._maker(name)) for name in programs}

    @abc.abstractmethod
    def a_replica(self, program: str, number: int) -> Replica: ...

    def _maker(self, program: str) -> Callable[[int], Replica]:
        return lambda number: self.a_replica(program, number)

    # -- the programs

    def add_replicas(self) -> None:
        for name, replicas in self._programs.items():
            for _ in range(self._counts[name]):
                replicas.add()

    async def kill_leaders(self) -> None:
        """Of each program, one after the other."""
        for replicas in self._programs.values():
            await replicas.kill_leader()

    async def kill_all(self) -> None:
        for replicas in self._programs.values():
            await replicas.kill_all()

    def assert_alive(self) -> None:
        for replicas in self._programs.values():
            replicas.assert_alive()

    # -- what is wished for

    async def prepare(self) -> None:
        """Kinds, classes, and a bound claim for each number."""
        await install(self._cluster)
        await self.world.until(lambda: self._cluster.serves(VSC), what="the kinds of snapshots are served")
        await self.world.create(a_class(self.world("sc"), provisioner=self.driver.name, allowVolumeExpansion=True))
        await self.world.create(a_snapshot_class(self.world("good"), driver=self.driver.name))
        await self.world.create(
            a_snapshot_class(self.world("refused"), driver=self.driver.name, parameters={"pool": "none"})
        )
        await side_by_side(
            self.world.create(a_claim(self._claim(number), sc=self.world("sc"))) for number in range(self.count)
        )
        await self._until_all_are_bound()

    async def _until_all_are_bound(self) -> None:
        async def are_bound() -> bool:
            self.assert_alive()
            return all(one["status"].get("phase") == "Bound" for one in await self.world.list(PVC))

        await self.world.until(are_bound, what=f"all are bound\n{self.driver.codes}")

    async def wish(self) -> None:
        """All at once."""
        await side_by_side(self._wish(number) for number in range(self.count))

    async def _wish(self, number: int) -> None:
        snapshot_class = self.world("refused" if _is_refused(number) else "good")
        claim = "nobodys" if _is_of_nobody(number) else self._claim(number)
        await asyncio.gather(
            self.world.create(a_new_snapshot(self._snap(number), claim=claim, snapshot_class=snapshot_class)),
            self.world.patch(
                PVC, self._claim(number), {"spec": {"resources": {"requests": {"storage": f"{_wanted_gi(number)}Gi"}}}}
            ),
        )

    def _claim(self, number: int) -> str:
        return self.world(f"c{number}")

    def _snap(self, number: int) -> str:
        return self.world(f"s{number}")

    async def done(self, share: float) -> None:
        """At least this share of what can come true has."""

        async def enough() -> bool:
            self.assert_alive()
            grown, ready = await self._grown(), await self._ready()
            return min(len(grown) / len(self._to_grow()), len(ready) / len(self._to_make())) >= share

        await self.world.until(enough, what=f"{share:.0%} have grown and are ready\n{self.driver.codes}")

    def _to_grow(self) -> set[str]:
        return {self._claim(number) for number in range(self.count) if not _is_huge(number)}

    def _to_make(self) -> set[str]:
        return {
            self._snap(number) for number in range(self.count) if not (_is_refused(number) or _is_of_nobody(number))
        }

    async def _grown(self) -> set[str]:
        return {
            one["metadata"]["name"] for one in await self.world.list(PVC) if parse_quantity(_size(one)).whole > 1 << 30
        }

    async def _ready(self) -> set[str]:
        return {
            one["metadata"]["name"] for one in await self.world.list(VS) if (one.get("status") or {}).get("readyToUse")
        }

    # -- judging

    async def judge(self) -> None:
        """Each has what it asked for, or an event says why not; and the array has what the cluster has."""
        assert (self._to_grow(), self._to_make()) == (await self._grown(), await self._ready())
        try:
            await self.world.until(self._failures_are_told, what="events about all that failed")
        except AssertionError as error:
            error.add_note(f"not told: {await self._untold()}")
            raise
        claims = {one["metadata"]["name"]: one for one in await self.world.list(PVC)}
        volumes = {one["spec"]["claimRef"]["name"]: one for one in await self.world.list(PV)}
        assert claims.keys() == volumes.keys()
        for number in range(self.count):
            wanted = 1 if _is_huge(number) else _wanted_gi(number)
            name = self._claim(number)
            size = self.driver.volumes[_handle(volumes[name])].size
            capacity = volumes[name]["spec"]["capacity"]["storage"]
            assert (f"{wanted}Gi", f"{wanted}Gi", wanted << 30) == (_size(claims[name]), capacity, size), name
        await self._judge_snapshots({name: _handle(volume) for name, volume in volumes.items()})
        again = {name: times for name, times in self.driver.made.items() if times > 1}
        assert {} == again, "made more than once"

    async def _judge_snapshots(self, volumes: Mapping[str, str]) -> None:
        """volumes: handles, by the claims' names."""
        made = [one for one in await self.world.list(VSC) if (one.get("status") or {}).get("snapshotHandle")]
        of_cluster = {one["status"]["snapshotHandle"]: one["spec"]["volumeSnapshotRef"]["name"] for one in made}
        assert self._to_make() == set(of_cluster.values())
        sources = {self._snap(number): volumes[self._claim(number)] for number in range(self.count)}
        of_array = {handle: one.volume for handle, one in self.driver.snapshots.items()}
        assert {handle: sources[snapshot] for handle, snapshot in of_cluster.items()} == of_array

    async def _failures_are_told(self) -> bool:
        return not await self._untold()

    async def _untold(self) -> set[tuple[str, str]]:
        """Names and reasons of the events that are not there."""
        wanted = {
            **{
                self._claim(number): ("VolumeResizeFailed", TOO_LARGE)
                for number in range(self.count)
                if _is_huge(number)
            },
            **{
                self._snap(number): ("SnapshotCreationFailed", NO_POOL)
                for number in range(self.count)
                if _is_refused(number)
            },
            **{
                self._snap(number): ("SnapshotContentCreationFailed", NO_CLAIM)
                for number in range(self.count)
                if _is_of_nobody(number)
            },
        }
        contents = {
            one["metadata"]["name"]: one["spec"]["volumeSnapshotRef"]["name"] for one in await self.world.list(VSC)
        }
        told: dict[tuple[str, str], str] = defaultdict(str)
        for event in await self.world.list(EVENTS):
            told[_about(event, contents), event["reason"]] += event["message"]
        return {(name, reason) for name, (reason, text) in wanted.items() if text not in told[name, reason]}

    # -- the end

    async def end(self) -> None:
        """Deletes all snapshots and claims."""
        await side_by_side(self.world.delete(VS, self._snap(number)) for number in range(self.count))
        await side_by_side(self.world.delete(PVC, self._claim(number)) for number in range(self.count))

    async def _settle_by_hand(self) -> None:
        """As the event says: where the array has made nothing, the annotation goes."""
        names = {one.name for one in self.driver.snapshots.values()}
        told = {one["involvedObject"].get("uid") for one in await self.world.list(EVENTS) if WAY_OUT in one["message"]}
        for content in await self.world.list(VSC):
            snapshot, metadata = content["spec"]["volumeSnapshotRef"]["uid"], content["metadata"]
            is_open = BEING_CREATED in metadata.get("annotations", {}) and f"snapshot-{snapshot}" not in names
            if is_open and told & {snapshot, metadata["uid"]}:
                await self.world.patch(VSC, metadata["name"], {"metadata": {"annotations": {BEING_CREATED: None}}})

    async def over(self) -> None:
        """Nothing is left in the API and in the array."""
        left: dict[str, list[str]] = {}

        async def nothing() -> bool:
            self.assert_alive()
            if self.SETTLES_BY_HAND:
                await self._settle_by_hand()
            for kind in (VS, VSC, PVC, PV):
                left[kind.plural] = [
                    f"{one['metadata']['name']} {one['metadata'].get('finalizers')}"
                    for one in await self.world.list(kind)
                ]
            left["of the array"] = [*self.driver.volumes, *self.driver.snapshots]
            return not any(left.values())

        try:
            await self.world.until(nothing, what="all is gone")
        except AssertionError as error:
            error.add_note(str({what: (len(names), names[:5]) for what, names in left.items()}))
            raise


def _is_huge(number: int) -> bool:
    return number % 10 == 1


def _is_refused(number: int) -> bool:
    return number % 10 == 4


def _is_of_nobody(number: int) -> bool:
    return number % 10 == 7


def _wanted_gi(number: int) -> int:
    return HUGE_GI if _is_huge(number) else 2 + number % 5


def _size(claim: Json) -> str:
    return str(claim["status"].get("capacity", {}).get("storage", "0"))


def _handle(volume: Json) -> str:
    return str(volume["spec"]["csi"]["volumeHandle"])


def _about(event: Json, contents: Mapping[str, str]) -> str:
    """The name of the object, and of the snapshot for a content."""
    name = str(event["involvedObject"]["name"])
    return contents.get(name, name)
