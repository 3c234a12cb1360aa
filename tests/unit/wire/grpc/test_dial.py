"""Peers that hang up as soon as they have said that they speak HTTP/2."""

import asyncio

import pytest

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.dial import dial
from mooring.wire.grpc.errors import LOST_TEXT, RpcError
from tests.unit.csi import raw_server as raw
from tests.unit.csi.faulty_server import door


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
        assert isinstance(error, RpcError)
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
    """The answer, or its RpcError: a task of a group must not raise it."""
    try:
        return await answer
    except RpcError as error:
        return error
