"""A connection to a gRPC server on a unix socket for a few calls: one try, and no other after it is lost."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, LOST_TEXT, RpcError, dial_text, preface_text
from mooring.wire.grpc.link import Link


async def dial(path: str, timeout_s: float, on_over: Callable[[Link], None] = lambda _: None) -> Link:
    """A link that calls may begin on. on_over: called when it takes no more calls, and when it is gone.

    Raises RpcError: Unavailable for a server that is not there, DeadlineExceeded for a silent one.
    """
    loop = asyncio.get_running_loop()
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.setblocking(False)
    try:
        peer.connect(path)  # done at once on a unix socket, or never
    except OSError as error:
        peer.close()
        raise RpcError(Code.UNAVAILABLE, dial_text(path, os.strerror(error.errno or 0))) from None
    waiting = _Waiting(loop.create_future(), on_over)
    link = Link(peer, waiting)
    link.start()
    try:
        async with asyncio.timeout(timeout_s) as limit:
            await waiting.settled
    except BaseException as error:
        link.close()
        if isinstance(error, TimeoutError) and limit.expired():
            raise RpcError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT) from None
        raise
    if not link.is_open:
        raise RpcError(Code.UNAVAILABLE, LOST_TEXT)
    return link


class _Waiting:
    """Waits for the link. settled: done when its calls may begin."""

    def __init__(self, settled: asyncio.Future[None], on_over: Callable[[Link], None]) -> None:
        self.settled, self._on_over = settled, on_over

    def link_settled(self, link: Link) -> None:
        if not self.settled.done():
            self.settled.set_result(None)

    def link_leaving(self, link: Link) -> None:
        self._on_over(link)

    def link_drained(self, link: Link) -> None:
        """Each caller has one call at a time."""

    def link_gone(self, link: Link, text: str) -> None:
        if not self.settled.done():
            self.settled.set_exception(RpcError(Code.UNAVAILABLE, preface_text(text)))
        else:
            self._on_over(link)
