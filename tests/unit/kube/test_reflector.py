"""List and watch, whatever the server does."""

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from mooring.api.core import PERSISTENT_VOLUMES as PVS
from mooring.api.core import PersistentVolume
from mooring.base import heap
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.cache.reflector import LISTED_S, PAGE_S, PROOFS_MAX, WATCH_GRACE_S, YIELD_EVERY, Reflector
from mooring.kube.cluster import EventType, UnreadItem, WatchEvent
from mooring.kube.errors import (
    AnswerTooLarge,
    ApiError,
    Forbidden,
    Gone,
    NoAnswer,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster, lost

pytestmark = in_virtual_time


class Record:
    """A sink that remembers: ("list", names, version), then events as (type, name)."""

    def __init__(self) -> None:
        self.lists: list[tuple[list[str], str]] = []
        self.events: list[tuple[str, str]] = []
        self._names: list[str] = []

    def known(self) -> str:
        return ""

    def list_begins(self) -> None:
        self._names = []

    def page(self, objects: Sequence[PersistentVolume], version: str, unread: Sequence[UnreadItem]) -> None:
        self._names += [obj.metadata.name for obj in objects]

    def list_ends(self, version: str) -> None:
        self.lists.append((self._names, version))

    def set_back(self) -> None:
        self.events.append(("SET BACK", ""))

    def not_served(self) -> None:
        self.events.append(("NOT SERVED", ""))

    def event(self, event: WatchEvent[PersistentVolume]) -> None:
        self.events.append((event.type.value, event.object.metadata.name if event.object else event.resource_version))


@contextlib.asynccontextmanager
async def reflecting(cluster: FakeCluster, *, page_limit: int = 500, seed: int = 1) -> AsyncIterator[Record]:
    record = Record()
    reflector = Reflector(cluster, PVS, record, clock=LoopClock(), randomness=Random(seed), page_limit=page_limit)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        await asyncio.sleep(0.01)
        yield record
        task.cancel()


def a_cluster(*names: str) -> FakeCluster:
    cluster = FakeCluster()
    for name in names:
        cluster.put(PVS, name)
    return cluster


def gaps(cluster: FakeCluster, verb: str) -> list[float]:
    """Seconds between requests of a verb."""
    times = [request.at for request in cluster.asked(verb)]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@pytest.fixture
async def cluster() -> FakeCluster:
    return a_cluster("a")


async def test_a_list_comes_in_pages_and_the_watch_begins_where_it_ends():
    cluster = a_cluster("a", "b", "c", "d", "e")
    async with reflecting(cluster, page_limit=2) as record:
        assert record.lists == [(["a", "b", "c", "d", "e"], "5")]
        assert [request.body[0] for request in cluster.asked("list")] == [2, 2, 2]
        cluster.put(PVS, "f")
        cluster.remove(PVS, "a")
        await asyncio.sleep(0.01)
        assert record.events == [("ADDED", "f"), ("DELETED", "a")]
        assert [request.resource_version for request in cluster.asked("watch")] == ["5"]


@pytest.mark.parametrize(("page_limit", "is_long"), [(2, True), (10, False)])
async def test_what_a_long_list_brings_is_no_work_for_the_collector(
    page_limit: int, is_long: bool, monkeypatch: pytest.MonkeyPatch
):
    trimmed: list[str] = []
    monkeypatch.setattr(heap, "trim", lambda: trimmed.append("trim"))
    gc.unfreeze()
    try:
        cluster = a_cluster("a", "b", "c", "d", "e")
        async with reflecting(cluster, page_limit=page_limit):
            assert (gc.get_freeze_count() > 0) is is_long
            assert trimmed == ["trim"] * is_long
            before = gc.get_freeze_count()
            made: list[list[object]] = [[] for _ in range(1000)]  # by the readers
            for _ in range(2):
                cluster.bookmark()
                await asyncio.sleep(0.01)
            assert (gc.get_freeze_count() >= before + len(made)) is is_long
            assert trimmed == ["trim"] * (2 * is_long)
    finally:
        gc.unfreeze()


async def test_only_the_newest_state_is_listed(cluster: FakeCluster):
    """resourceVersion 0 would be answered without pages, and maybe from the past."""
    async with reflecting(cluster):
        assert [request.resource_version for request in cluster.asked("list")] == [""]


async def test_a_list_whose_pages_expire_starts_over():
    cluster = a_cluster(*"abcdefghi")
    cluster.fail("list", None)
    cluster.fail("list", Gone("The provided continue parameter is too old", reason="Expired"))
    async with reflecting(cluster, page_limit=2) as record:
        await asyncio.sleep(10)
        assert record.lists == [([*"abcdefghi"], "9")]
        assert [bool(request.body[1]) for request in cluster.asked("list")] == [False, True, False, True]


async def test_a_list_whose_pages_expire_again_and_again_is_asked_for_in_larger_ones():
    cluster = a_cluster(*"abcdef")
    for _ in range(2):
        cluster.fail("list", None)
        cluster.fail("list", Gone("too old", reason="Expired"))
    async with reflecting(cluster, page_limit=1) as record:
        await asyncio.sleep(30)
        assert [request.body[0] for request in cluster.asked("list")] == [1, 1, 4, 4, 16]
        assert record.lists == [([*"abcdef"], "6")]


@each_row("pages", [0, 1], ids=["the first page", "the second page"])
async def test_a_list_whose_pages_are_too_large_is_asked_for_in_smaller_ones(pages: int):
    cluster = a_cluster("a", "b", "c", "d", "e")
    for _ in range(pages):
        cluster.fail("list", None)
    for _ in range(2):
        cluster.fail("list", AnswerTooLarge("the answer is larger than 268435456 bytes; ask for pages (limit)"))
    async with reflecting(cluster, page_limit=4) as record:
        await asyncio.sleep(30)
        assert [request.body[0] for request in cluster.asked("list")] == [4] * pages + [4, 2, 1, 1, 1, 1, 1]
        assert record.lists == [(["a", "b", "c", "d", "e"], "5")]


async def test_an_object_that_is_too_large_alone_is_asked_for_again_later(cluster: FakeCluster):
    for _ in range(3):
        cluster.fail("list", AnswerTooLarge("the answer is larger than 268435456 bytes; ask for pages (limit)"))
    async with reflecting(cluster, page_limit=2) as record:
        await asyncio.sleep(60)
        assert [request.body[0] for request in cluster.asked("list")] == [2, 1, 1, 1]
        assert record.lists == [(["a"], "1")]


@pytest.mark.parametrize("error", [None, lost()], ids=["clean end", "cut"])
async def test_a_watch_resumes_where_it_ended(cluster: FakeCluster, error: ApiError | None):
    async with reflecting(cluster) as record:
        cluster.put(PVS, "b")
        await asyncio.sleep(60)
        cluster.end_watches(error)
        cluster.put(PVS, "c")
        await asyncio.sleep(0.01)
        assert [request.resource_version for request in cluster.asked("watch")] == ["1", "2"]
        assert record.events == [("ADDED", "b"), ("ADDED", "c")]
        assert len(record.lists) == 1


async def test_a_bookmark_moves_the_place_to_resume_at(cluster: FakeCluster):
    async with reflecting(cluster):
        cluster.version = 700
        cluster.bookmark()
        await asyncio.sleep(60)
        cluster.end_watches()
        await asyncio.sleep(0.01)
        assert cluster.asked("watch")[-1].resource_version == "700"


async def test_a_forgotten_version_is_listed_again_at_once(cluster: FakeCluster):
    async with reflecting(cluster) as record:
        await asyncio.sleep(100)
        cluster.put(PVS, "b")
        await asyncio.sleep(1)
        cluster.version += 10
        cluster.forget_history()
        cluster.end_watches(lost())
        await asyncio.sleep(0.01)
        assert record.lists[-1] == (["a", "b"], "12")
        assert [request.resource_version for request in cluster.asked("watch")] == ["1", "2", "12"]


async def test_gone_in_the_middle_of_a_watch_is_listed_again(cluster: FakeCluster):
    async with reflecting(cluster) as record:
        await asyncio.sleep(10)
        cluster.end_watches(Gone("too old resource version", reason="Expired"))
        await asyncio.sleep(0.01)
        assert len(record.lists) == 2


@contextlib.asynccontextmanager
async def set_back() -> AsyncIterator[tuple[FakeCluster, Record]]:
    """A server that was restored: `old` was made after the backup, `new` after the restore."""
    cluster = a_cluster("a")
    restore = cluster.backup()
    async with reflecting(cluster) as record:
        for number in range(10):
            cluster.put(PVS, f"old{number}")
        await asyncio.sleep(10)
        restore()
        cluster.put(PVS, "new")
        yield cluster, record


@each_row(("error", "after_s"), [(None, 600), (lost(), 2)], ids=["it was quiet", "it was cut"])
async def test_a_server_that_was_set_back_is_noticed_once_a_watch_is_renewed(
    error: ApiError | None, after_s: float, capsys: pytest.CaptureFixture[str]
):
    async with set_back() as (cluster, record):
        cluster.end_watches(error)
        await asyncio.sleep(after_s)
        assert record.lists[1:] == [(["a", "new"], "2")]
        assert "the API server was set back from version 11 to 2" in capsys.readouterr().err
        cluster.put(PVS, "newer")
        await asyncio.sleep(0.01)
        assert record.events[-1] == ("ADDED", "newer")


async def test_a_server_that_was_set_back_is_noticed_when_a_cut_watch_comes_back():
    """The connection breaks with the restore: what the server has counted until then is far from where it was."""
    async with set_back() as (cluster, record):
        cluster.fail("list", ServerError("starting"), times=3)
        cluster.end_watches(lost())
        await asyncio.sleep(20)
        assert record.lists[1:] == [(["a", "new"], "2")]
        assert len(cluster.asked("watch")) == 2, "no watch from a version that is to come"


async def test_a_bookmark_from_before_shows_that_the_server_was_set_back():
    async with set_back() as (cluster, record):
        cluster.bookmark()
        await asyncio.sleep(0.01)
        assert record.lists[1:] == [(["a", "new"], "2")]


async def test_a_list_that_took_long_is_proved_before_it_is_watched_from():
    """A process that stood still has listed before the restore, and watches after: the watch would be silent about what
    was lost.
    """
    cluster = a_cluster("a")
    restore = cluster.backup()
    cluster.put(PVS, "lost")
    cluster.fail("list", None, late=True, delay_s=LISTED_S + 1)
    async with reflecting(cluster) as record:
        await asyncio.sleep(LISTED_S)
        restore()
        await asyncio.sleep(2)
        assert [(["a", "lost"], "2"), (["a"], "1")] == record.lists
        assert ("SET BACK", "") in record.events
        assert ["1"] == [request.resource_version for request in cluster.asked("watch")]


async def test_a_list_that_took_long_is_not_made_again_where_the_server_goes_on(cluster: FakeCluster):
    cluster.fail("list", None, late=True, delay_s=LISTED_S + 1)
    async with reflecting(cluster) as record:
        await asyncio.sleep(LISTED_S + 2)
        assert [500, 1] == [request.body[0] for request in cluster.asked("list")]
        assert [(["a"], "1")] == record.lists
        assert ["1"] == [request.resource_version for request in cluster.asked("watch")]


async def test_a_server_that_takes_long_for_each_answer_is_watched_all_the_same(cluster: FakeCluster):
    cluster.fail("list", None, times=100, late=True, delay_s=LISTED_S + 1)
    async with reflecting(cluster) as record:
        await asyncio.sleep(10 * (LISTED_S + 1))
        assert 1 + PROOFS_MAX == len(cluster.asked("list"))
        assert 1 == cluster.watching
        cluster.put(PVS, "b")
        await asyncio.sleep(0.01)
        assert [("ADDED", "b")] == record.events


async def test_each_renewal_of_a_watch_asks_for_the_servers_version_once(cluster: FakeCluster):
    async with reflecting(cluster):
        for _ in range(10):
            cluster.version += 1
            cluster.bookmark()
            await asyncio.sleep(200)
            cluster.end_watches()
            await asyncio.sleep(0.01)
        assert len(cluster.asked("watch")) == 11
        assert [500, *[1] * 10] == [request.body[0] for request in cluster.asked("list")]


async def test_failures_back_off_and_a_success_ends_that(cluster: FakeCluster):
    cluster.fail("list", ServerError("boom"), times=9)
    async with reflecting(cluster) as record:
        await asyncio.sleep(300)
        waits = gaps(cluster, "list")
        for wait, base in zip(waits, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30], strict=True):
            assert base <= wait <= 2 * base
        assert len(record.lists) == 1


