"""A volume's attachment to this node: the agent waits for it where a controller attaches, or else makes and deletes it
itself.

Source: kubelet 1.36; its setting enableControllerAttachDetach, when off, makes the node attach. Then a volume stands in
`volumesInUse` before its VolumeAttachment is made, and until it is gone: an agent that starts finds there what an
earlier one has attached. Each step asks once; the next look comes soon, so that no pod that leaves waits for an
attacher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mooring.api.core import PERSISTENT_VOLUMES, Node
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.api.volume_names import attachment_name, split_unique_name
from mooring.base.backoff import BackOff
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.kube.cluster import Cluster
from mooring.kube.errors import AlreadyExists, ApiError, NotFound
from mooring.kube.patch import strategic_patch
from mooring.node.volumes.state.actual import ActualState, Failure, Stand, VolumeState
from mooring.node.volumes.state.desired import Volume
from mooring.node.volumes.steps.announcements import Announcements
from mooring.node.volumes.steps.tools import StepFailed
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

WAIT_S: Final = 123.0
"""How long pods wait for an attachment before that is told: the kubelet's limit of one wait for volumes."""

STEP: Final = "Attach"
REASON: Final = "FailedAttachVolume"
BACK_OFF: Final = BackOff(0.1, 10.0, jitter=0.0)


