"""The objects of a life of snapshots as they are stored, and who of them names whom."""

from __future__ import annotations

from tests.sim.snapshots.objects import (
    CLAIMS,
    CONTENTS,
    GROUP_CONTENTS,
    GROUPS,
    SNAPSHOTS,
    Json,
    handles_of,
    is_going,
    members_of,
    ref_of,
)


class Tables:
    """objects: by plural, and then by name."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {
            plural: {} for plural in (SNAPSHOTS, CONTENTS, CLAIMS, GROUPS, GROUP_CONTENTS)
        }

    def put(self, plural: str, old: Json | None, new: Json | None) -> None:
        """What has changed."""
        if new is not None:
            self.objects[plural][new["metadata"]["name"]] = new
        elif old is not None:
            self.objects[plural].pop(old["metadata"]["name"], None)

    def replace(self, plural: str, found: list[Json]) -> None:
        """All of a kind."""
        self.objects[plural].clear()
        self.objects[plural].update({one["metadata"]["name"]: one for one in found})

    def alive(self) -> set[str]:
        """The uids of the snapshots that are there, also of those that are being deleted."""
        return {snapshot["metadata"]["uid"] for snapshot in self.objects[SNAPSHOTS].values()}

    def pointing_to(self, plural: str, content: Json) -> Json | None:
        """The living snapshot, or group, of this content: bound to it, or about to be where nobody deletes the
        content.
        """
        ref = ref_of(content)
        snapshot = self.objects[SNAPSHOTS if plural == CONTENTS else GROUPS].get(ref["name"])
        if snapshot is None or is_going(snapshot):
            return None
        if ref.get("uid"):
            return snapshot if ref["uid"] == snapshot["metadata"]["uid"] else None
        named = {"volumeSnapshotContentName", "volumeGroupSnapshotContentName"} & set(snapshot["spec"]["source"])
        points = any(snapshot["spec"]["source"][key] == content["metadata"]["name"] for key in named)
        return snapshot if points and not is_going(content) else None

    def imports_of(self, handle: str) -> list[Json]:
        return [
            content for content in self.contents_of(handle) if content["spec"]["source"].get("snapshotHandle") == handle
        ]

    def contents_of(self, handle: str) -> list[Json]:
        return [content for content in self.objects[CONTENTS].values() if handle in handles_of(content)]

    def groups_with(self, handle: str) -> list[Json]:
        """The contents of groups that name this snapshot as one of theirs."""
        return [content for content in self.objects[GROUP_CONTENTS].values() if handle in members_of(content)]