async def test_a_healthy_watch_wipes_out_the_failures_before_it(cluster: FakeCluster):
    cluster.fail("watch", ServerError("boom"), times=5)
    async with reflecting(cluster):
        await asyncio.sleep(200)
        cluster.fail("watch", ServerError("boom"))
        cluster.end_watches()
        await asyncio.sleep(10)
        assert gaps(cluster, "watch")[-1] <= 1.6


async def test_a_quiet_watch_that_lived_long_and_is_cut_is_opened_again_at_once(cluster: FakeCluster):
    cluster.fail("watch", ServerError("boom"), times=5)
    async with reflecting(cluster):
        await asyncio.sleep(250)
        before = len(cluster.asked("watch"))
        cluster.end_watches(lost())
        await asyncio.sleep(0.01)
        assert len(cluster.asked("watch")) == before + 1


async def test_a_watch_that_is_cut_while_it_is_silent_is_opened_again_at_once_each_time(cluster: FakeCluster):
    """By a balancer, after some seconds: many kinds of a cluster do not change for hours."""
    async with reflecting(cluster):
        for _ in range(20):
            await asyncio.sleep(20)
            cluster.end_watches(lost())
            await asyncio.sleep(0.01)
        assert 21 == len(cluster.asked("watch"))


async def test_seconds_without_an_answer_are_no_life_of_a_watch(cluster: FakeCluster):
    """As where nobody is at the server's address: the kernel says so after three seconds."""
    cluster.fail("watch", NoAnswer("no route to host"), times=5, delay_s=3.0)
    async with reflecting(cluster):
        await asyncio.sleep(300)
        for gap, base in zip(gaps(cluster, "watch"), [0.8, 1.6, 3.2, 6.4, 12.8], strict=True):
            assert base <= gap - 3.0 <= 2 * base


