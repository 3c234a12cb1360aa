"""A driver's unix socket: one connection at a time, kept as long as it lasts, over which calls go as bytes. It needs no
protobuf.

It begins idle. All users of the driver make it connect: `connect`, `reconnected` and every call. Calls wait for the
first attempt after a loss, and share its failure; from then on they fail at once, while attempts go on with a growing
pause until one succeeds. A broken connection leaves it idle again, so that nobody talks to a driver's successor who has
not asked for it. No call is ever sent twice.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from mooring.base import fence
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.csi.address import ABSENT, socket_path, trouble
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, dial_text, preface_text
from mooring.wire.grpc.events import Answered
from mooring.wire.grpc.frames import ErrorCode
from mooring.wire.grpc.link import Link
from mooring.wire.grpc.status import text_of_reset

_log = logger(__name__)

ADVICE: Final = "start the driver, or name its socket with --csi-address"
CLOSING_TEXT: Final = "grpc: the client connection is closing"
NO_MESSAGE_TEXT: Final = "the driver answered OK without a message"

FIRST_BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 1.0
"""The longest time from the start of one attempt to connect to the start of the next."""
ATTEMPT_S_MAX: Final = 1.0
"""The limit of one attempt to connect, until the peer has said that it speaks HTTP/2."""

_FIRST_NOTICE_S: Final = (
    1.5  # a driver that starts with its sidecar is there by then; who mistyped a path reads it at once
)

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
"""The errors with which servers themselves end late calls: gRPC's core, Go's, any that breaks a call off (which Go's
client takes for a deadline, too), and Rust's tonic.
"""


class DriverSocket:
    """The connection to a driver. address: `/path` or `unix:///path`; ConfigError for anything else. notice_s: how
    often a connection that does not come about is mentioned in the log; the first time sooner.
    """

    def __init__(self, address: str, *, notice_s: float = 10.0) -> None:
        self.path = socket_path(address)
        self._notice_s = notice_s
        self.absent = ABSENT
        """The text while there is no socket; the person who has started the driver knows more."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._in_flight, self._is_last = 0, False  # calls; whether the connection ends with the last of them
        self._link: Link | None = None  # the one that takes calls
        self._leaving: set[Link] = set()  # those that the driver has ended in good order, with calls under way
        self._attempt: Link | None = None
        self._timer: asyncio.TimerHandle | None = None  # the limit of this attempt, or the moment of the next
        self._failure = ""  # of the last attempt, until one succeeds
        self._backoff_s = FIRST_BACKOFF_S
        self._next_attempt_at = 0.0
        self._news = asyncio.Event()  # replaced at every change of the above

    async def connect(self, timeout_s: float = 30.0, advice: str = ADVICE) -> None:
        """Returns when there is a connection; the driver may appear only meanwhile.

        Raises ConfigError when there is none in time; advice: its last words.
        """
        assert self._loop is None, "connected twice"
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self.reconnected()
        except TimeoutError:
            assert limit.expired()
            await self.close()
            what = f"no connection to the CSI driver at {self.path!r} within {timeout_s:g} s: {self._trouble()}"
            raise ConfigError(f"{what}; {advice}") from None

    async def reconnected(self) -> None:
        """Returns when there is a connection, trying about once a second without end; at once if there is one."""
        notice_s = min(_FIRST_NOTICE_S, self._notice_s)
        while True:
            try:
                async with asyncio.timeout(notice_s) as limit:
                    return await self._ready()
            except TimeoutError:
                assert limit.expired()
                _log.info(0, "Still connecting", address=self.path, reason=self._trouble())
            notice_s = self._notice_s

    async def _ready(self) -> None:
        """Returns when there is a connection, and sees to it that there will be one. Raises DriverError (Canceled)
        after close().
        """
        while True:
            self._check_open()
            if self._link is not None:
                return
            news = self._news
            self._try()
            await news.wait()

    async def close(self) -> None:
        """Ends the connection. Calls in flight end with Canceled. Cancel who waits in lost() or reconnected()
        before.
        """
        self._closed = True
        self._stop_timer()
        for link in [self._link, self._attempt, *self._leaving]:
            if link is not None:
                link.close()
        self._changed()

    async def close_after_calls(self) -> None:
        """Ends the connection once no call is in flight: at once, or with the last one."""
        self._is_last = True
        if not self._in_flight:
            await self.close()

    @property
    def is_connected(self) -> bool:
        """True while there is a connection, as far as anybody has noticed."""
        return self._link is not None

    @property
    def is_connecting(self) -> bool:
        """True while somebody listens who has not said yet that it speaks HTTP/2."""
        return self._attempt is not None

    async def lost(self) -> None:
        """Returns when the driver can't be reached any more, without a call being made; at once if it can't be now."""
        self._check_open()
        if self._link is not None:
            await self._link.over.wait()

    async def send(self, path: str, message: bytes, timeout_s: float) -> bytes:
        """One call, and the message of its answer. path: `/csi.v1.Identity/Probe`. Raises DriverError; CancelledError
        passes, and ends the call at the driver too.
        """
        self._in_flight += 1
        try:
            return await self._send(path, message, timeout_s)
        finally:
            self._in_flight -= 1
            if self._is_last and not self._in_flight:
                await self.close()

    async def _send(self, path: str, message: bytes, timeout_s: float) -> bytes:
        self._check_open()
        assert self._loop is not None
        ends_at = self._loop.time() + timeout_s
        left_s = timeout_s
        if (link := self._usable()) is None:
            link = await self._connected(timeout_s)
            left_s = max(ends_at - self._loop.time(), 0.001)
        if refusal := fence.refused():
            raise DriverError(Code.CANCELED, refusal)
        answered = await link.call(path, message, left_s)
        if answered.code != Code.OK:
            raise error_of(answered, is_late=self._loop.time() >= ends_at - _DEADLINE_SLACK_S)
        return message_of(answered)

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
        self._next_attempt_at = (
            self._loop.time() + self._backoff_s
        )  # a driver that hangs up at once is not called in a hot loop
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

    def _trouble(self) -> str:
        return trouble(self.path, self.absent) or "somebody listens there, but does not speak gRPC (yet)"


def closing() -> DriverError:
    """The error of calls that close() ends, or that come after it."""
    return DriverError(Code.CANCELED, CLOSING_TEXT)


def error_of(answered: Answered, *, is_late: bool) -> DriverError:
    """The error of a call that was not answered with OK.

    is_late: the call's time is over, or nearly: a driver's own timer says so in its server's words, or by breaking the
    call off.
    """
    if is_late and (answered.code, answered.text) in _ENDS_OF_LATE_CALLS:
        return DriverError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT)
    return DriverError(answered.code, answered.text, answered=answered.answered)


def message_of(answered: Answered) -> bytes:
    """The message of an answer whose code was OK. Raises DriverError for one that came without."""
    if answered.payload is None:
        raise DriverError(Code.INTERNAL, NO_MESSAGE_TEXT, answered=True)
    return answered.payload
