"""A volume's attachment to this node, as far as the node needs it: what the attacher noted, and what a wait that takes long waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.kube.patch import strategic_patch
from mooring.node.volumes.actual import ActualState
from mooring.node.volumes.state import Volume, VolumeState
from mooring.node.volumes.step_tools import StepFailed
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

WAIT_S: Final = 123.0
"""How long pods wait for an attachment before that is told: the kubelet's limit of one wait for volumes."""

STEP: Final = "WaitForAttach"


class Attachments:
    """on_full: told of a driver whose node takes no more volumes."""

    def __init__(self, cluster: Cluster, actual: ActualState, clock: Clock, on_full: Callable[[str], None]) -> None:
        self._cluster, self._actual, self._clock, self._on_full = cluster, actual, clock, on_full

    async def read(self, state: VolumeState) -> None:
        """Reads what the attacher noted for the node, once for as long as the volume is here. Raises StepFailed."""
        if not state.attachable or state.context is not None:
            return
        try:
            attachment = await self._cluster.get(VOLUME_ATTACHMENTS, self._name(state.volume))
        except ApiError as error:
            raise StepFailed(STEP, str(error)) from None
        if attachment.metadata.deletion_timestamp is not None:
            raise StepFailed(STEP, "volume attachment is being deleted")
        if not attachment.status.attached:
            error_text = attachment.status.attach_error.message if attachment.status.attach_error is not None else ""
            raise StepFailed(
                STEP, error_text or f"volume {state.volume.handle} is not attached: {self._name(state.volume)} does not say so"
            )
        state.context = attachment.status.attachment_metadata or {}

    async def wait(self, state: VolumeState) -> float:
        """Seconds until the next look at a volume that is not attached.

        After WAIT_S pods that do not have it are told, with what the attacher says; on a node that is full those that wait are rejected.
        """
        now = self._clock.now()
        if state.unattached_since is None:
            state.unattached_since = now
        if (left_s := state.unattached_since + WAIT_S - now) > 0:
            return left_s
        state.unattached_since = now
        await self._tell(state)
        return WAIT_S

    async def _tell(self, state: VolumeState) -> None:
        volume = state.volume
        cause, code = await self._error(volume)
        is_full = code == Code.RESOURCE_EXHAUSTED and bool(self._actual.driver_spec(volume.driver).node_allocatable_update_period_seconds)
        if is_full:
            self._on_full(volume.driver)
        for uid, use in list(self._actual.desired.uses(volume.unique).items()):
            if state.has(uid):
                continue
            lists = f"unmounted volumes=[{use.volume_name}], unattached volumes=[{use.volume_name}], failed to process volumes=[]"
            self._actual.announce(uid, volume.unique, f"Unable to attach or mount volumes: {lists}: {cause}")
            if is_full:
                text = f"Node has reached its volume attachment limit, rejecting pod. {lists}: {cause}"
                await self._reject(uid, "VolumeAttachmentLimitExceeded", text)

    async def _error(self, volume: Volume) -> tuple[str, int | None]:
        """Why the volume is not attached, as far as its VolumeAttachment tells, and the driver's code."""
        try:
            error = (await self._cluster.get(VOLUME_ATTACHMENTS, self._name(volume))).status.attach_error
        except ApiError as refusal:
            return str(refusal), None
        return (error.message, error.error_code) if error is not None else ("the attacher has not attached it yet", None)

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

    def _name(self, volume: Volume) -> str:
        return attachment_name(volume.driver, volume.handle, self._actual.node_name)
