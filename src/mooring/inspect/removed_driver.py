"""Looking for what a removed driver has left, and taking its attacher's finalizer off it.

    search = Search(cluster, clock, "csi.example.com")
    report = judged(await search.look())

The first look takes as long as the Leases of the driver's sidecars hold, where they have a holder: `renewals.py` says why.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.binding import claim_key, claims_of, is_finished
from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.meta import Key, Kind, Object, finalizers_of, key_of
from mooring.api.migration import driver_of
from mooring.api.names import sanitised
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.base.clock import Clock, Instant
from mooring.inspect.left_behind import HeldObject, LeftBehind, Traces, finalizer_of
from mooring.inspect.locks import lock_names
from mooring.inspect.renewals import Renewals
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.kube.list_all import list_all
from mooring.kube.patch import merge_patch

FRESH_S: Final = 3.0
"""How long a look is trusted while objects are released one by one."""
T = TypeVar("T")


class Search:
    """Looks at one driver. watching: is told how long the first look will take because of Leases. also: further Leases to look at.

    driver: "" for volumes that no CSI driver has; then there are only the further Leases.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        driver: str,
        watching: Callable[[str], None] = lambda text: None,
        also: Collection[str] = (),
    ) -> None:
        self._cluster, self._driver = cluster, driver
        locks = {*lock_names(driver), sanitised(f"external-health-monitor-leader-{driver}")} if driver else set()
        self._renewals = Renewals(cluster, clock, locks | {*also}, watching)

    async def look(self) -> Traces:
        """Raises ApiError. Leases come first: who took one since has written nothing by then that the rest would not show."""
        leases = await self._renewals.look()
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
            live_leases=leases.live,
            silent_leases=leases.silent,
            last_renewals=leases.last,
            out_of_service=frozenset(
                one.metadata.name for one in nodes if is_out_of_service(one) and not is_ready(one)
            ),
        )

    def _is_on(self, csi_node: CSINode) -> bool:
        return any(one.name == self._driver for one in csi_node.spec.drivers or ())

    async def _all(self, kind: Kind[T]) -> list[T]:
        return [found async for found in list_all(self._cluster, kind)]


class FinalizerRelease(msgspec.Struct, frozen=True):
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
            problem = (
                "an attachment of it could not be released" if one.after & stayed else await self._release(one, report)
            )
            if problem:
                stayed.add(one.name)
            yield one, problem

    async def _release(self, one: HeldObject, report: LeftBehind) -> str:
        if report.obstacles:
            return f"the driver is back: {report.obstacles[0].text}"
        now = next((found for found in report.held if found.key == one.key), None)
        return "" if now is None else now.kept or await self._take_off(now, finalizer_of(report.driver))

    async def _take_off(self, one: HeldObject, finalizer: str) -> str:
        kind = VOLUME_ATTACHMENTS if isinstance(one.obj, VolumeAttachment) else PERSISTENT_VOLUMES
        try:
            await take_off(self.cluster, kind, one.obj, (finalizer,))
        except Conflict:
            return "somebody has changed it meanwhile: look again"
        except ApiError as error:
            return str(error)
        return ""


async def take_off(cluster: Cluster, kind: Kind[Any], obj: Object, finalizers: Collection[str]) -> None:
    """Takes them off the very version that was judged: a writer since then may have begun to attach the volume. Raises ApiError."""
    left = [held for held in finalizers_of(obj) if held not in finalizers]
    body = {"metadata": {"finalizers": left, "resourceVersion": obj.metadata.resource_version}}
    with contextlib.suppress(NotFound):
        await cluster.patch(kind, obj.metadata.name, merge_patch(body, of=obj), obj.metadata.namespace)


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
