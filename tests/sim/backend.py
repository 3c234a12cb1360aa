"""The storage behind the driver: what is published where, one call for a volume at a time, and every way in which a
call can go.

A call outlives its caller: who gave up waiting finds the volume locked (Aborted) until the work has ended, and its
effect may come then.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter, defaultdict
from typing import Final, TypeVar

from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from tests.sim.habits import NO_ARRAY, ArrayHabits
from tests.sim.plan import Plan
from tests.sim.story import Story

T = TypeVar("T")

FINAL: Final = (
    Code.INTERNAL,
    Code.INVALID_ARGUMENT,
    Code.NOT_FOUND,
    Code.FAILED_PRECONDITION,
    Code.UNKNOWN,
    Code.PERMISSION_DENIED,
)
NOT_FINAL: Final = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED, Code.CANCELED, Code.DEADLINE_EXCEEDED)
EVERY_CODE: Final = tuple(code for code in Code if code is not Code.OK)
PUBLISH, UNPUBLISH = "publish", "unpublish"
FOR_EVER_S: Final = 1e6
"""A call that takes so long is not answered."""
ODD_SEED: Final = 11_000_027


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """How one call goes. before_s, after_s: around the effect. error: what is answered in the end."""

    before_s: float
    after_s: float = 0.0
    takes_effect: bool = True
    error: Code | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Operation:
    """One call at work."""

    verb: str
    handle: str
    node_id: str
    fate: Fate
    answer: asyncio.Future[DriverError | None]
    task: asyncio.Task[None] | None = None
    done: bool = False

    def __str__(self) -> str:
        return f"{self.verb} {self.handle} {self.node_id}"


class Backend:
    """published: volume handle -> node ids, the truth. dead: node ids of machines that are no more; former: of those
    that live on, under no node's name.

    removed: how often a publication ended other than by a call of ours. secrets: what a volume's calls must carry.
    """

    def __init__(self, plan: Plan, clock: Clock, randomness: Random, story: Story, group: asyncio.TaskGroup) -> None:
        self._plan, self._clock, self._randomness, self._story, self._group = plan, clock, randomness, story, group
        self.faulty = True
        self.published: dict[str, set[str]] = {volume.handle: set() for volume in plan.volumes}
        self.single_node = {volume.handle for volume in plan.volumes if volume.single_node}
        self.dead: set[str] = set()
        self.former: set[str] = set()
        self.removed: Counter[tuple[str, str]] = Counter()
        self.secrets: dict[str, str] = {}
        self.locks: dict[str, Operation] = {}
        self.stuck: dict[
            tuple[str, str, str], tuple[Fate, float]
        ] = {}  # calls that are answered in one way, until then
        self._array: ArrayHabits = getattr(plan, "array", NO_ARRAY)
        self._oddness = Random(plan.seed + ODD_SEED)
        self._down_until = 0.0
        self._started: dict[str, int] = defaultdict(int)

    # -- calls

    async def call(self, verb: str, handle: str, node_id: str, secrets: dict[str, str]) -> None:
        """Raises DriverError. Cancelling it does not end the work."""
        self._refuse_at_once(verb, handle, node_id, secrets)
        fate = self._odd_fate(verb, handle, node_id) or self._fate()
        operation = Operation(verb, handle, node_id, fate, asyncio.get_running_loop().create_future())
        self.locks[handle] = operation
        self._started[verb] += 1
        operation.task = self._group.create_task(
            self._work(operation), name=f"backend/{operation}/{self._started[verb]}"
        )
        error = await operation.answer
        if error is not None:
            raise error

    async def answer_time(self) -> None:
        """How long a call takes that changes nothing; it may fail."""
        fate = self._fate()
        await self._clock.sleep(fate.before_s + fate.after_s)
        if self._clock.now() < self._down_until:
            raise DriverError(Code.UNAVAILABLE, "the driver is restarting")
        if fate.error is not None:
            raise DriverError(fate.error, "as the seed says")

    def _refuse_at_once(self, verb: str, handle: str, node_id: str, secrets: dict[str, str]) -> None:
        if self._clock.now() < self._down_until:
            raise DriverError(Code.UNAVAILABLE, "the driver is restarting")
        if handle in self.locks:
            raise DriverError(Code.ABORTED, f"an operation for {handle} is pending")
        wanted = self.secrets.get(handle)
        if wanted is not None and secrets != {"token": wanted}:
            hides = self._array.tenants and not self._would_lie(verb, handle, node_id)
            raise DriverError(Code.NOT_FOUND if hides else Code.UNAUTHENTICATED, "wrong token")

    def _would_lie(self, verb: str, handle: str, node_id: str) -> bool:
        """True where NotFound would say that the volume is not there, and it is: CSI gives that word to an unpublish,
        and the attacher believes it of a machine that the cluster does not have any more.
        """
        return verb == UNPUBLISH and node_id in self.published[handle]

    async def _work(self, operation: Operation) -> None:
        fate = operation.fate
        try:
            await self._clock.sleep(fate.before_s)
            error = self._take_effect(operation) if fate.takes_effect else None
            await self._clock.sleep(fate.after_s)
            if fate.error is not None:
                lies = fate.error is Code.NOT_FOUND and self._would_lie(
                    operation.verb, operation.handle, operation.node_id
                )
                error = DriverError(Code.INTERNAL if lies else fate.error, "as the seed says")
            self._answer(operation, error)
        finally:
            if self.locks.get(operation.handle) is operation:
                del self.locks[operation.handle]

    def _take_effect(self, operation: Operation) -> DriverError | None:
        operation.done = True
        nodes = self.published[operation.handle]
        if operation.verb == UNPUBLISH:
            nodes.discard(operation.node_id)
        elif operation.node_id in self.dead:
            return DriverError(Code.NOT_FOUND, f"no node {operation.node_id}")
        elif operation.handle in self.single_node and nodes - {operation.node_id}:
            return DriverError(Code.FAILED_PRECONDITION, f"{operation.handle} is published on {sorted(nodes)}")
        else:
            nodes.add(operation.node_id)
        self._story.tell("backend", f"effect of {operation}: {operation.handle} is on {sorted(nodes)}")
        return None

    def _answer(self, operation: Operation, error: DriverError | None) -> None:
        if not operation.answer.done():
            operation.answer.set_result(error)
        else:
            self._story.tell("backend", f"nobody waits for the answer to {operation}")

    # -- fate

    def _fate(self) -> Fate:
        faults, randomness = self._plan.driver, self._randomness
        quick_s = randomness.uniform(0.0, faults.latency_s)
        if not self.faulty:
            return Fate(quick_s)
        if randomness.happens(faults.failed):
            return Fate(quick_s, takes_effect=False, error=_one_of(FINAL + NOT_FINAL, randomness))
        if randomness.happens(faults.lost):
            return Fate(quick_s, error=_one_of(FINAL + NOT_FINAL, randomness))
        if randomness.happens(faults.hung):
            whole_s = self._plan.timeout_s * randomness.uniform(0.9, 3.0)
            before_s = whole_s * _one_of((0.0, 0.2, 0.5, 1.0), randomness)
            done = randomness.happens(0.8)
            return Fate(before_s, whole_s - before_s, takes_effect=done, error=None if done else Code.INTERNAL)
        return Fate(quick_s)

    def _odd_fate(self, verb: str, handle: str, node_id: str) -> Fate | None:
        """Of a driver's habits; None for a call that has none of them."""
        array, randomness, now = self._array, self._oddness, self._clock.now()
        known = self.stuck.get((verb, handle, node_id))
        if known is not None and (now < known[1] or not self.faulty):
            return known[0]
        if not self.faulty:
            return None
        if array.stuck and randomness.happens(array.stuck):
            fate = Fate(0.01, takes_effect=randomness.happens(0.5), error=_one_of(EVERY_CODE, randomness))
            self.stuck[verb, handle, node_id] = fate, now + randomness.uniform(0.0, array.stuck_s)
            self._story.tell("backend", f"from now on {verb} {handle} {node_id} is answered {fate.error}")
            return fate
        return Fate(FOR_EVER_S) if array.hangs and randomness.happens(array.hangs) else None

    def unstick(self) -> None:
        """Whoever looks after the storage has mended it."""
        self.stuck.clear()

    # -- what happens to it from outside

    def restart(self, away_s: float) -> None:
        """Calls at work end with Unavailable, done or not; nobody remembers their locks."""
        for operation in list(self.locks.values()):
            assert operation.task is not None
            operation.task.cancel()
            if not operation.done and self._randomness.happens(0.3):
                self._take_effect(operation)
            self._answer(operation, DriverError(Code.UNAVAILABLE, "the driver went away"))
        self.locks.clear()
        self._down_until = self._clock.now() + away_s

    def relent(self) -> None:
        """Nothing stands in the way any more, and calls that would never be answered are."""
        for handle, operation in list(self.locks.items()):
            if max(operation.fate.before_s, operation.fate.after_s) >= FOR_EVER_S:
                assert operation.task is not None
                operation.task.cancel()
                self._answer(operation, DriverError(Code.UNAVAILABLE, "the driver was started again"))
                del self.locks[handle]

    def take_away(self, handle: str, node_id: str) -> None:
        """Somebody unpublishes behind our back."""
        if node_id in self.published[handle]:
            self.published[handle].discard(node_id)
            self.removed[handle, node_id] += 1

    def bury(self, node_id: str) -> None:
        """The machine is no more, and nothing is published there."""
        self.dead.add(node_id)
        for handle in self.published:
            self.take_away(handle, node_id)

    @staticmethod
    def node_of(node_id: str) -> str:
        """The node that the machine is, or was."""
        return node_id.partition("-")[0]

    def shared_handles(self) -> set[str]:
        """Of volumes that two PersistentVolumes name."""
        handles = Counter(volume.handle for volume in self._plan.volumes)
        return {handle for handle, count in handles.items() if count > 1}

    def heal(self) -> None:
        """No faults from now on. Calls at work end as they would have, those that hang without effect; what is stuck
        stays so.
        """
        self.faulty = False
        now = self._clock.now()
        self.stuck = {key: (fate, until) for key, (fate, until) in self.stuck.items() if now < until}
        for operation in list(self.locks.values()):
            if operation.fate.before_s >= FOR_EVER_S and operation.task is not None:
                operation.task.cancel()

    def at_work(self, handle: str, verb: str, node_id: str) -> bool:
        """True while such a call may still take effect."""
        operation = self.locks.get(handle)
        if operation is None or operation.done or not operation.fate.takes_effect:
            return False
        return (operation.verb, operation.node_id) == (verb, node_id)


def _one_of(items: tuple[T, ...], randomness: Random) -> T:
    return items[randomness.below(len(items))]
