"""Carrying out what was decided: the writes to the API server and the calls to the driver.

Each action is one request. Its answer enters the caches at once, so that no decision is taken on a state from before our own write. Shapes
of the patches: spec/attacher.md 7. Attachments' finalizers are claimed with a merge patch, as monitoring and audit rules know it, which
carries a resourceVersion whenever there is another's finalizer in the list that it could undo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume, SecretReference
from mooring.api.meta import Key, finalizers_of, is_deleting
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment, VolumeAttachmentStatus
from mooring.attacher import decide
from mooring.attacher.requests import PublishOrder, RequestError, UnpublishOrder
from mooring.attacher.secrets import SecretCache
from mooring.attacher.view import NODE_ID_ANNOTATION, View
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import ApiError, Conflict, Invalid, NotFound, ServerError, Unreachable
from mooring.kube.informer import Informer
from mooring.kube.patch import merge_diff

log = logger(__name__)

UNSURE_MAX: Final = 1000  # from here on every volume counts as unsure


class Failed(MooringError):
    """An action failed. str() is the text for the object's status; code: the driver's gRPC code, if it was the driver.

    reported: False when the failure is not the user's business (a conflict, or the very status could not be saved): only logged.
    """

    def __init__(self, text: str, *, code: int | None = None, reported: bool = True) -> None:
        super().__init__(text)
        self.code = code
        self.reported = reported


class Actions:
    """Performs actions for one driver. calls_max: calls to the driver at one time."""

    def __init__(
        self,
        cluster: Cluster,
        driver: Driver,
        attachments: Informer[VolumeAttachment],
        volumes: Informer[PersistentVolume],
        secrets: SecretCache,
        *,
        timeout_s: float,
        calls_max: int,
    ) -> None:
        self._cluster = cluster
        self._driver = driver
        self._attachments = attachments
        self._volumes = volumes
        self._secrets = secrets
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(calls_max)
        self._holding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unsure: set[str] = set()  # volumes that may carry the finalizer although the cache does not show it

    async def perform(self, view: View, name: str, decision: decide.Decision) -> None:
        """Carries out the decision's actions for the object of that name, in order. Raises Failed."""
        secrets: Mapping[str, str] = {}
        ref: SecretReference | None = None
        before = view.attachment(name)
        for action in decision.actions:
            match action:
                case decide.HoldVolume(pv_name):
                    await self._hold_volume(view, pv_name)
                case decide.LoadSecret(ref):
                    secrets = await self._load_secret(ref)
                case decide.Claim(node_id):
                    await self._claim(view, name, node_id)
                case decide.Publish(order):
                    metadata = await self._publish(order, secrets, ref)
                    if not await self._mark_attached(view, name, metadata) and before and not view.held_by_others(before):
                        await self._undo(name, order, secrets, ref)
                case decide.Unpublish(order):
                    await self._unpublish(order, secrets, ref)
                case decide.Release(mark):
                    await self._release(view, name, mark)
                case decide.MarkAttached():
                    await self._mark_attached(view, name, {})
                case decide.ReleaseVolume(pv_name):
                    await self._release_volume(view, pv_name)
                case decide.ClearError():
                    await self._clear_error(view, name)

    # -- PersistentVolumes

    async def _hold_volume(self, view: View, pv_name: str) -> None:
        lock = self._holding.setdefault(pv_name, asyncio.Lock())
        async with lock:  # attachments to several nodes come at once
            pv = view.volume(pv_name)
            if pv is None or view.holds(pv):
                return
            strictly = pv_name in self._unsure or len(self._unsure) >= UNSURE_MAX
            try:
                await self._patch_volume(pv_name, _addition(pv.metadata.finalizers, view.driver.finalizer, strictly))
            except ApiError as error:
                if isinstance(error, ServerError | Unreachable) and len(self._unsure) < UNSURE_MAX:
                    self._unsure.add(pv_name)
                raise Failed(f"could not add PersistentVolume finalizer: {error}") from error
            self._unsure.discard(pv_name)

    async def _release_volume(self, view: View, pv_name: str) -> None:
        pv = view.volume(pv_name)
        if pv is None or not view.holds(pv):
            return
        try:
            await self._patch_volume(pv_name, _removal(finalizers_of(pv), view.driver.finalizer))
        except NotFound:
            return
        except ApiError as error:
            raise Failed(f"could not remove PersistentVolume finalizer: {error}", reported=False) from error

    async def _patch_volume(self, pv_name: str, operations: list[dict[str, Any]]) -> None:
        patch = Patch(PatchType.JSON, operations)
        await self._volumes.write(Key("", pv_name), self._cluster.patch(PERSISTENT_VOLUMES, pv_name, patch))

    # -- VolumeAttachments

    async def _claim(self, view: View, name: str, node_id: str) -> None:
        attachment = view.attachment(name)
        if attachment is None or is_deleting(attachment):
            raise Failed(f'VolumeAttachment "{name}" was deleted before it could be attached', reported=False)
        changes: dict[str, Any] = {}
        if (attachment.metadata.annotations or {}).get(NODE_ID_ANNOTATION) != node_id:
            changes["annotations"] = {NODE_ID_ANNOTATION: node_id}
        if not view.holds(attachment):
            others = finalizers_of(attachment)
            changes["finalizers"] = [*others, view.driver.finalizer]
            if others:
                changes["resourceVersion"] = attachment.metadata.resource_version
        if not changes:
            return
        try:
            await self._patch_attachment(name, {"metadata": changes})
        except (Conflict, NotFound) as error:
            raise Failed(f"could not save VolumeAttachment: {error}", reported=False) from error
        except ApiError as error:
            raise Failed(f"could not save VolumeAttachment: {error}") from error

    async def _release(self, view: View, name: str, mark: bool) -> None:
        attachment = view.attachment(name)
        if attachment is not None and view.holds(attachment):
            removal = Patch(PatchType.JSON, _removal(finalizers_of(attachment), view.driver.finalizer))
            try:
                await self._attachments.write(Key("", name), self._cluster.patch(VOLUME_ATTACHMENTS, name, removal))
            except NotFound:
                return
            except ApiError as error:
                raise Failed(f"could not mark as detached: {error}") from error
        if mark:
            await self._mark_detached(view, name)

    async def _mark_attached(self, view: View, name: str, metadata: Mapping[str, str]) -> bool:
        """Returns False when the attachment is no more."""
        attachment = view.attachment(name)
        if attachment is None:
            return False
        wanted = _status_body(attachment.status)
        wanted["attached"] = True
        wanted.pop("attachError", None)
        _put_or_drop(wanted, "attachmentMetadata", dict(metadata))
        try:
            await self._save_status(attachment, wanted)
        except NotFound:
            return False
        except Invalid as error:  # asking again would get the same answer, so the user must see it
            raise Failed(f"could not save the driver's publish_context: {error}") from error
        except ApiError as error:
            raise Failed(f"could not mark as attached: {error}", reported=False) from error
        return True

    async def _mark_detached(self, view: View, name: str) -> None:
        attachment = view.attachment(name)
        if attachment is None:  # it went away with its last finalizer
            return
        wanted = _status_body(attachment.status)
        wanted["attached"] = False
        for field in ("attachmentMetadata", "detachError"):
            wanted.pop(field, None)
        try:
            await self._save_status(attachment, wanted)
        except NotFound:
            return
        except ApiError as error:
            raise Failed(f"could not mark as detached: {error}") from error

    async def _clear_error(self, view: View, name: str) -> None:
        attachment = view.attachment(name)
        if attachment is None:
            return
        wanted = _status_body(attachment.status)
        wanted.pop("attachError", None)
        try:
            await self._save_status(attachment, wanted)
        except NotFound:
            return
        except ApiError as error:
            raise Failed(f"could not clear the error: {error}", reported=False) from error

    async def save_error(self, view: View, name: str, field: str, message: str, time: str, code: int | None) -> None:
        """Writes `attachError` or `detachError` (field). A failure that is there already is not written again. Raises ApiError."""
        attachment = view.attachment(name)
        if attachment is None:
            return
        wanted = _status_body(attachment.status)
        before = wanted.get(field) or {}
        if (before.get("message"), before.get("errorCode")) == (message, code):
            return
        wanted[field] = {"message": message, "time": time}
        _put_or_drop(wanted[field], "errorCode", code)
        await self._save_status(attachment, wanted)

    async def _save_status(self, attachment: VolumeAttachment, wanted: Mapping[str, Any]) -> None:
        """Patches what differs from the object in hand; nothing when nothing does."""
        changes = merge_diff(_status_body(attachment.status), wanted)
        if changes:
            await self._patch_attachment(attachment.metadata.name, {"status": changes}, "status")

    async def _patch_attachment(self, name: str, body: Mapping[str, Any], subresource: str = "") -> None:
        patch = Patch(PatchType.MERGE, body)
        request = self._cluster.patch(VOLUME_ATTACHMENTS, name, patch, subresource=subresource)
        await self._attachments.write(Key("", name), request)

    # -- the driver

    async def _load_secret(self, ref: SecretReference) -> Mapping[str, str]:
        try:
            return await self._secrets.get(ref)
        except (ApiError, RequestError) as error:
            raise Failed(f'failed to load secret "{ref.namespace}/{ref.name}": {error}') from error

    async def _publish(self, order: PublishOrder, secrets: Mapping[str, str], ref: SecretReference | None) -> Mapping[str, str]:
        async with self._slots:
            try:
                call = Call(self._timeout_s, order.migrated)
                answer = await self._driver.controller_publish_volume(order.request(secrets), call)
            except DriverError as error:
                raise self._failed_call(error, ref) from error
        return dict(answer.publish_context)

    async def _unpublish(self, order: UnpublishOrder, secrets: Mapping[str, str], ref: SecretReference | None) -> None:
        async with self._slots:
            try:
                call = Call(self._timeout_s, order.migrated)
                await self._driver.controller_unpublish_volume(order.request(secrets), call)
            except DriverError as error:
                raise self._failed_call(error, ref) from error

    async def _undo(self, name: str, order: PublishOrder, secrets: Mapping[str, str], ref: SecretReference | None) -> None:
        """Somebody tore the attachment away, finalizer and all, while the volume was being published: nobody else would ever detach it.

        external-attacher has no undo.
        """
        log.error("the attachment vanished while its volume was being published: undoing", VolumeAttachment=name, volume=order.handle)
        await self._unpublish(UnpublishOrder(order.handle, order.node_id, order.migrated), secrets, ref)

    def _failed_call(self, error: DriverError, ref: SecretReference | None) -> Failed:
        if ref is not None:  # perhaps it was the secret: read it anew next time
            self._secrets.forget(ref)
        return Failed(str(error), code=error.code)


