"""What flight records add to a timeline."""

from __future__ import annotations

from mooring.api.core import PersistentVolume
from mooring.control.flight.entries import FORMAT, Asked, Entry, Fault, Header
from mooring.inspect.replay.record import Record
from mooring.inspect.scene import Scene
from mooring.inspect.timeline.recorded import recorded
from mooring.inspect.timeline.story import timeline
from mooring.inspect.timeline.traces import Lane, Source, traced
from mooring.wire.grpc.codes import Code
from tests.support.builders import DRIVER, a_pv, typed

BEGAN_S = 1_700_000_000.0
CLAIM, POD = Lane("pvc", "pvc", "shop/data", "u1"), Lane("pod", "pod", "shop/data", "u2")
VOLUME, VA = Lane("pv", "pv", "pv", "u3"), Lane("va", "volumeattachment", "csi-1", "u4")
LANES = (CLAIM, POD, VOLUME, VA)
UNIQUE = f"kubernetes.io/csi/{DRIVER}^h"


def a_record(*entries: Entry, program: str = "csi-attacher") -> Record:
    return Record(Header(FORMAT, program, "1", "a test", whole=True, began_s=BEGAN_S), entries)


def decided(t: float, queue: str, key: str, because: str) -> Entry:
    return Entry("decided", t, "task", queue, key, because=because)


def told(record: Record) -> list[tuple[float, str, str, bool]]:
    found = recorded(record, LANES, {UNIQUE: "pv"})
    return [(one.at_s - BEGAN_S, one.lane, f"{one.who} {one.what}", one.is_bad) for one in found]


def test_a_decision_stands_in_the_lane_of_its_object_and_once_while_it_stays_the_same() -> None:
    entries = [decided(t, "csi-attacher-va", "'csi-1'", because) for t, because in enumerate(("a", "a", "b", "a"))]
    assert [
        (0.0, "va", "csi-attacher decided: a", False),
        (2.0, "va", "csi-attacher decided: b", False),
        (3.0, "va", "csi-attacher decided: a", False),
    ] == told(a_record(*entries))


def test_the_queue_tells_which_of_two_objects_of_one_name_is_meant() -> None:
    entries = (decided(0.0, "claims", "('shop', 'data')", "a"), decided(1.0, "scheduler", "('shop', 'data')", "b"))
    assert ["pvc", "pod"] == [lane for _, lane, _, _ in told(a_record(*entries))]


def test_a_volume_is_known_by_its_name_in_a_nodes_status() -> None:
    assert [(0.0, "pv", "csi-attacher decided: a", False)] == told(
        a_record(decided(0.0, "attachdetach-volumes", repr(UNIQUE), "a"))
    )


def test_other_objects_and_keys_that_are_none_are_left_out() -> None:
    keys = ("'csi-2'", "csi-1", "('shop', 1)", "((((", "('', 'csi-1', 'x')")
    assert [] == told(a_record(*(decided(0.0, "csi-attacher-va", key, "a") for key in keys)))


def test_an_answer_of_the_driver_belongs_to_the_object_in_hand() -> None:
    failed = Fault("DriverError", "no such node", code=Code.NOT_FOUND)
    record = a_record(
        Entry("call", 0.0, "task", asked=Asked("call", "controller_publish_volume")),  # (nothing is in hand)
        Entry("begun", 1.0, "task", "csi-attacher-va", "'csi-1'"),
        Entry("begun", 1.0, "other", "csi-attacher-va", "'csi-2'"),
        Entry("call", 2.0, "task", asked=Asked("call", "controller_publish_volume"), fault=failed),
        Entry("call", 3.0, "other", asked=Asked("call", "controller_publish_volume")),
        Entry("call", 4.0, "task", asked=Asked("call", "controller_publish_volume")),
    )
    assert [
        (
            2.0,
            "va",
            "csi-attacher heard from the driver that ControllerPublishVolume failed: NotFound: no such node",
            True,
        ),
        (4.0, "va", "csi-attacher heard from the driver that ControllerPublishVolume is done", False),
    ] == told(record)


def test_what_was_decided_before_the_chain_began_is_left_out() -> None:
    scene, pv = Scene(BEGAN_S + 100), a_pv("pv", "h")
    volume: PersistentVolume = typed(pv)
    scene.volumes.put(volume)
    lanes = {VOLUME: traced({"metadata": {"creationTimestamp": "2023-11-14T22:13:30Z"}})}  # ten seconds after BEGAN_S
    records = [
        a_record(
            *(decided(t, "attachdetach-volumes", repr(UNIQUE), f"at {t}") for t in (1.0, 12.0)),
            program="mooring attachdetach",
        )
    ]
    line = timeline("pv pv", "pv", scene, lanes, 5.0, records)
    assert ["decided: at 12.0"] == [one.what for one in line.moments if one.source is Source.RECORD]
