"""Peers that hang up as soon as they have said that they speak HTTP/2, or before the client has said a word."""

import asyncio
import contextlib

import pytest

from mooring.base.clock import LoopClock
from mooring.csi import wire_link
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.socket_driver import LOST_TEXT
from mooring.csi.wire_dial import dial
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc.codes import Code
from tests.unit.csi import raw_server as raw
from tests.unit.csi.faulty_server import door
from tests.unit.csi.servers import CALL

PROBE = csi.ProbeRequest()


# -- a connection for a few calls


@pytest.mark.parametrize("is_polite", [False, True], ids=["hangs-up", "GOAWAY"])
async def test_a_peer_that_leaves_once_it_has_spoken_is_Unavailable(socket, is_polite):
    async with door(socket) as opened, asyncio.timeout(10), asyncio.TaskGroup() as group:
        dialled = group.create_task(outcome(dial(str(socket), 5)), name="dial")
        peer = await opened.settled()
        if is_polite:
            await peer.say(raw.going_away(0))
        else:
            peer.close()
        error = await dialled
        assert isinstance(error, DriverError)
        assert (error.code, error.message) == (Code.UNAVAILABLE, LOST_TEXT)
        if is_polite:
            await peer.hear_the_end()


async def test_who_gives_up_dialling_leaves_no_connection_behind(socket):
    async with door(socket) as opened, asyncio.timeout(10):
        dialling = asyncio.create_task(dial(str(socket), 5), name="dial")
        peer = await opened.take_in()
        dialling.cancel()
        await asyncio.wait([dialling])
        assert dialling.cancelled()
        await peer.hear_the_end()


async def outcome(answer):
    """The answer, or its DriverError: a task of a group must not raise it."""
    try:
        return await answer
    except DriverError as error:
        return error


# -- the driver's


@contextlib.contextmanager
def hanging_up(opened, monkeypatch):
    """Peers say that they speak HTTP/2 and hang up, between the client's connect() and its first word."""
    start = wire_link.Link.start

    def start_late(link):
        accepted, _ = opened._listener.accept()
        accepted.sendall(raw.frame(raw.SETTINGS, 0, 0))
        accepted.close()
        start(link)

    with monkeypatch.context() as patched:
        patched.setattr(wire_link.Link, "start", start_late)
        yield


@pytest.mark.parametrize("work", ["call", "reconnected"])
async def test_a_connection_that_comes_and_goes_at_once_is_not_waited_for(socket, monkeypatch, work):
    """The news of it is there before anybody waits for news."""
    async with door(socket) as opened, asyncio.timeout(10), asyncio.TaskGroup() as group:
        driver = WireDriver(str(socket), clock=LoopClock())
        connected = group.create_task(driver.connect(5), name="connect")
        peer = await opened.settled()
        await connected
        peer.close()
        await driver.lost()
        await asyncio.sleep(0.15)  # so that the next attempt is made at once
        with hanging_up(opened, monkeypatch):
            working = group.create_task(driver.probe(PROBE, CALL) if work == "call" else driver.reconnected(), name=work)
            await asyncio.sleep(0)
        async with asyncio.timeout(2):
            peer = await opened.settled()
            if work == "call":
                await peer.say(raw.answer(await peer.hear_call()))
            await working
        await driver.close()
