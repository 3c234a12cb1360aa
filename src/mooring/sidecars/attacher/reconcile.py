"""Carries out decisions, in order: calls to the driver, and writes to the API server (`writes.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume, SecretReference
from mooring.api.meta import Key, Kind
from mooring.api.storage import CSI_NODES, CSINode, VolumeAttachment
from mooring.base.log import logger
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache, SecretError
from mooring.control.slim import changed
from mooring.control.topics import Topic
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError, NotFound
from mooring.sidecars.attacher import decision as d
from mooring.sidecars.attacher.calls import secret_read
from mooring.sidecars.attacher.memory import Learnt, UnconfirmedPublish
from mooring.sidecars.attacher.requests import PublishOrder, UnpublishOrder
from mooring.sidecars.attacher.view import View
from mooring.sidecars.attacher.writes import Failed, Target, Writes

log = logger(__name__)

Looked = TypeVar("Looked", PersistentVolume, CSINode)


NODES_TOLD_MAX: Final = 10_000


class Reconciler:
    """Performs the actions of decisions, for one driver. nodes: None for a driver that does not publish. timeout_s: of each call.

    freed: called with an attachment that is gone, when the publish that it may have left behind is undone. tell: wakes attachments.
    """

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        attachments: Informer[VolumeAttachment],
        volumes: Informer[PersistentVolume],
        nodes: Informer[CSINode] | None,
        driver: Driver,
        timeout_s: float,
        freed: Callable[[VolumeAttachment], None],
        tell: Callable[[Topic], None],
    ) -> None:
        self._cluster = runtime.cluster
        self._view, self._memory = view, view.memory
        self._volumes, self._nodes = volumes, nodes
        self._driver, self._timeout_s, self._freed, self._tell = driver, timeout_s, freed, tell
        self._secrets = SecretCache(runtime.cluster, runtime.clock)
        self._versions_told: dict[str, str] = {}  # by node
        self.writes = Writes(runtime.cluster, view, attachments, volumes)

    async def carry_out(self, target: Target, actions: tuple[d.Action, ...], call_over: Callable[[], None]) -> None:
        """Performs the actions in order. call_over: called when the driver has answered. Raises Failed, Stale."""
        writes = self.writes
        last_call = next((action for action in reversed(actions) if isinstance(action, d.Publish | d.Unpublish)), None)
        for action in actions:
            match action:
                case d.AddVolumeFinalizer(pv_name):
                    await writes.add_volume_finalizer(pv_name)
                case d.LookUpVolume(pv_name):
                    await self._look_up(PERSISTENT_VOLUMES, pv_name, self._volumes)
                case d.LookUpNode(node_name):
                    assert self._nodes is not None, "a driver that publishes"
                    await self._look_up(CSI_NODES, node_name, self._nodes)
                case d.LoadSecret(ref):
                    await self._load_secret(target.name, ref)
                case d.AddFinalizer(node_id):
                    await writes.add_finalizer(target, node_id)
                case d.Publish(order):
                    if not any(isinstance(before, d.AddFinalizer) for before in actions):
                        await self._confirm_wish(target)
                    await self._publish(target, order, call_over)
                case d.ConfirmStatus():
                    await writes.confirm_status(target)
                case d.Unpublish(order):
                    await self._unpublish(target.name, order)
                    self._unpublished(target.name, order)
                    if action is last_call:
                        call_over()
                case d.SettlePublish():
                    self._learn(target.name, Learnt.SHOWN)
                case d.EndUndo():
                    self._learn(target.name, Learnt.UNDONE)
                case d.RemoveFinalizer(mark):
                    self._learn(target.name, Learnt.RELEASED)
                    await writes.remove_finalizer(target, mark)
                case d.MarkAttached():
                    await writes.mark_attached(target, {})
                case d.MarkDetached():
                    await writes.mark_detached(target)
                case d.ClearError():
                    await writes.clear_error(target)
                case d.RemoveVolumeFinalizer(pv_name):
                    await writes.remove_volume_finalizer(pv_name)

    async def _look_up(self, kind: Kind[Looked], name: str, cache: Informer[Looked]) -> None:
        """One GET before an error is shown, since the watches of different kinds are not in step. Raises Stale.

        external-attacher shows an error that is none whenever an attachment overtakes its volume or its node.
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
        if found is not None and changed(before, found):
            raise Stale(name)

    # -- the driver

    async def _confirm_wish(self, target: Target) -> None:
        """Before what is shown as attached is published again, and nothing was written: the cache may be of long ago. Raises Failed."""
        attachment = target.find(self._view)
        if attachment is None or not attachment.status.attached:
            return
        match await self.writes.ask(target):
            case Learnt.VANISHED:
                raise Failed("gone before it could be attached again", reported=False)
            case Learnt.UNKNOWN:
                raise Failed("can't tell whether it is still to be attached: the API server does not answer", reported=False)

    async def _publish(self, target: Target, order: PublishOrder, call_over: Callable[[], None]) -> None:
        """Calls and saves the answer. Raises Failed, and Stale when the publish has to be undone at once."""
        attachment = target.find(self._view)
        if attachment is None:  # its end has been handled already, and would confirm nothing any more
            raise Failed("gone before it could be attached", reported=False)
        self._tell_version(attachment)
        self._memory.mark_unconfirmed(UnconfirmedPublish(order.undone, attachment))
        request = order.request(self._memory.secrets.values(target.name))
        try:
            answer = await self._driver.controller_publish_volume(request, Call(self._timeout_s, order.migrated))
        except DriverError as error:
            raise self._failed_call(error, order.secret) from error
        call_over()
        after = self._memory.learn(target.name, await self.writes.mark_attached(target, dict(answer.publish_context)))
        if after.ask:
            after = self._memory.learn(target.name, await self.writes.ask(target))
        if after.undo:
            raise Stale(target.name)

    def _tell_version(self, attachment: VolumeAttachment) -> None:
        """A driver whose node plugins are not upgraded with its controller may not understand each other's context: once per version."""
        node_name, ours = attachment.spec.node_name, self._view.driver.version
        theirs = self._view.version_on(node_name)
        if not theirs or theirs == ours or self._versions_told.get(node_name) == theirs:
            return
        if len(self._versions_told) >= NODES_TOLD_MAX:
            self._versions_told.clear()
        self._versions_told[node_name] = theirs
        text = "A volume is attached to a node that has another version of the driver: upgrade the node plugins first, then the controller"
        log.warning(text, VolumeAttachment=attachment.metadata.name, node=node_name, version_there=theirs, version=ours)

    async def _unpublish(self, name: str, order: UnpublishOrder) -> None:
        request = order.request(self._memory.secrets.values(name))
        try:
            await self._driver.controller_unpublish_volume(request, Call(self._timeout_s, order.migrated))
        except DriverError as error:
            raise self._failed_call(error, order.secret) from error

    def _unpublished(self, name: str, order: UnpublishOrder) -> None:
        """It settles a publish on that machine, not one on another."""
        unconfirmed = self._memory.unconfirmed_of(name)
        if unconfirmed is not None and unconfirmed.order.node_id == order.node_id:
            self._learn(name, Learnt.UNPUBLISHED)

    def _learn(self, name: str, learnt: Learnt) -> None:
        unconfirmed = self._memory.unconfirmed_of(name)
        after = self._memory.learn(name, learnt)
        if after.freed and unconfirmed is not None and not self._view.is_there(unconfirmed.attachment):
            self._freed(unconfirmed.attachment)

    async def _load_secret(self, name: str, ref: SecretReference) -> None:
        """For the next call of this attachment, and of all that share it. Raises Failed."""
        shared = self._memory.secrets
        if (failure := shared.failure(name, ref)) is not None:
            raise Failed(failure)
        shared.begin(ref)
        try:
            shared.succeeded(name, ref, await self._secrets.get(ref))
        except (ApiError, SecretError) as error:
            text = f'failed to load secret "{ref.namespace}/{ref.name}": {error}'
            shared.failed(ref, text)
            raise Failed(text) from error
        finally:
            shared.end(ref)
            self._tell(secret_read(ref))

    def _failed_call(self, error: DriverError, secret: SecretReference | None) -> Failed:
        if secret is not None:  # perhaps it was the secret: read it anew next time
            self._secrets.invalidate(secret)
        return Failed(str(error), code=error.code)
