"""Drivers that hang up before the client has said a word."""

import asyncio
import contextlib

import pytest

from mooring.base.clock import LoopClock
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc import link
from tests.unit.csi import raw_server as raw
from tests.unit.csi.faulty_server import door
from tests.unit.csi.servers import CALL

PROBE = csi.ProbeRequest()


@contextlib.contextmanager
def hanging_up(opened, monkeypatch):
    """Peers say that they speak HTTP/2 and hang up, between the client's connect() and its first word."""
    start = link.Link.start

    def start_late(link):
        accepted, _ = opened._listener.accept()
        accepted.sendall(raw.frame(raw.SETTINGS, 0, 0))
        accepted.close()
        start(link)

    with monkeypatch.context() as patched:
        patched.setattr(link.Link, "start", start_late)
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
            working = group.create_task(
                driver.probe(PROBE, CALL) if work == "call" else driver.reconnected(), name=work
            )
            await asyncio.sleep(0)
        async with asyncio.timeout(2):
            peer = await opened.settled()
            if work == "call":
                await peer.say(raw.answer(await peer.hear_call()))
            await working
        await driver.close()
