"""Events as client-go's recorder makes them."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from mooring.api.core import EVENTS, ObjectReference
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.base.text import shortened
from mooring.control.decision import TELL_S
from mooring.control.events import (
    BURST,
    COMBINED_PREFIX,
    LINGER_S,
    MESSAGE_BYTES_MAX,
    WAITING_MAX,
    Correlator,
    EventRecorder,
    Occurrence,
    Recent,
)
from mooring.kube.cluster import PatchType, Request
from mooring.kube.errors import Forbidden, ServerError
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster, lost

pytestmark = in_virtual_time
EPOCH_S = 1_800_000_000
POD = ObjectReference(api_version="v1", kind="Pod", namespace="ns", name="web-0", uid="u1", resource_version="7")
PV = ObjectReference(api_version="v1", kind="PersistentVolume", name="pv1", uid="u2")


@contextlib.asynccontextmanager
async def recording(*, cluster: FakeCluster | None = None) -> AsyncIterator[tuple[FakeCluster, EventRecorder]]:
    cluster = cluster or FakeCluster()
    recorder = EventRecorder(cluster, "mooring-test", clock=LoopClock(EPOCH_S), randomness=Random(1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run(), name="events")
        yield cluster, recorder
        task.cancel()


def events_of(cluster: FakeCluster) -> list[dict[str, Any]]:
    return [obj for (plural, _, _), obj in cluster.objects.items() if plural == "events"]


async def test_an_event_has_all_that_clients_show():
    async with recording() as (cluster, recorder):
        await asyncio.sleep(60)
        recorder.event(POD, "Warning", "FailedAttach", "the node is gone")
        await recorder.drain(5)
    ((_, namespace, name), event) = next(iter(cluster.objects.items()))
    assert namespace == "ns"
    assert name == f"web-0.{int((EPOCH_S + 60 + LINGER_S) * 1e9):x}"
    del event["metadata"]
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "web-0",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "FailedAttach",
        "message": "the node is gone",
        "source": {"component": "mooring-test"},
        "reportingComponent": "mooring-test",
        "reportingInstance": "",
        "firstTimestamp": "2027-01-15T08:01:00Z",
        "lastTimestamp": "2027-01-15T08:01:00Z",
        "count": 1,
    }


async def test_an_event_waits_a_moment_and_those_behind_it_no_longer():
    """What made it happen is often about to be written, and somebody waits for that."""
    sent_s = []

    class Timed(FakeCluster):
        async def ask(self, request: Request) -> Any:
            sent_s.append(asyncio.get_running_loop().time())
            return await super().ask(request)

    async with recording(cluster=Timed()) as (_, recorder):
        await asyncio.sleep(1)
        recorder.event(POD, "Normal", "Provisioning", "asked")
        await asyncio.sleep(LINGER_S / 2)
        recorder.event(POD, "Normal", "Provisioned", "there")
        recorder.event(PV, "Normal", "Bound", "to it")
        await recorder.drain(5)
        recorder.event(PV, "Normal", "Released", "by it")
        await recorder.drain(5)
    assert [pytest.approx(1 + late_s) for late_s in (LINGER_S, LINGER_S, LINGER_S, 2 * LINGER_S)] == sent_s


async def test_a_refused_event_is_given_up_and_the_next_is_sent_all_the_same():
    async with recording() as (cluster, recorder):
        cluster.fail("create", Forbidden("no right to events", reason="Forbidden"))
        for message in ("one", "two"):
            recorder.event(POD, "Warning", "SnapshotContentMissing", message)
            await recorder.drain(5)
        assert 2 == sum(request.verb == "create" for request in cluster.requests)


async def test_events_of_objects_without_a_namespace_are_in_default():
    async with recording() as (cluster, recorder):
        recorder.event(PV, "Normal", "Fine", "all is well")
        await recorder.drain(5)
    assert next(iter(cluster.objects))[:2] == ("events", "default")


async def test_the_same_again_is_counted_up_by_a_patch():
    async with recording() as (cluster, recorder):
        for version in ("7", "8", "9"):
            recorder.event(
                ObjectReference(
                    api_version="v1", kind="Pod", namespace="ns", name="web-0", uid="u1", resource_version=version
                ),
                "Warning",
                "FailedAttach",
                "the node is gone",
            )
            await asyncio.sleep(10)
    (event,) = events_of(cluster)
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3,
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:20Z",
    )
    patches = [request.body for request in cluster.asked("patch")]
    assert [patch.type for patch in patches] == [PatchType.STRATEGIC] * 2
    assert patches[-1].body == {"count": 3, "lastTimestamp": "2027-01-15T08:00:20Z", "message": "the node is gone"}


async def test_an_event_whose_time_was_over_is_made_again_with_its_count():
    async with recording() as (cluster, recorder):
        recorder.event(POD, "Normal", "A", "x")
        await asyncio.sleep(1)
        (name,) = [place[2] for place in cluster.objects]
        cluster.remove(EVENTS, name, "ns")
        recorder.event(POD, "Normal", "A", "x")
        await asyncio.sleep(1)
    (event,) = events_of(cluster)
    assert event["count"] == 2
    assert event["metadata"]["name"] != name


async def test_names_differ_even_in_the_same_instant():
    async with recording() as (cluster, recorder):
        for reason in "ABC":
            recorder.event(POD, "Normal", reason, "x")
        await recorder.drain(5)
    assert len(events_of(cluster)) == 3


async def test_the_tenth_similar_event_is_combined_with_those_after_it():
    async with recording() as (cluster, recorder):
        for number in range(12):
            recorder.event(POD, "Warning", "Failed", f"try {number}")
        await recorder.drain(5)
    events = events_of(cluster)
    assert [event["message"] for event in events] == [
        *(f"try {number}" for number in range(9)),
        f"{COMBINED_PREFIX}try 11",
    ]
    assert events[-1]["count"] == 3


async def test_after_ten_minutes_of_silence_similar_events_stand_alone_again():
    async with recording() as (cluster, recorder):
        for number in range(9):
            recorder.event(POD, "Warning", "Failed", f"try {number}")
        await asyncio.sleep(601)
        recorder.event(POD, "Warning", "Failed", "try 9")
        await recorder.drain(5)
    assert events_of(cluster)[-1]["message"] == "try 9"


async def test_one_object_may_not_flood_the_server_and_others_are_not_held_back():
    async with recording() as (cluster, recorder):
        for number in range(100):
            recorder.event(POD, "Normal", f"Reason{number}", "x")
        recorder.event(PV, "Normal", "Fine", "x")
        await recorder.drain(5)
        assert len(events_of(cluster)) == BURST + 1
        await asyncio.sleep(301)
        recorder.event(POD, "Normal", "Later", "x")
        recorder.event(POD, "Normal", "TooMany", "x")
        await recorder.drain(5)
    assert len(events_of(cluster)) == BURST + 2


def test_what_is_told_normally_takes_no_place_from_warnings():
    """A try every five minutes tells its beginning and its failure: for hours the failure has to be told, too."""
    correlator, ref = Correlator(), ObjectReference(name="claim", uid="u")
    told = []
    for number in range(100):
        for type in ("Normal", "Warning"):
            sent = correlator.correlate(Occurrence(ref, type, "Provisioning", "text", ""), 300.0 * number)
            told += [type] if sent is not None else []
    assert 100 == told.count("Warning")


async def test_spam_is_counted_once_its_event_is_sent_again():
    async with recording() as (cluster, recorder):
        for _ in range(40):
            recorder.event(POD, "Normal", "A", "x")
        await recorder.drain(5)
        assert events_of(cluster)[0]["count"] == BURST
        await asyncio.sleep(301)
        recorder.event(POD, "Normal", "A", "x")
        await recorder.drain(5)
    assert events_of(cluster)[0]["count"] == 41


async def test_a_warning_is_told_again_however_many_normal_events_come_before_it():
    """The obstacle of an object that waits for ever is told within the hour after which events go."""
    async with recording() as (cluster, recorder):
        for _ in range(100):
            recorder.event(POD, "Normal", "Begins", "x")
            recorder.event(POD, "Warning", "Failed", "y")
            await asyncio.sleep(301)
        await recorder.drain(5)
        counts = {event["reason"]: event["count"] for event in events_of(cluster)}
    assert {"Begins": 100, "Failed": 100} == counts


async def test_an_event_that_did_not_reach_the_server_is_tried_every_ten_seconds():
    cluster = FakeCluster()
    cluster.fail("create", lost(), times=11)
    async with recording(cluster=cluster) as (_, recorder):
        recorder.event(POD, "Normal", "A", "x")
        await recorder.drain(200)
    assert len(events_of(cluster)) == 1
    times = [request.at for request in cluster.asked("create")]
    assert len(times) == 12
    assert times[1] - times[0] <= 10
    assert [later - earlier for earlier, later in itertools.pairwise(times[1:])] == pytest.approx([10] * 10, abs=0.01)


async def test_after_twelve_tries_an_event_is_given_up(capsys: pytest.CaptureFixture[str]):
    cluster = FakeCluster()
    cluster.fail("create", lost(), times=12)
    async with recording(cluster=cluster) as (_, recorder):
        recorder.event(POD, "Normal", "A", "x")
        recorder.event(POD, "Normal", "B", "x")
        await recorder.drain(200)
    assert [event["reason"] for event in events_of(cluster)] == ["B"]
    assert "Failed to send an event" in capsys.readouterr().err


@each_row("error", [Forbidden("events is forbidden"), ServerError("boom")])
async def test_what_the_server_refused_is_not_tried_again(error: Exception, capsys: pytest.CaptureFixture[str]):
    cluster = FakeCluster()
    cluster.fail("create", error, times=1)  # type: ignore[arg-type]
    async with recording(cluster=cluster) as (_, recorder):
        recorder.event(POD, "Normal", "A", "x")
        await asyncio.sleep(100)
    assert len(cluster.asked("create")) == 1
    assert str(error) in capsys.readouterr().err


async def test_a_lost_answer_makes_no_second_event():
    cluster = FakeCluster()
    cluster.fail("create", lost(), late=True)
    async with recording(cluster=cluster) as (_, recorder):
        recorder.event(POD, "Normal", "A", "x")
        await recorder.drain(60)
        recorder.event(POD, "Normal", "A", "x")
        await recorder.drain(60)
    (event,) = events_of(cluster)
    assert event["count"] == 2


async def test_a_request_that_hangs_is_given_up():
    cluster = FakeCluster()
    cluster.fail("create", None, delay_s=10_000)
    async with recording(cluster=cluster) as (_, recorder):
        recorder.event(POD, "Normal", "A", "x")
        await recorder.drain(100)
    assert len(events_of(cluster)) == 1


async def test_the_caller_never_waits_and_what_is_too_much_is_dropped_and_counted(capsys: pytest.CaptureFixture[str]):
    cluster = FakeCluster()
    cluster.fail("create", None, delay_s=50)
    async with recording(cluster=cluster) as (_, recorder):
        for number in range(WAITING_MAX + 50):
            recorder.event(ObjectReference(kind="Pod", namespace="ns", name=f"p{number}"), "Normal", "A", "x")
        assert recorder.dropped_count == 50
        await recorder.drain(100)
    assert len(events_of(cluster)) == WAITING_MAX
    output = capsys.readouterr().err
    assert output.count("dropping new ones") == 1
    assert "dropped=50" in output


async def test_draining_is_bounded():
    cluster = FakeCluster()
    cluster.fail("create", lost(), times=100)
    async with recording(cluster=cluster) as (_, recorder):
        recorder.event(POD, "Normal", "A", "x")
        await recorder.drain(3)
        assert asyncio.get_running_loop().time() == pytest.approx(3)


async def test_long_messages_are_cut():
    async with recording() as (cluster, recorder):
        recorder.event(POD, "Normal", "A", "ä" * 2000)
        await recorder.drain(5)
    message = events_of(cluster)[0]["message"]
    assert message == "ä" * 510 + "..."
    assert len(message.encode()) <= MESSAGE_BYTES_MAX


@each_row(
    ("text", "expected"),
    [
        ("short", "short"),
        ("exactly 10", "exactly 10"),
        ("eleven char", "eleven ..."),
        ("€€€€", "€€..."),
        ("bad \ud800!", "bad ?!"),
        ("", ""),
    ],
)
def test_texts_are_shortened_to_valid_utf8(text: str, expected: str):
    assert shortened(text, 10) == expected


def test_what_is_remembered_is_bounded():
    recent: Recent[int] = Recent(size_max=3)
    for number in (0, 1, 2, 0, 3):
        recent.put(number, number, 0.0, 10.0)
    assert [recent.get(number, 0.0) for number in range(4)] == [0, None, 2, 3]
    assert len(recent) == 3


def test_what_is_over_is_forgotten():
    recent: Recent[int] = Recent()
    recent.put("short", 1, 0.0, 10.0)
    recent.put("long", 2, 0.0, 100.0)
    assert (recent.get("short", 10.0), recent.get("short", 10.1)) == (1, None)
    recent.put("new", 3, 11.0, 10.0)
    recent.put("newer", 4, 11.0, 10.0)
    assert ([recent.get(key, 11.0) for key in ("short", "long", "new", "newer")], len(recent)) == ([None, 2, 3, 4], 3)


def test_what_is_told_again_and_again_goes_on_counting():
    correlator, warning = Correlator(), Occurrence(POD, "Warning", "Pending", "it waits", "")
    tallies = [correlator.correlate(warning, now=number * TELL_S) for number in range(3)]
    assert [1, 2, 3] == [number for number, found in enumerate(tallies, start=1) if found is not None]
    assert tallies[-1] is not None
    assert tallies[-1][1].count == 3


def test_nothing_is_kept_of_objects_that_are_long_quiet():
    correlator = Correlator()
    for number in range(1000):
        pod = msgspec.structs.replace(POD, name=f"pod-{number}")
        correlator.correlate(Occurrence(pod, "Normal", "A", "attached", ""), now=number * 60.0)
    for kept, alive in ((correlator._tallies, 12), (correlator._similar, 11), (correlator._buckets, 6)):
        assert alive <= len(kept) <= alive * 5 // 4 + 1


def test_what_is_remembered_for_long_keeps_nothing_else():
    """A warning's tally lasts longer than those of the events behind it."""
    correlator = Correlator()
    correlator.correlate(Occurrence(POD, "Warning", "A", "not attached", ""), now=0.0)
    for second in range(2000):
        pod = msgspec.structs.replace(POD, name=f"pod-{second}")
        correlator.correlate(Occurrence(pod, "Normal", "A", "attached", ""), now=float(second))
    assert len(correlator._tallies) <= 702 * 5 // 4 + 1


def test_an_object_with_endless_messages_does_not_fill_memory():
    correlator = Correlator()
    for number in range(3000):
        correlator.correlate(Occurrence(POD, "Normal", "A", f"message {number}", ""), now=0.0)
    assert len(correlator._tallies) <= 10
    messages = correlator._similar.get(
        ((POD.api_version, POD.kind, POD.namespace, POD.name, POD.uid), "Normal", "A"), 0.0
    )
    assert messages is not None
    assert len(messages) < 10
