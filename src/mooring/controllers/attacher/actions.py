"""Carrying out what was decided, in order: writes to the API server (`writes.py`) and calls to the driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume, SecretReference
from mooring.api.meta import Key, Kind
from mooring.api.storage import CSI_NODES, CSINode, VolumeAttachment
from mooring.base.log import logger
from mooring.control.secrets import SecretCache, SecretError
from mooring.controllers.attacher import decision as d
from mooring.controllers.attacher.requests import PublishOrder, UnpublishOrder
from mooring.controllers.attacher.view import View, same_but_for_version
from mooring.controllers.attacher.writes import CacheWasBehind, Failed, Target, Writes
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound

log = logger(__name__)

Looked = TypeVar("Looked", PersistentVolume, CSINode)

UNDOS_MAX: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Undo:
    """A publish to be taken back. attachment: for which it was made, as it was."""

    order: UnpublishOrder
    attachment: VolumeAttachment

    @property
    def volume_handle(self) -> str:
        return self.order.handle


class Actions:
    """Performs actions for one driver. timeout_s: of each call."""

    def __init__(
        self,
        cluster: Cluster,
        writes: Writes,
        volumes: Informer[PersistentVolume],
        nodes: Informer[CSINode],
        driver: Driver,
        secrets: SecretCache,
        *,
        timeout_s: float,
    ) -> None:
        self._cluster = cluster
        self._writes = writes
        self._volumes = volumes
        self._nodes = nodes
        self._driver = driver
        self._secrets = secrets
        self._timeout_s = timeout_s
        self._in_doubt: dict[str, Undo] = {}  # publishes that may have happened, of attachments that do not say so yet
        self._undos: dict[str, Undo] = {}
        self.on_taken_back: Callable[[VolumeAttachment], None] = lambda attachment: None

    @property
    def doubts(self) -> tuple[Mapping[str, Undo], ...]:
        """By attachment name, live: the publishes that are to be taken back, and those that may have to be."""
        return self._undos, self._in_doubt

    async def perform(self, view: View, target: Target, decision: d.Decision, call_over: Callable[[], None]) -> None:
        """Carries out the decision's actions, in order. call_over: called when the driver has answered. Raises Failed, CacheWasBehind."""
        writes = self._writes
        secrets: Mapping[str, str] = {}
        before = target.find(view)
        for action in decision.actions:
            match action:
                case d.HoldVolume(pv_name):
                    await writes.hold_volume(view, pv_name)
                case d.LookUpVolume(pv_name):
                    await self._look_up(PERSISTENT_VOLUMES, pv_name, self._volumes)
                case d.LookUpNode(node_name):
                    await self._look_up(CSI_NODES, node_name, self._nodes)
                case d.LoadSecret(ref):
                    secrets = await self._load_secret(ref)
                case d.Claim(node_id):
                    await writes.claim(view, target, node_id)
                case d.Publish(order):
                    assert before is not None, "decided a moment ago"
                    if target.find(view) is None:  # its end has been told already, and would clear no doubt any more
                        raise Failed("gone before it could be attached", reported=False)
                    undo = self._in_doubt[target.name] = Undo(order.undone, before)
                    metadata = await self._publish(order, secrets)
                    call_over()
                    stands = await writes.mark_attached(view, target, metadata)
                    if stands is None:
                        stands = await writes.is_there(target)
                    if stands is False:
                        await self._undo_first(view, undo)
                    if stands is not None:
                        self._in_doubt.pop(target.name, None)
                case d.ConfirmStatus():
                    await writes.confirm_status(view, target)
                case d.Unpublish(order):
                    await self._unpublish(order, secrets)
                    doubt = self._in_doubt.pop(target.name, None)
                    if doubt is not None and not view.is_there(doubt.attachment):
                        self.on_taken_back(doubt.attachment)
                    call_over()
                case d.Release(mark):
                    self._in_doubt.pop(target.name, None)  # let go knowingly: detached, or another attachment's business
                    await writes.release(view, target, mark)
                case d.MarkAttached():
                    await writes.mark_attached(view, target, {})
                case d.MarkDetached():
                    await writes.mark_detached(view, target)
                case d.ClearError():
                    await writes.clear_error(view, target)
                case d.ReleaseVolume(pv_name):
                    await writes.release_volume(view, pv_name)

    async def _look_up(self, kind: Kind[Looked], name: str, cache: Informer[Looked]) -> None:
        """One GET before an error is told, since the watches of different kinds are not in step. Raises CacheWasBehind.

        external-attacher tells an error that is none whenever an attachment overtakes its volume or its node.
        """
        before = cache.store.get(Key("", name))
        try:
            cache.wrote(await self._cluster.get(kind, name))
        except NotFound:
            return
        except ApiError as error:  # then the cache is all we know
            log.info(2, "could not ask for what the cache lacks", resource=kind.plural, name=name, why=str(error))
            return
        found = cache.store.get(Key("", name))
        if found is not None and (before is None or not same_but_for_version(before, found)):
            raise CacheWasBehind(name)

    # -- the driver

    async def _load_secret(self, ref: SecretReference) -> Mapping[str, str]:
        try:
            return await self._secrets.get(ref)
        except (ApiError, SecretError) as error:
            raise Failed(f'failed to load secret "{ref.namespace}/{ref.name}": {error}') from error

    async def _publish(self, order: PublishOrder, secrets: Mapping[str, str]) -> Mapping[str, str]:
        try:
            answer = await self._driver.controller_publish_volume(order.request(secrets), Call(self._timeout_s, order.migrated))
        except DriverError as error:
            raise self._failed_call(error, order.secret) from error
        return dict(answer.publish_context)

    async def _unpublish(self, order: UnpublishOrder, secrets: Mapping[str, str]) -> None:
        try:
            await self._driver.controller_unpublish_volume(order.request(secrets), Call(self._timeout_s, order.migrated))
        except DriverError as error:
            raise self._failed_call(error, order.secret) from error

    def _failed_call(self, error: DriverError, secret: SecretReference | None) -> Failed:
        if secret is not None:  # perhaps it was the secret: read it anew next time
            self._secrets.forget(secret)
        return Failed(str(error), code=error.code)

    # -- undoing

    async def _undo_first(self, view: View, undo: Undo) -> None:
        """Somebody tore the attachment away, finalizer and all, while its volume was being published: nobody else would detach it.

        external-attacher has no undo. Ours is known to this process only, and tried again until it works. Raises Failed.
        """
        self._remember(undo)
        await self.undo(view, undo)

    def attachment_ended(self, name: str) -> bool:
        """The attachment is no more. Returns True when a publish under its name, whose outcome nobody knows, is to be undone."""
        undo = self._in_doubt.pop(name, None)
        if undo is not None:
            self._remember(undo)
        return name in self._undos

    def _remember(self, undo: Undo) -> None:
        name = undo.attachment.metadata.name
        log.error("the attachment vanished while its volume was being published: undoing", VolumeAttachment=name, volume=undo.volume_handle)
        if name in self._undos or len(self._undos) < UNDOS_MAX:
            self._undos[name] = undo
        else:
            log.error("too many publishes are to be undone, this one is tried once at most", VolumeAttachment=name, undos=UNDOS_MAX)

    def pending_undo(self, name: str) -> Undo | None:
        """What an attachment of this name left behind and is not taken back yet."""
        return self._undos.get(name)

    async def undo(self, view: View, undo: Undo) -> None:
        """Takes it back, unless another attachment holds the volume there by now. Raises Failed."""
        if view.holder_beside(undo.attachment) is None:
            secret = undo.order.secret
            await self._unpublish(undo.order, {} if secret is None else await self._load_secret(secret))
        self._undos.pop(undo.attachment.metadata.name, None)
        self.on_taken_back(undo.attachment)