async def test_retry_after_is_obeyed(cluster: FakeCluster):
    cluster.fail("list", TooManyRequests("later", retry_after_s=45))
    async with reflecting(cluster):
        await asyncio.sleep(60)
        assert gaps(cluster, "list") == [pytest.approx(45, abs=0.1)]


async def test_an_error_is_logged_once_until_its_text_changes(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]):
    cluster.fail("list", Forbidden("volumes is forbidden"), times=4)
    cluster.fail("list", Unauthorized("Unauthorized"), times=3)
    async with reflecting(cluster):
        await asyncio.sleep(200)
    lines = [
        line
        for line in capsys.readouterr().err.splitlines()
        if "Failed to list or watch" in line or "answers again" in line
    ]
    assert [line[0] for line in lines] == ["E", "E", "I"]
    assert "volumes is forbidden" in lines[0]
    assert "Unauthorized" in lines[1]


async def test_a_watch_is_asked_to_end_after_five_to_ten_minutes(cluster: FakeCluster):
    async with reflecting(cluster) as record:
        await asyncio.sleep(7200)
        timeouts = [request.timeout_s for request in cluster.asked("watch")]
        assert all(300 <= timeout <= 600 for timeout in timeouts)
        assert len(set(timeouts)) > 5
        assert 7200 / 600 <= len(timeouts) <= 7200 / 300 + 1
        assert len(record.lists) == 1


