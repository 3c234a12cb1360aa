"""The deletion of a content: whether the driver deletes its snapshot, or group, and when the finalizer goes. Pure.

Whether a VolumeSnapshot's content is deleted at all: `cluster/snapshots/decide_deletion.py`.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import SecretReference
from mooring.api.meta import finalizers_of
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.api.snapshot_kinds import SINGLES, Content, handle_of, imported_handle, row_of
from mooring.api.snapshot_names import DELETE_POLICY, is_marked
from mooring.base.clock import Instant
from mooring.control.decision import Decision
from mooring.sidecars.snapshotter import reasons as why
from mooring.sidecars.snapshotter.decision import (
    Action,
    ClearStatus,
    Delete,
    Failure,
    LoadSecret,
    Release,
    Tell,
    Unmark,
)
from mooring.sidecars.snapshotter.requests import Made, RequestError, creation_secret
from mooring.sidecars.snapshotter.view import View, members_of

LINGER_S: Final = 0.25
"""How long a single content stays after its snapshot. Upstream's snapshot-controller deletes a content at each look
until it has seen that it is gone, and tells of an error when it was gone before.
"""


def decide_deletion(view: View, content: Content, now: Instant) -> Decision[Action]:
    """Policy Delete deletes what has a handle, except members of groups, which the group's deletion took.

    Differs from csi-snapshotter, which deletes a snapshot that another content stands for. A group waits for the single
    contents of its snapshots.
    """
    row, handle = row_of(content), handle_of(content)
    held = row.content_finalizer in finalizers_of(content)
    release: tuple[Action, ...] = (Release(),) if held else ()
    kept_by = _why_kept(content)
    if kept_by:
        if not held:
            return Decision(why.Released())
        return Decision(why.Releasing(kept_by), (*_left(content, handle), *release), done="released the content")
    named = f"{row.noun.capitalize()} {handle}"
    if other := view.other_of(content, handle):
        told = Tell(f"{row.title}Kept", f"{named} is not deleted: {row.contents.name} [{other}] stands for it, too")
        cause = f'content "{other}" stands for its {row.noun}, too'
        actions: tuple[Action, ...] = (told, Release(left_to=other)) if held else ()
        return Decision(why.Releasing(cause), actions, done="released the content")
    deleted_at = view.memory.of(content.metadata.uid).deleted_at
    if deleted_at is not None:
        return _decide_release(content, deleted_at + (LINGER_S if row is SINGLES else 0.0) - now)
    if other := view.single_of(content):
        text = f"{named} is not deleted: VolumeSnapshotContent [{other}] stands for a snapshot of it"
        return Decision(why.Kept(other), problem=Failure(f"{row.title}Kept", text, saved=False))
    try:
        secret = creation_secret(content)
    except RequestError as error:
        failure = Failure(f"{row.title}DeleteError", f"Failed to get {row.noun} credentials: {error}", saved=False)
        return Decision(why.CantAsk(str(error)), problem=failure)
    load: tuple[Action, ...] = ()
    if secret is not None and view.memory.secret_is_gone(content.metadata.uid, now):
        load = (Tell(f"{row.title}DeletedWithoutSecret", _without_secret(named, secret)),)
    elif secret is not None:
        load = (
            LoadSecret(secret, (f"{row.title}DeleteError", f"Failed to get {row.noun} credentials: "), saved=False),
        )
    return Decision(why.Deleting(handle), (*load, Delete(Made(handle, members_of(content)))))


def _why_kept(content: Content) -> str:
    """Why the driver is not asked to delete it, whoever else needs it; "" where it is."""
    if not handle_of(content):
        return "the driver made nothing"
    if (
        isinstance(content, VolumeSnapshotContent)
        and content.status is not None
        and content.status.volume_group_snapshot_handle
    ):
        return "it is a group's"
    return "" if content.spec.deletion_policy == DELETE_POLICY else "its policy keeps the snapshot"


def _left(content: Content, handle: str) -> tuple[Action, ...]:
    """An import that the driver has never told of is not deleted in the driver, whatever its policy."""
    imported, row = imported_handle(content), row_of(content)
    if handle or not imported or content.spec.deletion_policy != DELETE_POLICY:
        return ()
    text = f"{row.noun.capitalize()} {imported} is not deleted: the driver has not told of it since it was imported"
    return (Tell(f"{row.title}Kept", text),)


def _without_secret(what: str, secret: SecretReference) -> str:
    where = f"{secret.namespace}/{secret.name}"
    return (
        f"{what} is deleted without Secret {where}, which is gone: a driver that tells tenants apart by it may not "
        "find anything to delete"
    )


def _decide_release(content: Content, wait_s: float) -> Decision[Action]:
    """Release a content whose snapshot is deleted. wait_s: for so long the content stays."""
    row, because = row_of(content), why.Deleted(handle_of(content))
    if wait_s > 0:
        return Decision(because, after_s=wait_s)
    held = row.content_finalizer in finalizers_of(content)
    stays = set(finalizers_of(content)) - {row.content_finalizer}
    unmarking: tuple[Action, ...] = (
        (Unmark(),) if is_marked(content, row.being_created) else ()
    )  # else it would be made once more
    clearing: tuple[Action, ...] = (*unmarking, ClearStatus()) if stays or not held else ()
    return Decision(because, (*clearing, *((Release(),) if held else ())), done=f"deleted the {row.noun}")
