"""A paused controller asks nobody, and learns neither answers nor errors nor changes until it goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.pause import Pause, PausedCluster, PausedDriver
from mooring.kube.cluster import EVERYTHING, Cluster, EventType, Request, Selection, WatchEvent
from mooring.kube.errors import NotFound
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row


class Server(Cluster, Driver):
    """Both ends of a controller. It answers, or fails, when the test says so."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked, self.fails, self.answers = 0, fails, asyncio.Event()

    async def ask(self, request: Request) -> Any:
        self.asked += 1
        await self.answers.wait()
        if self.fails:
            raise NotFound("gone")
        return "answer"

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        self.asked += 1
        await self.answers.wait()
        if self.fails:
            raise DriverError(Code.NOT_FOUND, "gone")
        return rpc.response_type()

    async def watch(
        self, kind: Any, selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        await self.answers.wait()
        yield WatchEvent(EventType.BOOKMARK, None, "1")


async def from_cluster(server: Server, pause: Pause) -> object:
    return await PausedCluster(server, pause).get(NODES, "n1")


async def from_driver(server: Server, pause: Pause) -> object:
    return await PausedDriver(server, pause).probe(csi.ProbeRequest(), Call(1.0))


async def from_watch(server: Server, pause: Pause) -> object:
    async with contextlib.aclosing(PausedCluster(server, pause).watch(NODES, resource_version="0")) as stream:
        return await anext(stream)


Asks = Callable[[Server, Pause], Awaitable[object]]
ASKS = each_row("ask", [from_cluster, from_driver])


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@ASKS
async def test_a_paused_one_asks_nobody(ask: Asks) -> None:
    server, pause = Server(), Pause()
    server.answers.set()
    pause.begin()
    asking = asyncio.ensure_future(ask(server, pause))
    await settled()
    assert [0, False] == [server.asked, asking.done()]
    pause.end()
    await asyncio.wait_for(asking, 5)
    assert 1 == server.asked


@each_row("fails", [False, True])
@each_row("ask", [from_cluster, from_driver, from_watch])
async def test_a_paused_one_learns_nothing(ask: Asks, fails: bool) -> None:
    server, pause = Server(fails=fails), Pause()
    asking = asyncio.ensure_future(ask(server, pause))
    await settled()
    pause.begin()
    server.answers.set()
    await settled()
    assert not asking.done(), "it waits for the end of the pause"
    pause.end()
    with pytest.raises((NotFound, DriverError)) if fails and ask is not from_watch else contextlib.nullcontext():
        await asyncio.wait_for(asking, 5)


@ASKS
async def test_a_paused_one_can_be_ended(ask: Asks) -> None:
    server, pause = Server(), Pause()
    pause.begin()
    asking = asyncio.ensure_future(ask(server, pause))
    await settled()
    asking.cancel()
    await asyncio.wait((asking,), timeout=5)
    assert asking.cancelled()


@ASKS
async def test_one_that_is_ended_during_its_call_does_not_wait_for_the_end_of_the_pause(ask: Asks) -> None:
    server, pause = Server(), Pause()
    asking = asyncio.ensure_future(ask(server, pause))
    await settled()
    pause.begin()
    asking.cancel()
    await asyncio.wait((asking,), timeout=5)
    assert asking.cancelled()