class Attachments:
    """on_full: told of a driver whose node takes no more volumes. attaches: False where the attach/detach controller
    attaches.
    """

    def __init__(
        self,
        cluster: Cluster,
        actual: ActualState,
        announcements: Announcements,
        clock: Clock,
        on_full: Callable[[str], None],
        *,
        attaches: bool,
    ) -> None:
        self._cluster, self._actual, self._announcements, self._clock = cluster, actual, announcements, clock
        self._on_full, self.attaches = on_full, attaches

    # -- where a controller attaches

    async def wait(self, state: VolumeState) -> float:
        """Seconds until the next look at a volume that is not attached.

        After WAIT_S pods that do not have it are told, with what the attacher says; on a node that is full those that
        wait are rejected.
        """
        now = self._clock.now()
        if state.unattached_since is None:
            state.unattached_since = now
        if (left_s := state.unattached_since + WAIT_S - now) > 0:
            return left_s
        state.unattached_since = now
        await self._tell_unattached(state)
        return WAIT_S

    async def _tell_unattached(self, state: VolumeState) -> None:
        volume = state.volume
        cause, code = await self._error(volume)
        is_full = code == Code.RESOURCE_EXHAUSTED and bool(
            self._actual.driver_spec(volume.driver).node_allocatable_update_period_seconds
        )
        if is_full:
            self._on_full(volume.driver)
        for uid, use in list(self._actual.desired.uses(volume.unique).items()):
            if state.has(uid):
                continue
            lists = (
                f"unmounted volumes=[{use.volume_name}], unattached volumes=[{use.volume_name}], failed to process "
                "volumes=[]"
            )
            self._announcements.announce(uid, volume.unique, f"Unable to attach or mount volumes: {lists}: {cause}")
            if is_full:
                text = f"Node has reached its volume attachment limit, rejecting pod. {lists}: {cause}"
                await self._reject(uid, "VolumeAttachmentLimitExceeded", text)

    async def _error(self, volume: Volume) -> tuple[str, int | None]:
        """Why the volume is not attached, as far as its VolumeAttachment tells, and the driver's code."""
        try:
            error = (await self._cluster.get(VOLUME_ATTACHMENTS, self._name(volume))).status.attach_error
        except ApiError as refusal:
            return str(refusal), None
        return (
            (error.message, error.error_code) if error is not None else ("the attacher has not attached it yet", None)
        )

    async def _reject(self, uid: str, reason: str, message: str) -> None:
        """A pod that runs is not: it has its volumes, or had them before a restart."""
        pod, key = self._actual.pod(uid), self._actual.keys.get(uid)
        if pod is None or key is None or pod.status.phase == "Running":
            return
        patch = strategic_patch({"status": {"phase": "Failed", "reason": reason, "message": message}}, of=uid)
        try:
            await self._cluster.patch(PODS, key.name, patch, key.namespace, subresource="status")
        except ApiError as error:
            _log.error("A pod could not be rejected", error=error, pod=str(key))

    # -- where this node attaches by itself

    def of_found(self, state: VolumeState) -> Stand:
        """The attachment of a volume that was found on the disk, or of which a step has failed: perhaps this node has
        asked for it.
        """
        return Stand.UNCERTAIN if self.attaches and state.attachable else Stand.ABSENT

    def left(self, node: Node, states: Mapping[str, VolumeState]) -> Iterator[tuple[str, VolumeState]]:
        """The volumes that the Node says to be in use, and of which nothing was found: they may be attached."""
        for unique in (node.status.volumes_in_use or ()) if self.attaches else ():
            if unique not in states and (found := split_unique_name(unique)) is not None:
                driver, handle = found
                volume = Volume(unique=unique, driver=driver, handle=handle, spec_name="", is_known=False)
                yield unique, VolumeState(volume, attachable=True, attachment=Stand.UNCERTAIN)

    async def attach(self, state: VolumeState) -> None:
        """Asks for the attachment, or looks what has become of it. Raises StepFailed."""
        state.attachment = Stand.UNCERTAIN
        found = await self._find(state.volume)
        if found is None:
            await self._create(state.volume)
            self._look_later(state, "its VolumeAttachment is made")
        elif found.metadata.deletion_timestamp is not None:
            self._look_later(state, "an earlier VolumeAttachment is being deleted")
        elif found.status.attached:
            state.attachment, state.attach_wait, state.context = (
                Stand.DONE,
                None,
                found.status.attachment_metadata or {},
            )
        elif found.status.attach_error is not None:
            raise _failed(found.status.attach_error.message)
        else:
            self._look_later(state, "the attacher has not attached it yet")

    async def detach(self, state: VolumeState) -> None:
        """Deletes the attachment, or looks whether it is gone. Raises StepFailed."""
        state.attachment, state.context = Stand.UNCERTAIN, None
        found = await self._find(state.volume)
        if found is None:
            state.attachment, state.attach_wait = Stand.ABSENT, None
            return
        if found.metadata.deletion_timestamp is None:
            await self._delete(found)
        self._look_later(state, "the attacher has not detached it yet")

    def _look_later(self, state: VolumeState, text: str) -> None:
        state.attach_wait = self.wait_after(state.attach_wait, text)

    def wait_after(self, before: Failure | None, text: str) -> Failure:
        """The wait for the next look, twice as long as the one before."""
        count = before.count + 1 if before is not None else 1
        return Failure(text, count, self._clock.now() + BACK_OFF.delay_s(count))

    async def _find(self, volume: Volume) -> VolumeAttachment | None:
        try:
            return await self._cluster.get(VOLUME_ATTACHMENTS, self._name(volume))
        except NotFound:
            return None
        except ApiError as error:
            raise _failed(str(error)) from None

    async def _create(self, volume: Volume) -> None:
        """Create the VolumeAttachment, unless it is there: the answer to an earlier try may be lost."""
        source = {"persistentVolumeName": volume.spec_name}
        body = {
            "apiVersion": VOLUME_ATTACHMENTS.api_version,
            "kind": VOLUME_ATTACHMENTS.name,
            "metadata": {"name": self._name(volume)},
            "spec": {"attacher": volume.driver, "nodeName": self._actual.node_name, "source": source},
        }
        try:
            await self._cluster.get(PERSISTENT_VOLUMES, volume.spec_name)  # a disk that a pod itself names has none
            await self._cluster.create(VOLUME_ATTACHMENTS, body)
        except AlreadyExists:
            pass
        except ApiError as error:
            raise _failed(str(error)) from None

    async def _delete(self, attachment: VolumeAttachment) -> None:
        try:
            await self._cluster.delete(VOLUME_ATTACHMENTS, attachment.metadata.name, uid=attachment.metadata.uid)
        except NotFound:
            pass
        except ApiError as error:
            raise _failed(str(error)) from None

    def _name(self, volume: Volume) -> str:
        return attachment_name(volume.driver, volume.handle, self._actual.node_name)


def _failed(text: str) -> StepFailed:
    return StepFailed(STEP, text, reason=REASON)
