"""Caches, leader election and events on every kind of server: in process, the embedded one over HTTP, the real one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS, ObjectReference
from mooring.api.meta import Key
from mooring.api.storage import VOLUME_ATTACHMENTS as VAS
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.lease.elector import Candidate, LeaderElector, LeaseTimes
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import Unreachable
from mooring.kube.patch import merge_patch
from tests.conformance.conftest import Server
from tests.conformance.test_cluster_port import Local, Target, http_target
from tests.support.builders import a_va

pytestmark = pytest.mark.slow
TIMES = LeaseTimes(lease_s=2, renew_s=1.5, retry_s=0.5)
_numbers = itertools.count()


@pytest.fixture(params=["local", "embedded", pytest.param("real", marks=pytest.mark.real)])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    if request.param == "local":
        yield Local()
        return
    servers: Callable[[str], Server] = request.getfixturevalue("servers")
    async with http_target(servers(request.param)) as found:
        yield found


@pytest.fixture
def name() -> str:
    return f"parts-{os.getpid()}-{next(_numbers)}"


async def eventually(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(15):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(*runs: Awaitable[None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_until_cancelled(run)) for run in runs]
        yield tasks
        for task in tasks:
            task.cancel()


async def _until_cancelled(run: Awaitable[None]) -> None:
    await run


async def test_a_cache_follows_through_cuts_and_own_writes(target: Target, name: str):
    cluster = target.cluster
    informer: Informer[VolumeAttachment] = Informer(cluster, VAS, clock=LoopClock(), randomness=Random(1), page_limit=2)
    told: list[Change[VolumeAttachment]] = []
    informer.on_change(lambda change: told.append(change) if change.key.name.startswith(name) else None)
    names = [f"{name}-{number}" for number in range(5)]
    for each in names:
        await cluster.create(VAS, a_va(each, finalizers=["example.com/hold"]))

    def version_of(each: str) -> str | None:
        held = informer.store.get(Key("", each))
        return held.metadata.resource_version if held else None

    async with running(informer.run()):
        await informer.synced()
        assert all(version_of(each) for each in names)
        answer = await cluster.patch(VAS, names[0], merge_patch({"metadata": {"labels": {"a": "b"}}}))
        informer.wrote(answer)
        assert version_of(names[0]) == answer.metadata.resource_version
        target.cut()
        foreign = await _labelled(cluster, names[1])
        await eventually(lambda: version_of(names[1]) == foreign.metadata.resource_version)
        await cluster.delete(VAS, names[2])
        informer.wrote(await cluster.patch(VAS, names[2], merge_patch({"metadata": {"finalizers": None}})))
        assert version_of(names[2]) is None
        await cluster.delete(VAS, names[3])
        await cluster.patch(VAS, names[3], merge_patch({"metadata": {"finalizers": None}}))
        await eventually(lambda: version_of(names[3]) is None)
        assert version_of(names[2]) is None
        assert informer.store._tombstones == {}, "the watch did not show the deletion"
    causes = [change.cause for change in told if change.new and change.new.metadata.name == names[0]]
    assert causes in ([Cause.RELIST, Cause.OWN_WRITE], [Cause.RELIST, Cause.WATCH]), "one write was told twice"
    for each in (names[0], names[1], names[4]):
        await cluster.patch(VAS, each, merge_patch({"metadata": {"finalizers": None}}))
        await cluster.delete(VAS, each)


async def _labelled(cluster: Cluster, name: str) -> VolumeAttachment:
    """A change, for which a connection that was cut is no reason to give up."""
    for _ in range(10):
        with contextlib.suppress(Unreachable):
            return await cluster.patch(VAS, name, merge_patch({"metadata": {"labels": {"a": "b"}}}))
    raise AssertionError("the connections keep breaking")


async def test_of_two_candidates_one_leads_and_then_the_other(target: Target, name: str):
    cluster = target.cluster
    recorder = EventRecorder(cluster, f"{name}/test", clock=LoopClock(), randomness=Random(1))
    electors = [
        LeaderElector(
            cluster,
            Candidate(name, "default", f"host-{letter}", TIMES, {"team": "storage"}),
            clock=LoopClock(),
            randomness=Random(number),
            events=recorder,
        )
        for number, letter in enumerate("ab")
    ]

    async def work() -> None:
        assert sum(elector.is_leader for elector in electors) == 1
        await asyncio.Event().wait()

    async with running(recorder.run()):
        async with asyncio.TaskGroup() as group:
            first = group.create_task(_cancellable(electors[0].run(work)))
            await eventually(lambda: electors[0].is_leader)
            second = group.create_task(_cancellable(electors[1].run(work)))
            before = await cluster.get(LEASES, name, "default")
            await asyncio.sleep(1.2)
            after = await cluster.get(LEASES, name, "default")
            assert before.spec.renew_time != after.spec.renew_time
            assert (after.spec.holder_identity, after.spec.lease_transitions) == ("host-a", 0)
            assert after.metadata.labels == {"team": "storage"}
            assert not electors[1].is_leader
            first.cancel()
            await eventually(lambda: electors[1].is_leader)
            assert (await cluster.get(LEASES, name, "default")).spec.lease_transitions == 1
            second.cancel()
        assert (await cluster.get(LEASES, name, "default")).spec.holder_identity == ""
        await recorder.drain(10)
    events = [event for event in (await cluster.list(EVENTS)).items if event.involved_object.name == name]
    said = [f"host-{letter} {what}" for letter in "ab" for what in ("became leader", "stopped leading")]
    assert sorted(event.message for event in events) == sorted(said)
    await cluster.delete(LEASES, name, "default")


async def _cancellable(run: Awaitable[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await run


async def test_events_are_counted_up(target: Target, name: str):
    cluster = target.cluster
    recorder = EventRecorder(cluster, "mooring-test", clock=LoopClock(), randomness=Random(1))
    ref = ObjectReference(api_version="storage.k8s.io/v1", kind="VolumeAttachment", name=name, uid="u")
    async with running(recorder.run()):
        for _ in range(3):
            recorder.event(ref, "Warning", "Failed", "it did not work " + "ä" * 1000)
        for number in range(12):
            recorder.event(ref, "Warning", "Similar", f"try {number}")
        await recorder.drain(10)
    events = {
        event.message[:30]: event for event in (await cluster.list(EVENTS)).items if event.involved_object.name == name
    }
    assert len(events) == 11
    assert events["it did not work " + "ä" * 14].count == 3
    assert next(event for text, event in events.items() if text.startswith("(combined")).count == 3
