"""The part that all calls of the host-path driver share: its state, data and limits, and its volumes as responses show
them.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp

from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.filling import Filling
from mooring.driver.hostpath.journal import StateJournal
from mooring.driver.hostpath.layout import NodeTopology, StorageLimits
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.hostpath.state import Snapshot, State, Volume
from mooring.driver.hostpath.statefile import StateFolder
from mooring.wire.grpc.codes import Code


class Core(msgspec.Struct, frozen=True):
    """mutable_names: the mutable parameters that are accepted, none for all. snapshot_delay_s: until a snapshot is
    ready.
    """

    journal: StateJournal
    folder: StateFolder
    filling: Filling
    layout: NodeTopology
    limits: StorageLimits
    mutable_names: Collection[str]
    snapshot_delay_s: float
    options: HostpathOptions
    clock: Clock
    randomness: Random

    @property
    def state(self) -> State:
        return self.journal.state

    def now_ns(self) -> int:
        return int(self.clock.wall_s() * 1e9)

    def new_snapshot(self, name: str, volume: Volume, now_ns: int, group_id: str = "") -> Snapshot:
        """The record of a snapshot that is still to be filled."""
        return Snapshot(
            f"snap-{self.randomness.uid()}",
            name,
            volume.id,
            volume.capacity_bytes,
            volume.is_block,
            now_ns,
            now_ns + int(self.snapshot_delay_s * 1e9),
            is_filling=True,
            is_image=volume.is_image,
            group_id=group_id,
        )

    def described_snapshot(self, snapshot: Snapshot) -> csi.Snapshot:
        taken = Timestamp()
        taken.FromNanoseconds(snapshot.taken_ns)
        return csi.Snapshot(
            snapshot_id=snapshot.id,
            source_volume_id=snapshot.source_id,
            size_bytes=snapshot.size_bytes,
            creation_time=taken,
            ready_to_use=not snapshot.is_filling and snapshot.ready_ns <= self.now_ns(),
            group_snapshot_id=snapshot.group_id,
        )

    def known(self, volume_id: str) -> Volume:
        volume = self.state.volumes.get(volume_id)
        if volume is None:
            raise DriverError(Code.NOT_FOUND, f"there is no volume {volume_id!r}")
        return volume

    def whole(self, volume_id: str) -> Volume:
        """A volume that has its data. Raises NotFound, Aborted."""
        volume = self.known(volume_id)
        check_whole(volume)
        return volume

    def check_still(self, volume: Volume) -> None:
        """Raises Aborted while the file system of a volume is frozen, or has to stay unmounted, since it is being
        copied.
        """
        if volume.is_image:
            self.check_unread(volume.id)

    def check_unread(self, record_id: str) -> None:
        """Raises Aborted while the data of a volume or snapshot is copied to somewhere else."""
        for record in self.state.filling():
            if record.source_id == record_id:
                raise DriverError(
                    Code.ABORTED, f"{record_id!r} is being copied to {record.id!r}: try again when that is done"
                )

    def described(self, volume: Volume) -> csi.Volume:
        answer = csi.Volume(volume_id=volume.id, capacity_bytes=volume.capacity_bytes, volume_context=volume.parameters)
        if self.layout.has_topology and volume.segments:
            answer.accessible_topology.add(segments=volume.segments)
        if volume.source_id.startswith("snap-"):
            answer.content_source.snapshot.snapshot_id = volume.source_id
        elif volume.source_id:
            answer.content_source.volume.volume_id = volume.source_id
        return answer


def check_whole(record: Volume | Snapshot) -> None:
    """Raises Aborted while the record's data is on its way."""
    if record.is_filling:
        raise DriverError(Code.ABORTED, f"the data of {record.id!r} is being copied: try again when that is done")


def nodes_of(volume: Volume) -> list[str]:
    return [one.node_id for one in volume.published]
