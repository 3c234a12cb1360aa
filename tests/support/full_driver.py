"""A scripted driver that does all that a controller's sidecars ask for."""

from __future__ import annotations

from mooring.csi.proto import csi_pb2 as csi
from tests.support.resizing import ResizingDriver
from tests.support.scripted_driver import RPC
from tests.support.snapshot_driver import SnapshotDriver
from tests.support.volume_driver import VolumeDriver


class FullDriver(VolumeDriver):
    """sizes, parameters, snapshots: the truth of the backend, by handle. Volumes grow without their nodes."""

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            (
                RPC.PUBLISH_UNPUBLISH_VOLUME,
                RPC.EXPAND_VOLUME,
                RPC.MODIFY_VOLUME,
                RPC.CREATE_DELETE_SNAPSHOT,
                RPC.CLONE_VOLUME,
            ),
        )
        self.sizes: dict[str, int] = {}
        self.parameters: dict[str, dict[str, str]] = {}
        self.answers: list[int] = []
        self.node_step = False
        self.snapshots: dict[str, csi.Snapshot] = {}
        self.ready, self.answer, self.spells = True, None, str

    controller_expand_volume = ResizingDriver.controller_expand_volume
    controller_modify_volume = ResizingDriver.controller_modify_volume
    create_snapshot = SnapshotDriver.create_snapshot
    delete_snapshot = SnapshotDriver.delete_snapshot
    add, _shown = SnapshotDriver.add, SnapshotDriver._shown
