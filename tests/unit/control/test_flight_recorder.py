"""The flight recorder: its bound, what it leaves out, and the keys that it notices."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import gzip
import tracemalloc
import weakref
from typing import Any

import msgspec
import pytest

from mooring.api.core import SECRETS, PersistentVolume
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.apiserver.listing import ContinueExpired
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.decision import Create, MarkReports, Step, TakeSteps
from mooring.cluster.attachdetach.facts import NodeFacts, Place, Volume
from mooring.cluster.attachdetach.reasons import Wanted
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.flight.driver import RecordedDriver
from mooring.control.flight.entries import ANSWER, EVENT, error_of, fault_of
from mooring.control.flight.ports import RecordedCluster, RecordedWork, recorded
from mooring.control.flight.recorder import Recorder
from mooring.control.flight.shown import shown
from mooring.control.flight.writing import frozen
from mooring.control.locks import KeyLock
from mooring.control.manager import Manager
from mooring.control.order import ordered
from mooring.control.result import Result, Retry, Stale
from mooring.control.runtime import Runtime
from mooring.csi.driver import Call
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.replay.record import Record, parsed
from mooring.kube.cluster import Cluster, EventType, Patch, PatchType, Request, WatchEvent
from mooring.kube.errors import Gone, Unreachable
from tests.support.builders import a_secret, a_va
from tests.support.cluster_world import ClusterWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

SECRET = "tr0ub4dor&3-of-the-array"


def record_of(recorder: Recorder) -> Record:
    return parsed(file_of(recorder))


def file_of(recorder: Recorder) -> bytes:
    return frozen(recorder, "a-program", "a test", options={}, driver={})()


def an_event(number: int, version: int | None = None) -> WatchEvent[VolumeAttachment]:
    """version: of an object that there was before."""
    rv, type = (str(number), EventType.ADDED) if version is None else (str(version), EventType.MODIFIED)
    meta = {
        "name": f"va-{number}",
        "uid": f"uid-{number}",
        "resourceVersion": rv,
        "annotations": {"text": f"{number:0500}"},
    }
    values = {
        "metadata": meta,
        "spec": {"attacher": "a", "nodeName": f"node-{number}", "source": {"persistentVolumeName": f"pv-{number}"}},
    }
    return WatchEvent(type, msgspec.convert(values, VolumeAttachment), rv)


@pytest.mark.long
async def test_it_keeps_no_more_than_its_bytes_and_knows_what_it_left_out() -> None:
    bytes_max = 2**20
    recorder = Recorder(LoopClock(), bytes_max)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(20_000):  # some 14 MiB
            recorder.event(1, an_event(number))
            recorder.decided("a-queue", f"va-{number}", ("a decision", number))
            recorder.reads.append(float(number))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert recorder.ring.size <= bytes_max
    assert bytes_max / 2 < after - before < 1.1 * bytes_max, "measured, and not far below what is counted"
    record = record_of(recorder)
    assert not record.header.whole
    assert (40_000, "va-19999") == (record.header.left_out + len(record.entries), record.entries[-1].key.strip("'"))


@pytest.mark.long
async def test_objects_that_the_bases_alone_hold_count_as_well() -> None:
    bytes_max = 2**20
    held: dict[int, Any] = {}
    recorder = Recorder(LoopClock(), bytes_max)
    recorder.keeps(VOLUME_ATTACHMENTS, "", lambda: list(held.values()))
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(4000):
            event = an_event(number % 500, number)
            recorder.event(1, event)
            held[number % 500] = event.object
        del event
        assert not recorder.ring.is_whole
        gc.collect()
        both, _ = tracemalloc.get_traced_memory()
        size = recorder.ring.size
        del recorder
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bytes_max / 2 < size <= bytes_max
    assert bytes_max / 2 < both - after < 1.1 * bytes_max, "measured"


async def test_what_came_in_at_a_cut_stands_in_what_the_caches_held_or_in_the_record() -> None:
    world = ClusterWorld()
    recorder = Recorder(world.clock, 2**16)
    runtime = recorded(Runtime(world.cluster, world.clock, Random(1), Metrics()), recorder)
    caches = Caches(runtime)
    informer = caches.of(VOLUME_ATTACHMENTS)

    async def reconcile(key: str) -> Result:
        return Result("all is well")

    controller: Controller[str] = Controller(runtime, "keys", reconcile, workers=1)
    async with world.running(RecordedWork(lambda: Manager(caches, controller), recorder).run()):
        await informer.synced()
        for number in range(500):
            await world.create(a_va(f"va-{number}", "pv", "node"))
            await asyncio.sleep(0.01)
        assert 500 == len(informer.store.values())
    record = record_of(recorder)
    (cached,) = record.header.caches
    names = [obj["metadata"]["name"] for obj in msgspec.json.decode(cached.items)]
    names += [msgspec.json.decode(entry.answer)["metadata"]["name"] for entry in record.entries if entry.kind == EVENT]
    assert sorted(f"va-{number}" for number in range(500)) == sorted(names)


async def test_a_cut_record_begins_with_what_the_caches_held() -> None:
    world = ClusterWorld()
    await world.create(a_va("va-0", "pv", "node"))
    recorder = Recorder(world.clock, 2**16)
    caches = Caches(recorded(Runtime(world.cluster, world.clock, Random(1), Metrics()), recorder))
    informer = caches.of(VOLUME_ATTACHMENTS)
    work = RecordedWork(lambda: Manager(caches), recorder)
    async with world.running(work.run()):
        await informer.synced()
        for number in range(1000):
            recorder.event(1, an_event(number))
    record = record_of(recorder)
    assert not record.header.whole
    (cached,) = record.header.caches
    assert (VOLUME_ATTACHMENTS.resource, informer.store.version) == (cached.resource, cached.version)
    assert b'"name":"va-0"' in bytes(cached.items)


async def test_no_secret_is_kept() -> None:
    world = ClusterWorld()
    encoded = base64.b64encode(SECRET.encode()).decode()
    manifest = {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
    made = a_secret("a-secret", {"password": encoded})
    made["metadata"]["annotations"] = manifest
    attachment = a_va("va-0", "pv", "node")
    attachment["metadata"]["annotations"] = manifest
    await world.create(made, attachment)
    recorder = Recorder(world.clock)
    cluster = RecordedCluster(world.cluster, recorder)
    assert encoded == (await cluster.get(SECRETS, "a-secret", "default")).data["password"], "who asked has it"
    await cluster.list(SECRETS)
    await cluster.list(SECRETS.whole())
    await cluster.list(VOLUME_ATTACHMENTS.whole())
    about = {"metadata": {"uid": (await cluster.get(SECRETS, "a-secret", "default")).metadata.uid}}
    await cluster.patch(
        SECRETS, "a-secret", Patch(PatchType.MERGE, {**about, "stringData": {"password": SECRET}}), "default"
    )
    async with contextlib.aclosing(cluster.watch(SECRETS, resource_version="1")) as events:
        await anext(events)

    class Plugin:
        async def controller_publish_volume(
            self, request: csi.ControllerPublishVolumeRequest
        ) -> csi.ControllerPublishVolumeResponse:
            return csi.ControllerPublishVolumeResponse(publish_context={"device": "sdb"})

        async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
            return csi.NodePublishVolumeResponse()

    driver = RecordedDriver(InProcessDriver(Plugin(), clock=world.clock), recorder)
    await driver.controller_publish_volume(
        csi.ControllerPublishVolumeRequest(volume_id="v", secrets={"password": SECRET}), Call(1.0)
    )
    token = {"csi.storage.k8s.io/serviceAccount.tokens": f'{{"aud": {{"token": "{SECRET}"}}}}'}
    await driver.node_publish_volume(csi.NodePublishVolumeRequest(volume_id="v", volume_context=token), Call(1.0))
    text = gzip.decompress(file_of(recorder)).decode()
    assert "password" in text, "names of values are no secret"
    assert [] == [form for form in (SECRET, encoded, base64.b64encode(SECRET.encode()).decode()[:16]) if form in text]
    held = repr([note for segment in recorder.ring.segments() for note in segment.notes if note[0] != "answer"])
    assert SECRET not in held, "what a call carried is stripped before it is kept"


@pytest.mark.parametrize(("stuck_s", "expected"), [(60.0, 1), (0.0, 0)])
async def test_a_key_that_fails_for_long_is_told(stuck_s: float, expected: int) -> None:
    world = ClusterWorld()
    told: list[str] = []
    recorder = Recorder(world.clock, stuck_s=stuck_s, troubled=told.append)
    works = False

    async def reconcile(key: str) -> Result:
        if key == "bad" and not works:
            raise Retry("the array is full")
        return Result("all is well")

    runtime = recorded(Runtime(world.cluster, world.clock, Random(1), Metrics()), recorder)
    controller: Controller[str] = Controller(runtime, "keys", reconcile, workers=2)
    async with world.running(RecordedWork(lambda: Manager(Caches(runtime), controller), recorder).run()):
        controller.add("bad")
        controller.add("good")
        await world.clock.sleep(50.0)
        assert [] == told
        await world.clock.sleep(150.0)
        assert expected == bool(told)
        assert all("keys: bad has failed for" in one and "the array is full" in one for one in told)
        works = True
        await world.clock.sleep(61.0)
        count = len(told)
        works = False
        controller.add("bad")
        await world.clock.sleep(30.0)
        assert count == len(told), "it fails since a while only"


class Broken(Exception):
    """A bug."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Retry("the array is full"), "the array is full"),
        (Stale("another version"), "what is stored is another than the cache shows, again and again: another version"),
        (Broken("no such key"), "unexpectedly: Broken('no such key')"),
    ],
    ids=["retry", "stale", "bug"],
)
@pytest.mark.parametrize("decides", [False, True])
async def test_each_way_in_which_a_key_can_be_stuck_is_told(error: Exception, told: str, decides: bool) -> None:
    world, stuck = ClusterWorld(), list[str]()
    recorder = Recorder(world.clock, stuck_s=60.0, troubled=stuck.append)

    async def reconcile(key: str) -> Result:
        raise error

    async def perform(key: str, decision: Decision[None]) -> Result:
        raise error

    how = Deciding(lambda key: Decision(Wanted("n1")), perform) if decides else reconcile
    runtime = recorded(Runtime(world.cluster, world.clock, Random(1), Metrics()), recorder)
    with ordered(recorder):
        controller: Controller[str] = Controller(runtime, "keys", how, workers=1)
    async with world.running(RecordedWork(lambda: Manager(Caches(runtime), controller), recorder).run()):
        controller.add("bad")
        await world.clock.sleep(300.0)
    assert stuck
    assert all("keys: bad has failed for" in one and one.endswith(told) for one in stuck)
    decided = {entry.because for entry in record_of(recorder).entries if entry.kind == "decided"}
    assert {str(Wanted("n1"))} == decided if decides else {f"failed: {told}"} == decided


