"""The records of volumes on nodes."""

from mooring.api.meta import ObjectMeta
from mooring.api.storage import VolumeAttachment, VolumeAttachmentStatus, VolumeError
from mooring.cluster.attachdetach.memory import NOTHING_TOLD, Memory, Record


def test_a_volume_has_one_record_for_each_node() -> None:
    memory = Memory()
    first = memory.record("v", "a")
    assert memory.record("v", "a") is first
    assert memory.find("v", "b") is None
    second = memory.record("v", "b")
    assert first is memory.find("v", "a")
    assert second is memory.find("v", "b")
    assert (("a", "b"), [first, second]) == (memory.nodes_of("v"), list(memory.records()))


def test_what_is_not_kept_is_forgotten() -> None:
    memory = Memory()
    for node in "abc":
        memory.record("v", node)
    kept = memory.find("v", "b")
    memory.keep("v", ("b", "x"))
    assert ("b",) == memory.nodes_of("v")
    assert memory.record("v", "b") is kept
    memory.keep("v", ())
    assert ((), [], {}) == (memory.nodes_of("v"), list(memory.records()), memory._records)


def test_an_error_of_an_earlier_attempt_counts_as_told() -> None:
    failed = VolumeAttachmentStatus(attach_error=VolumeError(time="then", message="no"))
    record = Record()
    record.observe(wanted=True, healthy=True, attachment=VolumeAttachment(ObjectMeta(uid="u1"), status=failed), now=1.0)
    assert record.has_told("error", "then no", 2.0)
    record.observe(wanted=True, healthy=True, attachment=VolumeAttachment(ObjectMeta(uid="u2")), now=3.0)
    assert not record.has_told("error", "then no", 4.0)
    assert NOTHING_TOLD is record.told


def test_what_was_told_is_told_again_once_it_is_over() -> None:
    record = Record()
    record.tells("blocked", "mark", ("pod",), 1.0)
    record.tells("multi-attach", "mark", ("pod",), 1.0)
    record.untold("blocked", "never told")
    assert (False, True) == tuple(
        record.has_told(subject, "mark", 2.0, "pod") for subject in ("blocked", "multi-attach")
    )
