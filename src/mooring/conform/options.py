"""How a driver is to be asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mooring.base.flagkinds import DURATION, NAMES, PAIRS, UINT, word_of
from mooring.base.flags import flag

SECRETS: Final[Mapping[str, str]] = {
    "create_volume": "CreateVolumeSecret",
    "delete_volume": "DeleteVolumeSecret",
    "controller_publish_volume": "ControllerPublishVolumeSecret",
    "controller_unpublish_volume": "ControllerUnpublishVolumeSecret",
    "validate_volume_capabilities": "ControllerValidateVolumeCapabilitiesSecret",
    "node_stage_volume": "NodeStageVolumeSecret",
    "node_publish_volume": "NodePublishVolumeSecret",
    "create_snapshot": "CreateSnapshotSecret",
    "delete_snapshot": "DeleteSnapshotSecret",
    "controller_expand_volume": "ControllerExpandVolumeSecret",
    "controller_modify_volume": "ControllerModifyVolumeSecret",
    "list_snapshots": "ListSnapshotsSecret",
    "get_snapshot": "GetSnapshotSecret",
}
"""The key of a call's secrets in csi-sanity's file, by the call."""
NODES: Final = ("conform-node", "conform-second-node")
"""Where a driver is, and its second process, if nobody names them."""
ACCESS_TYPES: Final = ("mount", "block")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """staging, targets: folders in which staging_target_path and target_path are made. secrets: by the call's
    method.
    """

    staging: Path = Path()
    targets: Path = Path()
    secrets: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    node_names: tuple[str, ...] = flag(
        "node-name",
        NAMES,
        NODES,
        "The names of two nodes, as in --node-name n1 --node-name n2, for a driver that looks them up: the second is "
        "that of another process of the command.",
    )
    only: tuple[str, ...] = flag("only", NAMES, (), "Make these checks alone, by their names, with commas between.")
    seed: int = flag("seed", UINT, 0, "Any but 0: the order of the checks is drawn from it.")
    timeout_s: float = flag("timeout", DURATION, 60.0, "How long the driver may take to answer a call.")
    volume_mib: int = flag("volume-mib", UINT, 1024, "The size of a volume, in MiB.")
    access_type: str = flag(
        "access-type", word_of(*ACCESS_TYPES), "mount", "What volumes are asked to be: mount or block."
    )
    volumes: int = flag(
        "volumes", UINT, 0, "How many volumes are made at once in the check many-volumes, as in 1000; 0 leaves it out."
    )
    parameters: Mapping[str, str] = flag(
        "parameter", PAIRS, {}, "Parameters of CreateVolume, as a StorageClass has them."
    )
    snapshot_parameters: Mapping[str, str] = flag("snapshot-parameter", PAIRS, {}, "Parameters of CreateSnapshot.")
    mutable_parameters: Mapping[str, str] = flag(
        "mutable-parameter", PAIRS, {}, "Parameters that ControllerModifyVolume can change."
    )

    @property
    def size_bytes(self) -> int:
        return self.volume_mib << 20

    @property
    def is_block(self) -> bool:
        return self.access_type == "block"