async def test_what_can_not_be_kept_does_not_hurt_the_program() -> None:
    world = ClusterWorld()
    recorder = Recorder(world.clock)
    recorder.event(1, WatchEvent(EventType.ADDED, PersistentVolume, "1"))  # type: ignore[arg-type]
    assert b"null" == bytes(record_of(recorder).entries[0].answer)


async def test_each_wait_for_a_lock_is_noted_also_for_one_that_is_on_its_way_to_somebody_else() -> None:
    world = ClusterWorld()
    recorder = Recorder(world.clock)
    lock = KeyLock("a-key")

    async def take(name: str) -> None:
        async with lock:
            taken.append(name)

    taken: list[str] = []
    with ordered(recorder):
        async with asyncio.TaskGroup() as group:
            await lock.acquire()
            group.create_task(take("first"), name="first")
            await asyncio.sleep(0)
            lock.release()
            assert not lock.locked()
            group.create_task(take("second"), name="second")
            await take("third")
    noted = [entry.who for entry in record_of(recorder).entries if entry.kind == "resumed"]
    assert taken == ["first", "third", "second"]
    assert [name for name in noted if name] == ["first", "second"]
    assert len(noted) == 3


def test_an_error_of_a_server_in_process_is_kept_as_what_it_is_to_a_client() -> None:
    fault = fault_of(ContinueExpired("a-token"))
    assert ("Gone", "Expired") == (fault.kind, fault.reason)
    assert isinstance(error_of(fault), Gone)


