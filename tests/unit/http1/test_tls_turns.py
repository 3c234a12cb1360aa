"""Who sends without end is read in pieces, each in a turn of its own; checked with a plain transport in the socket's place."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from mooring.http1.tls_transport import READ_BYTES, TlsTransport


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
