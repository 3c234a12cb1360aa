"""Watchers, in virtual time: bookmarks, ends, and who is too slow."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator

import pytest

from mooring.api.meta import Key
from mooring.apiserver.listing import ListScope, WatchOptions, scope_of
from mooring.apiserver.rules import SECRETS, VOLUME_ATTACHMENTS
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import DEFAULT_LIMITS, HistoryLimits
from mooring.apiserver.watch import BOOKMARK_PERIOD_S, LAST_BOOKMARK_S, WatchHub
from mooring.apiserver.watch_buffer import WatchItem
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.errors import Gone
from tests.support.builders import a_secret, a_va
from tests.support.virtual_loop import in_virtual_time
from tests.unit.apiserver.objects import NOW, a_store, create, patch

pytestmark = in_virtual_time
Batches = AsyncGenerator[tuple[WatchItem, ...], None]


def a_hub(limits: HistoryLimits = DEFAULT_LIMITS) -> tuple[ObjectStore, WatchHub]:
    store = a_store(limits)
    return store, WatchHub(store, clock=LoopClock(), randomness=Random(1))


@pytest.fixture
def hub(store: ObjectStore) -> WatchHub:
    return WatchHub(store, clock=LoopClock(), randomness=Random(1))


def brief(items: list[WatchItem] | tuple[WatchItem, ...]) -> list[str]:
    return [item.type.value + ("" if item.stored is None else f" {item.stored.key.name}") for item in items]


async def everything(batches: Batches) -> list[WatchItem]:
    return [item async for batch in batches for item in batch]


async def test_a_quiet_watch_gets_a_bookmark_every_quarter_minute_that_covers_other_kinds(
    store: ObjectStore, hub: WatchHub
) -> None:
    options = WatchOptions(str(store.version), bookmarks=True, timeout_s=100)
    loop = asyncio.get_running_loop()
    times: list[float] = []
    async with contextlib.aclosing(hub.watch(VOLUME_ATTACHMENTS, ListScope(), options)) as batches:
        async for batch in batches:
            assert ["BOOKMARK"] == brief(batch)
            assert store.version == batch[0].version
            times.append(loop.time())
            create(store, SECRETS, a_secret(f"s{len(times)}"), "default")
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(gap <= BOOKMARK_PERIOD_S * 1.11 for gap in gaps)
    assert 100 - LAST_BOOKMARK_S == times[-1], "as kube-apiserver: two seconds before the end"


async def test_without_bookmarks_a_quiet_watch_says_nothing(store: ObjectStore, hub: WatchHub) -> None:
    assert [] == await everything(
        hub.watch(VOLUME_ATTACHMENTS, ListScope(), WatchOptions(str(store.version), timeout_s=1000))
    )
    assert 1000 == asyncio.get_running_loop().time()


async def test_a_watch_that_names_no_end_lasts_half_an_hour_to_an_hour(store: ObjectStore, hub: WatchHub) -> None:
    await everything(hub.watch(VOLUME_ATTACHMENTS, ListScope(), WatchOptions(str(store.version))))
    assert 1800 <= asyncio.get_running_loop().time() <= 3600


async def test_a_bookmark_never_runs_ahead_of_a_change(store: ObjectStore, hub: WatchHub) -> None:
    create(store, VOLUME_ATTACHMENTS, a_va("a"))
    options = WatchOptions("5", bookmarks=True, timeout_s=40)
    seen: list[WatchItem] = []
    async with contextlib.aclosing(hub.watch(VOLUME_ATTACHMENTS, ListScope(), options)) as batches:
        async for batch in batches:
            seen += batch
            if len(seen) < 6:
                create(store, VOLUME_ATTACHMENTS, a_va(f"b{len(seen)}"))
                await asyncio.sleep(20)  # (the reader is slow, and a bookmark has become due)
    versions = [item.version for item in seen]
    assert sorted(versions) == versions
    assert len({item.version for item in seen if item.stored}) == sum(1 for item in seen if item.stored)


async def test_initial_events_are_closed_by_a_bookmark_if_bookmarks_are_wanted(
    store: ObjectStore, hub: WatchHub
) -> None:
    for name in "ba":
        create(store, VOLUME_ATTACHMENTS, a_va(name))
    listed = WatchOptions("", "NotOlderThan", True, True, 5)
    items = await everything(hub.watch(VOLUME_ATTACHMENTS, ListScope(), listed))
    assert ["ADDED a", "ADDED b", "BOOKMARK", "BOOKMARK"] == brief(items)
    assert [False, False, True, False] == [item.initial_end for item in items]
    plain = WatchOptions("", timeout_s=5)
    assert ["ADDED a", "ADDED b"] == brief(await everything(hub.watch(VOLUME_ATTACHMENTS, ListScope(), plain)))


async def test_a_change_made_while_initial_events_are_read_comes_after_them(store: ObjectStore, hub: WatchHub) -> None:
    for number in range(600):
        create(store, VOLUME_ATTACHMENTS, a_va(f"va-{number:03}"))
    async with contextlib.aclosing(
        hub.watch(VOLUME_ATTACHMENTS, ListScope(), WatchOptions("", bookmarks=True))
    ) as batches:
        first = await anext(batches)
        patch(store, VOLUME_ATTACHMENTS, Key("", "va-599"), {"metadata": {"labels": {"x": "y"}}})
        seen = list(first)
        while len(seen) < 602:
            seen += await anext(batches)
    assert (600, "BOOKMARK", "MODIFIED va-599") == (brief(seen).index("BOOKMARK"), *brief(seen[600:]))
    assert not any("x" in item.stored.labels for item in seen[:600] if item.stored)


async def test_a_watcher_that_falls_behind_is_cut_off_and_holds_nobody_up() -> None:
    store, hub = a_hub(HistoryLimits(changes_max=10))
    options = WatchOptions(str(store.version), timeout_s=60)
    async with (
        contextlib.aclosing(hub.watch(VOLUME_ATTACHMENTS, ListScope(), options)) as slow,
        contextlib.aclosing(hub.watch(VOLUME_ATTACHMENTS, ListScope(), options)) as quick,
    ):
        create(store, VOLUME_ATTACHMENTS, a_va("va"))
        assert ["ADDED va"] == brief(await anext(slow))
        assert ["ADDED va"] == brief(await anext(quick))
        for number in range(30):
            patch(store, VOLUME_ATTACHMENTS, Key("", "va"), {"metadata": {"labels": {"n": str(number)}}})
            assert ["MODIFIED va"] == brief(await anext(quick))
        with pytest.raises(StopAsyncIteration):
            await anext(slow)


async def test_a_selection_is_told_of_entering_and_leaving(store: ObjectStore, hub: WatchHub) -> None:
    scope = scope_of(VOLUME_ATTACHMENTS, None, "x=1", "")
    async with contextlib.aclosing(hub.watch(VOLUME_ATTACHMENTS, scope, WatchOptions(str(store.version)))) as batches:
        create(store, VOLUME_ATTACHMENTS, a_va("in", labels={"x": "1"}))
        create(store, VOLUME_ATTACHMENTS, a_va("out"))
        patch(store, VOLUME_ATTACHMENTS, Key("", "in"), {"metadata": {"labels": None}})
        patch(store, VOLUME_ATTACHMENTS, Key("", "out"), {"metadata": {"labels": {"x": "1"}}})
        store.delete(VOLUME_ATTACHMENTS, Key("", "in"), NOW)
        assert ["ADDED in", "DELETED in", "ADDED out"] == brief(await anext(batches))


async def test_a_version_ahead_of_the_server_is_waited_for_in_silence(store: ObjectStore, hub: WatchHub) -> None:
    ahead = WatchOptions(str(store.version + 2), timeout_s=10)
    async with contextlib.aclosing(hub.watch(VOLUME_ATTACHMENTS, ListScope(), ahead)) as batches:
        for name in "abc":
            create(store, VOLUME_ATTACHMENTS, a_va(name))
        assert ["ADDED c"] == brief(await anext(batches))


async def test_a_forgotten_version_is_gone() -> None:
    store, hub = a_hub(HistoryLimits(changes_max=1))
    for name in "abc":
        create(store, VOLUME_ATTACHMENTS, a_va(name))
    with pytest.raises(Gone):
        await anext(hub.watch(VOLUME_ATTACHMENTS, ListScope(), WatchOptions("5")))


async def test_closing_ends_all_watches(store: ObjectStore, hub: WatchHub) -> None:
    async with asyncio.TaskGroup() as group:
        watches = [
            group.create_task(
                everything(hub.watch(kind, ListScope(), WatchOptions(str(store.version)))), name=kind.kind
            )
            for kind in (VOLUME_ATTACHMENTS, SECRETS, SECRETS)
        ]
        await asyncio.sleep(1)
        hub.close()
    assert [[], [], []] == [watch.result() for watch in watches]
    assert 1 == asyncio.get_running_loop().time()


async def test_a_watch_that_is_given_up_leaves_nothing_behind(store: ObjectStore, hub: WatchHub) -> None:
    for _ in range(3):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await everything(hub.watch(VOLUME_ATTACHMENTS, ListScope(), WatchOptions(str(store.version))))
    assert [] == [waiting for waiting in hub._waiting.values() if waiting]
