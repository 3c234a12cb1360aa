"""Volumes made, deleted, grown and modified."""

from __future__ import annotations

from typing import Final

from mooring.conform.asker import Asker
from mooring.conform.book.requests import FULL_NAME, UNKNOWN
from mooring.conform.book.volumes import (
    ANOTHER,
    CAPACITY,
    DELETE_ABSENT,
    GROWN,
    MUTABLE,
    NOT_CONFIRMED,
    ONLINE,
    OTHER_REQUEST,
    SOURCE,
)
from mooring.conform.check import Chapter, NotApplicable
from mooring.conform.life import CREATES, begin, create, delete
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CHAPTER = Chapter("")

_C: Final = "Controller Service [Controller Server] > "
GONE: Final = "conform-no-such-volume"
_SNAPSHOTS: Final = "Controller.CREATE_DELETE_SNAPSHOT"
_MODIFIES: Final = "Controller.MODIFY_VOLUME"
_UNKNOWN_PARAMETER: Final = {"conform-no-such-parameter": "1"}


@CHAPTER.check(
    CAPACITY, CREATES, sanity=f"{_C}CreateVolume > should return appropriate values SingleNodeWriter NoCapacity"
)
async def create_without_size(asker: Asker) -> None:
    """CreateVolume makes a volume for a request without a size."""
    request = asker.a_volume()
    request.ClearField("capacity_range")
    await delete(asker, await create(asker, request))


@CHAPTER.check(
    CAPACITY, CREATES, sanity=f"{_C}CreateVolume > should return appropriate values SingleNodeWriter WithCapacity 1Gi"
)
async def create_with_size(asker: Asker) -> None:
    """CreateVolume makes a volume of at least the size that is asked for."""
    await delete(asker, await create(asker, asker.a_volume()))


@CHAPTER.check(
    ANOTHER,
    CREATES,
    sanity=f"{_C}CreateVolume > should not fail when requesting to create a volume with already existing name and "
    "same capacity",
)
async def create_twice(asker: Asker) -> None:
    """The same CreateVolume again, as after a lost answer, gives the same volume."""
    request = asker.a_volume()
    await create(asker, request)
    await asker.patiently(Driver.create_volume, request)


@CHAPTER.check(
    OTHER_REQUEST,
    CREATES,
    sanity=f"{_C}CreateVolume > should fail when requesting to create a volume with already existing name and "
    "different capacity",
)
async def create_with_other_size(asker: Asker) -> None:
    """The name of a volume that is too small for a request is refused with AlreadyExists."""
    request = asker.a_volume(
        capacity_range={"required_bytes": asker.options.size_bytes, "limit_bytes": asker.options.size_bytes}
    )
    if not (await create(asker, request)).capacity_bytes:
        raise NotApplicable("the driver does not know the capacity of its volumes: it answers 0")
    twice = 2 * asker.options.size_bytes
    other = asker.a_volume(request.name, capacity_range={"required_bytes": twice, "limit_bytes": twice})
    await asker.refused(
        Driver.create_volume, other, OTHER_REQUEST, Code.ALREADY_EXISTS, why="the name has a volume of another size"
    )


@CHAPTER.check(
    FULL_NAME, CREATES, sanity=f"{_C}CreateVolume > should not fail when creating volume with maximum-length name"
)
async def create_with_full_name(asker: Asker) -> None:
    """Names of 128 bytes are taken, and two that differ in the last byte are two volumes."""
    base = f"{asker.name('long')}-{'n' * 128}"[:127]
    for last in "ab":
        await asker.must(Driver.create_volume, asker.a_volume(f"{base}{last}"), FULL_NAME)


@CHAPTER.check(
    SOURCE, CREATES, _SNAPSHOTS, sanity=f"{_C}CreateVolume > should create volume from an existing source snapshot"
)
async def create_from_snapshot(asker: Asker) -> None:
    """CreateVolume makes a volume from a snapshot, and says so."""
    volume = await create(asker, asker.a_volume())
    snapshot = csi.CreateSnapshotRequest(
        name=asker.name("snapshot"),
        source_volume_id=volume.volume_id,
        parameters=dict(asker.options.snapshot_parameters),
    )
    answer = await asker.must(Driver.create_snapshot, snapshot)
    await create(
        asker, asker.a_volume(volume_content_source={"snapshot": {"snapshot_id": answer.snapshot.snapshot_id}})
    )


@CHAPTER.check(
    UNKNOWN, CREATES, _SNAPSHOTS, sanity=f"{_C}CreateVolume > should fail when the volume source snapshot is not found"
)
async def create_from_no_snapshot(asker: Asker) -> None:
    """A volume from a snapshot that does not exist is refused with NotFound."""
    request = asker.a_volume(volume_content_source={"snapshot": {"snapshot_id": "conform-no-such-snapshot"}})
    await asker.refused(Driver.create_volume, request, UNKNOWN, Code.NOT_FOUND, why="the source does not exist")


