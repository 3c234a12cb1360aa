"""Watches share the turns of the loop: one step each, what they see alike is made once, and what is kept of it is
bounded.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import time
from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver import watch_buffer
from mooring.apiserver.identity.tls import ServerIdentity, identity_in
from mooring.apiserver.listing import ListScope, WatchOptions, scope_of
from mooring.apiserver.rules import CONFIG_MAPS, SECRETS
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.watch import Cursor, WatchHub
from mooring.apiserver.watch_buffer import Batch, WatchItem
from mooring.apiserver.web import dispatch, streams, watch_lines
from mooring.apiserver.web.messages import WatchReply
from mooring.apiserver.web.metrics import ServerMetrics
from mooring.apiserver.web.rendering import WHOLE, Rendering, TableRendering
from mooring.apiserver.web.streams import Streams
from mooring.apiserver.web.unsent import Unsent
from mooring.apiserver.web.watch_lines import Encodings
from mooring.base.randomness import Random
from tests.support.builders import a_secret
from tests.support.rows import each_row
from tests.unit.apiserver.objects import a_store, create, patch
from tests.unit.apiserver.serving import PATH, connected, head, serving
from tests.unit.apiserver.test_service import StoppedClock

TABLE = TableRendering("meta.k8s.io/v1", "None")
MANY = ",".join(f"!k{number}" for number in range(400))


def a_map(store: ObjectStore, name: str, text: str = "", **labels: str) -> None:
    create(store, CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}, "data": {"k": text}}, "default")


def a_hub(store: ObjectStore) -> WatchHub:
    return WatchHub(store, clock=StoppedClock(), randomness=Random(1))


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> ServerIdentity:
    return identity_in(tmp_path_factory.mktemp("identity"), time.time())


class Paper:
    """A sink. is_full: its client does not read."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_full = self.is_over = False

    @property
    def takes_lines(self) -> bool:
        return not self.is_full

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def end(self) -> None:
        self.is_over = True

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in b"".join(self.written).splitlines()]


class Room:
    """Watches of a store's ConfigMaps."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.streams = Streams(a_hub(store), ServerMetrics(store))

    def watch(
        self, selector: str = "", version: str = "", rendering: Rendering = WHOLE, *, is_chunked: bool = False
    ) -> Paper:
        paper = Paper()
        scope = scope_of(CONFIG_MAPS, None, selector, "")
        reply = WatchReply(
            CONFIG_MAPS, scope, WatchOptions(version or str(self.store.version), timeout_s=60), rendering
        )
        self.streams.begin(self.streams.prepare(reply, paper, is_chunked=is_chunked))
        return paper


async def turns(count: int = 60) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- what one step looks at


@pytest.mark.parametrize("version", ["0", "old"], ids=["beginning", "history"])
async def test_a_step_looks_at_as_much_as_a_batch_may_take(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = a_store()
    old = str(store.version)
    for number in range(300):
        a_map(store, f"m{number}", **({} if number % 50 else {"mine": "yes"}))
    scope = scope_of(CONFIG_MAPS, None, f"mine,{MANY}", "")
    looks, matches = list[int](), ListScope.matches

    def counted(self: ListScope, stored: Any) -> bool:
        looks.append(self.steps)
        return matches(self, stored)

    cursor = a_hub(store).cursor(CONFIG_MAPS, scope, WatchOptions(old if version == "old" else version))
    monkeypatch.setattr(ListScope, "matches", counted)
    found, batches = list[WatchItem](), 0
    while (batch := cursor.take()) is not None:
        assert sum(looks) <= watch_buffer._LOOKS + scope.steps
        looks.clear()
        batches += 1
        found += batch.items
    assert [f"m{number}" for number in (0, 100, 150, 200, 250, 50)] == sorted(
        item.stored.key.name for item in found if item.stored
    )
    assert batches > 5


async def test_what_was_there_is_told_in_batches_of_so_many_bytes() -> None:
    store = a_store()
    for number in range(5):
        a_map(store, f"m{number}", "x" * 100_000)
    cursor: Cursor = a_hub(store).cursor(CONFIG_MAPS, ListScope(), WatchOptions("0"))
    batches = [batch for _ in range(5) if (batch := cursor.take()) is not None]
    assert [1] * 5 == [len(batch.items) for batch in batches]
    assert cursor.take() is None


# -- turns


async def test_a_turn_serves_as_many_watches_as_its_share_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes 5 ms."""
    store = a_store()
    room = Room(store)
    papers = [room.watch() for _ in range(20)]
    ticks = itertools.count()
    monkeypatch.setattr(streams, "processor_s", lambda: next(ticks) * 0.005)
    a_map(store, "one")
    seen = [0]
    while seen[-1] < len(papers) and len(seen) < 30:
        await asyncio.sleep(0)
        seen.append(sum(bool(paper.written) for paper in papers))
    assert 20 == seen[-1]
    assert all(after - before <= 4 for before, after in itertools.pairwise(seen))


