"""Every call to the driver under test: recorded, judged by the book of CSI's rules, and struck by the faults that a
test has asked for.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final
from weakref import WeakSet

import msgspec

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.conform.book.rule import Breach
from mooring.conform.book.watcher import Watcher
from mooring.conform.call.names import BY_NAME
from mooring.conform.watched import Sight, Watch
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.driver_socket import DriverSocket
from mooring.csi.errors import DriverError
from mooring.csi.redact import redacted
from mooring.dev.story import Story
from mooring.dev.traced import tell
from mooring.driver.guard import CallRecord
from mooring.wire.grpc.codes import Code

LOST: Final = "the connection was lost, and with it the answer"


class DriverCall(msgspec.Struct, frozen=True):
    """One call as its caller saw it. where: the node, "" for the controller's. answer: None after an error."""

    rpc: str
    where: str
    request: Any
    answer: Any
    error: DriverError | None
    at_s: float


class CallFault(msgspec.Struct):
    """rpc: "" for any. error: for the caller, None for an answer that never comes. after: the call takes effect first.
    where: as of a call, None for anywhere. times: how often it still strikes, 0 for always. then: hears where the call
    was made, once it has taken effect. late_s: the caller gets the driver's own answer, so late; None for what `error`
    says.
    """

    rpc: str
    error: DriverError | None
    after: bool
    where: str | None
    times: int
    then: Callable[[str], None] | None = None
    late_s: float | None = None


class DriverCalls:
    """Of all clients of one driver. sight: None where nobody can see the driver's mounts. drivers_s: seconds as the
    driver has them.
    """

    def __init__(self, clock: Clock, story: Story, drivers_s: Callable[[], float], sight: Sight | None = None) -> None:
        self._clock, self._story, self._sight = clock, story, sight
        self._faults: list[CallFault] = []
        self._watcher = Watcher(lambda _: None, now=drivers_s)
        self.made: list[DriverCall] = []
        self.under_way = 0
        self.sockets: WeakSet[DriverSocket] = WeakSet()
        """Of the clients, where the driver is a process."""
        self._being_killed: Counter[str] = Counter()
        self._kills: Counter[str] = Counter()

    @property
    def is_busy(self) -> bool:
        """True while the driver has something to answer, if only that it is there."""
        return self.under_way > 0 or any(socket.is_connecting for socket in self.sockets)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """The rules of CSI that the driver has broken."""
        return tuple(self._watcher.breaches.values())

    def republishes(self, asks: Callable[[], bool]) -> None:
        """asks: whether the driver's CSIDriver has requiresRepublish now."""
        self._watcher.republishes = asks

    def add(self, fault: CallFault) -> None:
        """Raises ConfigError for a call that CSI does not have."""
        if fault.rpc:
            check_name(fault.rpc)
        self._faults.append(fault)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Time does not leap while the block runs."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1

    @contextlib.contextmanager
    def killing(self, *where: str) -> Iterator[None]:
        """The block kills the processes that answer there: calls that are under way meanwhile break no rule. Time does
        not leap.
        """
        self._being_killed.update(where)
        self._kills.update(where)
        try:
            with self.at_work():
                yield
        finally:
            self._being_killed.subtract(where)
            self._kills.update(where)  # also for calls that began meanwhile, and are not over yet

    def clear(self) -> None:
        self._faults.clear()

    async def make(
        self, rpc: Rpc[Q, A], request: Q, call: Call, where: str, send: Callable[[Rpc[Q, A], Q, Call], Awaitable[A]]
    ) -> A:
        """Makes the call. Raises DriverError."""
        answer, error = None, None
        began_s = self._clock.now()
        try:
            answer = await self._struck(rpc, request, call, where, send)
            return answer
        except DriverError as failure:
            error = failure
            raise
        finally:
            now_s = self._clock.now()
            self.made.append(DriverCall(rpc.name, where, request, answer, error, now_s))
            shown = "" if answer is None else redacted(answer)
            tell(self._story, CallRecord(rpc.name, redacted(request), shown, error, now_s - began_s), where or "driver")

    async def _struck(
        self, rpc: Rpc[Q, A], request: Q, call: Call, where: str, send: Callable[[Rpc[Q, A], Q, Call], Awaitable[A]]
    ) -> A:
        fault = self._next(rpc.name, where)
        if fault is None:
            return await self._watched(rpc, request, call, where, send)
        answer = await self._watched(rpc, request, call, where, send) if fault.after else None
        if fault.then is not None:
            fault.then(where)
        if answer is not None and fault.late_s is not None and fault.late_s < call.timeout_s:
            await self._clock.sleep(fault.late_s)
            return answer
        if fault.error is None:
            await self._clock.sleep(call.timeout_s)
            raise DriverError(Code.DEADLINE_EXCEEDED, "context deadline exceeded")
        raise fault.error

    def _next(self, rpc: str, where: str) -> CallFault | None:
        for fault in self._faults:
            if fault.rpc in ("", rpc) and fault.where in (None, where):
                if fault.times == 1:
                    self._faults.remove(fault)
                fault.times = max(0, fault.times - 1)
                return fault
        return None

    async def _watched(
        self, rpc: Rpc[Q, A], request: Q, call: Call, where: str, send: Callable[[Rpc[Q, A], Q, Call], Awaitable[A]]
    ) -> A:
        """The driver's own answer, which the book judges; a fault is not the driver's."""
        kills = self._kills[where]
        watching = Watch(self._watcher, where, self._sight).begin(rpc, request, call.timeout_s)
        try:
            with self.at_work():
                answer = await send(rpc, request, call)
        except DriverError as error:
            if self._being_killed[where] or self._kills[where] != kills:
                watching.given_up()
            else:
                watching.ended(None, error)
            raise
        except BaseException:
            watching.given_up()
            raise
        watching.ended(answer, None)
        return answer


def check_name(rpc: str) -> None:
    """Raises ConfigError for a name that no call of CSI has."""
    if rpc not in BY_NAME:
        raise ConfigError(f"CSI has no call {rpc!r}: it has {', '.join(BY_NAME)}")


def told(breaches: tuple[Breach, ...]) -> Iterator[str]:
    """Lines for people, three for each breach."""
    for breach in breaches:
        yield breach.line
        yield from (f"    {text}" for text in breach.advice)
