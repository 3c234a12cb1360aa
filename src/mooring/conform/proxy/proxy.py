"""The proxy: takes calls as bytes, and passes them on as they are, with the faults that its script orders.

Fields and calls of a newer CSI pass unchanged, since a message is read for watching, choosing and recording alone.
Calls that stream their answer are refused with Unimplemented: our server has unary calls alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

from google.protobuf.message import DecodeError, Message

from mooring.base.clock import Clock, time_left_s
from mooring.conform.call.patience import patience_s
from mooring.conform.proxy.driver_link import FOR_EVER_S, DriverLink
from mooring.conform.proxy.faults import Fault, Faults, Kind, When
from mooring.conform.watched import Watch, Watching
from mooring.csi.driver import RPCS_BY_PATH, Rpc
from mooring.csi.driver_socket import error_of, message_of
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import scrubbed
from mooring.csi.wire_driver import read_answer
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, LOST_TEXT, ConnectionCut, RpcError
from mooring.wire.grpc.events import Answered
from mooring.wire.grpc.server import Method, listening
from mooring.wire.grpc.serving.limits import ServerLimits
from mooring.wire.grpc.socket_file import make_room
from mooring.wire.grpc.stream import MESSAGE_BYTES_MAX

LIMITS: Final = ServerLimits(connections=4_000, streams=1_000, message_bytes=MESSAGE_BYTES_MAX)
"""As of a driver of the SDK."""
GRACE_S: Final = 0.5
"""At the end a call that hangs would wait for ever."""
SLACK_S: Final = 0.1
"""The proxy is told a rounded deadline, and a moment later; its caller ends the call by its own timer."""

_STREAMS: Final = frozenset(
    f"/{service.full_name}/{method.name}"
    for service in csi.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if method.server_streaming or method.client_streaming
)


@dataclasses.dataclass(frozen=True, slots=True)
class Passed:
    """One call to the driver that has ended, or one that a fault kept from it.

    number: of the call, in the order of their begin. rpc, request: None where this CSI does not know the call, or can't
    read the request. answer, error: the driver's; neither where the caller gave up, or the call never got there. fault:
    what the script ordered.
    """

    number: int
    path: str
    rpc: Rpc[Any, Any] | None
    request: Message | None
    answer: Message | None
    error: DriverError | None
    began_s: float
    seconds: float
    fault: Fault | None
    reached: bool = True

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def text(self) -> str:
        """The error's, without the request's secrets."""
        assert self.error is not None
        return self.error.message if self.request is None else scrubbed(self.error.message, self.request)


class Proxy:
    """driver: the socket's path. watch: tells the book's rules. tell: hears of each call. drivers_s: seconds as the
    driver has them, None for the clock's.
    """

    def __init__(
        self,
        driver: str,
        *,
        faults: Faults,
        watch: Watch | None,
        tell: Callable[[Passed], None],
        clock: Clock,
        drivers_s: Callable[[], float] | None = None,
    ) -> None:
        self._faults, self._watch, self._tell, self._clock = faults, watch, tell, clock
        self._drivers_s = drivers_s or clock.now
        self._cut_all: Callable[[], None] = lambda: None
        self._link = DriverLink(driver, lambda: self._cut_all())
        self._calls = 0

    @asynccontextmanager
    async def serving(self, path: Path, *, mode: int = 0o600) -> AsyncGenerator[None, None]:
        """The proxy answers on this socket as long as the block runs. Raises ConfigError."""
        make_room(path)
        async with listening(_Every(self._answered), path, mode=mode, grace_s=GRACE_S, limits=LIMITS) as cut_all:
            self._cut_all = cut_all  # a driver's end ends its callers' connections
            try:
                yield
            finally:
                self._link.close()

    async def _answered(self, path: str, message: bytes) -> bytes:
        """The answer for the caller. Raises RpcError, ConnectionCut."""
        asked = self._asked(path, message)
        fault = asked.fault
        if fault is None:
            return await self._ask(asked)
        match fault.kind:
            case Kind.HANG:
                self._kept_away(asked)
                await _hang()
            case Kind.DROP:
                await self._whatever(asked)
                await _hang()
            case Kind.DELAY:
                return await self._delayed(asked, fault)
            case Kind.TWICE:
                return await self._twice(asked, fault)
        if fault.when is When.AFTER:
            await self._whatever(asked)
        else:
            self._kept_away(asked)
        raise ConnectionCut if fault.kind is Kind.CUT else RpcError(fault.code, fault.message)

    async def _delayed(self, asked: _Asked, fault: Fault) -> bytes:
        if fault.when is When.BEFORE:
            await self._clock.sleep(fault.seconds)
            return await self._ask(asked)
        answer = await self._result(asked)
        await self._clock.sleep(fault.seconds)
        return _given(answer)

    async def _twice(self, asked: _Asked, fault: Fault) -> bytes:
        """The answer of the second call: the first one's is taken for lost."""
        if not fault.at_once:
            await self._whatever(asked)
            return await self._ask(asked)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._whatever(asked), name="proxy/first")
            second = group.create_task(self._result(asked), name="proxy/second")
        return _given(second.result())

    async def _result(self, asked: _Asked) -> bytes | RpcError | ConnectionCut:
        try:
            return await self._ask(asked)
        except (RpcError, ConnectionCut) as error:
            return error

    async def _whatever(self, asked: _Asked) -> None:
        """A call whose answer nobody gets."""
        await self._result(asked)

    def _asked(self, path: str, message: bytes) -> _Asked:
        rpc = RPCS_BY_PATH.get(path)
        request = None
        if rpc is not None:
            try:
                request = rpc.request_type.FromString(message)
            except DecodeError:
                rpc = None
        return _Asked(path, message, rpc, request, self._faults.pick(path, request))

    async def _ask(self, asked: _Asked) -> bytes:
        """One call to the driver: watched and told."""
        number, began_s, left_s = self._number(), self._clock.now(), time_left_s()
        judging = _Judging(self._watch, asked, left_s, self._clock, self._drivers_s)

        def ended(answer: Message | None, error: DriverError | None) -> None:
            seconds = self._clock.now() - began_s
            self._tell(
                Passed(number, asked.path, asked.rpc, asked.request, answer, error, began_s, seconds, asked.fault)
            )

        try:
            answered = await self._link.ask(asked.path, asked.message, left_s)
        except DriverError as error:  # nobody is there
            judging.given_up()
            ended(None, error)
            raise
        except asyncio.CancelledError:
            judging.caller_gone()
            ended(None, None)
            raise
        late = left_s is not None and self._clock.now() - began_s >= left_s
        answer, problem = (
            _read(asked.rpc, answered) if answered.code == Code.OK else (None, error_of(answered, is_late=late))
        )
        judging.ended(answer, problem)
        ended(answer, problem)
        if answered.code == Code.OK and answered.payload is not None:
            return answered.payload
        if (answered.code, answered.text) == (Code.UNAVAILABLE, LOST_TEXT) and not answered.unsent:
            raise ConnectionCut  # as the caller would have seen it
        raise RpcError(answered.code, answered.text)

    def _kept_away(self, asked: _Asked) -> None:
        """Tells of a call that never reaches the driver."""
        now = self._clock.now()
        self._tell(
            Passed(
                self._number(), asked.path, asked.rpc, asked.request, None, None, now, 0.0, asked.fault, reached=False
            )
        )

    def _number(self) -> int:
        self._calls += 1
        return self._calls


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    path: str
    message: bytes
    rpc: Rpc[Any, Any] | None
    request: Message | None
    fault: Fault | None