async def test_of_an_error_nothing_is_kept_but_what_it_says() -> None:
    """Its traceback holds what whoever raised it had in hand: an answer of 256 MiB that was too long."""

    class Body:
        """Of an answer."""

    class Server(Cluster):
        def __init__(self) -> None:
            self.bodies: list[weakref.ref[Body]] = []

        async def ask(self, request: Request) -> Any:
            body = Body()
            self.bodies.append(weakref.ref(body))
            raise Unreachable("the answer is too long")

        def watch(self, *args: Any, **options: Any) -> Any:
            raise AssertionError("nobody watches")

    recorder = Recorder(LoopClock())
    server = Server()
    cluster = RecordedCluster(server, recorder)
    for _ in range(3):
        with contextlib.suppress(Unreachable):
            await cluster.list(VOLUME_ATTACHMENTS)
    gc.collect()
    assert [None] * 3 == [body() for body in server.bodies]
    faults = [entry.fault for entry in record_of(recorder).entries if entry.fault]
    assert ["the answer is too long"] * 3 == [fault.text for fault in faults]


async def test_a_decision_is_kept_without_what_changes_later() -> None:
    recorder, because = Recorder(LoopClock()), Wanted("n1")
    volume = Volume("v", "d", "h", places={"n1": Place(NodeFacts("n1"))})
    decision = Decision(
        because, (MarkReports(("n1",)), TakeSteps(volume, (Step("n1", because, (Create("n1", "pv"),)),)))
    )
    recorder.decided("volumes", "v", decision)
    (note,) = recorder.ring.now.notes
    before = shown(decision)
    volume.places["n1"].record.waiting_since = 7.0  # type: ignore[index]
    assert before == shown(decision) == shown(note[-1])
    assert "Create(node='n1', pv_name='pv')" in before
    assert volume is not note[-1].actions[1].volume, "nor is it kept alive"


async def test_in_a_large_cluster_the_base_alone_makes_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100,000 volumes each note took all that the caches hold, and the loop stood still."""
    recorder, bases = Recorder(LoopClock(), bytes_max=80_000), []
    monkeypatch.setattr(recorder.ring, "_base", lambda: (bases.append(None), 10**7))
    for number in range(1000):
        recorder.wall(float(number))
    assert 1 <= len(bases) <= 1000 * 300 / 20_000
    assert len(list(recorder.ring.segments())) == 2


async def test_a_list_is_kept_as_a_replay_reads_it() -> None:
    """A page is a struct, as its objects are, and is kept in another form."""
    world = ClusterWorld()
    await world.create(a_va("va-0", "pv", "node"))
    recorder = Recorder(world.clock)
    page = await RecordedCluster(world.cluster, recorder).list(VOLUME_ATTACHMENTS)
    (kept,) = [note[5] for segment in recorder.ring.segments() for note in segment.notes if note[0] == ANSWER]
    read = msgspec.json.decode(kept)
    assert {"items", "rv", "token", "unread"} == set(read)
    assert (page.resource_version, "va-0") == (read["rv"], read["items"][0]["metadata"]["name"])