def _addition(finalizers: tuple[str, ...] | None, finalizer: str, strictly: bool) -> list[dict[str, Any]]:
    """The JSON patch that puts in one finalizer. strictly: only where the list is still as we saw it.

    Differs from external-attacher, which is never strict with a list that has others' in it: when the answer to such a patch is lost, the
    next one leaves its finalizer there twice.
    """
    path = "/metadata/finalizers"
    if finalizers is None:
        return [{"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": [finalizer]}]
    if not finalizers:
        return [{"op": "test", "path": path, "value": []}, {"op": "replace", "path": path, "value": [finalizer]}]
    unchanged = [{"op": "test", "path": path, "value": list(finalizers)}] if strictly else []
    return [*unchanged, {"op": "add", "path": f"{path}/-", "value": finalizer}]


def _removal(finalizers: tuple[str, ...], finalizer: str) -> list[dict[str, Any]]:
    """The JSON patch that takes out a finalizer, only if it is still where we saw it; all of them, if external-attacher left it twice."""
    operations: list[dict[str, Any]] = []
    for place in reversed(range(len(finalizers))):
        if finalizers[place] == finalizer:
            path = f"/metadata/finalizers/{place}"
            operations += [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
    return operations


def _status_body(status: VolumeAttachmentStatus) -> dict[str, Any]:
    body: dict[str, Any] = {"attached": False}
    body.update(msgspec.to_builtins(status))
    return body


def _put_or_drop(body: dict[str, Any], field: str, value: Any) -> None:
    if value is None or value == {}:
        body.pop(field, None)
    else:
        body[field] = value
