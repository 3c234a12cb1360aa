"""CSI requests with defaults, and what tests ask of a driver again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.driver import HostPath
from mooring.wire.grpc.codes import Code
from tests.support.private_mounts import clear_below, enter_private_mounts

Mode = csi.VolumeCapability.AccessMode
GIB = 1 << 30


def a_capability(mode: int = Mode.SINGLE_NODE_WRITER, *, block: bool = False) -> csi.VolumeCapability:
    access = {"block": {}} if block else {"mount": {"fs_type": "ext4"}}
    return csi.VolumeCapability(access_mode={"mode": mode}, **access)


def a_creation(name: str = "pvc-1", **fields: Any) -> csi.CreateVolumeRequest:
    fields = {
        "capacity_range": csi.CapacityRange(required_bytes=GIB),
        "volume_capabilities": [a_capability()],
        **fields,
    }
    return csi.CreateVolumeRequest(name=name, **fields)


def a_publication(
    volume_id: str, node_id: str = "node-1", mode: int = Mode.SINGLE_NODE_WRITER, **fields: Any
) -> csi.ControllerPublishVolumeRequest:
    fields = {"volume_capability": a_capability(mode), **fields}
    return csi.ControllerPublishVolumeRequest(volume_id=volume_id, node_id=node_id, **fields)


def an_unpublication(volume_id: str, node_id: str = "node-1") -> csi.ControllerUnpublishVolumeRequest:
    return csi.ControllerUnpublishVolumeRequest(volume_id=volume_id, node_id=node_id)


def a_deletion(volume_id: str) -> csi.DeleteVolumeRequest:
    return csi.DeleteVolumeRequest(volume_id=volume_id)


def a_snapshot_of(volume_id: str, name: str = "snapshot-1", **fields: Any) -> csi.CreateSnapshotRequest:
    return csi.CreateSnapshotRequest(source_volume_id=volume_id, name=name, **fields)


def an_expansion(volume_id: str, required_bytes: int, **fields: Any) -> csi.ControllerExpandVolumeRequest:
    return csi.ControllerExpandVolumeRequest(
        volume_id=volume_id, capacity_range={"required_bytes": required_bytes}, **fields
    )


def a_driver(folder: Path, **options: Any) -> HostPath:
    options = {"node_ids": ("node-1", "node-2", "node-3"), "randomness": Random(7), **options}
    return HostPath(folder, **options)


@pytest.fixture
def private_mounts(tmp_path: Path) -> Iterator[Path]:
    """The test's folder, in which this process may mount, unseen by others. Nothing that a failed test leaves there
    outlives it.
    """
    enter_private_mounts(tmp_path)
    yield tmp_path
    clear_below(tmp_path)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[HostPath]:
    """On nodes 1 to 3, with its state in the test's folder."""
    with a_driver(tmp_path) as made:
        yield made


async def created(driver: Any, name: str = "pvc-1", **fields: Any) -> str:
    """The id of a new volume."""
    answer: csi.CreateVolumeResponse = await driver.create_volume(a_creation(name, **fields))
    return answer.volume.volume_id


async def published_nodes(driver: Any, volume_id: str) -> list[str]:
    """Where the driver says that the volume is."""
    answer: csi.ControllerGetVolumeResponse = await driver.controller_get_volume(
        csi.ControllerGetVolumeRequest(volume_id=volume_id)
    )
    return list(answer.status.published_node_ids)


async def refused(call: Awaitable[Any], code: Code, text: str = "") -> None:
    """The call fails with this code, and a message that has this text."""
    with pytest.raises(DriverError) as caught:
        await call
    assert (code, True) == (Code(caught.value.code), text in caught.value.message), caught.value


async def snapshotted(driver: Any, volume_id: str, name: str = "snapshot-1") -> str:
    """The id of a new snapshot."""
    answer: csi.CreateSnapshotResponse = await driver.create_snapshot(a_snapshot_of(volume_id, name))
    return answer.snapshot.snapshot_id
