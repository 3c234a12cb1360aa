"""The common parts of the steps of all volumes: the driver and its abilities, attachments, secrets, failures, and threads for the disk.

A driver that hangs keeps no thread from the volumes of others: each driver has a few of its own.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future
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
from mooring.node.volumes.state.actual import Failure, Stand, VolumeState
from mooring.node.volumes.state.desired import Growth, PodUse, Volume
from mooring.node.volumes.state.folders import BadRecord, LeftOver, publish_record
from mooring.node.volumes.steps.requests import Injected, Injector
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

T = TypeVar("T")

BACK_OFF: Final = BackOff(0.5, 122.0, jitter=0.0)
THREADS: Final = 4
WAIT_S: Final = 30.0


class Threads:
    """Pools by driver name."""

    def __init__(self) -> None:
        self._pools: dict[str, DaemonPool] = {}
        self._left: dict[str, set[asyncio.Future[Any]]] = {}

    async def run(
        self, driver: str, work: Callable[..., T], *args: Any, limit_s: float | None = WAIT_S, about: str = ""
    ) -> T:
        """Returns and raises as the work does. TimeoutError after limit_s: the thread is left to itself, for nothing can end it.

        about: a volume, or a volume in a pod; what was left to itself comes to its end before anything else is done about the same.
        """
        pool = self._pools.get(driver)
        if pool is None:
            pool = self._pools[driver] = DaemonPool(THREADS, f"node/{driver}")
        async with asyncio.timeout(limit_s):
            if (left := self._left.get(about)) is not None:
                await asyncio.wait(left)
            doing = asyncio.get_running_loop().run_in_executor(pool, work, *args)
            try:
                await asyncio.wait([doing])
            except asyncio.CancelledError:
                self._leave(about, doing)
                raise
        return doing.result()

    def _leave(self, about: str, doing: asyncio.Future[Any]) -> None:
        """Nobody waits for the work any more, but what comes next about the volume."""
        self._left.setdefault(about, set()).add(doing)

        def ended(doing: asyncio.Future[Any]) -> None:
            if not doing.cancelled() and (error := doing.exception()) is not None:
                _log.error(
                    "Work on a volume's files that nobody waited for any more has failed", error=error, volume=about
                )
            self._left[about].discard(doing)
            if not self._left[about]:
                del self._left[about]

        doing.add_done_callback(ended)

    def close(self) -> None:
        """Waits for nothing."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


