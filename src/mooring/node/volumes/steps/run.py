"""How steps run: each in a task of its own, mounts within a limit, and what a failure comes to.

A driver that hangs keeps no worker from the volumes of others. The number of tasks has the bound that matters: one for
each volume on the node, and one for each pod that a volume is being taken from. If the node's owner limits the mounts
of a driver, they go first come, first served.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable

from mooring.base import effects
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.control.queue import WorkerGroup
from mooring.control.result import Because
from mooring.node.layout import BadName
from mooring.node.volumes.decide import MOUNTS, Do
from mooring.node.volumes.state.actual import ActualState, Publication, Refusal, Stand, Step, UnderWay, VolumeState
from mooring.node.volumes.steps.announcements import Announcements, StepWatch
from mooring.node.volumes.steps.attachment import Attachments
from mooring.node.volumes.steps.block import BlockSteps
from mooring.node.volumes.steps.file_system import FileSystemSteps
from mooring.node.volumes.steps.growth import GrowthSteps
from mooring.node.volumes.steps.tools import StepContext, StepFailed

_log = logger(__name__)


class StepTasks:
    """failed: called with the volume whose step has ended in a way that nobody expected."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._workers = WorkerGroup()
        self._group: asyncio.TaskGroup | None = None
        self._is_to_end = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled, or until drained and the last step has ended."""
        async with self._workers.workers() as group:
            self._group = group
            await self._is_to_end.wait()

    async def drain(self, timeout_s: float) -> bool:
        """Begins no new step, lets those under way end. False when timeout_s was too short."""
        self._is_to_end.set()
        return await self._workers.drained(timeout_s)

    @property
    def is_open(self) -> bool:
        """False before the start, and once the agent ends."""
        return self._group is not None and not self._is_to_end.is_set()

    def begin(self, unique: str, name: str, step: Callable[[], Awaitable[None]]) -> None:
        """Carries out a step of a volume. name: of the step. Steps may begin. Raises CancelledError where the agent is
        being cancelled.
        """
        assert self._group is not None
        work = self._carry_out(unique, step)
        try:
            self._group.create_task(work, name=f"node/step/{name}/{unique}")
        except RuntimeError:  # the group takes no task any more: who asks for one is about to be cancelled, too
            work.close()
            raise asyncio.CancelledError from None

    async def _carry_out(self, unique: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception as error:  # must not end the steps of other volumes
            trace = Lines("".join(traceback.format_exception(error)))
            _log.error("failed unexpectedly, trying again", error=error, volume=unique, traceback=trace)
            self._failed(unique)


class MountSlots:
    """limit: for each driver, 0 for none. wake: called with the name of a volume that may find a free slot."""

    def __init__(self, limit: int, wake: Callable[[str], None]) -> None:
        self._limit, self._wake = limit, wake
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, None]] = {}  # by driver: volumes, in the order in which they came

    def has_free(self, driver: str) -> bool:
        return not self._limit or self._busy[driver] < self._limit

    def wait(self, driver: str, unique: str) -> None:
        """The volume is woken when it is its turn."""
        self._waiting.setdefault(driver, {})[unique] = None

    def take(self, driver: str) -> None:
        self._busy[driver] += 1

    def give_back(self, driver: str) -> None:
        self._busy[driver] -= 1

    def pass_on(self) -> None:
        """Wakes as many volumes as there are free slots. To be called whenever a volume was dealt with: it may not have
        needed its slot.
        """
        for driver, waiting in self._waiting.items():
            for unique in list(waiting)[: max(0, self._limit - self._busy[driver])]:
                del waiting[unique]
                self._wake(unique)


class Steps:
    """The steps of all volumes. ended: called after each step with its volume and step, and whether it failed.
    goes_round: called before that with the volume's name, when the step began, and what it has done.
    """

    def __init__(
        self,
        context: StepContext,
        actual: ActualState,
        announcements: Announcements,
        attachments: Attachments,
        tasks: StepTasks,
        slots: MountSlots,
        ended: Callable[[VolumeState, Do, bool], Awaitable[None]],
        goes_round: Callable[[str, Instant, tuple[object, ...]], object],
    ) -> None:
        self._context, self._actual, self._announcements, self._attachments = (
            context,
            actual,
            announcements,
            attachments,
        )
        self._tasks, self._slots, self._ended, self._goes_round = tasks, slots, ended, goes_round
        self._file_system, self._block, self._growth = (
            FileSystemSteps(context),
            BlockSteps(context),
            GrowthSteps(context),
        )
        self.watch = StepWatch(context.metrics, context.clock, announcements.slow)

    def stop_walks(self) -> None:
        """The next agent finishes the groups that are being set: the end does not wait for them."""
        self._file_system.stop_walks()

    def begin(self, state: VolumeState, do: Do, because: Because) -> None:
        """Carries out a step; it has to be possible to begin one."""
        effects.note((do.step, do.pod))
        # So it stays reported in use, and the object of a pod stays that goes meanwhile.
        state.at_work[do.pod] = UnderWay(do.step, because)
        if do.step in MOUNTS:
            self._slots.take(state.volume.driver)
        self._tasks.begin(state.volume.unique, do.step.value, lambda: self._do(state, do))

    async def _do(self, state: VolumeState, do: Do) -> None:
        has_failed, began, done = True, self._context.clock.now(), effects.begin()
        try:
            async with self.watch.around(state, do):
                await self._carry_out(state, do)
            has_failed = False
        except StepFailed as error:
            self._failed(state, do, error, is_absent=effects.UNSENT in done)
        except BadName as error:
            self._failed(state, do, StepFailed("NewMounter initialization", str(error)), is_absent=False)
        finally:
            del state.at_work[do.pod]
            if do.step in MOUNTS:
                self._slots.give_back(state.volume.driver)
            self._slots.pass_on()
        self._goes_round(state.volume.unique, began, tuple(done))
        await self._ended(state, do, has_failed)

    async def _carry_out(self, state: VolumeState, do: Do) -> None:
        """Raises StepFailed."""
        uid, uses = do.pod, self._actual.desired.uses(state.volume.unique)
        steps = self._block if state.volume.is_block else self._file_system
        match do.step:
            case Step.ATTACH:
                await self._attachments.attach(state)
            case Step.DETACH:
                await self._attachments.detach(state)
            case Step.STAGE:
                await steps.read_attachment(state)
                if (use := uses.get(do.first)) is not None:  # it may have gone during the read
                    await steps.stage(state, use)
                    state.device_failure = None
            case Step.PUBLISH:
                await steps.read_attachment(state)
                volume = self._actual.desired.volume_of(state.volume.unique, uid)
                if volume is None or (use := uses.get(uid)) is None:  # gone during the read
                    return
                await steps.publish(state, volume, use)
                state.publications[uid].failure = None
                self._announcements.announced_no_more(uid, state.volume.unique)
            case Step.UNPUBLISH:
                await steps.unpublish(state, uid)
            case Step.UNSTAGE:
                await steps.unstage(state)
                state.device_failure = state.context = None
                state.growth_refusal = Refusal.NONE
            case Step.EXPAND if uid in uses:  # else the pod has gone just now
                await self._growth.expand(state, uses[uid])

    def _failed(self, state: VolumeState, do: Do, error: StepFailed, *, is_absent: bool) -> None:
        """Remembers when the step may be tried again, and tells the users of the pods that it keeps waiting."""
        volume = state.volume
        if do.step in (Step.STAGE, Step.PUBLISH):
            state.context = None  # read anew for the next try: the volume may have been attached anew
            state.attachment = self._attachments.of_found(state)
        if do.step in (Step.ATTACH, Step.DETACH):
            failure = state.attach_wait = self._attachments.wait_after(state.attach_wait, str(error))
        elif do.step in (Step.STAGE, Step.UNSTAGE):
            failure = state.device_failure = self._growth.failure(state.device_failure, error, is_absent=is_absent)
        elif do.step is Step.EXPAND:
            failure = state.growth_failure = self._growth.failure(state.growth_failure, error, is_absent=is_absent)
        else:
            own = self._actual.desired.volume_of(volume.unique, do.pod) or volume
            publication = state.publications.setdefault(do.pod, Publication(own.spec_name, Stand.ABSENT))
            failure = publication.failure = self._growth.failure(publication.failure, error, is_absent=is_absent)
        retry_in_s = round(failure.not_before - self._context.clock.now(), 3)
        _log.error(
            "A step of a volume failed", step=error.step, volume=volume.unique, reason=str(error), retry_in_s=retry_in_s
        )
        self._announcements.failed(state, do, error)
