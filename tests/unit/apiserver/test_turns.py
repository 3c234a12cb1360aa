"""The requests of one turn of the loop have a share of it; who asks much waits, and nobody waits for him."""

from __future__ import annotations

import asyncio
import io
import itertools
import time

import pytest

from mooring.apiserver.identity.tls import Identity, identity_in
from mooring.apiserver.web import turns
from mooring.apiserver.web.queries import route_of
from mooring.apiserver.web.turns import Turns
from mooring.base import log
from tests.unit.apiserver.objects import a_store
from tests.unit.apiserver.serving import PATH, answered, connected, head, serving


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity_in(tmp_path_factory.mktemp("identity"), time.time())


def nobody(_held_s: float) -> None:
    """Nobody is told."""


async def test_what_is_over_the_share_has_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(turns, "processor_s", lambda: clock[0])
    done: list[int] = []
    shared = Turns()

    def job(number: int) -> None:
        clock[0] += turns.SHARE_S / 2
        done.append(number)

    for number in range(5):
        shared.take(lambda number=number: job(number), nobody)
    assert done == [0, 1]
    seen = []
    for _ in range(3):
        await asyncio.sleep(0)
        seen.append(len(done))
    assert seen == [4, 5, 5]
    assert done == [0, 1, 2, 3, 4], "in the order in which they came"


async def test_a_job_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, failed, done = [0.0], [], []
    monkeypatch.setattr(turns, "processor_s", lambda: clock[0])
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failed.append(context["exception"]))
    shared = Turns()

    def job() -> None:
        clock[0] += turns.SHARE_S
        done.append(1)

    def fail() -> None:
        raise KeyError("a bug")

    for each in (job, fail, job, job):
        shared.take(each, nobody)
    for _ in range(4):
        await asyncio.sleep(0)
    assert (3, [KeyError]) == (len(done), [type(error) for error in failed])
    with pytest.raises(KeyError):
        shared.take(fail, nobody)
    shared.take(job, nobody)
    assert 4 == len(done)


async def test_what_a_job_brings_follows_and_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer leads to the next request of its connection: one in another, both would count for the first."""
    clock = [0.0]
    monkeypatch.setattr(turns, "processor_s", lambda: clock[0])
    done: list[int] = []
    shared = Turns()

    def job(number: int) -> None:
        clock[0] += turns.SHARE_S / 4
        if number < 5:
            shared.take(lambda: job(number + 1), nobody)
        done.append(number)

    shared.take(lambda: job(0), nobody)
    assert done == [0, 1, 2, 3]
    await asyncio.sleep(0)
    assert done == [0, 1, 2, 3, 4, 5]


async def test_a_request_that_holds_the_server_is_named_in_the_log(identity: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    """In mooring dev as in mooring apiserver: both serve by ApiServer. The query, which may hold anything, is left out."""
    clock = itertools.count(0.0, 2 * turns.STALL_S)
    logged = io.StringIO()
    log.configure(stream=logged)
    try:
        async with serving(identity) as server, connected(server, identity) as (reader, writer):
            writer.write(head(identity, "GET", "/version"))
            assert 200 == (await answered(reader))[0]
            assert not logged.getvalue()
            monkeypatch.setattr(turns, "processor_s", lambda: next(clock))
            writer.write(head(identity, "GET", f"{PATH}?labelSelector=a"))
            assert 200 == (await answered(reader))[0]
    finally:
        log.configure()
    assert f'"A request held the server" method="GET" path="{PATH}" processor_s=0.2' in logged.getvalue()


async def test_a_probe_waits_for_no_request(identity: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHARE_S", 1e-9)  # each request has a turn of its own
    many = 200
    async with (
        serving(identity) as server,
        connected(server, identity) as (reader, writer),
        connected(server, identity) as (probe, asking),
    ):
        writer.write(head(identity, "GET", PATH) * many)
        asking.write(head(identity, "GET", "/livez"))
        assert (200, b"ok") == await answered(probe)
        assert [200] * many == [(await answered(reader))[0] for _ in range(many)]


def test_a_path_of_slashes_is_read_once() -> None:
    """Twenty times as long takes twenty times as long, and not four hundred times."""

    def used_s(slashes: int) -> float:
        path = ("",) * slashes
        begun = time.process_time()
        assert route_of(path, store) is None
        return time.process_time() - begun

    store = a_store()
    few = max(min(used_s(10_000) for _ in range(5)), 1e-5)
    assert min(used_s(200_000) for _ in range(5)) < 100 * few
