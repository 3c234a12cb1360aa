"""The attacher's writes to the API server, each one request.

An answer enters the caches at once, and its event counts as our own, so that no decision is taken on a state from before our own
write and no write wakes its own key. Each carries the uid, so that one that is carried out late changes no other object of the name. The
attachment's finalizer is added with a merge patch, as audit rules know it from external-attacher; it carries a resourceVersion where the
list that was read holds others' finalizers, which it could undo.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, annotation, finalizers_of, is_deleting
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.control.locks import KeyLocks
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch
from mooring.kube.errors import ApiError, Conflict, Invalid, NotFound, ServerError, Unreachable
from mooring.kube.patch import add_finalizer, is_about_identity, merge_diff, merge_patch, remove_finalizer, strategic_patch
from mooring.sidecars.attacher.memory import Learnt
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION, STATUS_OF_ANNOTATION, View

log = logger(__name__)


class Failed(MooringError):
    """An action failed. str() is the text for the object's status; code: the driver's gRPC code, if it was the driver.

    reported: False when the failure is not the user's business (a conflict, or the very status could not be saved): only logged; unless
    it `is_told_when_it_lasts`, and others came before it in a row.
    """

    def __init__(self, text: str, *, code: int | None = None, reported: bool = True, is_told_when_it_lasts: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.reported, self.is_told_when_it_lasts = reported, is_told_when_it_lasts


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """One VolumeAttachment, not another that took its name."""

    name: str
    uid: str

    def find(self, view: View) -> VolumeAttachment | None:
        """The attachment as it is now, None when it is no more."""
        found = view.attachment(self.name)
        return found if found is not None and found.metadata.uid == self.uid else None


class Writes:
    """Patches to VolumeAttachments and PersistentVolumes. All raise Failed, unless their docstring says otherwise."""

    def __init__(self, cluster: Cluster, view: View, attachments: Informer[VolumeAttachment], volumes: Informer[PersistentVolume]) -> None:
        self._cluster = cluster
        self._view, self._memory = view, view.memory
        self._attachments, self._volumes = attachments, volumes
        self._holding: KeyLocks[str] = KeyLocks()

    # -- PersistentVolumes

    async def add_volume_finalizer(self, pv_name: str) -> None:
        """Adds the finalizer, unless it is there. Raises also Stale: for a volume that can't be held any more, or that is not shown as held
        after that, since the API server was set back to a state before the one that the cache shows.
        """
        async with self._holding.of(pv_name):  # attachments to several nodes come at once
            pv = self._view.volume(pv_name)
            if pv is None or is_deleting(pv):
                raise Stale(pv_name)
            if self._view.holds(pv):
                return
            # Differs from external-attacher, which is never strict: after a lost answer its next patch leaves the finalizer there twice.
            strictly = self._memory.is_unsure(pv_name)
            try:
                await self._patch_volume(pv_name, add_finalizer(pv, self._view.finalizer, strictly=strictly))
            except ApiError as error:
                if isinstance(error, ServerError | Unreachable):
                    self._memory.volume_unsure(pv_name)
                raise Failed(f"could not add PersistentVolume finalizer: {error}") from error
            shown = self._view.volume(pv_name)
            if shown is None or not self._view.holds(shown):
                self._memory.volume_unsure(pv_name)
                raise Stale(pv_name)
            self._memory.volume_sure(pv_name)

    async def remove_volume_finalizer(self, pv_name: str) -> None:
        """Removes the finalizer, unless it is gone."""
        pv = self._view.volume(pv_name)
        if pv is None or not self._view.holds(pv):
            return
        with _failing("could not remove PersistentVolume finalizer", reported=False):
            await self._remove_by_place_or_name(pv)

    async def _remove_by_place_or_name(self, pv: PersistentVolume) -> None:
        """Removes the finalizer by its position, or by name if the position has changed: others may remove theirs at the same moment."""
        name, finalizer = pv.metadata.name, self._view.finalizer
        try:
            await self._patch_volume(name, remove_finalizer(pv, finalizer))
        except Invalid:
            now = self._view.volume(name)
            if now is None or not self._view.holds(now):  # the answer to an earlier try was lost
                return
            named = {"$deleteFromPrimitiveList/finalizers": [finalizer]}
            await self._patch_volume(name, strategic_patch({"metadata": named}, of=pv))

    async def _patch_volume(self, pv_name: str, patch: Patch) -> None:
        await self._volumes.write(Key("", pv_name), self._cluster.patch(PERSISTENT_VOLUMES, pv_name, patch))

    # -- VolumeAttachments: the finalizer

    async def add_finalizer(self, target: Target, node_id: str) -> None:
        """Writes finalizer and node id, as far as they lack."""
        attachment = target.find(self._view)
        if attachment is None or is_deleting(attachment):
            raise Failed("deleted before it could be attached", reported=False)
        changes = finalizer_changes(attachment, node_id, self._view.finalizer)
        if not changes:
            return
        try:
            await self._patch_attachment(attachment, merge_patch({"metadata": changes}, of=attachment))
        except (Conflict, NotFound) as error:
            raise Failed(f"could not save VolumeAttachment: {error}", reported=False) from error
        except ApiError as error:
            if isinstance(error, ServerError | Unreachable):
                self._memory.mark_finalizer_unknown(target.name, target.uid)
            raise Failed(f"could not save VolumeAttachment: {error}") from error
        self._memory.mark_finalizer_known(target.name)

    async def confirm_status(self, target: Target) -> None:
        """The status is that of the machine whose node id it carries: removes the annotation with the former one's node id."""
        attachment = target.find(self._view)
        if attachment is None or not annotation(attachment, STATUS_OF_ANNOTATION):
            return
        with _failing("could not save VolumeAttachment", reported=False):
            taken = merge_patch({"metadata": {"annotations": {STATUS_OF_ANNOTATION: None}}}, of=attachment)
            await self._patch_attachment(attachment, taken)

    async def remove_finalizer(self, target: Target, mark: bool) -> None:
        """Removes the finalizer; then, if the attachment is still there and `mark`, marks it detached."""
        attachment = target.find(self._view)
        with _failing("could not mark as detached"):
            if attachment is not None and self._view.holds(attachment):
                await self._patch_attachment(attachment, remove_finalizer(attachment, self._view.finalizer))
                self._memory.mark_finalizer_known(target.name)
            if mark:
                await self.mark_detached(target)

    # -- VolumeAttachments: the status

    async def mark_attached(self, target: Target, metadata: Mapping[str, str]) -> Learnt:
        """MARKED; VANISHED when the attachment is no more; UNSENT when the cache shows it marked so, and the API server was not asked."""
        attachment = target.find(self._view)
        if attachment is None:
            return Learnt.VANISHED
        wanted = _status(attachment, "attachError", "attachmentMetadata", attached=True)
        if metadata:
            wanted["attachmentMetadata"] = dict(metadata)
        try:
            answer = await self._save_status(attachment, wanted)
        except NotFound:
            return Learnt.VANISHED
        except Invalid as error:  # asking again would get the same answer, so the user must see it
            raise Failed(f"could not save the driver's publish_context: {error}") from error
        except ApiError as error:
            raise Failed(f"could not mark as attached: {error}", reported=False, is_told_when_it_lasts=True) from error
        return Learnt.UNSENT if answer is attachment else Learnt.MARKED

    async def ask(self, target: Target) -> Learnt:
        """Asks the API server: MARKED while the attachment is there, VANISHED, or UNKNOWN when it does not say. Raises nothing."""
        try:
            found = await self._attachments.write(Key("", target.name), self._cluster.get(VOLUME_ATTACHMENTS, target.name))
        except NotFound:
            return Learnt.VANISHED
        except ApiError:
            return Learnt.UNKNOWN
        return Learnt.MARKED if found.metadata.uid == target.uid else Learnt.VANISHED

    async def mark_detached(self, target: Target) -> None:
        """Nothing to do when the attachment went away with its last finalizer."""
        attachment = target.find(self._view)
        if attachment is not None:
            with _failing("could not mark as detached", reported=self._view.holds(attachment)):
                await self._save_status(attachment, _status(attachment, "attachmentMetadata", "detachError", attached=False))

    async def clear_error(self, target: Target) -> None:
        """Removes the attachError."""
        attachment = target.find(self._view)
        if attachment is not None:
            with _failing("could not clear the error", reported=False):
                await self._save_status(attachment, _status(attachment, "attachError"))

    async def save_error(self, target: Target, field: str, message: str, time: str, code: int | None) -> None:
        """Writes `attachError` or `detachError` (field). A failure that is there already is not written again. Raises ApiError."""
        attachment = target.find(self._view)
        if attachment is None:
            return
        before = _status(attachment).get(field) or {}
        if (before.get("message"), before.get("errorCode")) == (message, code):
            return
        error = {"message": message, "time": time, **({} if code is None else {"errorCode": code})}
        await self._save_status(attachment, _status(attachment, **{field: error}))

    async def _save_status(self, attachment: VolumeAttachment, wanted: Mapping[str, Any]) -> VolumeAttachment:
        """Patches what differs from the object in hand; nothing when nothing does. Raises ApiError."""
        changes = merge_diff(_status(attachment), wanted)
        if not changes:
            return attachment
        return await self._patch_attachment(attachment, merge_patch({"status": changes}, of=attachment), "status")

    async def _patch_attachment(self, attachment: VolumeAttachment, patch: Patch, subresource: str = "") -> VolumeAttachment:
        """Raises ApiError: NotFound also where another attachment has the name by now, which then is in the cache."""
        name = attachment.metadata.name
        try:
            request = self._cluster.patch(VOLUME_ATTACHMENTS, name, patch, subresource=subresource)
            return await self._attachments.write(Key("", name), request)
        except ApiError as error:
            if not is_about_identity(error):
                raise
            found = await self._attachments.write(Key("", name), self._cluster.get(VOLUME_ATTACHMENTS, name))
            if found.metadata.uid == attachment.metadata.uid:
                raise
            raise NotFound(f"another attachment has the name: {error}") from error