class _Judging:
    """The book's view of one call. A deadline is held against the driver where Kubernetes would not have given it more
    time either.
    """

    def __init__(
        self, watch: Watch | None, asked: _Asked, left_s: float | None, clock: Clock, drivers_s: Callable[[], float]
    ) -> None:
        self._left_s, self._clock, self._drivers_s = left_s, clock, drivers_s
        self._began_s, self._drivers_began_s = clock.now(), drivers_s()
        self._watching: Watching | None = None
        if watch is not None and asked.rpc is not None:
            self._patience_s = patience_s(asked.rpc)
            self._watching = watch.begin(asked.rpc, asked.request, FOR_EVER_S if left_s is None else round(left_s, 1))

    def given_up(self) -> None:
        if self._watching is not None:
            self._watching.given_up()

    def caller_gone(self) -> None:
        """A caller breaks its call off at its deadline, which comes a moment before the proxy's."""
        late = self._left_s is not None and self._clock.now() - self._began_s >= self._left_s - SLACK_S
        self._unanswered() if late else self.given_up()

    def ended(self, answer: Message | None, error: DriverError | None) -> None:
        if error is not None and (error.code, error.message) == (Code.DEADLINE_EXCEEDED, DEADLINE_TEXT):
            self._unanswered()
        elif self._watching is not None:
            self._watching.ended(answer, error)

    def _unanswered(self) -> None:
        if self._watching is None:
            return
        if self._drivers_s() - self._drivers_began_s >= self._patience_s - SLACK_S:
            self._watching.ended(None, DriverError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT))
        else:
            self._watching.given_up()


def _read(rpc: Rpc[Any, Any] | None, answered: Answered) -> tuple[Message | None, DriverError | None]:
    """The answer, read; or why it can't be."""
    if rpc is None:
        return None, None
    try:
        return read_answer(rpc, message_of(answered)), None
    except DriverError as error:
        return None, error


def _given(answer: bytes | RpcError | ConnectionCut) -> bytes:
    if isinstance(answer, bytes):
        return answer
    raise answer


async def _hang() -> NoReturn:
    """Until the caller gives up."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody ends this wait")


class _Every(Mapping[str, Method]):
    """A method for every path but those of streams, which the server refuses."""

    def __init__(self, answered: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        self._answered = answered

    def __getitem__(self, path: str) -> Method:
        if path in _STREAMS:
            raise KeyError(path)
        return functools.partial(self._answered, path)

    def __iter__(self) -> Iterator[str]:
        return iter(RPCS_BY_PATH)

    def __len__(self) -> int:
        return len(RPCS_BY_PATH)