class Deaf(FakeCluster):
    """Accepts watches, never sends anything, never ends one."""

    def watch(self, kind, selection=None, *, resource_version, timeout_s=0.0):  # type: ignore[no-untyped-def,override]
        return super().watch(kind, resource_version=resource_version, timeout_s=0.0)

    def bookmark(self) -> None:
        raise AssertionError


async def test_a_server_that_never_ends_a_watch_is_left():
    cluster = Deaf()
    async with reflecting(cluster):
        await asyncio.sleep(2 * (600 + WATCH_GRACE_S) + 1)
        assert len(cluster.asked("watch")) >= 3
        assert cluster.watching == 1


async def test_a_list_that_hangs_is_given_up(cluster: FakeCluster):
    cluster.fail("list", None, delay_s=10_000)
    async with reflecting(cluster) as record:
        await asyncio.sleep(PAGE_S + 5)
        assert len(record.lists) == 1


def ends_at_once(cluster: FakeCluster) -> None:
    cluster.end_watches()


def cuts_at_once(cluster: FakeCluster) -> None:
    cluster.end_watches(lost())


def forgets_at_once(cluster: FakeCluster) -> None:
    cluster.end_watches(Gone("too old", reason="Expired"))


def sends_a_bookmark_and_ends(cluster: FakeCluster) -> None:
    cluster.version += 1
    cluster.bookmark()
    cluster.end_watches()