def finalizer_changes(attachment: VolumeAttachment, node_id: str, finalizer: str) -> Mapping[str, Any]:
    """The changes of the attachment's metadata that add finalizer and node id, none where both are there.

    Beside others' finalizers it carries a resourceVersion: a merge patch writes the whole list, as it was seen (docs/decisions/0008).
    """
    changes: dict[str, Any] = {}
    present = annotation(attachment, NODE_ID_ANNOTATION)
    if present != node_id:
        changes["annotations"] = {NODE_ID_ANNOTATION: node_id}
        if present and attachment.status.attached and not annotation(attachment, STATUS_OF_ANNOTATION):
            changes["annotations"][STATUS_OF_ANNOTATION] = present
    others = finalizers_of(attachment)
    if finalizer not in others:
        changes["finalizers"] = [*others, finalizer]
        if others:
            changes["resourceVersion"] = attachment.metadata.resource_version
    return changes


def _status(attachment: VolumeAttachment, *without: str, **changes: Any) -> dict[str, Any]:
    """The status as JSON, without some fields and with some changed."""
    body = {"attached": False, **msgspec.to_builtins(attachment.status), **changes}
    return {field: value for field, value in body.items() if field not in without}


@contextlib.contextmanager
def _failing(text: str, *, reported: bool = True) -> Iterator[None]:
    """Turns an error of the API server into Failed, with this text before it. An object that is gone is no failure."""
    try:
        yield
    except NotFound:
        return
    except ApiError as error:
        raise Failed(f"{text}: {error}", reported=reported) from error
