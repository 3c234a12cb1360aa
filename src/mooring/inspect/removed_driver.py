"""Looking for what a removed driver has left, and taking its attacher's finalizer off it.

    search = Search(cluster, clock, "csi.example.com")
    report = judged(await search.look())

A Lease is dead when it has not changed for as long as it says it holds, by our own clock: renewal times are others' clocks. So the first
look takes that long where a Lease has a holder; later ones only compare.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from mooring.api.binding import claim_key, claims_of, is_finished
from mooring.api.coordination import LEASES
from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Kind, finalizers_of, key_of
from mooring.api.migration import driver_of
from mooring.api.names import sanitised
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.base.clock import Clock, Instant
from mooring.base.units import format_duration
from mooring.control.lease.record import LeaseRecord, LeaseTimes, record_of
from mooring.inspect.left_behind import HeldObject, LeftBehind, LiveLease, Traces, finalizer_of
from mooring.inspect.locks import lock_names
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.kube.list_all import list_all
from mooring.kube.patch import merge_patch

LEASE_S_MAX: Final = 120.0
"""A Lease that holds for longer counts as held: nobody waits for its end."""
FRESH_S: Final = 3.0
"""How long a look is trusted while objects are released one by one."""
T = TypeVar("T")


class Search:
    """Looks at one driver. watching: is told how long the first look will take because of Leases."""

    def __init__(self, cluster: Cluster, clock: Clock, driver: str, watching: Callable[[str], None] = lambda text: None) -> None:
        self._cluster, self._clock, self._driver, self._watching = cluster, clock, driver, watching
        self._locks = {*lock_names(driver), sanitised(f"external-health-monitor-leader-{driver}")}
        self._dead: Mapping[str, LeaseRecord] | None = None  # as they were at the first look: still so, they have run out

    async def look(self) -> Traces:
        """Raises ApiError. Leases come first: who took one since has written nothing by then that the rest would not show."""
        live = tuple(await self._live_leases())
        nodes, claims = await self._all(NODES), await self._all(PERSISTENT_VOLUME_CLAIMS)
        pods = await self._all(PODS)
        volumes = tuple(pv for pv in await self._all(PERSISTENT_VOLUMES) if driver_of(pv) == self._driver)
        return Traces(
            driver=self._driver,
            is_installed=any(one.metadata.name == self._driver for one in await self._all(CSI_DRIVERS)),
            registered_on=tuple(one.metadata.name for one in await self._all(CSI_NODES) if self._is_on(one)),
            in_use=dict(map(_in_use, nodes)),
            attachments=tuple(one for one in await self._all(VOLUME_ATTACHMENTS) if one.spec.attacher == self._driver),
            volumes=volumes,
            users=_users(volumes, pods, claims),
            live_leases=live,
        )

    async def _live_leases(self) -> Iterator[LiveLease]:
        held = await self._held_leases()
        if self._dead is None:
            self._dead = {name: record for name, record in held.items() if record.duration_s <= LEASE_S_MAX}
            if self._dead:
                await self._wait_for(self._dead)
                held = await self._held_leases()
        dead = self._dead
        return (_live(name, record) for name, record in sorted(held.items()) if dead.get(name) != record)

    async def _wait_for(self, held: Mapping[str, LeaseRecord]) -> None:
        wait_s = max(record.duration_s or LeaseTimes().lease_s for record in held.values())
        self._watching(f"looking for {format_duration(wait_s)} whether {', '.join(sorted(held))} is still renewed")
        await self._clock.sleep(wait_s)

    async def _held_leases(self) -> Mapping[str, LeaseRecord]:
        found = {str(_key_of(lease)): record_of(lease) async for lease in list_all(self._cluster, LEASES.whole()) if self._is_lock(lease)}
        return {name: record for name, record in found.items() if record.holder}

    def _is_lock(self, lease: Mapping[str, Any]) -> bool:
        return lease["metadata"]["name"] in self._locks

    def _is_on(self, csi_node: CSINode) -> bool:
        return any(one.name == self._driver for one in csi_node.spec.drivers or ())

    async def _all(self, kind: Kind[T]) -> list[T]:
        return [found async for found in list_all(self._cluster, kind)]


@dataclasses.dataclass(frozen=True, slots=True)
class FinalizerRelease:
    """look: gives a new report."""

    cluster: Cluster
    clock: Clock
    look: Callable[[], Awaitable[LeftBehind]]

    async def run(self, chosen: Sequence[HeldObject]) -> AsyncIterator[tuple[HeldObject, str]]:
        """Each object with what kept the finalizer on it, "" once it is off. Raises what looking raises."""
        report: LeftBehind | None = None
        looked_at: Instant = 0.0
        stayed: set[str] = set()
        for one in chosen:
            if report is None or self.clock.now() - looked_at > FRESH_S:
                report, looked_at = await self.look(), self.clock.now()
            problem = "an attachment of it could not be released" if one.after & stayed else await self._release(one, report)
            if problem:
                stayed.add(one.name)
            yield one, problem

    async def _release(self, one: HeldObject, report: LeftBehind) -> str:
        if report.obstacles:
            return f"the driver is back: {report.obstacles[0].text}"
        now = next((found for found in report.held if found.key == one.key), None)
        return "" if now is None else now.kept or await self._take_off(now, finalizer_of(report.driver))

    async def _take_off(self, one: HeldObject, finalizer: str) -> str:
        """It takes the very version that was judged: a writer since then may have begun to attach the volume."""
        meta, kind = one.obj.metadata, VOLUME_ATTACHMENTS if isinstance(one.obj, VolumeAttachment) else PERSISTENT_VOLUMES
        left = [held for held in finalizers_of(one.obj) if held != finalizer]
        body = {"metadata": {"finalizers": left, "resourceVersion": meta.resource_version}}
        try:
            await self.cluster.patch(kind, meta.name, merge_patch(body, of=one.obj))
        except NotFound:
            return ""
        except Conflict:
            return "somebody has changed it meanwhile: look again"
        except ApiError as error:
            return str(error)
        return ""


def _in_use(node: Node) -> tuple[str, frozenset[str]]:
    return node.metadata.name, frozenset(node.status.volumes_in_use or ())


def _users(
    volumes: Sequence[PersistentVolume], pods: Sequence[Pod], claims: Sequence[PersistentVolumeClaim]
) -> Mapping[str, tuple[str, ...]]:
    """A claim that was forced away leaves its pod with the volume."""
    uids = {key_of(claim): claim.metadata.uid for claim in claims}
    by_claim: dict[Key, list[str]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name and not is_finished(pod):
            for key in claims_of(pod):
                by_claim[key].append(f"pod {key_of(pod)} on {pod.spec.node_name}")
    bound = ((pv.metadata.name, pv.spec.claim_ref) for pv in volumes if pv.spec.claim_ref is not None)
    return {
        name: tuple(by_claim[claim_key(ref)])
        for name, ref in bound
        if claim_key(ref) in by_claim and (claim_key(ref) not in uids or ref.uid in ("", uids[claim_key(ref)]))
    }


def _live(name: str, record: LeaseRecord) -> LiveLease:
    too_long = record.duration_s > LEASE_S_MAX
    why = f"it holds for {format_duration(record.duration_s)}, which nobody waited for" if too_long else "it was renewed a moment ago"
    return LiveLease(name, record.holder, why)


def _key_of(lease: Mapping[str, Any]) -> Key:
    return Key(lease["metadata"].get("namespace", ""), lease["metadata"]["name"])
