"""The records of volumes on nodes."""

from mooring.api.meta import ObjectMeta
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment, VolumeAttachmentStatus, VolumeError
from mooring.cluster.attachdetach.memory import Memory, Record
from tests.support.attachdetaching import AttachDetachWorld
from tests.support.virtual_loop import in_virtual_time


def test_a_volume_has_one_record_for_each_node() -> None:
    memory, first, second = Memory(), Record("a"), Record("b")
    memory.keep("v", first)
    memory.keep("v", first)
    assert memory.find("v", "a") is first
    assert memory.find("v", "b") is None
    memory.keep("v", second)
    memory.keep("v", second)
    assert (first, second) == (memory.find("v", "a"), memory.find("v", "b"))
    assert (("a", "b"), [first, second]) == (memory.nodes_of("v"), list(memory.records()))


def test_what_is_forgotten_leaves_nothing() -> None:
    memory = Memory()
    records = {node: Record(node) for node in "abc"}
    for record in records.values():
        memory.keep("v", record)
    for node in ("a", "c", "x"):
        memory.forget("v", node)
    assert ("b",) == memory.nodes_of("v")
    assert memory.find("v", "b") is records["b"]
    memory.forget("v", "a")
    memory.forget("v", "b")
    memory.forget("w", "b")
    assert ((), [], {}) == (memory.nodes_of("v"), list(memory.records()), memory._records)


@in_virtual_time
async def test_a_node_without_an_object_is_remembered_while_an_attachment_names_it() -> None:
    world = AttachDetachWorld()
    async with world.controlling() as controller:
        volume, node = await world.volume(), await world.node()
        await world.make_va(volume, "away")
        await world.pod("never", volume)
        await world.settle(1)
        assert {node, "away"} == set(controller.view.memory._nodes)
        await world.remove(VOLUME_ATTACHMENTS, volume.va("away"))
        await world.settle(60)
        assert {node} == set(controller.view.memory._nodes)


def test_the_node_of_a_post_without_an_answer_is_known() -> None:
    memory = Memory()
    memory.keep("v", Record("a"))
    memory.keep("v", Record("b", creating=True))
    assert ["b"] == memory.creating("v")


def test_an_error_of_an_earlier_attempt_is_none_of_this_one() -> None:
    failed = VolumeAttachmentStatus(attach_error=VolumeError(time="then", message="no"))
    record = Record()
    record.observe(wanted=True, attachment=VolumeAttachment(ObjectMeta(uid="u1"), status=failed), now=1.0)
    assert "then no" == record.old_error
    record.observe(wanted=True, attachment=VolumeAttachment(ObjectMeta(uid="u2")), now=3.0)
    assert "" == record.old_error
    made = Record(fenced_uid="u3")
    made.observe(wanted=True, attachment=VolumeAttachment(ObjectMeta(uid="u3"), status=failed), now=3.0)
    assert "" == made.old_error
