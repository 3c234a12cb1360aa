"""Lists, page by page, and capacity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.conform.asker import Asker
from mooring.conform.book.answers import SIGN
from mooring.conform.book.lists import BAD_TOKEN, FILTER, LACKS
from mooring.conform.check import Chapter
from mooring.conform.checks.snapshots import SNAPSHOTS, a_snapshot
from mooring.conform.life import CREATES, create, delete
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CHAPTER = Chapter()

_C: Final = "Controller Service [Controller Server] > "
_S: Final = "ListSnapshots [Controller Server] > "
_VOLUMES: Final = "Controller.LIST_VOLUMES"
_LISTS: Final = "Controller.LIST_SNAPSHOTS"
PAGES_MAX: Final = 10_000


async def listed(asker: Asker, page: int = 0) -> set[str]:
    """The ids of all volumes. page: the most entries of one."""
    request = csi.ListVolumesRequest(max_entries=page)
    return {
        entry.volume.volume_id
        for answer in await pages(asker, Driver.list_volumes, request)
        for entry in answer.entries
    }


async def snapshots(asker: Asker, page: int = 0, **filters: Any) -> set[str]:
    request = csi.ListSnapshotsRequest(max_entries=page, **filters)
    return {
        entry.snapshot.snapshot_id
        for answer in await pages(asker, Driver.list_snapshots, request)
        for entry in answer.entries
    }


async def pages(asker: Asker, rpc: Any, request: Any) -> list[Any]:
    """Ends at a token that came before, which the book has found by then."""
    answers: list[Any] = []
    tokens: set[str] = set()
    while len(answers) < PAGES_MAX:
        answers.append(await asker.must(rpc, request))
        token = answers[-1].next_token
        if not token or token in tokens:
            break
        tokens.add(token)
        request = type(request).FromString(request.SerializeToString())
        request.starting_token = token
    return answers


@CHAPTER.check(LACKS, _VOLUMES, sanity=f"{_C}ListVolumes > should return appropriate values (no optional values added)")
async def list_volumes(asker: Asker) -> None:
    """ListVolumes answers."""
    await listed(asker)


@CHAPTER.check(BAD_TOKEN, _VOLUMES, sanity=f"{_C}ListVolumes > should fail when an invalid starting_token is passed")
async def list_with_bad_token(asker: Asker) -> None:
    """ListVolumes refuses a starting_token that it did not give with Aborted."""
    request = csi.ListVolumesRequest(starting_token="invalid-token")
    await asker.refused(Driver.list_volumes, request, BAD_TOKEN, Code.ABORTED, why="nobody gave this token")


@CHAPTER.check(
    LACKS,
    CREATES,
    _VOLUMES,
    sanity=f"{_C}ListVolumes > check the presence of new volumes and absence of deleted ones in the volume list",
)
async def list_what_there_is(asker: Asker) -> None:
    """ListVolumes has new volumes, and none that is deleted."""
    await asker.shared()
    volumes = [await create(asker, asker.a_volume()) for _ in range(3)]
    await _lists_all(asker, volumes, page=0)
    await delete(asker, volumes[0])
    if volumes[0].volume_id in await listed(asker):
        found_text = f"volume {volumes[0].volume_id!r} is deleted, and listed"
        asker.finds(LACKS, Driver.list_volumes, csi.ListVolumesRequest(), found_text)


@CHAPTER.check(LACKS, CREATES, _VOLUMES)
async def list_page_by_page(asker: Asker) -> None:
    """ListVolumes has all volumes on pages of one entry, too."""
    await _lists_all(asker, [await create(asker, asker.a_volume()) for _ in range(3)], page=1)


async def _lists_all(asker: Asker, volumes: list[csi.Volume], page: int) -> None:
    """And all others of this run: a list may lack what was made first."""
    found = await listed(asker, page)
    missing = ({volume.volume_id for volume in volumes} | asker.made.volumes()) - found
    if missing:
        request = csi.ListVolumesRequest(max_entries=page)
        asker.finds(LACKS, Driver.list_volumes, request, f"volume {min(missing)!r} exists, and is on no page")


@CHAPTER.check(
    SIGN, "Controller.GET_CAPACITY", sanity=f"{_C}GetCapacity > should return capacity (no optional values added)"
)
async def capacity(asker: Asker) -> None:
    """GetCapacity answers."""
    await asker.must(Driver.get_capacity, csi.GetCapacityRequest())


@CHAPTER.check(LACKS, _LISTS, sanity=f"{_S}should return appropriate values (no optional values added)")
async def list_snapshots(asker: Asker) -> None:
    """ListSnapshots answers."""
    await snapshots(asker)


@CHAPTER.check(
    LACKS,
    CREATES,
    SNAPSHOTS,
    _LISTS,
    sanity=(
        f"{_S}check the presence of new snapshots in the snapshot list",
        f"{_S}should return next token when a limited number of entries are requested",
        f"{_S}should return snapshots that match the specified snapshot id",
        f"{_S}should return snapshots that match the specified source volume id",
    ),
)
async def list_what_snapshots_there_are(asker: Asker) -> None:
    """ListSnapshots has new snapshots: on all pages, by their ids and by their volumes; and none that is deleted."""
    volumes = [await create(asker, asker.a_volume()) for _ in range(3)]
    made = [
        (await asker.must(Driver.create_snapshot, a_snapshot(asker, volume))).snapshot.snapshot_id for volume in volumes
    ]
    for page in (0, 1):
        _miss(asker, set(made) - await snapshots(asker, page), {"page": page})
    for volume, snapshot in zip(volumes, made, strict=True):
        filters: tuple[dict[str, Any], ...] = ({"source_volume_id": volume.volume_id}, {"snapshot_id": snapshot})
        for one in filters:
            _miss(asker, {snapshot} - await snapshots(asker, **one), one)
    await asker.must(Driver.delete_snapshot, csi.DeleteSnapshotRequest(snapshot_id=made[0]))
    if made[0] in await snapshots(asker):
        asker.finds(
            LACKS, Driver.list_snapshots, csi.ListSnapshotsRequest(), f"snapshot {made[0]!r} is deleted, and listed"
        )


@CHAPTER.check(LACKS, CREATES, SNAPSHOTS, _LISTS)
async def list_snapshots_of_a_volume(asker: Asker) -> None:
    """ListSnapshots by source_volume_id has all snapshots of the volume."""
    volume = await create(asker, asker.a_volume())
    made = {
        (await asker.must(Driver.create_snapshot, a_snapshot(asker, volume))).snapshot.snapshot_id for _ in range(3)
    }
    of_it: dict[str, Any] = {"source_volume_id": volume.volume_id}
    _miss(asker, made - await snapshots(asker, **of_it), of_it)


def _miss(asker: Asker, missing: set[str], fields: Mapping[str, Any]) -> None:
    if missing:
        filters = {("max_entries" if name == "page" else name): value for name, value in fields.items()}
        found = f"snapshot {min(missing)!r} exists, and is on no page"
        asker.finds(LACKS, Driver.list_snapshots, csi.ListSnapshotsRequest(**filters), found)


@CHAPTER.check(
    FILTER,
    _LISTS,
    sanity=(
        f"{_S}should return empty when the specified snapshot id does not exist",
        f"{_S}should return empty when the specified source volume id does not exist",
    ),
)
async def list_unknown_snapshots(asker: Asker) -> None:
    """ListSnapshots answers OK with no entries for ids that do not exist."""
    unknown: tuple[dict[str, Any], ...] = (
        {"snapshot_id": "conform-no-such-snapshot"},
        {"source_volume_id": "conform-no-such-volume"},
    )
    for filters in unknown:
        await asker.must(Driver.list_snapshots, csi.ListSnapshotsRequest(**filters), FILTER)