@CHAPTER.check(
    SOURCE,
    CREATES,
    "Controller.CLONE_VOLUME",
    sanity=f"{_C}CreateVolume > should create volume from an existing source volume",
)
async def create_from_volume(asker: Asker) -> None:
    """CreateVolume makes a volume from a volume, and says so; the source goes before its clone."""
    source = await create(asker, asker.a_volume())
    clone = await create(asker, asker.a_volume(volume_content_source={"volume": {"volume_id": source.volume_id}}))
    await delete(asker, clone)
    await delete(asker, source)


@CHAPTER.check(
    UNKNOWN,
    CREATES,
    "Controller.CLONE_VOLUME",
    sanity=f"{_C}CreateVolume > should fail when the volume source volume is not found",
)
async def create_from_no_volume(asker: Asker) -> None:
    """A volume from a volume that does not exist is refused with NotFound."""
    request = asker.a_volume(volume_content_source={"volume": {"volume_id": GONE}})
    await asker.refused(Driver.create_volume, request, UNKNOWN, Code.NOT_FOUND, why="the source does not exist")


@CHAPTER.check(DELETE_ABSENT, CREATES, sanity=f"{_C}DeleteVolume > should succeed when an invalid volume id is used")
async def delete_unknown(asker: Asker) -> None:
    """DeleteVolume answers OK for an id that the driver never gave."""
    await asker.must(Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=GONE), DELETE_ABSENT)


@CHAPTER.check(
    DELETE_ABSENT, CREATES, sanity=f"{_C}DeleteVolume > should return appropriate values (no optional values added)"
)
async def delete_twice(asker: Asker) -> None:
    """The same DeleteVolume again, as after a lost answer, answers OK."""
    volume = await create(asker, asker.a_volume())
    await delete(asker, volume)
    await asker.must(Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=volume.volume_id), DELETE_ABSENT)


@CHAPTER.check(
    NOT_CONFIRMED,
    CREATES,
    sanity=f"{_C}ValidateVolumeCapabilities > should return appropriate values (no optional values added)",
)
async def validate(asker: Asker) -> None:
    """ValidateVolumeCapabilities confirms what the volume was made with."""
    volume = await asker.shared()
    request = csi.ValidateVolumeCapabilitiesRequest(
        volume_id=volume.volume_id, volume_capabilities=[asker.capability()]
    )
    answer = await asker.must(Driver.validate_volume_capabilities, request)
    if not answer.confirmed.volume_capabilities:
        asker.finds(
            NOT_CONFIRMED,
            Driver.validate_volume_capabilities,
            request,
            f"confirmed is not set; message: {answer.message!r}",
        )


@CHAPTER.check(
    UNKNOWN, CREATES, sanity=f"{_C}ValidateVolumeCapabilities > should fail when the requested volume does not exist"
)
async def validate_unknown(asker: Asker) -> None:
    """ValidateVolumeCapabilities of a volume that does not exist is answered with NotFound."""
    request = csi.ValidateVolumeCapabilitiesRequest(volume_id=GONE, volume_capabilities=[asker.capability()])
    await asker.refused(
        Driver.validate_volume_capabilities, request, UNKNOWN, Code.NOT_FOUND, why="the volume does not exist"
    )


@CHAPTER.check(GROWN, CREATES, "Controller.EXPAND_VOLUME", sanity="ExpandVolume [Controller Server] > should work")
async def expand(asker: Asker) -> None:
    """A volume that is not published grows; the same call again answers OK."""
    volume = await create(asker, asker.a_volume())
    request = csi.ControllerExpandVolumeRequest(
        volume_id=volume.volume_id,
        capacity_range={"required_bytes": 2 * asker.options.size_bytes},
        volume_capability=asker.capability(),
    )
    await asker.must(Driver.controller_expand_volume, request, ONLINE)
    await asker.must(Driver.controller_expand_volume, request, ONLINE)


@CHAPTER.check(UNKNOWN, "Controller.EXPAND_VOLUME")
async def expand_unknown(asker: Asker) -> None:
    """ControllerExpandVolume of a volume that does not exist is answered with NotFound."""
    request = csi.ControllerExpandVolumeRequest(
        volume_id=GONE, capacity_range={"required_bytes": asker.options.size_bytes}
    )
    await asker.refused(
        Driver.controller_expand_volume, request, UNKNOWN, Code.NOT_FOUND, why="the volume does not exist"
    )


