"""Snapshots and groups of them."""

from __future__ import annotations

from typing import Final

from mooring.conform.asker import Asker
from mooring.conform.book.requests import FULL_NAME, UNKNOWN
from mooring.conform.book.snapshots import ANOTHER, DELETE_ABSENT, MEMBERS, OTHER_SOURCE, OUTLIVES
from mooring.conform.check import Chapter
from mooring.conform.life import CREATES, create
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CHAPTER = Chapter()

SNAPSHOTS: Final = "Controller.CREATE_DELETE_SNAPSHOT"
_GETS: Final = "Controller.GET_SNAPSHOT"
_GROUPS: Final = "Group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"
_GROUP: Final = "GroupController Service [GroupController VolumeGroupSnapshots] > "
_GONE: Final = "conform-no-such-snapshot"


def a_snapshot(asker: Asker, volume: csi.Volume, name: str = "") -> csi.CreateSnapshotRequest:
    parameters = dict(asker.options.snapshot_parameters)
    return csi.CreateSnapshotRequest(
        name=name or asker.name("snapshot"), source_volume_id=volume.volume_id, parameters=parameters
    )


@CHAPTER.check(
    ANOTHER,
    CREATES,
    SNAPSHOTS,
    sanity="CreateSnapshot [Controller Server] > "
    "should succeed when requesting to create a snapshot with already existing name and same source volume ID",
)
async def snapshot_twice(asker: Asker) -> None:
    """The same CreateSnapshot again, as after a lost answer, gives the same snapshot."""
    request = a_snapshot(asker, await create(asker, asker.a_volume()))
    await asker.must(Driver.create_snapshot, request)
    await asker.patiently(Driver.create_snapshot, request)


@CHAPTER.check(
    OTHER_SOURCE,
    CREATES,
    SNAPSHOTS,
    sanity="CreateSnapshot [Controller Server] > "
    "should fail when requesting to create a snapshot with already existing name and different source volume ID",
)
async def snapshot_of_another(asker: Asker) -> None:
    """A snapshot's name is refused with AlreadyExists for another volume."""
    one, other = await create(asker, asker.a_volume()), await create(asker, asker.a_volume())
    request = a_snapshot(asker, one)
    await asker.must(Driver.create_snapshot, request)
    again = a_snapshot(asker, other, request.name)
    await asker.refused(
        Driver.create_snapshot,
        again,
        OTHER_SOURCE,
        Code.ALREADY_EXISTS,
        why="the name has a snapshot of another volume",
    )


@CHAPTER.check(
    FULL_NAME,
    CREATES,
    SNAPSHOTS,
    sanity="CreateSnapshot [Controller Server] > should succeed when creating snapshot with maximum-length name",
)
async def snapshot_with_full_name(asker: Asker) -> None:
    """Names of 128 bytes are taken for snapshots, and two that differ in the last byte are two snapshots."""
    volume = await create(asker, asker.a_volume())
    base = f"{asker.name('long')}-{'n' * 128}"[:127]
    for last in "ab":
        await asker.must(Driver.create_snapshot, a_snapshot(asker, volume, f"{base}{last}"), FULL_NAME)


@CHAPTER.check(OUTLIVES, CREATES, SNAPSHOTS)
async def snapshot_outlives_its_volume(asker: Asker) -> None:
    """A volume with a snapshot is deleted and the snapshot restored, or the volume stays as it was."""
    volume = await create(asker, asker.a_volume())
    made = (await asker.must(Driver.create_snapshot, a_snapshot(asker, volume))).snapshot
    request = csi.DeleteVolumeRequest(volume_id=volume.volume_id)
    outcome = await asker.patiently(Driver.delete_volume, request)
    if outcome.ok:
        source = {"snapshot": {"snapshot_id": made.snapshot_id}}
        await asker.must(Driver.create_volume, asker.a_volume(volume_content_source=source), OUTLIVES)
    elif outcome.code != Code.FAILED_PRECONDITION:
        if not outcome.breaches:
            found = f"the volume has a snapshot, and the driver answers {outcome.error} in place of FailedPrecondition"
            asker.finds(OUTLIVES, Driver.delete_volume, request, found)
    else:
        validation = csi.ValidateVolumeCapabilitiesRequest(
            volume_id=volume.volume_id, volume_capabilities=[asker.capability()]
        )
        await asker.must(Driver.validate_volume_capabilities, validation, OUTLIVES)


