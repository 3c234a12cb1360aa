"""A peer on a unix socket whose every byte is the test's: it tells of what it got, and says what it is told to say."""

from __future__ import annotations

import asyncio
import select
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.unit.csi import raw_server as raw

Frame = tuple[int, int, int, bytes]
"""Kind, flags, stream, payload."""


class Peer:
    """One accepted connection."""

    def __init__(self, accepted: sockets.socket) -> None:
        self._socket = accepted
        self._socket.setblocking(False)
        self._received = b""
        self._skip = raw.PREFACE_LENGTH

    async def say(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def settle(self, settings: bytes = b"") -> None:
        """Sends SETTINGS, with large windows."""
        await self.say(raw.frame(raw.SETTINGS, 0, 0, settings or b"\x00\x04" + raw.MANY.to_bytes(4)))
        await self.say(raw.frame(raw.WINDOW_UPDATE, 0, 0, raw.MANY.to_bytes(4)))

    async def hear(self) -> Frame:
        """The next frame. Raises EOFError when the client has closed."""
        while True:
            if (found := self._cut()) is not None:
                return found
            more = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
            if not more:
                raise EOFError
            self._received += more

    async def hear_until(self, kind: int, flags: int = 0) -> Frame:
        """The next frame of this kind with these flags; what comes before it is passed over."""
        while True:
            frame = await self.hear()
            if frame[0] == kind and frame[1] & flags == flags:
                return frame

    async def hear_call(self) -> int:
        """The stream of the next request that is complete."""
        while True:
            kind, flags, stream, _ = await self.hear()
            if kind in (raw.DATA, raw.HEADERS) and flags & raw.END_STREAM:
                return stream

    async def hear_the_end(self) -> None:
        """Returns when the client has closed the connection."""
        while True:
            try:
                await self.hear()
            except (EOFError, ConnectionResetError):
                return

    def _cut(self) -> Frame | None:
        self._received, self._skip = self._received[self._skip :], max(0, self._skip - len(self._received))
        size = int.from_bytes(self._received[:3])
        if self._skip or len(self._received) < 9 + size:
            return None
        head, payload, self._received = self._received[:9], self._received[9 : 9 + size], self._received[9 + size :]
        return head[3], head[4], int.from_bytes(head[5:]), payload

    def close(self) -> None:
        self._socket.close()


class Door:
    """A listening socket. Peers that the test takes in are closed with it."""

    def __init__(self, path: Path, backlog: int = 16) -> None:
        self._listener = sockets.socket(sockets.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(backlog)
        self._listener.setblocking(False)
        self.peers: list[Peer] = []

    async def take_in(self) -> Peer:
        """The next connection, without a word said."""
        loop, knocks = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._listener, knocks.set)
        try:
            await knocks.wait()
        finally:
            loop.remove_reader(self._listener)
        # No `sock_accept`: nobody would close what it has accepted when it is cancelled.
        accepted, _ = self._listener.accept()
        accepted.setblocking(False)
        self.peers.append(Peer(accepted))
        return self.peers[-1]

    async def settled(self) -> Peer:
        """The next connection, which has heard that we speak HTTP/2."""
        peer = await self.take_in()
        await peer.settle()
        return peer

    def has_guest(self) -> bool:
        """True when somebody has connected who was not taken in."""
        return bool(select.select([self._listener], [], [], 0)[0])

    def close(self) -> None:
        self._listener.close()
        for peer in self.peers:
            peer.close()


@asynccontextmanager
async def door(path: Path, backlog: int = 16) -> AsyncIterator[Door]:
    """Listens as long as the block runs."""
    made = Door(path, backlog)
    try:
        yield made
    finally:
        made.close()
