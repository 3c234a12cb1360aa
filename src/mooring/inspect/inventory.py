"""One look at driver and cluster, in the order in which nothing that is just being made or deleted looks like an
orphan.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS
from mooring.api.meta import Kind
from mooring.api.pods import PODS, Pod
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshotContent
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.base.clock import Clock
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.facts import (
    CannotLook,
    Claim,
    Inventory,
    ListedVolume,
    Object,
    attachment_of,
    claimless,
    claims_of,
    intents_of,
    object_of,
    own_disks_of,
    own_volumes_of,
    snapshots_of,
)
from mooring.inspect.unsettled import Unsettled, unsettled_of
from mooring.kube.cluster import EVERYTHING, Cluster, Selection
from mooring.kube.errors import NotServed
from mooring.kube.list_all import list_all
from mooring.sidecars.provisioner.intents import lease_codec

PAGES_MAX: Final = 10_000

T = TypeVar("T")


class Scanner(msgspec.Struct, frozen=True):
    """place: the segments of the driver's own node, {} when it does not say. timeout_s: of each call to the driver."""

    cluster: Cluster
    driver: Driver
    clock: Clock
    driver_name: str
    place: Mapping[str, str]
    timeout_s: float

    async def scan(self) -> Inventory:
        """PersistentVolumes are read first and last: volumes that waited for theirs have them. Raises ApiError,
        DriverError, CannotLook.
        """
        before = await self._objects()
        volumes = tuple([volume async for volume in listed_volumes(self.driver, self.timeout_s)])
        journal = await _all(self.cluster, LEASES.whole(), Selection(label_selector=lease_codec.INTENTS))
        intents = tuple(intents_of(journal, self.driver_name, self.clock.wall_s()))
        pods, claims = await self._pods(volumes, before), await self._claims()
        contents = await self._if_served(VOLUME_SNAPSHOT_CONTENTS)
        return Inventory(
            driver=self.driver_name,
            volumes=volumes,
            objects_before=before,
            place=self.place,
            attachments=tuple(map(attachment_of, await _all(self.cluster, VOLUME_ATTACHMENTS))),
            claims=claims,
            snapshots=dict(snapshots_of(contents, self.driver_name)),
            pods={handle: name for pod in pods for handle, name in own_volumes_of(pod, self.driver_name)},
            disks={handle: name for pod in pods for handle, name in own_disks_of(pod, self.driver_name)},
            claimless=tuple(claimless(pods, claims)),
            intents=tuple(intent for intent, _ in intents),
            idle=frozenset(intent.uid for intent, is_idle in intents if is_idle),
            unsettled=await self._unsettled(contents),
            objects=await self._objects(),
        )

    async def scan_snapshots(self) -> Inventory:
        """The inventory for a driver that lists no volumes. Raises ApiError."""
        unsettled = await self._unsettled(await self._if_served(VOLUME_SNAPSHOT_CONTENTS))
        return Inventory(driver=self.driver_name, volumes=(), objects_before=(), objects=(), unsettled=unsettled)

    async def _unsettled(self, contents: Iterable[VolumeSnapshotContent]) -> tuple[Unsettled, ...]:
        groups = await self._if_served(GROUP_SNAPSHOT_CONTENTS)
        return tuple(unsettled_of(contents, groups, self.driver_name, self.clock.wall_s()))

    async def _objects(self) -> tuple[Object, ...]:
        return tuple([object_of(pv, self.driver_name) for pv in await _all(self.cluster, PERSISTENT_VOLUMES)])

    async def _claims(self) -> tuple[Claim, ...]:
        claims = await _all(self.cluster, PERSISTENT_VOLUME_CLAIMS)
        return tuple(claims_of(claims, await _all(self.cluster, STORAGE_CLASSES)))

    async def _if_served(self, kind: Kind[T]) -> list[T]:
        """All objects of the kind, [] for one that the cluster does not serve."""
        try:
            return await _all(self.cluster, kind)
        except NotServed:
            return []

    async def _pods(self, volumes: Collection[ListedVolume], objects: Collection[Object]) -> list[Pod]:
        """Pods are many, so they are asked for only where a volume has no PersistentVolume of its handle."""
        named = {found.handle for found in objects}
        return [] if all(volume.handle in named for volume in volumes) else await _all(self.cluster, PODS)


async def listed_volumes(driver: Driver, timeout_s: float) -> AsyncIterator[ListedVolume]:
    token, seen = "", set()
    for _ in range(PAGES_MAX):
        answer = await driver.list_volumes(csi.ListVolumesRequest(starting_token=token), Call(timeout_s))
        for entry in answer.entries:
            if entry.volume.volume_id not in seen:
                seen.add(entry.volume.volume_id)
                yield _volume(entry)
        token = answer.next_token
        if not token:
            return
    raise CannotLook(f"the driver's list of volumes does not end: {PAGES_MAX} pages")


def _volume(entry: csi.ListVolumesResponse.Entry) -> ListedVolume:
    listed, nodes = entry.volume, tuple(node_id for node_id in entry.status.published_node_ids if node_id)
    return ListedVolume(listed.volume_id, listed.capacity_bytes, tuple(listed.volume_context.values()), nodes)


async def _all(cluster: Cluster, kind: Kind[T], selection: Selection = EVERYTHING) -> list[T]:
    return [found async for found in list_all(cluster, kind, selection)]