@CHAPTER.check(
    DELETE_ABSENT,
    SNAPSHOTS,
    sanity="DeleteSnapshot [Controller Server] > should succeed when an invalid snapshot id is used",
)
async def delete_unknown_snapshot(asker: Asker) -> None:
    """DeleteSnapshot answers OK for an id that the driver never gave."""
    await asker.must(Driver.delete_snapshot, csi.DeleteSnapshotRequest(snapshot_id=_GONE), DELETE_ABSENT)


@CHAPTER.check(
    DELETE_ABSENT,
    CREATES,
    SNAPSHOTS,
    sanity="DeleteSnapshot [Controller Server] > should return appropriate values (no optional values added)",
)
async def delete_snapshot_twice(asker: Asker) -> None:
    """The same DeleteSnapshot again, as after a lost answer, answers OK."""
    volume = await create(asker, asker.a_volume())
    answer = await asker.must(Driver.create_snapshot, a_snapshot(asker, volume))
    for _ in range(2):
        request = csi.DeleteSnapshotRequest(snapshot_id=answer.snapshot.snapshot_id)
        await asker.must(Driver.delete_snapshot, request, DELETE_ABSENT)


@CHAPTER.check(
    ANOTHER,
    CREATES,
    SNAPSHOTS,
    _GETS,
    sanity="GetSnapshot [Controller Server] > should return snapshot that match the specified snapshot id",
)
async def get_snapshot(asker: Asker) -> None:
    """GetSnapshot answers with the snapshot that was made."""
    volume = await create(asker, asker.a_volume())
    made = (await asker.must(Driver.create_snapshot, a_snapshot(asker, volume))).snapshot
    request = csi.GetSnapshotRequest(snapshot_id=made.snapshot_id)
    got = (await asker.must(Driver.get_snapshot, request)).snapshot
    if (got.snapshot_id, got.source_volume_id) != (made.snapshot_id, made.source_volume_id):
        found = (
            f"it was made as {made.snapshot_id!r} of {made.source_volume_id!r}, and is {got.snapshot_id!r} of "
            f"{got.source_volume_id!r}"
        )
        asker.finds(ANOTHER, Driver.get_snapshot, request, found)


@CHAPTER.check(
    UNKNOWN,
    _GETS,
    sanity="GetSnapshot [Controller Server] > should return an error when the specified snapshot id does not exist",
)
async def get_unknown_snapshot(asker: Asker) -> None:
    """GetSnapshot of a snapshot that does not exist is answered with NotFound."""
    request = csi.GetSnapshotRequest(snapshot_id=_GONE)
    await asker.refused(Driver.get_snapshot, request, UNKNOWN, Code.NOT_FOUND, why="the snapshot does not exist")


@CHAPTER.check(
    UNKNOWN, _GROUPS, sanity=f"{_GROUP}GetVolumeGroupSnapshot > should fail when an invalid volume id is used"
)
async def get_unknown_group(asker: Asker) -> None:
    """GetVolumeGroupSnapshot of a group that does not exist is answered with NotFound."""
    request = csi.GetVolumeGroupSnapshotRequest(group_snapshot_id="conform-no-such-group")
    await asker.refused(
        Driver.get_volume_group_snapshot, request, UNKNOWN, Code.NOT_FOUND, why="the group does not exist"
    )


@CHAPTER.check(
    DELETE_ABSENT,
    _GROUPS,
    sanity=f"{_GROUP}DeleteVolumeGroupSnapshot > should succeed when an invalid volume id is used",
)
async def delete_unknown_group(asker: Asker) -> None:
    """DeleteVolumeGroupSnapshot answers OK for an id that the driver never gave."""
    request = csi.DeleteVolumeGroupSnapshotRequest(group_snapshot_id="conform-no-such-group")
    await asker.must(Driver.delete_volume_group_snapshot, request, DELETE_ABSENT)


@CHAPTER.check(MEMBERS, CREATES, _GROUPS)
async def group_of_two(asker: Asker) -> None:
    """A group of two volumes is made, made again, read and deleted twice."""
    volumes = [(await create(asker, asker.a_volume())).volume_id for _ in range(2)]
    request = csi.CreateVolumeGroupSnapshotRequest(name=asker.name("group"), source_volume_ids=volumes)
    group = (await asker.must(Driver.create_volume_group_snapshot, request)).group_snapshot
    await asker.patiently(Driver.create_volume_group_snapshot, request)
    about = {
        "group_snapshot_id": group.group_snapshot_id,
        "snapshot_ids": [member.snapshot_id for member in group.snapshots],
    }
    await asker.must(Driver.get_volume_group_snapshot, csi.GetVolumeGroupSnapshotRequest(**about))
    for _ in range(2):
        await asker.must(
            Driver.delete_volume_group_snapshot, csi.DeleteVolumeGroupSnapshotRequest(**about), DELETE_ABSENT
        )
