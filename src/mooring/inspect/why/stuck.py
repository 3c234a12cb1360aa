"""All that is stuck, the worst first: one chain for each object that is not where it is to be."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from mooring.api.binding import amount, claims_of, is_finished, request_of
from mooring.api.core import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.meta import Key, Kind, is_deleting, key_of
from mooring.api.nodes import is_ready
from mooring.api.pods import PODS, Pod
from mooring.api.snapshot import VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.inspect.objects import ALIASES, NotThere
from mooring.inspect.reading import Reading
from mooring.inspect.scene_requests import SEEN_EVENTS
from mooring.inspect.why.chain import Chain, State
from mooring.inspect.why.chains import explained, refused_link
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.errors import Forbidden, NotFound, NotServed
from mooring.kube.list_all import list_all

_CREATED: Final[Mapping[str, Kind[Any]]] = {kind.plural: kind for kind in (PERSISTENT_VOLUME_CLAIMS, PODS)}
_REFUSED: Final = re.compile(r'(persistentvolumeclaims|pods) "([\w.-]+)" is forbidden')
FOUND_MAX: Final = 200
"""How many objects are explained; more of them have few causes."""


class Stuck:
    """namespace: None for all. refused: the kinds that the API server did not show."""

    def __init__(self, cluster: Cluster, now_s: float, namespace: str | None) -> None:
        self._cluster, self._now_s, self._namespace = cluster, now_s, namespace
        self.refused: list[str] = []

    async def chains(self) -> list[Chain]:
        """The chains that failed before those that wait, and the longest first. Raises ApiError, and NotThere for a
        namespace that does not exist.
        """
        found = [
            chain async for kind, key in self._suspects() if (chain := await self._explained(kind, key)) is not None
        ]
        found += [chain async for chain in self._refused()]
        if not found and self._namespace is not None:
            await self._check_namespace(self._namespace)
        return sorted(found, key=_urgency)

    async def _check_namespace(self, name: str) -> None:
        """In a namespace that is misspelt nothing is stuck, either. Raises NotThere."""
        with contextlib.suppress(Forbidden):
            try:
                await self._cluster.get(NAMESPACES, name)
            except NotFound:
                raise NotThere(f'namespace "{name}" does not exist') from None

    async def _explained(self, kind: str, key: Key) -> Chain | None:
        try:
            chain = await explained(Reading(self._cluster, self._now_s), kind, key)
        except NotThere:
            return None  # gone since it was listed
        return chain if chain.blocking is not None else None

    async def _suspects(self) -> AsyncIterator[tuple[str, Key]]:
        """The objects that may be stuck. A pod's chain tells of its claims: they come alone only if they grow."""
        told: set[Key] = set()
        count = 0
        async for pod in self._all(PODS, _is_stuck_pod, namespaced=True):
            told.update(claims_of(pod))
            yield "pod", key_of(pod)
            count += 1
            if count >= FOUND_MAX:
                return
        async for claim in self._all(PERSISTENT_VOLUME_CLAIMS, _is_stuck_claim, namespaced=True):
            if key_of(claim) not in told or _is_growing(claim):
                yield "pvc", key_of(claim)
        async for snapshot in self._all(VOLUME_SNAPSHOTS, _is_stuck_snapshot, namespaced=True):
            yield "volumesnapshot", key_of(snapshot)
        if self._namespace is None:
            async for pv in self._all(PERSISTENT_VOLUMES, _is_stuck_volume):
                yield "pv", key_of(pv)
            async for attachment in self._all(VOLUME_ATTACHMENTS, _is_stuck_attachment):
                yield "volumeattachment", key_of(attachment)
            async for node in self._all(NODES, _is_stuck_node):
                yield "node", key_of(node)

    async def _refused(self) -> AsyncIterator[Chain]:
        """The claims and pods of workloads that the API server did not let come to be."""
        chosen, seen = (
            Selection(namespace=self._namespace, field_selector="reason=FailedCreate"),
            set[tuple[str, Key]](),
        )
        with contextlib.suppress(Forbidden):
            events = [event async for event in list_all(self._cluster, SEEN_EVENTS, chosen)]
            for event in sorted(events, key=lambda one: one.last_s, reverse=True):
                named = _REFUSED.search(event.message)
                if named is None:
                    continue
                kind, key = _CREATED[named[1]], Key(event.metadata.namespace, named[2])
                if (kind.name, key) not in seen:
                    seen.add((kind.name, key))
                    if not await self._is_there(kind, key):
                        yield Chain(f"{ALIASES[kind.plural]} {key}", (refused_link(event, key),))

    async def _is_there(self, kind: Kind[Any], key: Key) -> bool:
        try:
            await self._cluster.get(kind, key.name, key.namespace)
        except NotFound:
            return False
        return True

    async def _all(self, kind, is_stuck, *, namespaced: bool = False):  # type: ignore[no-untyped-def]
        chosen = Selection(namespace=self._namespace if namespaced else None)
        try:
            async for one in list_all(self._cluster, kind, chosen):
                if is_stuck(one):
                    yield one
        except (Forbidden, NotServed) as error:
            self.refused.append(f"{kind.plural}: {error}")


def _urgency(chain: Chain) -> tuple[bool, float, str]:
    link = chain.blocking
    assert link is not None
    return link.state is not State.FAILED, link.since_s or float("inf"), chain.subject


def _is_stuck_pod(pod: Pod) -> bool:
    if is_finished(pod) or not claims_of(pod):
        return False
    statuses = pod.status.container_statuses or ()
    return is_deleting(pod) or not any(one.state.running or one.state.terminated for one in statuses)


def _is_stuck_claim(claim: PersistentVolumeClaim) -> bool:
    return is_deleting(claim) or claim.status.phase != "Bound" or _is_growing(claim)


def _is_growing(claim: PersistentVolumeClaim) -> bool:
    has = amount((claim.status.capacity or {}).get("storage", ""))
    return not is_deleting(claim) and claim.status.phase == "Bound" and request_of(claim) > has


def _is_stuck_snapshot(snapshot: VolumeSnapshot) -> bool:
    return is_deleting(snapshot) or not (snapshot.status and snapshot.status.ready_to_use)


def _is_stuck_volume(pv: PersistentVolume) -> bool:
    return is_deleting(pv) or pv.status.phase in ("Released", "Failed")


def _is_stuck_attachment(attachment: VolumeAttachment) -> bool:
    status = attachment.status
    return is_deleting(attachment) or not status.attached or status.detach_error is not None


def _is_stuck_node(node: Node) -> bool:
    """A node that may still write to volumes, and does not report."""
    return not is_ready(node) and bool(node.status.volumes_attached)
