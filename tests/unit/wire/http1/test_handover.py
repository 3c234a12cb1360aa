"""A connection that ends in the turn in which the pool hands it over."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from mooring.wire.http1.connection import Connection
from mooring.wire.http1.pool import Pool
from mooring.wire.http1.syntax import BrokenOff
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.wire.http1.fake_links import FakeDials, turns, until

pytestmark = in_virtual_time


async def test_a_used_one_is_nobody_s_and_the_wait_goes_on() -> None:
    """Else a write that was never sent would be told as broken."""
    dials = FakeDials()
    pool = Pool(dials.dial)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(pool.get(), name="first")
        await turns()
        dials.succeed(0)
        used = await first
        await used.ask("GET", b"x", 1000)
        waiting = group.create_task(pool.get(), name="waiting")
        await turns()
        pool.give_back(used)
        dials.link(0).leave()
        await turns()
        assert not waiting.done()
        dials.succeed(1)
        fresh = await waiting
    assert fresh is not used
    assert fresh.is_usable


@each_row("turn_count", [0, 5])
async def test_a_new_one_fails_its_request_and_says_why(turn_count: int) -> None:
    """A server that refuses a client's certificate under TLS 1.3 does so when the handshake is over for the client."""
    refusal = ssl.SSLError("alert")
    dials = FakeDials()
    pool = Pool(dials.dial)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(pool.get(), name="asked")
        await turns()
        dials.succeed(0)
        await until(lambda: dials.links[0])
        dials.link(0).leave(refusal)
        connection: Connection = await asked
        await turns(turn_count)
        with pytest.raises(BrokenOff) as told:
            await connection.ask("PATCH", b"x", 1000)
    assert (False, refusal, []) == (told.value.has_begun, told.value.__cause__, dials.link(0).sent)
    assert 1 == len(dials.links), "another was dialled"
