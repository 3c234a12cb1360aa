"""Who sends without end is read in pieces, each in a turn of its own; checked with a plain transport in the socket's
place.
"""

from __future__ import annotations

import asyncio
import ssl

import pytest

from mooring.base import turns
from mooring.base.turns import Turns
from mooring.wire.http1.tls_transport import READ_BYTES, TlsTransport


class Tcp:
    """Says when it may be read from."""

    def __init__(self) -> None:
        self.is_read, self.is_over = True, False

    def is_closing(self) -> bool:
        return self.is_over

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, high: int) -> None: ...
    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        self.is_over = True


class Nobody:
    def connected(self, link: TlsTransport) -> None: ...
    def secured(self) -> None: ...
    def received(self, data: bytes) -> None: ...
    def writable(self, yes: bool) -> None: ...
    def lost(self) -> None: ...


class Deaf(TlsTransport):
    """What comes is nothing to it."""

    def _advance(self) -> None: ...


@pytest.fixture
def tcp() -> Tcp:
    return Tcp()


@pytest.fixture
def link(tcp: Tcp) -> TlsTransport:
    one = Deaf(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), Nobody(), memoryview(bytearray(READ_BYTES)))
    one.connection_made(tcp)
    return one


async def test_after_a_full_buffer_others_have_their_turn(link: TlsTransport, tcp: Tcp) -> None:
    link.buffer_updated(READ_BYTES)
    assert not tcp.is_read
    await asyncio.sleep(0)
    assert tcp.is_read


async def test_what_came_in_part_is_all_there_is(link: TlsTransport, tcp: Tcp) -> None:
    link.buffer_updated(READ_BYTES - 1)
    assert tcp.is_read


async def test_who_was_told_to_pause_stays_so(link: TlsTransport, tcp: Tcp) -> None:
    link.buffer_updated(READ_BYTES)
    link.pause_reading()
    await asyncio.sleep(0)
    assert not tcp.is_read
    link.buffer_updated(READ_BYTES)
    await asyncio.sleep(0)
    assert not tcp.is_read
    link.resume_reading()
    assert tcp.is_read


async def test_a_connection_that_ends_meanwhile_is_left_alone(link: TlsTransport, tcp: Tcp) -> None:
    link.buffer_updated(READ_BYTES)
    tcp.is_over = True
    await asyncio.sleep(0)
    assert not tcp.is_read
    link.connection_lost(None)
    link.buffer_updated(READ_BYTES)


# -- within shares


class Slow(TlsTransport):
    """Each look at what has come takes half a turn's share."""

    looked = 0
    clock = 0.0

    def _advance(self) -> None:
        Slow.looked += 1
        Slow.clock += turns.SHARE_S / 2
        self._incoming.read()


@pytest.fixture
def slow_ones(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Slow, Tcp]]:
    """Links of ten clients."""
    monkeypatch.setattr(turns, "processor_s", lambda: Slow.clock)
    monkeypatch.setattr(Slow, "looked", 0)
    monkeypatch.setattr(Slow, "clock", 0.0)
    context, shared, buffer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), Turns(), memoryview(bytearray(READ_BYTES))
    found = [(Slow(context, Nobody(), buffer, line=shared.line()), Tcp()) for _ in range(10)]
    for link, tcp in found:
        link.connection_made(tcp)
    return found


async def test_clients_who_speak_at_the_same_time_share_the_turns_of_the_loop(
    slow_ones: list[tuple[Slow, Tcp]],
) -> None:
    """Handshakes and requests alike; who waits is not read from meanwhile."""
    for link, _ in slow_ones:
        link.buffer_updated(1)
    assert 2 == Slow.looked
    assert [True, True, *[False] * 8] == [tcp.is_read for _, tcp in slow_ones]
    await asyncio.sleep(0)
    assert 4 == Slow.looked
    for _ in range(4):
        await asyncio.sleep(0)
    assert 10 == Slow.looked
    assert all(tcp.is_read for _, tcp in slow_ones)


async def test_who_waits_is_not_read_from_whatever_the_receiver_says(slow_ones: list[tuple[Slow, Tcp]]) -> None:
    for link, _ in slow_ones[:3]:
        link.buffer_updated(READ_BYTES)
    link, tcp = slow_ones[2]
    link.resume_reading()
    assert not tcp.is_read
    link.pause_reading()
    for _ in range(3):
        await asyncio.sleep(0)
    assert 3 == Slow.looked
    assert not tcp.is_read, "the receiver's word counts then"
    link.resume_reading()
    assert tcp.is_read


async def test_who_has_gone_meanwhile_is_not_looked_at(slow_ones: list[tuple[Slow, Tcp]]) -> None:
    for link, _ in slow_ones[:4]:
        link.buffer_updated(1)
    slow_ones[2][0].connection_lost(None)
    slow_ones[3][1].is_over = True
    for _ in range(3):
        await asyncio.sleep(0)
    assert 2 == Slow.looked
