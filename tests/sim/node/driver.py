"""The node service of one driver on one machine: its effects on mounts and folders, one call for a volume at a time.

Calls, locks and most fates are those of the attacher's backend. Of an operation, node_id is the path that the call is
about.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any, Final

from mooring.base.clock import Clock
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from tests.sim.backend import NOT_FINAL, Backend, Operation, _one_of
from tests.sim.node.machine import Machine
from tests.sim.node.plan import DriverPlan, Plan
from tests.sim.story import Story
from tests.support.node_habits import LEAVINGS

STAGE, UNSTAGE, PUBLISH, UNPUBLISH = "stage", "unstage", "publish", "unpublish"
STATS, INFO = "stats", "info"
GIVING: Final = (STAGE, PUBLISH)


class NodeService(Backend):
    """restarts: how often it was restarted. back: set while it runs. other_id: what it says of itself for a while, None
    for the truth.

    forgotten: paths of which it knows nothing any more. held: volumes and paths of calls that hang. stages, stats: what
    it is able to.
    """

    def __init__(
        self,
        world: Any,
        machine: Machine,
        own: DriverPlan,
        plan: Plan,
        clock: Clock,
        story: Story,
        group: asyncio.TaskGroup,
    ) -> None:
        super().__init__(plan, clock, world.randomness["backend"], story, group)  # type: ignore[arg-type]
        self._world, self._machine, self._nodes_plan, self.own = world, machine, plan, own
        self.restarts = 0
        self.stages, self.stats = own.stages, own.habits.stats
        self.lost = asyncio.Event()
        self.other_id: str | None = None
        self.forgotten: set[str] = set()
        self.held: set[tuple[str, str]] = set()
        self._hung_first: dict[str, str] = {}
        self._is_healed = asyncio.Event()

    @property
    def node_id(self) -> str:
        return f"{self.own.name} on {self._machine.name}"

    def check_able(self, verb: str, request: Any) -> None:
        """Raises DriverError for a call that it does not have, and for a volume that is not staged where it stages."""
        if verb in (STAGE, UNSTAGE) and not self.stages:
            raise DriverError(Code.UNIMPLEMENTED, "no such call")
        if verb != PUBLISH or not self.stages or not self._is_own(request.volume_id):
            return
        if self._machine.staged.get(request.volume_id) != request.staging_target_path:
            raise DriverError(
                Code.FAILED_PRECONDITION, f"{request.volume_id} is not staged at {request.staging_target_path!r}"
            )

    async def on_volume(self, verb: str, handle: str, path: str) -> None:
        """Raises DriverError."""
        self.knows(verb, handle, path)
        if not self._hangs(verb, handle, path):
            await self.call(verb, handle, path, {})
            return
        self.held.add((handle, path))
        try:
            await self._is_healed.wait()
        finally:
            self.held.discard((handle, path))
        await self.call(verb, handle, path, {})

    def knows(self, verb: str, handle: str, path: str) -> None:
        """Raises DriverError for what it is to take from where it does not know it to be.

        What it is about to bring to a path it knows there again, also where it had forgotten the path: that volume is
        locked.
        """
        at_work = self.locks.get(handle)
        if verb in GIVING or (at_work is not None and at_work.verb in GIVING and at_work.node_id == path):
            return
        is_here = path in self._machine.published if verb == UNPUBLISH else self._machine.staged.get(handle) == path
        if path in self.forgotten or (self.own.habits.knows_own and not is_here and at_work is None):
            raise DriverError(Code.NOT_FOUND, f"no volume {handle}")

    def _hangs(self, verb: str, handle: str, path: str) -> bool:
        """True for a call that has no effect and no answer, until the faults end."""
        own = self.own.habits
        if not self.faulty or verb not in own.hangs:
            return False
        return not own.hangs_at_first or self._hung_first.setdefault(handle, path) == path

    async def answer_time(self, what: str = "") -> None:
        if self.faulty and what in self.own.habits.hangs:
            await self._is_healed.wait()
        await super().answer_time()

    def heal(self) -> None:
        super().heal()
        self._is_healed.set()
        self.forgotten.clear()
        self.other_id = None

    def gives(self, handle: str) -> Operation | None:
        """The call at work that may still bring the volume to the node or into a pod."""
        operation = self.locks.get(handle)
        is_due = (
            operation is not None and operation.verb in GIVING and not operation.done and operation.fate.takes_effect
        )
        return operation if is_due else None

    # -- restarts

    def restart(self, away_s: float) -> None:
        super().restart(away_s)
        if self.faulty and self.own.habits.forgets:
            self.forgotten = {path for path, handle in self._machine.mounts.items() if self._has(handle)}
        self.restarts += 1
        self.lost.set()
        self.lost = asyncio.Event()

    @property
    def has_staged(self) -> bool:
        return any(self._is_own(handle) for handle in self._machine.staged)

    def become(self, *, stages: bool, stats: bool) -> None:
        """Another version of it, from the next start on."""
        self.stages, self.stats = stages, stats
        self._story.tell(self._machine.name, f"{self.own.name} is upgraded: stages {stages}, tells of usage {stats}")

    @property
    def away_s(self) -> float:
        """How long it is away yet."""
        return max(0.0, self._down_until - self._clock.now())

    # -- effects

    def _take_effect(self, operation: Operation) -> DriverError | None:
        operation.done = True
        error = self._worked(operation)
        self._story.tell(self._machine.name, f"effect of {self._shown(operation)}: {error or 'ok'}")
        return error

    def _worked(self, operation: Operation) -> DriverError | None:
        handle, path = operation.handle, operation.node_id
        self._world.laws.takes_effect(self._machine, operation.verb, handle, path)
        if operation.verb == STAGE:
            return self._stage(handle, path)
        if operation.verb == PUBLISH:
            return self._publish(handle, path)
        if operation.verb == UNPUBLISH:
            self._unpublish(path)
        else:
            self._machine.unmount(path)
            self._machine.staged.pop(handle, None)
        return None

    def _stage(self, handle: str, path: str) -> DriverError | None:
        self.forgotten.discard(path)
        if not os.path.isdir(path):
            return DriverError(Code.INTERNAL, "the staging folder is missing")
        if handle not in self._machine.staged and not self._is_block(handle):
            self._machine.mount(path, handle)
        self._machine.staged[handle] = path
        return None

    def _has(self, handle: str) -> bool:
        """True for a volume with a file system that is one of this driver's; others have one of its own name each."""
        return self._is_own(handle) and not self._is_block(handle)

    def _is_own(self, handle: str) -> bool:
        volume = self._nodes_plan.volume_of(handle)
        return volume is not None and volume.driver == self.own.name

    def _publish(self, handle: str, path: str) -> DriverError | None:
        self.forgotten.discard(path)
        if not os.path.isdir(os.path.dirname(path)):
            return DriverError(Code.INTERNAL, "the folder around the target is missing")
        if path not in self._machine.published:
            if self._is_block(handle):
                Path(path).touch()
                self._machine.devices.add(path)
            else:
                os.makedirs(path, exist_ok=True)
                self._machine.mount(path, handle, apart=self.own.habits.mounts_apart)
        self._machine.published[path] = handle
        return None

    def _unpublish(self, path: str) -> None:
        """What is not there is fine."""
        own = self.own.habits
        self._machine.unmount(path)
        self._machine.published.pop(path, None)
        if path in self._machine.devices and own.leaves_devices:
            return
        self._machine.devices.discard(path)
        with contextlib.suppress(OSError):
            if os.path.isfile(path):
                os.unlink(path)
            elif os.path.isdir(path) and not self.own.leaves_folders:
                os.rmdir(path)
                if own.leaves:
                    LEAVINGS[own.leaves](Path(path))

    def _is_block(self, handle: str) -> bool:
        volume = self._nodes_plan.volume_of(handle)
        return volume is not None and volume.block

    async def _work(self, operation: Operation) -> None:
        """As the backend's. A call that fails may have done a part of its work; one that did all of it mostly leaves
        that open.

        No driver says of a volume that it has here that it knows none: nobody could tell it from one that was deleted.
        """
        stubborn = self.own.habits.stubborn
        if self.faulty and stubborn is not None and stubborn.verb == operation.verb:
            operation.fate = dataclasses.replace(operation.fate, takes_effect=stubborn.done, error=stubborn.code)
        if operation.fate.error is Code.NOT_FOUND and operation.verb not in GIVING:
            operation.fate = dataclasses.replace(operation.fate, error=Code.INTERNAL)
        fate = operation.fate
        if fate.takes_effect and fate.error is not None and not self._may_lie(operation):
            operation.fate = dataclasses.replace(fate, error=_one_of(NOT_FINAL, self._randomness))
        if not fate.takes_effect and self.faulty and self._randomness.happens(self._nodes_plan.half):
            self._half(operation)
        await super()._work(operation)

    def _may_lie(self, operation: Operation) -> bool:
        """True where the answer may say that nothing was done: the mount table shows it all the same."""
        return not self._is_block(operation.handle) and self._randomness.happens(self._nodes_plan.lies)

    def _answer(self, operation: Operation, error: DriverError | None) -> None:
        if operation.answer.done():
            self._story.tell(self._machine.name, f"nobody waits for the answer to {self._shown(operation)}")
        else:
            operation.answer.set_result(error)

    def _half(self, operation: Operation) -> None:
        path = operation.node_id
        if operation.verb == PUBLISH and os.path.isdir(os.path.dirname(path)) and not self._is_block(operation.handle):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
            self._story.tell(self._machine.name, f"half of {self._shown(operation)}")

    def _shown(self, operation: Operation) -> str:
        return f"{operation.verb} {operation.handle} {self._machine.short(operation.node_id)}"
