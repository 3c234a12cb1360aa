"""The pool of connections: who gets which, how many are made, and what is left when all is over."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random

import pytest

from mooring.wire.http1.connection import Closed, Connection
from mooring.wire.http1.pool import DIAL_TIMEOUT_S, DIALS_MAX, IDLE_S, DialError, DialTimeout, Pool
from mooring.wire.http1.syntax import BrokenOff
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time, run_virtual
from tests.unit.wire.http1.fake_links import ANSWER, FakeDials, turns

pytestmark = in_virtual_time


async def ask(pool: Pool, method: str = "GET") -> Connection:
    """One exchange, from a connection to its way back."""
    connection = pool.take() or await pool.get()
    try:
        await connection.ask(method, b"GET / HTTP/1.1\r\n\r\n", 1000)
    finally:
        pool.give_back(connection)
    return connection


async def idle_connections(pool: Pool, count: int) -> list[Connection]:
    """So many idle connections, the last in the list used last."""
    made = [await pool.get() for _ in range(count)]
    for connection in made:
        await connection.ask("GET", b"x", 1000)
    for connection in made:
        pool.give_back(connection)
    return made


def live_connections() -> int:
    gc.collect()
    return sum(isinstance(one, Connection) for one in gc.get_objects())


async def test_the_connection_that_was_used_last_is_used_next() -> None:
    pool = Pool(FakeDials(at_once=True).dial)
    one, two, three = await idle_connections(pool, 3)
    assert three is pool.take()
    pool.give_back(three)  # (nothing was asked on it: it is not kept)
    assert two is await ask(pool)
    assert [two, one, None] == [pool.take(), pool.take(), pool.take()]


async def test_an_idle_connection_is_closed_after_a_minute_and_not_before() -> None:
    dials = FakeDials(at_once=True)
    pool = Pool(dials.dial)
    await idle_connections(pool, 2)
    await asyncio.sleep(IDLE_S / 2)
    await ask(pool)
    await asyncio.sleep(IDLE_S / 2 - 1)
    assert [False, False] == [dials.link(number).is_aborted for number in range(2)]
    await asyncio.sleep(1)
    assert [True, False] == [dials.link(number).is_aborted for number in range(2)]
    await asyncio.sleep(IDLE_S / 2)
    assert [True, True] == [dials.link(number).is_aborted for number in range(2)]
    assert None is pool.take()
    await ask(pool)
    assert 3 == len(dials.links)
    await asyncio.sleep(IDLE_S)
    assert dials.link(2).is_aborted, "the sweep begins anew with the next idle connection"


@each_row("how", ["farewell", "reset", "bytes"])
async def test_an_idle_connection_that_ends_or_speaks_is_used_no_more(how: str) -> None:
    """Bytes that nobody asked for would be taken for the next answer. Not in the same turn either, before the loop
    tells its end.
    """
    dials = FakeDials(at_once=True)
    pool = Pool(dials.dial)
    await ask(pool)
    link = dials.link(0)
    if how == "bytes":
        link.tell(ANSWER)
    else:
        link.leave(None if how == "farewell" else ConnectionResetError())
    assert None is pool.take()
    await ask(pool)
    assert [1, 1] == [len(one.sent) for one in dials.links if one]


async def test_only_so_many_connections_are_made_at_a_time_and_freed_ones_serve_who_waits() -> None:
    dials = FakeDials()
    pool = Pool(dials.dial)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(pool), name=f"{number}") for number in range(20)]
        await turns()
        assert DIALS_MAX == len(dials.links)
        dials.succeed(0)
        await turns(80)
        assert [task.done() for task in tasks] == [True] * 20, "one connection served them all, one after the other"
        for number in range(1, len(dials.links)):
            dials.succeed(number)
    assert DIALS_MAX == dials.most_under_way
    assert {0: 20} == {number: len(link.sent) for number, link in enumerate(dials.links) if link and link.sent}


async def test_who_waits_first_is_served_first() -> None:
    dials = FakeDials()
    pool = Pool(dials.dial)
    served: list[int] = []

    async def wait(number: int) -> None:
        await pool.get()
        served.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(DIALS_MAX + 2):
            group.create_task(wait(number), name=f"{number}")
            await turns(1)
        for number in (3, 0, 7, 1, 2, 4, 6, 5):
            dials.succeed(number)
            await turns(8)
        dials.succeed(8)
        dials.succeed(9)
    assert list(range(DIALS_MAX + 2)) == served


async def test_a_connection_that_can_t_be_made_is_told_to_one_and_the_others_go_on() -> None:
    dials = FakeDials()
    pool = Pool(dials.dial)
    refused = ConnectionRefusedError(111, "refused")
    asked = asyncio.gather(*(ask(pool) for _ in range(DIALS_MAX + 1)), return_exceptions=True)
    await turns()
    dials.fail(2, refused)
    await turns()
    assert DIALS_MAX + 1 == len(dials.links), "there is still one in line for whom no connection is being made"
    dials.succeed(0)
    first, *others = await asked
    assert isinstance(first, DialError)
    assert refused is first.reason
    assert [Connection] * DIALS_MAX == [type(one) for one in others]
    pool.close()
    await pool.ended()


async def test_a_dial_that_hangs_is_given_up() -> None:
    pool = Pool(FakeDials().dial)
    with pytest.raises(DialError) as caught:
        await pool.get()
    assert isinstance(caught.value.reason, DialTimeout)
    assert DIAL_TIMEOUT_S == asyncio.get_running_loop().time()


async def test_a_network_s_own_timeout_is_told_as_it_is() -> None:
    dials = FakeDials()
    pool = Pool(dials.dial)
    waits = asyncio.gather(pool.get(), return_exceptions=True)
    await turns()
    dials.fail(0, TimeoutError(110, "Connection timed out"))
    (error,) = await waits
    assert isinstance(error, DialError)
    assert (TimeoutError, 110) == (type(error.reason), getattr(error.reason, "errno", None))


async def test_who_gives_up_takes_the_oldest_dial_along() -> None:
    """It would hang for those who come next."""
    dials = FakeDials()
    pool = Pool(dials.dial)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await pool.get()
    await turns()
    assert ([0], 0) == (dials.cancelled, dials.under_way)
    waits = asyncio.gather(ask(pool))
    await turns()
    dials.succeed(1)
    await waits


async def test_a_connection_that_comes_as_its_waiter_gives_up_is_the_next_one_s() -> None:
    dials = FakeDials()
    pool = Pool(dials.dial)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(ask(pool), name="first")
        second = group.create_task(ask(pool), name="second")
        await turns()
        dials.succeed(0)
        await turns(1)
        first.cancel()  # (it has been given the connection, and has not had its turn)
    assert first.cancelled()
    assert dials.link(0).connection is second.result()
    pool.close()
    await pool.ended()


async def test_a_used_connection_that_ends_as_it_is_handed_over_is_nobody_s() -> None:
    """Nothing was sent on it, so a write needs not fail for it."""
    dials = FakeDials()
    pool = Pool(dials.dial)
    asked = asyncio.gather(ask(pool))
    await turns()
    dials.succeed(0)
    await asked
    busy = pool.take()
    assert busy is not None
    asked = asyncio.gather(ask(pool, "POST"))
    await turns()
    await busy.ask("GET", b"x", 1000)
    pool.give_back(busy)
    dials.link(0).leave()
    dials.succeed(1)
    (connection,) = await asked
    assert dials.link(1).connection is connection
    pool.close()
    await pool.ended()


@pytest.mark.long
async def test_an_idle_connection_that_ends_takes_no_memory() -> None:
    dials = FakeDials(at_once=True)
    pool = Pool(dials.dial)
    before = live_connections()
    await ask(pool)
    assert before + 1 == live_connections()
    dials.link(0).leave()
    await turns()
    dials.links.clear()
    assert before == live_connections()


async def test_who_needs_a_new_connection_gets_no_used_one() -> None:
    dials = FakeDials()
    pool = Pool(dials.dial)
    asked = asyncio.gather(ask(pool))
    await turns()
    dials.succeed(0)
    await asked
    busy = pool.take()
    assert busy is not None
    new, any_one = asyncio.gather(pool.get(needs_new=True)), asyncio.gather(ask(pool))
    await turns()
    await busy.ask("GET", b"x", 1000)
    pool.give_back(busy)
    assert [busy] == await any_one
    assert not new.done()
    dials.succeed(1)
    (connection,) = await new
    assert not connection.is_reused
    pool.close()
    await pool.ended()


async def test_a_connection_that_has_waited_is_no_new_one() -> None:
    """An API server closes one that has asked for nothing after half a minute, sooner than one that has."""
    dials = FakeDials()
    pool = Pool(dials.dial)
    asked = asyncio.gather(ask(pool), ask(pool))
    await turns()
    dials.succeed(0)
    await asked
    dials.succeed(1)
    await turns()
    waited = dials.link(1).connection
    assert [] == dials.link(1).sent
    assert waited is pool.take()
    assert waited.is_reused


async def test_what_is_made_with_changed_certificates_is_used_alone() -> None:
    dials = FakeDials()
    pool = Pool(dials.dial)
    for number in range(2):
        asked = asyncio.gather(pool.get())
        await turns()
        dials.succeed(number)
        (busy,) = await asked
        await busy.ask("GET", b"x", 1000)
        if not number:
            pool.give_back(busy)
    waits = asyncio.gather(pool.get(needs_new=True))
    await turns()
    pool.renew()
    assert dials.link(0).is_aborted, "it was idle"
    pool.give_back(busy)
    assert dials.link(1).is_aborted, "it was in use"
    dials.succeed(2)
    await turns()
    assert dials.link(2).is_aborted, "it was being made"
    assert not waits.done()
    dials.succeed(3)
    (connection,) = await waits
    assert dials.link(3).connection is connection


async def test_closing_ends_who_reads_who_waits_and_what_is_being_made() -> None:
    dials = FakeDials(answers=None)
    pool = Pool(dials.dial)
    reads = asyncio.gather(ask(pool), return_exceptions=True)
    await turns()
    dials.succeed(0)
    await turns()
    waits = asyncio.gather(pool.get(), pool.get(), return_exceptions=True)
    await turns()
    pool.close()
    await pool.ended()
    assert [Closed] * 3 == [type(error) for error in [*await reads, *await waits]]
    assert (True, [1, 2], 0) == (dials.link(0).is_aborted, dials.cancelled, dials.under_way)
    assert None is pool.take()
    with pytest.raises(Closed):
        await pool.get()
    assert {asyncio.current_task()} == asyncio.all_tasks()


async def test_an_answer_that_is_not_read_to_its_end_breaks_the_connection() -> None:
    dials = FakeDials(answers=ANSWER[:-1])
    pool = Pool(dials.dial)
    waits = asyncio.gather(ask(pool))
    await turns()
    dials.succeed(0)
    await turns()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert dials.link(0).is_aborted
    assert None is pool.take()


async def _storm(seed: int) -> None:
    """Clients that ask, give up, and meet failures, each at random; none is forgotten and none meets another's
    answer.
    """
    chance, busy, most = random.Random(seed), set[Connection](), [0]
    dials = FakeDials(at_once=True)

    async def dial(owner: Pool, generation: int) -> Connection:
        most[0] += 1
        assert most[0] <= DIALS_MAX
        try:
            await asyncio.sleep(chance.choice((0, 0, 0.01, 0.3, 2 * DIAL_TIMEOUT_S)))
            if chance.random() < 0.2:
                raise ConnectionRefusedError(111, "refused")
            return await dials.dial(owner, generation)
        finally:
            most[0] -= 1

    pool = Pool(dial)  # type: ignore[arg-type]

    async def client() -> None:
        for _ in range(5):
            await asyncio.sleep(chance.choice((0, 0.01, 1)))
            connection = None
            try:
                async with asyncio.timeout(chance.choice((0.001, 0.02, 100))):
                    connection = pool.take() or await pool.get(needs_new=chance.random() < 0.1)
                    assert connection not in busy
                    busy.add(connection)
                    await connection.ask("GET", b"x", 1000)
                    await asyncio.sleep(chance.choice((0, 0.01)))
            except (TimeoutError, DialError, BrokenOff):
                pass
            finally:
                if connection is not None:
                    busy.discard(connection)
                    pool.give_back(connection)
            if chance.random() < 0.1:
                pool.renew()
            if chance.random() < 0.2 and (links := [link for link in dials.links if link]):
                chance.choice(links).leave(chance.choice((None, ConnectionResetError())))

    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(client(), name=f"client/{number}")
    pool.close()
    await pool.ended()
    assert {asyncio.current_task()} == asyncio.all_tasks()
    assert all(link.is_closing() for link in dials.links if link)


@each_row("seed", range(30))
def test_in_any_order_nobody_is_forgotten(seed: int) -> None:
    run_virtual(_storm(seed), seed)