def goes_back_and_forth(cluster: FakeCluster) -> None:
    cluster.version = 5 if cluster.version > 5 else 9
    cluster.bookmark()


def sends_old_news_and_ends(cluster: FakeCluster) -> None:
    for watch in cluster._watches:
        watch.tell_of(EventType.MODIFIED, {"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}})
    cluster.end_watches(lost())


@pytest.mark.parametrize(
    "trick",
    [
        ends_at_once,
        cuts_at_once,
        forgets_at_once,
        sends_a_bookmark_and_ends,
        sends_old_news_and_ends,
        goes_back_and_forth,
    ],
    ids=lambda trick: trick.__name__,
)
async def test_no_trick_of_a_server_makes_a_hot_loop(cluster: FakeCluster, trick: Callable[[FakeCluster], None]):
    async with reflecting(cluster):

        async def play() -> None:
            while True:
                trick(cluster)
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            player = group.create_task(play())
            await asyncio.sleep(600)
            player.cancel()
        assert 10 < len(cluster.requests) < 3 * 600 / 30


async def test_a_burst_of_events_lets_others_have_their_turn():
    cluster = a_cluster()
    async with reflecting(cluster) as record:
        for number in range(10 * YIELD_EVERY):
            cluster.put(PVS, f"pv{number}")
        turns = 0
        while len(record.events) < 10 * YIELD_EVERY:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 10


async def test_a_page_lets_others_have_their_turn():
    cluster = a_cluster(*(f"pv{number:03}" for number in range(2 * YIELD_EVERY + 1)))
    record, parts = Record(), list[int]()

    async def count() -> None:
        while not record.lists:
            parts.append(len(record._names))
            await asyncio.sleep(0)

    reflector = Reflector(cluster, PVS, record, clock=LoopClock(), randomness=Random(1))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reflector.run()), group.create_task(count())]
        await asyncio.sleep(1)
        for task in tasks:
            task.cancel()
    assert [(sorted(record._names), str(2 * YIELD_EVERY + 1))] == record.lists
    assert {0, YIELD_EVERY, 2 * YIELD_EVERY} <= set(parts)
    assert len(cluster.asked("list")) == 1


async def test_what_a_sink_raises_ends_the_reflector():
    """A handler that fails is a bug of ours: hiding it would leave a cache that nobody follows."""

    class Broken(Record):
        def event(self, event: WatchEvent[PersistentVolume]) -> None:
            raise ZeroDivisionError

    cluster = a_cluster()
    reflector = Reflector(cluster, PVS, Broken(), clock=LoopClock(), randomness=Random(1))
    asyncio.get_running_loop().call_later(1, cluster.put, PVS, "a")
    with pytest.raises(ZeroDivisionError):
        await reflector.run()
