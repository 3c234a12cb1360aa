"""The attacher's writes to the API server, each one request.

Each carries the uid, so that a late write changes no other object of the same name. A merge patch adds the attachment's
finalizer, as audit rules know it from external-attacher. If the list has finalizers of others, the patch also carries
the resourceVersion, so that it can't undo a change of theirs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from mooring.api.core import NODES, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, Kind, Object, annotation, finalizers_of, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.base.log import logger
from mooring.control.decision import PATIENCE, Failed
from mooring.control.locks import KeyLocks
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale, Vanished
from mooring.control.slim import changed
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Invalid, NotFound
from mooring.kube.patch import add_finalizer, merge_diff, merge_patch, remove_finalizer
from mooring.sidecars.attacher.memory import Evidence
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION, STATUS_OF_ANNOTATION, View, id_on

T = TypeVar("T", bound=Object)

log = logger(__name__)


class Target(msgspec.Struct, frozen=True):
    """One VolumeAttachment, not another that took its name."""

    name: str
    uid: str

    def find(self, view: View) -> VolumeAttachment | None:
        """Return the attachment as it is now, None when it is no more."""
        return view.attachment(self.name, self.uid)


class Writes:
    """Patches to VolumeAttachments and PersistentVolumes. All raise Failed, and Stale where the object has moved or is
    no more.

    nodes: None for a driver that does not publish.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        attachments: Informer[VolumeAttachment],
        volumes: Informer[PersistentVolume],
        nodes: Informer[CSINode] | None,
    ) -> None:
        self._cluster, self._view, self._memory = cluster, view, view.memory
        self._volume_cache, self._node_cache = volumes, nodes
        self._attachments = ObjectWriter(cluster, VOLUME_ATTACHMENTS, attachments, patience=1)
        self._volumes = ObjectWriter(cluster, PERSISTENT_VOLUMES, volumes, patience=1)
        self._holding: KeyLocks[str] = KeyLocks()

    # -- what the cache lacks

    async def look_up(self, kind: Kind[Any], name: str) -> None:
        """Ask for the volume or node before an error is shown, since the watches of different kinds are not in step.
        Raises Stale where the cache knows more by now.

        external-attacher shows an error that is none whenever an attachment overtakes its volume or its node.
        """
        cache: Informer[Any] | None = self._volume_cache if kind is PERSISTENT_VOLUMES else self._node_cache
        assert cache is not None, "a driver that publishes"
        before = cache.store.get(Key("", name))
        try:
            cache.observed(await self._cluster.get(kind, name))
        except NotFound:
            return
        except ApiError as error:  # then the cache is all we know
            log.info(2, "could not ask for what the cache lacks", resource=kind.plural, name=name, why=str(error))
            return
        found = cache.store.get(Key("", name))
        if found is not None and changed(before, found):
            raise Stale(name)

    async def is_machine_gone(self, node_name: str, node_id: str) -> bool:
        """Return True when the API server has neither Node nor CSINode of this name, or another machine's CSINode.

        What the cache lacks is looked for in the API server, since a finalizer may go by the answer. A CSINode without
        the driver may be the same machine's, and so may a Node without a CSINode: it was made anew, and its kubelet has
        not registered a driver yet.
        """
        if self._view.node_id(node_name) == node_id:
            return False
        try:
            if (csi_node := await self._get(CSI_NODES, node_name)) is not None:
                return id_on(csi_node, self._view.driver.name) not in ("", node_id)
            return await self._get(NODES, node_name) is None
        except ApiError as error:
            log.info(2, "could not ask whether the node is gone", node=node_name, why=str(error))
            return False

    async def _get(self, kind: Kind[T], name: str) -> T | None:
        try:
            return await self._cluster.get(kind, name)
        except NotFound:
            return None

    # -- PersistentVolumes

    async def add_volume_finalizer(self, pv_name: str) -> None:
        """Add the finalizer, unless it is there. Raises Stale also where the volume is gone or being deleted, and
        where the cache does not show the finalizer after the write: the API server was restored to an older state.
        """
        async with self._holding.of(pv_name):  # attachments to several nodes come at once
            pv = self._view.volume(pv_name)
            if pv is None or is_deleting(pv):
                raise Stale(pv_name)
            if self._view.holds(pv):
                return
            # Differs from external-attacher, which is never strict: after a lost answer its next patch leaves the
            # finalizer there twice.
            unsure = self._memory.unsure_volumes
            patch = add_finalizer(pv, self._view.finalizer, strictly=pv_name in unsure)
            try:
                await self._volumes.patch(pv, patch, failing="could not add PersistentVolume finalizer")
            except Failed as failure:
                if failure.is_unanswered:
                    unsure.add(pv_name)
                raise
            shown = self._view.volume(pv_name)
            if shown is None or not self._view.holds(shown):
                unsure.add(pv_name)
                raise Stale(pv_name)
            unsure.discard(pv_name)

    async def remove_volume_finalizer(self, pv_name: str) -> None:
        """Remove the finalizer, unless it is gone."""
        pv = self._view.volume(pv_name)
        if pv is not None and self._view.holds(pv):
            patch = remove_finalizer(pv, self._view.finalizer)
            await self._volumes.patch(pv, patch, failing="could not remove PersistentVolume finalizer")

    # -- VolumeAttachments: the finalizer

    async def add_finalizer(self, target: Target, node_id: str) -> None:
        """Write the finalizer and the node id where they are missing."""
        attachment = target.find(self._view)
        if attachment is None:
            raise Vanished("gone before it could be attached")
        if is_deleting(attachment):
            raise Stale("deleted before it could be attached")
        changes = finalizer_changes(attachment, node_id, self._view.finalizer)
        if not changes:
            return
        patch = merge_patch({"metadata": changes}, of=attachment)
        try:
            await self._attachments.patch(attachment, patch, failing="could not save VolumeAttachment")
        except Failed as failure:
            if failure.is_unanswered:
                self._memory.finalizers_unknown.add(target.uid)
            raise
        self._memory.finalizers_unknown.discard(target.uid)

    async def confirm_status(self, target: Target) -> None:
        """Remove the annotation with the former machine's node id: the status is about the present one by now."""
        attachment = target.find(self._view)
        if attachment is None or not annotation(attachment, STATUS_OF_ANNOTATION):
            return
        taken = merge_patch({"metadata": {"annotations": {STATUS_OF_ANNOTATION: None}}}, of=attachment)
        with _in_silence():
            await self._attachments.patch(attachment, taken, failing="could not save VolumeAttachment")

    async def remove_finalizer(self, target: Target, mark: bool) -> None:
        """Remove the finalizer; then, if the attachment is still there and `mark`, mark it detached."""
        attachment = target.find(self._view)
        if attachment is not None and self._view.holds(attachment):
            patch = remove_finalizer(attachment, self._view.finalizer)
            await self._attachments.patch(attachment, patch, failing="could not mark as detached")
            self._memory.finalizers_unknown.discard(target.uid)
        if mark:
            await self.mark_detached(target)

    # -- VolumeAttachments: the status

    async def mark_attached(self, target: Target, metadata: Mapping[str, str]) -> Evidence:
        """Mark it attached. Return MARKED, VANISHED when the attachment is no more, or, where the cache shows it marked
        so already, what the API server says of it.
        """
        attachment = target.find(self._view)
        if attachment is None:
            return Evidence.VANISHED
        wanted = _status(attachment, "attachError", "attachmentMetadata", attached=True)
        if metadata:
            wanted["attachmentMetadata"] = dict(metadata)
        try:
            is_sent = await self._save_status(attachment, wanted, "could not mark as attached")
        except Vanished:
            return Evidence.VANISHED
        except Failed as failure:
            # Asking again would get the same answer, so the user must see it.
            if isinstance(failure.__cause__, Invalid):
                raise Failed(f"could not save the driver's publish_context: {failure.__cause__}") from failure
            failure.patience = PATIENCE  # it is attached, and the next try may say so
            raise
        return Evidence.MARKED if is_sent else await self.ask(target)

    async def ask(self, target: Target) -> Evidence:
        """Ask the API server: MARKED while the attachment is there, VANISHED, or UNKNOWN when it does not say. Raises
        nothing.
        """
        attachment = target.find(self._view)
        try:
            if attachment is not None:
                await self._attachments.look(attachment)
        except Vanished:
            return Evidence.VANISHED
        except Failed:
            return Evidence.UNKNOWN
        return Evidence.VANISHED if attachment is None else Evidence.MARKED

    async def mark_detached(self, target: Target) -> None:
        """Mark it detached, unless it went away with its last finalizer."""
        attachment = target.find(self._view)
        if attachment is not None:
            wanted = _status(attachment, "attachmentMetadata", "detachError", attached=False)
            with contextlib.nullcontext() if self._view.holds(attachment) else _in_silence():
                await self._save_status(attachment, wanted, "could not mark as detached")

    async def clear_error(self, target: Target) -> None:
        """Remove the attachError."""
        attachment = target.find(self._view)
        if attachment is not None:
            with _in_silence():
                await self._save_status(attachment, _status(attachment, "attachError"), "could not clear the error")

    async def save_error(
        self, attachment: VolumeAttachment, field: str, message: str, time: str, code: int | None
    ) -> None:
        """Write `attachError` or `detachError` (field). A failure that is there already is not written again."""
        before = _status(attachment).get(field) or {}
        if (before.get("message"), before.get("errorCode")) == (message, code):
            return
        error = {"message": message, "time": time, **({} if code is None else {"errorCode": code})}
        await self._save_status(attachment, _status(attachment, **{field: error}))

    async def _save_status(self, attachment: VolumeAttachment, wanted: Mapping[str, Any], failing: str = "") -> bool:
        """Patch the fields that differ from the object in hand. Return False where none does."""
        changes = merge_diff(_status(attachment), wanted)
        if changes:
            await self._attachments.patch(
                attachment, merge_patch({"status": changes}, of=attachment), "status", failing=failing
            )
        return bool(changes)


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
    """Log a failure, and do not show it: the attachment is attached, or detached, all the same."""
    try:
        yield
    except Failed as failure:
        failure.is_shown = True
        raise


def finalizer_changes(attachment: VolumeAttachment, node_id: str, finalizer: str) -> Mapping[str, Any]:
    """Return the changes of the attachment's metadata that add finalizer and node id, none where both are there.

    Beside others' finalizers they carry a resourceVersion: a merge patch writes the whole list, as it was seen
    (docs/decisions/0008).
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
    """Return the status as JSON, without some fields and with some changed."""
    body = {"attached": False, **msgspec.to_builtins(attachment.status), **changes}
    return {field: value for field, value in body.items() if field not in without}
