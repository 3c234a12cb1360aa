"""One world of the reference driver: its folder, the kernel, its processes one after the other, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.node.mount_mode import MOUNT, MountMode
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.hostpath.statefile import STATE_NAME
from mooring.wire.grpc.codes import Code
from tests.sim.driver.disk import INCARNATION, Disk, Killed
from tests.sim.driver.plan import Plan
from tests.sim.node.world import MEMORY
from tests.sim.story import Broken, Story

EPOCH_S: Final = 1_780_000_000.0
AWAY_S_MAX: Final = 2.0
REFUSALS_MAX: Final = 50
BETWEEN: Final = 20


class Incarnation:
    """One process of the driver. dead: done when it is. lock: the descriptor of its folder's lock."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self.number, self.who = world, number, f"driver#{number}"
        self.alive = True
        self.driver: HostPath | None = None
        self.lock = -1
        self.dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def dies(self, where: str) -> None:
        self.alive = False
        self._world.story.tell(self.who, f"killed before {self._world.short(where)}")
        if self.driver is not None:
            os.close(self.lock)  # as the kernel does
        if not self.dead.done():
            self.dead.set_result(None)


class World:
    """faulty: the faults go on."""

    def __init__(self, plan: Plan, group: asyncio.TaskGroup) -> None:
        self.plan, self.group = plan, group
        self.clock = LoopClock(EPOCH_S)
        self._now = asyncio.get_running_loop().time  # for threads, too
        self.story = Story(self._now)
        self.randomness = Random(plan.seed * 16 + 1)
        self.faulty = True
        self.verdict: asyncio.Future[Broken] = asyncio.get_running_loop().create_future()
        self._folder = tempfile.TemporaryDirectory(prefix="mooring-sim-", dir=MEMORY if MEMORY.is_dir() else None)
        self.root = Path(self._folder.name)
        for name in ("blocks", "nodes"):
            (self.root / name).mkdir()
        self.disk = Disk(self, self.root / "blocks")
        self.kernel = self.disk.kernel
        self.nodes = tuple(f"node{number}" for number in range(plan.nodes))
        self._incarnation: Incarnation | None = None
        self.started_count = 0
        self._starting = asyncio.Lock()
        self._refusals_count = 0
        self._calls: set[asyncio.Task[Any]] = set()

    def fail(self, invariant: str, what: str) -> None:
        """The first one counts."""
        if not self.verdict.done():
            broken = Broken(invariant, what, self._now())
            self.story.tell("BROKEN", f"{invariant}: {what}")
            self.story.end()
            self.verdict.set_result(broken)

    def log_line(self, line: str) -> None:
        """A line of the log."""

    def short(self, text: object) -> str:
        return str(text).replace(str(self.root), "")

    def strikes(self, incarnation: Incarnation, what: str) -> bool:
        """Draws whether it is killed before this change; more often between the two steps of one mount."""
        crash = min(1.0, self.plan.crash * (BETWEEN if what.startswith("options") else 1))
        return self.faulty and incarnation.number <= self.plan.crashes_max and self.randomness.happens(crash)

    def data(self, record_id: str) -> Path:
        return self.root / "state" / ("snapshots" if record_id.startswith("snap-") else "volumes") / record_id

    # -- the driver

    async def call(self, what: str, make: Callable[[HostPath], Awaitable[Any]]) -> Any:
        """One call to the driver that lives. Raises DriverError."""
        incarnation = await self._living()
        assert incarnation.driver is not None
        self.story.tell("user", what)
        task = asyncio.get_running_loop().create_task(
            _called(make, incarnation.driver), name=what, context=_context_of(incarnation)
        )
        self._calls.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait([task, incarnation.dead], return_when=asyncio.FIRST_COMPLETED)
        if not incarnation.alive:
            task.cancel()
            raise DriverError(Code.UNAVAILABLE, "the driver went away")
        error = task.exception()
        self.story.tell("driver", f"{what}: {self.short(error or 'ok')}")
        if error is not None:
            raise error
        return task.result()

    def kept(self) -> str:
        """The state on the disk."""
        return (self.root / "state" / STATE_NAME).read_text()

    def filling(self) -> dict[str, str]:
        """What is being copied now, and from what."""
        driver = None if self._incarnation is None else self._incarnation.driver
        return {} if driver is None else {record.id: record.source_id for record in driver._core.state.filling()}

    def check_removal(self, path: str) -> None:
        """What is being copied keeps all that is in it."""
        for record_id, source_id in self.filling().items():
            if f"{path}/".startswith(f"{self.data(source_id)}/"):
                self.fail(
                    "deleted-under-copy", f"{self.short(path)} is removed, and {record_id} is being copied from there"
                )

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # of a driver that died, nobody asks for it

    async def _living(self) -> Incarnation:
        async with self._starting:
            while self._incarnation is None or not self._incarnation.alive:
                if self._incarnation is not None:
                    await self.clock.sleep(self.randomness.uniform(0.0, AWAY_S_MAX))
                self._start()
        return self._incarnation

    def _start(self) -> None:
        self.started_count += 1
        incarnation = self._incarnation = Incarnation(self, self.started_count)
        self.story.tell(incarnation.who, "starts")
        try:
            incarnation.driver = _context_of(incarnation).run(self._made)
        except Killed:
            with contextlib.suppress(OSError):  # it may have come to that itself
                os.close(incarnation.lock)
        except ConfigError as error:  # its supervisor tries again
            self.story.tell(incarnation.who, f"ends: {self.short(error)}")
            incarnation.alive = False
            self._refusals_count += 1
            if self._refusals_count > REFUSALS_MAX:
                self.fail("refused", f"the driver does not start: {self.short(error)}")

    def _made(self) -> HostPath:
        folder = self.root / "state"
        mount_mode, options = (
            MountMode(folder, MOUNT),
            HostpathOptions(images=self.plan.images, mount_group=self.plan.odd.gid),
        )
        return HostPath(
            folder,
            node_ids=self.nodes,
            randomness=self.randomness,
            options=options,
            mount_mode=mount_mode,
            clock=self.clock,
        )

    def close(self) -> None:
        """The disk is given back."""
        self._folder.cleanup()


async def _called(make: Callable[[HostPath], Awaitable[Any]], driver: HostPath) -> Any:
    """The call begins in the task: one that is cancelled before that never was."""
    return await make(driver)


def _context_of(incarnation: Incarnation) -> contextvars.Context:
    context = contextvars.Context()
    context.run(INCARNATION.set, incarnation)
    return context