class DaemonPool(Executor):
    """A pool whose threads the process does not wait for when it ends, as it would for those of a ThreadPoolExecutor."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max, self._name = threads_max, name
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads_count = 0

    def submit(self, work: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        """Called from one thread only."""
        future: Future[T] = Future()
        self._jobs.put((future, lambda: work(*args, **options)))
        if self._threads_count < self._threads_max:
            self._threads_count += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads_count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Each thread ends after its job. wait: not supported."""
        for _ in range(self._threads_count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            if future.set_running_or_notify_cancel():
                _settle(future, work)
            del job, future, work  # what it worked on is not kept until the next job


def _settle(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        answer = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(answer)


class StepFailed(MooringError):
    """A step did not come to its end; str() is for the pod's event.

    step: `MountDevice`, `SetUp`, and others of the kubelet's names. reason: of the event. uncertain: it may be going on still.
    is_pending: as of a failure. is_shown: False for what passes by itself, and is only logged.
    """

    is_shown = True

    def __init__(
        self, step: str, text: str, *, reason: str = "FailedMount", uncertain: bool = False, is_pending: bool = False
    ) -> None:
        super().__init__(text)
        self.step = step
        self.reason = reason
        self.uncertain = uncertain
        self.is_pending = is_pending


class StepContext(msgspec.Struct, frozen=True):
    """The tools of every step. tell: an event for a pod, with its type, reason and text. tell_claim: the same for a claim."""

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
    """The text about an attachment by which no volume can be mounted, "" for one that says that the volume is attached."""
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

    def failure(self, before: Failure | None, error: StepFailed) -> Failure:
        """The record of a step that failed: the next try is twice as far away as the last."""
        count = before.count + 1 if before is not None else 1
        not_before = self._around.clock.now() + BACK_OFF.jittered_s(count, self._around.randomness)
        return Failure(str(error), count, not_before, error.is_pending)

    def _failed(self, step: str, text: str, *, uncertain: bool = False, is_pending: bool = False) -> StepFailed:
        return StepFailed(step, text, reason=self.reason, uncertain=uncertain, is_pending=is_pending)

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
            raise self._failed(step, str(error), uncertain=True) from None

    async def read_attachment(self, state: VolumeState) -> None:
        """Reads what the attacher noted for the node, once for as long as the volume is mounted here. Raises StepFailed."""
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

    async def _injection(self, volume: Volume, use: PodUse, step: str) -> Injected:
        try:
            return await self._around.injector.of(volume, use)
        except ApiError as error:
            raise self._failed(step, f"failed to get service account token attributes: {error}") from None

    def _published(self, state: VolumeState, use: PodUse, before: Stand) -> None:
        """The volume is in the pod. A pod that has just got it does not start before it has its size, unless it only reads."""
        publication, growth = state.publications[use.uid], state.volume.growth
        publication.stand, publication.is_outdated, publication.was_found = Stand.DONE, False, False
        if before is Stand.DONE or growth is None or growth.is_written or not state.is_to_grow:
            return
        publication.is_held = not use.read_only

    def _publish_record(self, volume: Volume, mode: str, label: str = "") -> dict[str, str]:
        """mode: the volume's lifecycle mode, "" for a raw device. label: its SELinux label."""
        return publish_record(
            volume.driver,
            volume.handle,
            spec_name=volume.spec_name,
            node=self._around.node_name,
            attachment=attachment_name(volume.driver, volume.handle, self._around.node_name),
            mode=mode,
            label=label,
        )

    async def _undo(
        self, volume: Volume, step: str, error: DriverError, end: Callable[..., None], *args: Any, pod: str = ""
    ) -> None:
        """Removes what was made for a call that has failed and done nothing. Raises StepFailed, with both errors, for what it has left."""
        try:
            await self._on_disk(volume, step, end, *args, pod=pod)
        except StepFailed as left:
            raise self._failed(step, f"{error}; it has left something behind: {left}", uncertain=True) from None

    async def _take_back(
        self, volume: Volume, step: str, call: Awaitable[object], end: Callable[..., None], *args: Any, pod: str = ""
    ) -> None:
        """The driver takes the volume back, and what was made around it is removed. Raises StepFailed.

        A driver that does not know the volume any more has nothing to take back: then it is enough that nothing is mounted.
        Differs from kubelet: it asks such a driver for ever.
        """
        try:
            await call
        except DriverError as error:
            if error.code != Code.NOT_FOUND:
                raise self._failed(step, str(error), uncertain=True, is_pending=error.code == Code.ABORTED) from None
            await self._undo(volume, step, error, end, *args, pod=pod)
            _log.warning(
                "The driver does not know a volume, and nothing of it is mounted: it counts as taken back",
                volume=volume.unique,
            )
            return
        try:
            await self._on_disk(volume, step, end, *args, pod=pod)
        except StepFailed as left:
            raise self._failed(
                step, f"the driver says that it has taken the volume back, but {left}", uncertain=True
            ) from None

    async def _on_disk(self, volume: Volume, step: str, work: Callable[..., T], *args: Any, pod: str = "") -> T:
        """Work on files and mounts, on a thread of the driver's. Raises StepFailed: what was begun may be half done.

        pod: whose folder it is about; work that hangs there holds up no other pod of the volume. "" for what all pods share.
        """
        try:
            return await self._around.threads.run(volume.driver, work, *args, about=f"{volume.unique}/{pod}")
        except TimeoutError:
            raise self._failed(step, "the file system does not answer", uncertain=True) from None
        except BadRecord as error:
            text = f"{error}; put the record right, or remove it and what is mounted beside it"
            raise self._failed(step, text, uncertain=True) from None
        except (LeftOver, ToolFailed, OSError) as error:
            raise self._failed(step, str(error), uncertain=True) from None
