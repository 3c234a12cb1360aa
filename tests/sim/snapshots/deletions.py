"""What must hold of each deletion of a snapshot, and of each content that goes. The names of these laws are in
`laws.py`.
"""

from __future__ import annotations

from typing import Final

from mooring.api import snapshot_names as names
from tests.sim.snapshots.ledger import Ledger
from tests.sim.snapshots.objects import (
    CONTENTS,
    GROUP_CONTENTS,
    Json,
    group_handles_of,
    handles_of,
    is_going,
    is_imported_without_secret,
    is_member,
)

KEPT_S: Final = 10.0
"""How long after a change of its policy a deletion that was decided before may still be on its way: a Secret and a
call, both slow.
"""


class Deletions(Ledger):
    """Those of the laws that judge deletions."""

    # -- calls

    def _check_deletion(self, who: str, handle: str) -> None:
        for content in self.tables.contents_of(handle):
            self._check_kept(who, handle, CONTENTS, content)
            if content["spec"]["source"].get("snapshotHandle") == handle:
                self.ended_by_import.add(handle.rpartition("/")[0])

    def _check_group_deletion(self, who: str, group: str) -> None:
        for content in self.tables.objects[GROUP_CONTENTS].values():
            if group in group_handles_of(content):
                self._check_kept(who, group, GROUP_CONTENTS, content)
                if content["spec"]["deletionPolicy"] == names.DELETE_POLICY and is_going(content):
                    self.kept.difference_update(self._backend.handles_of_group(group))
        for handle in self._backend.handles_of_group(group):
            for content in self.tables.contents_of(handle):
                if not is_member(content) and (content.get("status") or {}).get("volumeGroupSnapshotHandle") != group:
                    self._check_kept(who, handle, CONTENTS, content)

    def _check_kept(self, who: str, handle: str, plural: str, content: Json) -> None:
        """handle is about to be deleted, and the content names it."""
        name = content["metadata"]["name"]
        known = int(content["metadata"]["resourceVersion"]) <= self.lines[who].shown_before_now(plural)
        snapshot = self.tables.pointing_to(plural, content)
        if known and snapshot is not None:
            self._blame(
                who,
                "deleted-wanted",
                f"{handle} is deleted, {snapshot['metadata']['name']} is there, and bound to {name}",
            )
        if content["spec"]["deletionPolicy"] == names.DELETE_POLICY and is_going(content):
            self.kept.discard(handle)  # also what a content of the same handle has kept before
        since = self.retained.get(name)
        if known and since is not None and since + KEPT_S < self._now():
            self._blame(who, "deleted-kept", f"{handle} is deleted, the policy of {name} is to keep it")

    # -- changes

    def _content_gone(self, old: Json, version: int) -> None:
        """version: of its end."""
        name, status = old["metadata"]["name"], old.get("status") or {}
        self._gone.add(name)
        handle = status.get("snapshotHandle")
        self.loose.update(handles_of(old) if name in self.torn else ())
        unbound = not old["spec"]["volumeSnapshotRef"].get("uid")
        is_wanted_gone = old["spec"]["deletionPolicy"] == names.DELETE_POLICY and "deletionTimestamp" in old["metadata"]
        others = bool(handle) and bool(self.tables.contents_of(handle) or self.tables.groups_with(handle))
        is_of_group = is_member(old) or bool(
            status.get("volumeGroupSnapshotHandle")
        )  # also an import, which the driver told so
        if (
            is_wanted_gone and not is_of_group
        ):  # whatever others have kept before: a deletion that was decided by then may still come
            self.kept.difference_update(handles_of(old))
        if is_member(old):
            pass  # the policy of its group decides
        elif name in self.retained or (name in self.torn and not is_wanted_gone):
            self.ended.update(dict.fromkeys(handles_of(old), version))
            self.kept.update(handles_of(old) & self._backend.staying())
            self.loose.update(
                handles_of(old) - self._backend.staying()
            )  # a deletion that has begun is not taken back, and may still fail
        elif unbound:  # nothing holds such a one: its snapshot may go or stay
            self.ended.update(dict.fromkeys(handles_of(old), version))
            (self.loose if is_wanted_gone else self.kept).update(handles_of(old) & self._backend.staying())
        elif (
            not handle
        ):  # an import that the driver has not told of: its snapshot stays, also where another content was left to it
            self.ended.update(dict.fromkeys(handles_of(old), version))
            self.loose.update(handles_of(old) & self._backend.staying())
        elif (
            others or handle in self.kept | self.loose or name in self.torn or not self.is_single
        ):  # one that was to go, and was torn away then, may go or stay
            pass
        elif handle in self._backend.astray or any(
            f"Snapshot {handle} is deleted without" in text for text in self.telling.texts
        ):
            pass  # its deletion was asked for as another tenant, and whoever can know that has been told
        elif self._is_left_to_another(name, handle or ""):
            self.kept.update(handles_of(old) & self._backend.staying())  # as that one's end had it
        elif handle in self._backend.private_handles and is_imported_without_secret(old):
            self.loose.add(handle)  # who imported it did not say with which Secret it was made
        elif (
            handle in self._backend.snapshots
            and not status.get("volumeGroupSnapshotHandle")
            and name not in self.was_retained
        ):
            self._fail("left-behind", f"{name} is gone, and its snapshot {handle} is still there")
        self.retained.pop(name, None)
