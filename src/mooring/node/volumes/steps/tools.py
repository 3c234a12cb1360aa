"""The common parts of the steps of all volumes: the driver and its abilities, attachments, secrets, failures, work on
the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.core import SecretReference
from mooring.api.storage import VOLUME_ATTACHMENTS, CSIDriver, VolumeAttachment
from mooring.api.volume_names import attachment_name
from mooring.base.backoff import BackOff
from mooring.base.clock import Clock
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.control.secrets import SecretCache, SecretError
from mooring.csi.errors import DriverError
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.mounts.system import ToolFailed
from mooring.node.drivers import Drivers, NotRegistered, RegisteredDriver
from mooring.node.layout import KubeletLayout
from mooring.node.metrics import NodeMetrics
from mooring.node.volumes.state.actual import Failure, VolumeState
from mooring.node.volumes.state.desired import Growth, PodUse, Volume
from mooring.node.volumes.state.folders import BadRecord, LeftOver
from mooring.node.volumes.steps.requests import Injector
from mooring.node.volumes.steps.threads import Threads

_log = logger(__name__)

T = TypeVar("T")

BACK_OFF: Final = BackOff(0.5, 122.0)
"""The kubelet's, with jitter: what failed together, since its driver broke down, is not tried together again."""


class StepFailed(MooringError):
    """A step did not come to its end; str() is for the pod's event.

    step: `MountDevice`, `SetUp`, and others of the kubelet's names. reason: of the event. is_pending: as of a failure.
    is_shown: False for what passes by itself, and is only logged.
    """

    is_shown = True

    def __init__(self, step: str, text: str, *, reason: str = "FailedMount", is_pending: bool = False) -> None:
        super().__init__(text)
        self.step = step
        self.reason = reason
        self.is_pending = is_pending


class StepContext(msgspec.Struct, frozen=True):
    """The tools of every step. tell: an event for a pod, with its type, reason and text. tell_claim: the same for a
    claim.
    """

    node_name: str
    layout: KubeletLayout
    drivers: Drivers
    cluster: Cluster
    secrets: SecretCache
    injector: Injector
    csi_drivers: Informer[CSIDriver]
    tell: Callable[[PodUse, str, str, str], None]
    tell_claim: Callable[[Growth, str, str, str], None]
    clock: Clock
    randomness: Random
    metrics: NodeMetrics
    threads: Threads = msgspec.field(default_factory=Threads)


def why_not_attached(attachment: VolumeAttachment, handle: str) -> str:
    """The text about an attachment by which no volume can be mounted, "" for one that says that the volume is
    attached.
    """
    if attachment.metadata.deletion_timestamp is not None:
        return "volume attachment is being deleted"
    if attachment.status.attached:
        return ""
    error = attachment.status.attach_error
    return (
        error.message if error is not None else ""
    ) or f"volume {handle} is not attached: {attachment.metadata.name} does not say so"


def noted_in(attachment: VolumeAttachment) -> Mapping[str, str]:
    """What the attacher noted for the node: the publish context of its calls."""
    return attachment.status.attachment_metadata or {}


class StepTools:
    """reason: of the events of steps that failed."""

    reason = "FailedMount"

    def __init__(self, around: StepContext) -> None:
        self._around, self._layout = around, around.layout

    def failure(self, before: Failure | None, error: StepFailed, *, is_absent: bool) -> Failure:
        """The record of a step that failed: the next try is twice as far away as the last. is_absent: there was no
        driver to ask.
        """
        count = before.count + 1 if before is not None else 1
        not_before = self._around.clock.now() + BACK_OFF.jittered_s(count, self._around.randomness)
        by_absence = is_absent and (before is None or before.by_absence)
        return Failure(str(error), count, not_before, error.is_pending, by_absence)

    def _failed(self, step: str, text: str, *, is_pending: bool = False) -> StepFailed:
        return StepFailed(step, text, reason=self.reason, is_pending=is_pending)

    def _driver(self, volume: Volume, step: str) -> RegisteredDriver:
        try:
            return self._around.drivers.get(volume.driver)
        except NotRegistered as error:
            raise self._failed(step, f"kubernetes.io/csi: {error}") from None

    async def _able(self, volume: Volume, step: str) -> tuple[RegisteredDriver, frozenset[int]]:
        driver = self._driver(volume, step)
        try:
            return driver, await driver.capabilities()
        except DriverError as error:
            raise self._failed(step, str(error)) from None

    async def read_attachment(self, state: VolumeState) -> None:
        """Reads what the attacher noted for the node, once for as long as the volume is mounted here. Raises
        StepFailed.
        """
        if not state.attachable or (state.context is not None and state.is_mounted):
            return  # where it is not mounted, it may have been detached since
        volume, step = state.volume, "WaitForAttach"
        name = attachment_name(volume.driver, volume.handle, self._around.node_name)
        try:
            attachment = await self._around.cluster.get(VOLUME_ATTACHMENTS, name)
        except ApiError as error:
            raise StepFailed(step, str(error)) from None
        if problem := why_not_attached(attachment, volume.handle):
            raise StepFailed(step, problem)
        state.context = noted_in(attachment)

    async def _secret(self, reference: SecretReference | None, step: str) -> Mapping[str, str]:
        if reference is None:
            return {}
        try:
            return await self._around.secrets.get(reference)
        except (ApiError, SecretError) as error:
            raise self._failed(
                step, f"fetching secret {reference.namespace}/{reference.name} failed: {error}"
            ) from None

    def _forget_secret(self, reference: SecretReference | None) -> None:
        if reference is not None:
            self._around.secrets.invalidate(reference)

    async def _on_disk(self, volume: Volume, step: str, work: Callable[..., T], *args: Any, pod: str = "") -> T:
        """Work on files and mounts, on a thread of the driver's. Raises StepFailed: what was begun may be half done.

        pod: whose folder it is about; work that hangs there holds up no other pod of the volume. "" for what all pods
        share.
        """
        try:
            return await self._around.threads.run(volume.driver, work, *args, about=f"{volume.unique}/{pod}")
        except TimeoutError:
            raise self._failed(step, "the file system does not answer") from None
        except BadRecord as error:
            text = f"{error}; put the record right, or remove it and what is mounted beside it"
            raise self._failed(step, text) from None
        except (LeftOver, ToolFailed, OSError) as error:
            raise self._failed(step, str(error)) from None