async def test_a_watch_that_begins_takes_one_step_at_once_and_others_in_its_turn() -> None:
    store = a_store()
    for number in range(40):
        a_map(store, f"m{number:02}", "x" * 100_000)
    room = Room(store)
    paper = room.watch(version="0", rendering=TABLE)
    assert 0 < len(paper.events) <= streams._BATCHES
    await turns()
    assert [f"m{number:02}" for number in range(40)] == [
        event["object"]["rows"][0]["cells"][0] for event in paper.events
    ]
    assert [True] + [False] * 39 == [bool(event["object"]["columnDefinitions"]) for event in paper.events]


async def test_a_watch_whose_client_does_not_read_is_looked_at_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a bookmark has long been due."""
    store = a_store()
    room = Room(store)
    paper = Paper()
    reply = WatchReply(CONFIG_MAPS, ListScope(), WatchOptions(str(store.version), timeout_s=0.001))
    stream = room.streams.prepare(reply, paper, is_chunked=False)
    room.streams.begin(stream)
    paper.is_full = True
    served, serve = list[int](), room.streams.serve
    monkeypatch.setattr(room.streams, "serve", lambda one: served.append(1) or serve(one))
    await asyncio.sleep(0.05)
    assert len(served) <= 1
    paper.is_full = False
    room.streams.serve(stream)
    assert paper.is_over


# -- what is shared and kept


@each_row("is_chunked", [False, True], ids=["lines", "chunks"])
async def test_watches_of_other_selections_share_the_bytes_of_an_event(is_chunked: bool) -> None:
    store = a_store()
    room = Room(store)
    papers = [room.watch(f"!a{number}", is_chunked=is_chunked) for number in range(3)]
    a_map(store, "large", "x" * 500_000)
    await turns()
    [first] = papers[0].written
    assert all(first is paper.written[0] for paper in papers)
    a_map(store, "s1")
    a_map(store, "l2", "x" * 300_000)
    await turns()
    assert papers[0].written[2] is papers[1].written[2], "what is large goes by itself, whatever was before it"
    told = "".join(re.findall(r'"name":"(\w+)"', b"".join(papers[1].written).decode()))
    assert "larges1l2" == told


async def test_the_rows_of_tables_are_made_once_for_all_their_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    store = a_store()
    room = Room(store)
    made, event = list[str](), TableRendering.event

    def counted(self: TableRendering, resource: Any, stored: Any, now: float, *, first: bool) -> bytes:
        made.append(stored.key.name)
        return event(self, resource, stored, now, first=first)

    monkeypatch.setattr(TableRendering, "event", counted)
    early = [room.watch(rendering=TABLE) for _ in range(3)]
    a_map(store, "one")
    await turns()
    assert ["one"] == made
    late = room.watch(rendering=TABLE)
    a_map(store, "two")
    await turns()
    assert ["one", "two", "two"] == made, "one with the columns explained, one without"
    assert [True, False] == [bool(found["object"]["columnDefinitions"]) for found in early[0].events]
    assert [True] == [bool(found["object"]["columnDefinitions"]) for found in late.events]


def test_of_what_batches_are_as_bytes_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_lines, "_BATCHES_BYTES", 2500)
    kept, batches = Encodings(), [Batch(number, (), is_shared=True) for number in range(4)]
    for batch in batches:
        kept.keep(batch, True, b"x" * 1000)
    assert [{}, {}, {True: b"x" * 1000}, {True: b"x" * 1000}] == [batch.encoded for batch in batches]
    monkeypatch.setattr(watch_lines, "_KEPT", 1)
    kept.keep(batches[0], False, b"y")
    assert [{False: b"y"}, {}, {}, {}] == [batch.encoded for batch in batches]
    alone = Batch(9, ())
    kept.keep(alone, True, b"x")
    assert not alone.encoded, "nobody else takes it"


# -- on connections


async def test_watches_that_are_not_read_for_a_while_lose_nothing(identity: ServerIdentity, store: ObjectStore) -> None:
    watch = head(identity, "GET", f"{PATH}?watch=1&resourceVersion={store.version}")
    async with (
        serving(identity, store) as server,
        connected(server, identity) as (first, one),
        connected(server, identity) as (second, two),
    ):
        for writer, path in ((one, watch), (two, watch.replace(b"watch=1", b"watch=1&labelSelector=%21z"))):
            writer.write(path)
        async with asyncio.timeout(10):
            while server.watch_count < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        create(store, SECRETS, {**a_secret("s"), "data": {"k": "eHh4" * 200_000}}, "default")
        for number in range(16):
            patch(store, SECRETS, Key("default", "s"), {"metadata": {"annotations": {"n": f"{number}"}}})
        async with asyncio.timeout(10):
            while sum(not each.takes_lines for each in server._dispatcher.connections) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for reader in (first, second):
            async with asyncio.timeout(20):
                await reader.readuntil(b"\r\n\r\n")
                for number in range(-1, 16):
                    size = int(await reader.readline(), 16)
                    event = json.loads((await reader.readexactly(size + 2))[:-2])
                    found = event["object"]["metadata"].get("annotations") or {}
                    assert ("-1" if number < 0 else f"{number}") == found.get("n", "-1")


class Silent:
    """A connection whose client does not read."""

    def __init__(self, data: bytes, watch: object = None, sending: int = 0) -> None:
        self.unsent, self.watch, self.deadline, self.is_cut = Unsent(), watch, math.inf, False
        self.is_writable, self.sending_bytes = False, sending
        if data:
            self.unsent.put(data)

    def abort(self) -> None:
        self.is_cut = True


async def test_watches_that_nobody_reads_are_cut_where_they_are_too_much_the_largest_first(
    identity: ServerIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they share counts once."""
    monkeypatch.setattr(dispatch, "_UNSENT_BYTES_MAX", 500)
    shared, watch = b"s" * 300, object()
    async with serving(identity) as server:
        silent = [Silent(shared, watch), Silent(shared, watch), Silent(b"l" * 100, watch), Silent(b"a" * 90)]
        server._dispatcher.connections.update(dict.fromkeys(silent))  # type: ignore[arg-type]
        server._dispatcher.look()
        assert not any(each.is_cut for each in silent)
        silent.append(Silent(b"m" * 50, watch))
        server._dispatcher.connections[silent[-1]] = None  # type: ignore[index]
        server._dispatcher.look()
        assert [True, True, False, False, False] == [each.is_cut for each in silent]
        server._dispatcher.connections.clear()
        filled = [Silent(b"", watch, sending) for sending in (200, 250, 100)]  # (of sockets that take no more)
        server._dispatcher.connections.update(dict.fromkeys(filled))  # type: ignore[arg-type]
        server._dispatcher.look()
        assert [False, True, False] == [each.is_cut for each in filled]
        server._dispatcher.connections.clear()


def test_what_is_unsent_goes_piece_by_piece_and_in_order() -> None:
    unsent, data = Unsent(), bytes(range(256)) * 2500
    unsent.put(data)
    first = unsent.piece()
    assert first.obj is data, "nothing is copied"
    unsent.put(b"end")
    pieces = [bytes(first)]
    while unsent:
        pieces.append(bytes(unsent.piece()))
    assert data + b"end" == b"".join(pieces)
    assert max(map(len, pieces)) < len(data) / 2
