"""Several managers of one process on shares of the same caches: one watch, and each as if it were alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUMES, Node
from mooring.api.meta import Key
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.manager import Manager, Managers
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.control.slim import Keeps, always, slim
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.cluster import Request, Verb
from mooring.kube.errors import Forbidden, NotServed, Unreachable
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.control.test_controller import SETTLED, a_runtime
from tests.unit.kube.fake_cluster import FakeCluster

pytestmark = in_virtual_time

LABELS: Keeps[Node] = always(slim(metadata=slim("labels")))
NOTES: Keeps[Node] = always(slim(metadata=slim("annotations")))


class Reader:
    """A share with one cache, and the changes that it is told: (cause, name before, name after)."""

    def __init__(self, caches: Caches, keeps: Keeps[Node] = LABELS) -> None:
        self.caches = caches.share()
        self.nodes: Informer[Node] = self.caches.of(NODES, keeps=keeps)
        self.told: list[Change[Node]] = []
        self.nodes.on_change(self.told.append)

    @property
    def causes(self) -> list[Cause]:
        return [change.cause for change in self.told]


@contextlib.asynccontextmanager
async def followed(caches: Caches) -> AsyncIterator[asyncio.TaskGroup]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(caches.follow())
        yield group
        task.cancel()


async def settled() -> None:
    await asyncio.sleep(1)


async def test_nothing_is_asked_before_a_share_starts_and_then_each_kind_once() -> None:
    cluster = FakeCluster()
    caches = Caches(a_runtime(cluster))
    one, other = Reader(caches), Reader(caches, NOTES)
    async with followed(caches) as group:
        await settled()
        assert [] == cluster.requests
        one.caches.start(group)
        await settled()
        other.caches.start(group)
        await settled()
        assert one.nodes.store is other.nodes.store
        assert 1 == sum(request.verb == "watch" for request in cluster.requests)


async def test_whether_the_caches_follow_is_a_metric() -> None:
    cluster = FakeCluster()
    runtime = a_runtime(cluster)
    caches = Caches(runtime)
    reader = Reader(caches)
    cluster.fail("list", Forbidden("no right"), times=3)
    assert _shown(runtime) is None
    async with followed(caches) as group:
        reader.caches.start(group)
        await asyncio.sleep(0.1)
        assert 0 == _shown(runtime)
        await asyncio.sleep(120)
        assert 1 == _shown(runtime)
        cluster.fail("watch", Unreachable("gone"), times=1000)
        await asyncio.sleep(700)  # by then the watch that still stood has ended
        assert 0 == _shown(runtime)
    assert _shown(runtime) is None


@each_row("may_be_missing", [True, False])
async def test_a_kind_that_may_be_missing_is_followed_well_without(may_be_missing: bool) -> None:
    cluster = FakeCluster()
    cluster.fail("list", NotServed("no such kind"), times=1000)
    runtime = a_runtime(cluster)
    caches = Caches(runtime)
    share = caches.share()
    share.of(NODES, may_be_missing=may_be_missing)
    async with followed(caches) as group:
        share.start(group)
        await settled()
        assert may_be_missing == bool(_shown(runtime))


def _shown(runtime: Runtime) -> float | None:
    return runtime.metrics.registry.get_sample_value("mooring_watch_healthy", {"resource": "nodes"})


async def test_a_share_that_comes_late_is_told_what_is_there_and_one_that_ends_nothing_more() -> None:
    cluster = FakeCluster()
    cluster.put(NODES, "n1")
    caches = Caches(a_runtime(cluster))
    one, other = Reader(caches), Reader(caches)
    async with followed(caches) as group:
        one.caches.start(group)
        await settled()
        cluster.put(NODES, "n2")
        await settled()
        assert [] == other.told
        other.caches.start(group)
        assert not other.caches.has_synced
        await other.caches.synced()
        assert [(None, "n2"), (None, "n1")] == [(change.old, change.key.name) for change in other.told]
        one.caches.end()
        cluster.put(NODES, "n3")
        await settled()
        assert ([2, 3], True) == ([len(one.told), len(other.told)], other.caches.has_synced)
        again = Reader(caches)
        again.caches.start(group)
        await again.caches.synced()
        assert ["n3", "n2", "n1"] == [change.key.name for change in again.told], "what came last comes first"


async def test_fields_that_nobody_asked_for_before_come_too_late() -> None:
    caches = Caches(a_runtime())
    one = Reader(caches)
    async with followed(caches) as group:
        one.caches.start(group)
        await settled()
        with pytest.raises(AssertionError, match="these fields of nodes come late"):
            Reader(caches, NOTES)
        with pytest.raises(AssertionError, match="persistentvolumes come late"):
            caches.share().of(PERSISTENT_VOLUMES)


async def test_a_share_is_told_of_changes_in_the_fields_that_it_asked_for() -> None:
    """As if it were alone: what changes for others is to it a new version alone. What comes or goes is told as the
    cache has it.
    """
    cluster = FakeCluster()
    cluster.put(NODES, "n1", metadata={"labels": {"a": "1"}, "annotations": {"b": "1"}})
    caches = Caches(a_runtime(cluster))
    one, other = Reader(caches), Reader(caches, NOTES)
    async with followed(caches) as group:
        one.caches.start(group)
        other.caches.start(group)
        await settled()
        found = one.nodes.store.get(Key("", "n1"))
        assert found is not None
        assert ({"a": "1"}, {"b": "1"}) == (found.metadata.labels, found.metadata.annotations)
        assert [[found], [found]] == [[change.new for change in reader.told] for reader in (one, other)]
        cluster.put(NODES, "n1", metadata={"annotations": {"b": "2"}})
        await settled()
        for reader, kept in ((one, [({"a": "1"}, None)] * 2), (other, [(None, {"b": "1"}), (None, {"b": "2"})])):
            change = reader.told[-1]
            assert change.old is not None
            assert change.new is not None
            assert kept == [(obj.metadata.labels, obj.metadata.annotations) for obj in (change.old, change.new)]
        last = one.nodes.store.get(Key("", "n1"))
        cluster.remove(NODES, "n1")
        await settled()
        assert [last, last] == [reader.told[-1].old for reader in (one, other)]


async def test_what_one_share_leaves_out_it_is_not_told_though_another_keeps_it() -> None:
    cluster = FakeCluster()
    caches = Caches(a_runtime(cluster))
    one = Reader(caches, lambda node: None if node.metadata.name == "n1" else slim(metadata=slim()))
    other = Reader(caches)
    async with followed(caches) as group:
        one.caches.start(group)
        other.caches.start(group)
        cluster.put(NODES, "n1")
        cluster.put(NODES, "n2")
        await settled()
        assert (["n2"], ["n1", "n2"]) == (
            [change.key.name for change in one.told],
            [change.key.name for change in other.told],
        )


async def test_a_resync_is_told_those_who_asked_for_one() -> None:
    cluster = FakeCluster()
    cluster.put(NODES, "n1")
    caches = Caches(a_runtime(cluster))
    one, other = Reader(caches), Reader(caches)
    one.caches.of(NODES, keeps=LABELS, resync_s=60)
    async with followed(caches) as group:
        one.caches.start(group)
        other.caches.start(group)
        await asyncio.sleep(100)
        assert ([Cause.RELIST, Cause.RESYNC], [Cause.RELIST]) == (one.causes, other.causes)


async def test_a_write_is_the_own_of_the_share_that_made_it_alone() -> None:
    """Its echo is told nobody; the others are told at once, not when its answer is here."""
    cluster = FakeCluster()
    caches = Caches(a_runtime(cluster))
    one, other = Reader(caches), Reader(caches)
    async with followed(caches) as group:
        one.caches.start(group)
        other.caches.start(group)
        await settled()
        answered = asyncio.Event()

        async def request() -> Node:
            made = await cluster.create(NODES, {"metadata": {"name": "n1"}})
            await answered.wait()
            return made

        writing = group.create_task(one.nodes.write(Key("", "n1"), request()))
        await settled()
        assert ([], [Cause.WATCH]) == (one.causes, other.causes)
        answered.set()
        await writing
        assert ([Cause.OWN_WRITE], [Cause.WATCH]) == (one.causes, other.causes)


async def test_the_answer_that_comes_before_its_event_is_to_the_others_a_change_like_any() -> None:
    cluster = FakeCluster()
    caches = Caches(a_runtime(cluster))
    one, other = Reader(caches), Reader(caches)
    async with followed(caches) as group:
        one.caches.start(group)
        other.caches.start(group)
        await settled()
        one.nodes.wrote(await cluster.create(NODES, {"metadata": {"name": "n1"}}))
        assert ([Cause.OWN_WRITE], [Cause.WATCH]) == (one.causes, other.causes)
        await settled()
        assert ([Cause.OWN_WRITE], [Cause.WATCH]) == (one.causes, other.causes)


class WithoutVolumes(FakeCluster):
    """It gives nobody the right to list them."""

    async def ask(self, request: Request) -> Any:
        if (request.verb, request.kind.plural) == (Verb.LIST, PERSISTENT_VOLUMES.plural):
            raise Forbidden("no right", reason="Forbidden")
        return await super().ask(request)


def a_manager(caches: Caches, seen: list[str], *, kinds: int = 1) -> Manager:
    """It reads nodes, and volumes if there are two kinds."""
    share, runtime = caches.share(), caches._runtime
    nodes = share.of(NODES, keeps=LABELS)
    if kinds > 1:
        share.of(PERSISTENT_VOLUMES)

    async def reconcile(key: str) -> Result:
        seen.append(key)
        return SETTLED

    controller: Controller[str] = Controller(runtime, "nodes", reconcile, workers=1)
    controller.watch(nodes, lambda change: [change.key.name])
    return Manager(share, controller)


async def test_several_managers_work_as_one_and_end_when_all_have_drained() -> None:
    cluster = FakeCluster()
    cluster.put(NODES, "n1")
    caches = Caches(a_runtime(cluster))
    seen: dict[str, list[str]] = {"one": [], "other": []}
    managers = Managers(caches, {name: a_manager(caches, told) for name, told in seen.items()})
    async with asyncio.TaskGroup() as group:
        running = group.create_task(managers.run())
        await settled()
        assert (True, "") == (managers.has_synced, managers.obstacle)
        assert await managers.drain(1)
        await running
    assert {"one": ["n1"], "other": ["n1"]} == seen
    assert not managers.has_synced


async def test_a_manager_waits_for_the_kinds_that_it_reads_and_for_no_others() -> None:
    cluster = WithoutVolumes()
    cluster.put(NODES, "n1")
    caches = Caches(a_runtime(cluster))
    quick: list[str] = []
    slow: list[str] = []
    managers = Managers(caches, {"quick": a_manager(caches, quick), "slow": a_manager(caches, slow, kinds=2)})
    async with asyncio.TaskGroup() as group:
        running = group.create_task(managers.run())
        await settled()
        assert (["n1"], [], False) == (quick, slow, managers.has_synced)
        assert "can't follow persistentvolumes" in managers.obstacle
        running.cancel()
