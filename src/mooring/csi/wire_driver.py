"""The Driver port over gRPC on a unix socket, spoken by ourselves: one connection at a time, kept as long as it lasts.

A client begins idle. All users of the driver make it connect: `connect`, `reconnected` and every call. Calls wait for the first attempt
after a loss, and share its failure; from then on they fail at once, while attempts go on with a growing pause until one succeeds. A broken
connection leaves the client idle again, so that nobody talks to a driver's successor who has not asked for it. No call is ever sent twice.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from mooring.base.clock import Clock
from mooring.csi.client import CallObserver, check_fence
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.socket_driver import ATTEMPT_S_MAX, BACKOFF_S_MAX, FIRST_BACKOFF_S, SocketDriver, closing, read_answer
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, dial_text, preface_text
from mooring.wire.grpc.events import Answered
from mooring.wire.grpc.frames import ErrorCode
from mooring.wire.grpc.link import Link
from mooring.wire.grpc.status import text_of_reset

_DEADLINE_SLACK_S: Final = 0.05
"""A driver's own timer may end a call that much before ours: it was told a rounded time, and no later one."""

_ENDS_OF_LATE_CALLS: Final = frozenset(
    {
        (Code.DEADLINE_EXCEEDED, "Deadline Exceeded"),
        (Code.DEADLINE_EXCEEDED, DEADLINE_TEXT),
        (Code.CANCELED, text_of_reset(ErrorCode.CANCEL)),
        (Code.CANCELED, "Timeout expired"),
    }
)
"""By servers themselves: gRPC's core, Go's, any that breaks a call off (which Go's client takes for a deadline, too), and Rust's tonic."""


class WireDriver(SocketDriver):
    """The client without a library. Parameters as in SocketDriver."""

    def __init__(
        self, address: str, *, clock: Clock, metrics: CallObserver | None = None, log_length_max: int = -1, notice_s: float = 10.0
    ) -> None:
        super().__init__(address, clock=clock, metrics=metrics, log_length_max=log_length_max, notice_s=notice_s)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._link: Link | None = None  # the one that takes calls
        self._leaving: set[Link] = set()  # those that the driver has ended in good order, with calls under way
        self._attempt: Link | None = None
        self._timer: asyncio.TimerHandle | None = None  # the limit of this attempt, or the moment of the next
        self._failure = ""  # of the last attempt, until one succeeds
        self._backoff_s = FIRST_BACKOFF_S
        self._next_attempt_at = 0.0
        self._news = asyncio.Event()  # replaced at every change of the above

    def _begin(self) -> None:
        assert self._loop is None, "connected twice"
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        self._closed = True
        self._stop_timer()
        for link in [self._link, self._attempt, *self._leaving]:
            if link is not None:
                link.close()
        self._changed()

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    async def lost(self) -> None:
        self._check_open()
        if self._link is not None:
            await self._link.over.wait()

    async def _ready(self) -> None:
        while True:
            self._check_open()
            if self._link is not None:
                return
            news = self._news
            self._try()
            await news.wait()

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        self._check_open()
        assert self._loop is not None
        message = request.SerializeToString()
        ends_at = self._loop.time() + call.timeout_s
        timeout_s = call.timeout_s
        if (link := self._usable()) is None:
            link = await self._connected(call.timeout_s)
            timeout_s = max(ends_at - self._loop.time(), 0.001)
        check_fence()
        answered = await link.call(rpc.path, message, timeout_s)
        if answered.code == Code.OK:
            return read_answer(rpc, answered.payload)
        raise error_of(answered, is_late=self._loop.time() >= ends_at - _DEADLINE_SLACK_S)

    async def _connected(self, timeout_s: float) -> Link:
        """A link for one call. Raises DriverError when no attempt succeeds, or none in time."""
        try:
            async with asyncio.timeout(timeout_s) as limit:
                while True:
                    self._check_open()
                    if (link := self._usable()) is not None:
                        return link
                    news = self._news
                    self._try()
                    if self._failure:
                        raise DriverError(Code.UNAVAILABLE, self._failure, unsent=True)
                    await news.wait()
        except TimeoutError:
            assert limit.expired()
            raise DriverError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT, unsent=True) from None

    def _usable(self) -> Link | None:
        """The link, unless it has used up its calls (then there will be another), or its driver does not read."""
        link = self._link
        if link is not None and not link.is_open:
            link.over.set()
            self.link_leaving(link)
            return None
        return None if link is not None and link.is_crowded else link

    def _check_open(self) -> None:
        """Raises DriverError (Canceled) when the client was closed."""
        if self._closed:
            raise closing()
        assert self._loop is not None, "connect() comes first"

    # -- attempts to connect

    def _try(self) -> None:
        """Sees to it that there is an attempt, or will be one."""
        if self._link is None and self._attempt is None and self._timer is None:
            self._wait_or_dial()

    def _wait_or_dial(self) -> None:
        assert self._loop is not None
        if self._next_attempt_at > self._loop.time():
            self._timer = self._loop.call_at(self._next_attempt_at, self._dial)
        else:
            self._dial()

    def _dial(self) -> None:
        """Begins an attempt. Connecting to a unix socket is done at once, or has failed."""
        assert self._loop is not None
        self._next_attempt_at = self._loop.time() + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_S_MAX)
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.setblocking(False)
        try:
            peer.connect(self.path)
        except OSError as error:
            peer.close()
            self._failed(dial_text(self.path, os.strerror(error.errno or 0)))
            return
        self._attempt = Link(peer, self)
        self._timer = self._loop.call_later(ATTEMPT_S_MAX, self._give_up)
        self._attempt.start()

    def _give_up(self) -> None:
        """The peer has not said in time that it speaks HTTP/2."""
        assert self._attempt is not None
        link, self._attempt = self._attempt, None
        link.close()
        self._failed(preface_text("i/o timeout"))

    def _failed(self, why: str) -> None:
        self._stop_timer()
        self._failure = why
        assert self._loop is not None
        self._timer = self._loop.call_at(max(self._next_attempt_at, self._loop.time()), self._dial)
        self._changed()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what becomes of links

    def link_settled(self, link: Link) -> None:
        assert link is self._attempt
        self._stop_timer()
        self._link, self._attempt, self._failure = link, None, ""
        assert self._loop is not None
        self._backoff_s = FIRST_BACKOFF_S
        self._next_attempt_at = self._loop.time() + self._backoff_s  # a driver that hangs up at once is not called in a hot loop
        self._changed()

    def link_leaving(self, link: Link) -> None:
        if link is self._link:
            self._link = None
            self._leaving.add(link)
            self._changed()

    def link_drained(self, link: Link) -> None:
        self._changed()

    def link_gone(self, link: Link, text: str) -> None:
        self._leaving.discard(link)
        if link is self._link:
            self._link = None
            self._changed()
        elif link is self._attempt:
            self._attempt = None
            if not self._closed:
                self._failed(preface_text(text.removeprefix("error reading from server: ")))

    def _changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def error_of(answered: Answered, *, is_late: bool) -> DriverError:
    """The error of a call that was not answered with OK.

    is_late: the call's time is over, or nearly: a driver's own timer says so in its server's words, or by breaking the call off.
    """
    if is_late and (answered.code, answered.text) in _ENDS_OF_LATE_CALLS:
        return DriverError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT)
    return DriverError(answered.code, answered.text, answered=answered.answered)
