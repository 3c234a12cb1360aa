"""The words of users' Events about actions that the API server refuses, by the kind of snapshot and the action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.api.snapshot_kinds import GROUPS, SINGLES
from mooring.cluster.snapshots import decision as d


class Refusal(msgspec.Struct, frozen=True):
    """The texts for a refused action. text: the beginning. saved: in the status, too. also: reason and beginning of a
    second Warning.
    """

    reason: str
    text: str
    saved: bool = False
    also: tuple[str, str] | None = None

    def failure(self, key: Key, error: Exception) -> d.Failure:
        also = None if self.also is None else (self.also[0], f"{self.also[1].format(key=key)}{error}")
        return d.Failure(self.reason, f"{self.text}{error}", saved=self.saved, also=also)


_CREATION: Final = Refusal("SnapshotContentCreationFailed", "Failed to create snapshot content with error ", saved=True)
_GROUP_CREATION: Final = Refusal(
    "GroupSnapshotContentCreationFailed", "failed to create group snapshot content with error ", saved=True
)
REFUSALS: Final[Mapping[str, Mapping[type, Refusal]]] = {
    SINGLES.noun: {
        d.Protect: Refusal("SnapshotFinalizerError", "Failed to check and update snapshot: "),
        d.HoldClaim: _CREATION,
        d.CreateContent: msgspec.structs.replace(
            _CREATION,
            also=("CreateSnapshotContentFailed", "Error creating volume snapshot content object for snapshot: "),
        ),
        d.BindContent: Refusal("SnapshotBindFailed", "Snapshot failed to bind VolumeSnapshotContent, ", saved=True),
        d.MarkDeleted: Refusal("SnapshotContentObjectDeleteError", "Failed to mark snapshot content API object: "),
        d.UnmarkDeleted: Refusal("SnapshotBindFailed", "Snapshot failed to bind VolumeSnapshotContent, "),
        d.DeleteContent: Refusal("SnapshotContentObjectDeleteError", "Failed to delete snapshot content API object: "),
        d.Release: Refusal("SnapshotFinalizerError", "Failed to check and update snapshot: "),
        d.SaveStatus: Refusal("SnapshotStatusUpdateFailed", "Snapshot status update failed, "),
    },
    GROUPS.noun: {
        d.Protect: Refusal("GroupSnapshotFinalizerError", "VolumeGroupSnapshot: "),
        d.HoldClaim: _GROUP_CREATION,
        d.CreateContent: msgspec.structs.replace(
            _GROUP_CREATION,
            also=(
                "CreateGroupSnapshotContentFailed",
                "Error creating volume group snapshot content object for group snapshot {key}: ",
            ),
        ),
        d.BindContent: Refusal("GroupSnapshotBindFailed", "VolumeGroupSnapshotContent: ", saved=True),
        d.MarkDeleted: Refusal("GroupSnapshotContentObjectDeleteError", "VolumeGroupSnapshotContent: "),
        d.UnmarkDeleted: Refusal("GroupSnapshotBindFailed", "VolumeGroupSnapshotContent: "),
        d.DeleteContent: Refusal(
            "GroupSnapshotContentObjectDeleteError", "Failed to delete group snapshot content API object: "
        ),
        d.Release: Refusal("GroupSnapshotFinalizerError", "VolumeGroupSnapshot: "),
        d.SaveStatus: Refusal("GroupSnapshotStatusUpdateFailed", "VolumeGroupSnapshot: "),
        d.CreateMember: Refusal("CreateVolumeSnapshotFailed", "VolumeSnapshot: "),
        d.CreateMemberContent: Refusal("GroupSnapshotContentCreationFailed", "VolumeSnapshotContent: "),
        d.SaveMemberStatus: Refusal("GroupSnapshotStatusUpdateFailed", "VolumeSnapshotContent: "),
        d.DeleteMember: Refusal("GroupSnapshotDeleteError", "VolumeSnapshot: "),
    },
}
"""The refusals by a row's noun and the action; an action that is not named is only logged, and tried again."""