@CHAPTER.check(ONLINE, CREATES, "Node", "Controller.EXPAND_VOLUME", "Expansion.ONLINE")
async def expand_while_published(asker: Asker) -> None:
    """A volume grows while a pod has it: on the controller, and on the node where the driver asks for that."""
    life = await begin(asker)
    await life.to_pod()
    size = {"required_bytes": 2 * asker.options.size_bytes}
    grow = csi.ControllerExpandVolumeRequest(
        volume_id=life.identity, capacity_range=size, volume_capability=life.capability
    )
    answer = await asker.must(Driver.controller_expand_volume, grow, ONLINE)
    if answer.node_expansion_required and "Node.EXPAND_VOLUME" in asker.abilities:
        on_node = csi.NodeExpandVolumeRequest(
            volume_id=life.identity, volume_path=life.target, staging_target_path=life.staging, capacity_range=size
        )
        await asker.must(Driver.node_expand_volume, on_node, ONLINE)
    await life.from_pod()


@CHAPTER.check(
    MUTABLE, CREATES, _MODIFIES, sanity=f"{_C}CreateVolume > should create volume with a volume attribute class"
)
async def create_with_mutable(asker: Asker) -> None:
    """CreateVolume takes mutable_parameters that the driver supports."""
    await create(asker, asker.a_volume(mutable_parameters=_mutable(asker)))


@CHAPTER.check(
    MUTABLE,
    CREATES,
    _MODIFIES,
    sanity=f"{_C}CreateVolume > should not create volume with an invalid volume attribute class",
)
async def create_with_unknown_mutable(asker: Asker) -> None:
    """CreateVolume refuses mutable_parameters that no driver knows."""
    request = asker.a_volume(mutable_parameters=_UNKNOWN_PARAMETER)
    await asker.refused(Driver.create_volume, request, MUTABLE, Code.INVALID_ARGUMENT, why="nobody knows the parameter")


@CHAPTER.check(
    MUTABLE,
    CREATES,
    _MODIFIES,
    sanity=(
        "ModifyVolume [Controller Server] > should modify a volume created without a volume attribute class",
        "ModifyVolume [Controller Server] > should modify a volume created with a volume attribute class",
    ),
)
async def modify(asker: Asker) -> None:
    """ControllerModifyVolume takes parameters that the driver supports, for volumes made with some and without;
    twice.
    """
    parameters = _mutable(asker)
    for given in ({}, parameters):
        volume = await create(asker, asker.a_volume(mutable_parameters=given))
        for _ in range(2):
            await asker.must(
                Driver.controller_modify_volume,
                csi.ControllerModifyVolumeRequest(volume_id=volume.volume_id, mutable_parameters=parameters),
            )


@CHAPTER.check(
    MUTABLE,
    CREATES,
    _MODIFIES,
    sanity=(
        (
            "ModifyVolume [Controller Server] > should fail if specified mutable parameters are not supported by "
            "the volume"
        ),
        "ModifyVolume [Controller Server] > should fail to modify a volume created with a volume attribute class "
        "if new mutable parameters are not supported by volume",
    ),
)
async def modify_with_unknown(asker: Asker) -> None:
    """ControllerModifyVolume refuses parameters that no driver knows, for volumes made with some and without."""
    for given in ({}, dict(asker.options.mutable_parameters)):
        volume = await create(asker, asker.a_volume(mutable_parameters=given))
        request = csi.ControllerModifyVolumeRequest(volume_id=volume.volume_id, mutable_parameters=_UNKNOWN_PARAMETER)
        await asker.refused(
            Driver.controller_modify_volume, request, MUTABLE, Code.INVALID_ARGUMENT, why="nobody knows the parameter"
        )


@CHAPTER.check(UNKNOWN, _MODIFIES, sanity="ModifyVolume [Controller Server] > should fail if volume does not exist")
async def modify_unknown(asker: Asker) -> None:
    """ControllerModifyVolume of a volume that does not exist is answered with NotFound."""
    known = dict(asker.options.mutable_parameters)
    request = csi.ControllerModifyVolumeRequest(volume_id=GONE, mutable_parameters=known or _UNKNOWN_PARAMETER)
    codes = (Code.NOT_FOUND,) if known else (Code.NOT_FOUND, Code.INVALID_ARGUMENT)
    await asker.refused(Driver.controller_modify_volume, request, UNKNOWN, *codes, why="the volume does not exist")


def _mutable(asker: Asker) -> dict[str, str]:
    if not asker.options.mutable_parameters:
        raise NotApplicable("it needs parameters that the driver supports: give --mutable-parameter")
    return dict(asker.options.mutable_parameters)


@CHAPTER.check(UNKNOWN, "Controller.GET_VOLUME")
async def get_unknown(asker: Asker) -> None:
    """ControllerGetVolume of a volume that does not exist is answered with NotFound."""
    request = csi.ControllerGetVolumeRequest(volume_id=GONE)
    await asker.refused(Driver.controller_get_volume, request, UNKNOWN, Code.NOT_FOUND, why="the volume does not exist")
