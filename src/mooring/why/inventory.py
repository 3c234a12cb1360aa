"""One look at driver and cluster, in the order in which nothing that is just being made or deleted looks like an orphan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, TypeVar

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Kind
from mooring.api.migration import is_migratable, translated
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import parse_rfc3339
from mooring.base.errors import MooringError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.errors import NotFound
from mooring.provisioner import pages
from mooring.provisioner.intents import Intent
from mooring.why.orphans import Inventory, Object, Volume

PAGE: Final = 500
PAGES_MAX: Final = 10_000

T = TypeVar("T")


class CannotLook(MooringError):
    """The look would not show everything, so it shows nothing."""


async def inventory(cluster: Cluster, driver: Driver, driver_name: str, timeout_s: float) -> Inventory:
    """Objects, then volumes, then objects and whatever else names volumes. Raises ApiError, DriverError, CannotLook."""
    before = await _objects(cluster)
    volumes = tuple([volume async for volume in _volumes(driver, timeout_s)])
    intents = await _intents(cluster, driver_name)  # before the objects: an intent ends when its object is there
    return Inventory(
        driver=driver_name,
        volumes=volumes,
        objects_before=before,
        objects=await _objects(cluster),
        attached=dict([pair async for pair in _attached(cluster)]),
        snapshots=dict([pair async for pair in _snapshots(cluster, driver_name)]),
        intents=intents,
    )


async def _volumes(driver: Driver, timeout_s: float) -> AsyncIterator[Volume]:
    token, seen = "", set()
    for _ in range(PAGES_MAX):
        answer = await driver.list_volumes(csi.ListVolumesRequest(starting_token=token), Call(timeout_s))
        for entry in answer.entries:
            listed = entry.volume
            if listed.volume_id in seen:
                continue
            seen.add(listed.volume_id)
            words = tuple(listed.volume_context.values())
            yield Volume(listed.volume_id, listed.capacity_bytes, words, tuple(entry.status.published_node_ids))
        token = answer.next_token
        if not token:
            return
    raise CannotLook(f"the driver's list of volumes does not end: {PAGES_MAX} pages")


async def _all(cluster: Cluster, kind: Kind[T], selection: Selection | None = None) -> list[T]:
    found: list[T] = []
    token = ""
    while True:
        page = await cluster.list(kind, selection or Selection(), limit=PAGE, continue_token=token)
        found += page.items
        token = page.continue_token
        if not token:
            return found


async def _objects(cluster: Cluster) -> tuple[Object, ...]:
    return tuple(found for pv in await _all(cluster, PERSISTENT_VOLUMES) for found in _object(pv))


def _object(pv: PersistentVolume) -> Iterator[Object]:
    """Nothing for a volume of no CSI driver. Raises CannotLook for one whose handle can't be told."""
    source = pv.spec.csi
    if source is None and is_migratable(pv.spec):
        try:
            source = translated(pv).csi
        except (MooringError, ValueError) as error:
            raise CannotLook(f"the in-tree PersistentVolume {pv.metadata.name} can't be read as a CSI volume: {error}") from error
    if source is None:
        return
    ref, created = pv.spec.claim_ref, pv.metadata.creation_timestamp
    yield Object(
        name=pv.metadata.name,
        driver=source.driver,
        handle=source.volume_handle,
        size=(pv.spec.capacity or {}).get("storage", ""),
        claim="" if ref is None else f"{ref.namespace}/{ref.name}",
        phase=pv.status.phase,
        created_wall_s=None if created is None else parse_rfc3339(created),
    )


async def _attached(cluster: Cluster) -> AsyncIterator[tuple[str, str]]:
    """Volumes that an attachment names itself, without a PersistentVolume."""
    for attachment in await _all(cluster, VOLUME_ATTACHMENTS):
        inline = attachment.spec.source.inline_volume_spec
        if inline is not None and inline.csi is not None:
            yield inline.csi.volume_handle, attachment.metadata.name


async def _snapshots(cluster: Cluster, driver_name: str) -> AsyncIterator[tuple[str, str]]:
    """Volumes that snapshots are to be taken from."""
    try:
        contents = await _all(cluster, VOLUME_SNAPSHOT_CONTENTS)
    except NotFound:  # a cluster without snapshots
        return
    for content in contents:
        if content.spec.driver == driver_name and content.spec.source.volume_handle:
            yield content.spec.source.volume_handle, content.metadata.name


async def _intents(cluster: Cluster, driver_name: str) -> tuple[Intent, ...]:
    """What provisioners of this driver have begun, in any namespace. Raises CannotLook when a journal can't be read."""
    leases: list[dict[str, Any]] = await _all(cluster, LEASES.whole(), Selection(label_selector=pages.JOURNAL_LABEL))
    found: list[Intent] = []
    for lease in leases:
        meta = lease["metadata"]
        if (meta.get("annotations") or {}).get(pages.DRIVER) != driver_name:
            continue
        try:
            found += pages.entries_of(lease)
        except pages.UnreadablePage as error:
            raise CannotLook(f"the journal of intents in Lease {meta['namespace']}/{meta['name']} can't be read: {error}") from error
    return tuple(found)
