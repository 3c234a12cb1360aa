"""The flags of csi-snapshotter, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.flagkinds import BOOL, DURATION, INT, STRING, GateStage
from mooring.base.flags import flag, gate

_LENGTH_TEXT: Final = "Characters of the uid in the name of a new {}, without its dashes; -1 takes it as it is."


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotterOptions:
    """node_name: contents of this node alone, in distributed mode; "" for all. groups: whether group snapshots are
    taken care of.
    """

    timeout_s: float = flag("timeout", DURATION, 60.0, "Timeout of each call to the driver.")
    worker_threads: int = flag("worker-threads", INT, 10, "How many calls to the driver run at once at the most.")
    retry_interval_start_s: float = flag(
        "retry-interval-start",
        DURATION,
        1.0,
        "Initial retry interval of failed creation or deletion. It doubles with each failure.",
    )
    retry_interval_max_s: float = flag(
        "retry-interval-max", DURATION, 300.0, "Maximum retry interval of failed creation or deletion."
    )
    resync_s: float = flag("resync-period", DURATION, 900.0, "How often all contents are looked at again.")
    snapshot_name_prefix: str = flag(
        "snapshot-name-prefix", STRING, "snapshot", "Prefix of the name of a new snapshot."
    )
    snapshot_name_uuid_length: int = flag("snapshot-name-uuid-length", INT, -1, _LENGTH_TEXT.format("snapshot"))
    groupsnapshot_name_prefix: str = flag(
        "groupsnapshot-name-prefix", STRING, "groupsnapshot", "Prefix of the name of a new group snapshot."
    )
    groupsnapshot_name_uuid_length: int = flag(
        "groupsnapshot-name-uuid-length", INT, -1, _LENGTH_TEXT.format("group snapshot")
    )
    extra_create_metadata: bool = flag(
        "extra-create-metadata",
        BOOL,
        False,
        "Tell the driver the names of snapshot and content, as parameters of CreateSnapshot.",
    )
    node_name: str = ""
    groups: bool = gate("CSIVolumeGroupSnapshot", GateStage.BETA, False)
