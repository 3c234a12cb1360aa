"""What changes under the resizer's hands, between its mark and its last write: lines of docs/behaviours/resizer.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.errors import Conflict
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code
from tests.support.builders import Json, a_secret
from tests.support.cluster_world import without
from tests.support.resizing import (
    CLAIMS,
    EXPAND,
    GET_SECRET,
    MARK,
    MODIFY,
    NODE_PENDING,
    PVS,
    SAVE_PV,
    SECRET,
    STD_EXPAND,
    ResizerWorld,
    ResizingDriver,
)
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import GiB

pytestmark = in_virtual_time


async def with_classes(**claim: Any) -> ResizerWorld:
    """Classes b and c; the claim has none."""
    world = ResizerWorld()
    for name in "bc":
        await world.make_class(name)
    return await world.volume(**claim)


async def make_volume_anew(world: ResizerWorld) -> None:
    """Under its name, and with another handle."""
    pv = await world.pv()
    pv["spec"]["csi"]["volumeHandle"] = "another"
    await world.tear_away(PVS, "pv")
    await world.create({**pv, "metadata": {"name": "pv"}})
    await world.settle(1)


# -- a volume that is made anew under its name during the call


async def test_R33_a_volume_that_is_made_anew_is_not_said_to_have_grown():
    world = await ResizerWorld().volume(2, 1)
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        await make_volume_anew(world)
        gate.set()
        await world.state_is(1, 2, NODE_PENDING, 2)
    assert [MARK, EXPAND, EXPAND, SAVE_PV, MARK] == world.story
    assert {"handle-pv": 2 * GiB, "another": 2 * GiB} == world.driver.sizes


async def test_M14_a_volume_that_is_made_anew_is_not_said_to_be_modified():
    world = await with_classes(vac="b")
    gate = world.driver.gate(MODIFY)
    async with world.resizing():
        await world.called(MODIFY)
        await make_volume_anew(world)
        gate.set()
        await world.modification_is("b", None, None, "b")
    assert [MARK, MODIFY, MODIFY, SAVE_PV, MARK] == world.story
    assert {"handle-pv": {"class": "b"}, "another": {"class": "b"}} == world.driver.parameters


# -- classes


async def test_M6_another_class_takes_the_place_of_one_that_only_waits_for_its_secret():
    world = await with_classes(vac="b", csi_fields=SECRET)
    async with world.resizing():
        await world.event("VolumeModifyFailed", "error getting secret secret in namespace default")
        await world.ask_class("c")
        await world.modification_is(None, "c", "InProgress", None)
        await world.create(a_secret(data={}))
        await world.modification_is("c", None, None, "c")
    assert ["c"] == world.classes


async def test_M13_after_a_restart_a_class_that_waits_for_its_secret_may_be_at_work():
    world = await with_classes(vac="b", csi_fields=SECRET)
    async with world.resizing():
        await world.event("VolumeModifyFailed", "error getting secret secret in namespace default")
    await world.ask_class("c")
    async with world.resizing():
        await world.event("VolumeModifyFailed", "error getting secret secret in namespace default")
        await world.create(a_secret(data={}))
        await world.modification_is("c", None, None, "c")
    assert ["b", "c"] == world.classes


async def test_M3_an_infeasible_class_is_tried_at_once_when_the_wish_comes_back_from_a_class_that_is_missing():
    world = await with_classes(vac="b")
    world.driver.script(MODIFY, Fail(Code.INVALID_ARGUMENT))
    async with world.resizing():
        await world.modification_is(None, "b", "Infeasible", None)
        await world.settle(5)
        await world.ask_class("gone")
        await world.modification_is(None, "b", "Pending", None)
        await world.ask_class("b")
        await world.modification_is("b", None, None, "b", wait_s=0.5)
    assert ["b", "b"] == world.classes


@each_row(("wish", "applied"), [("b", ["b"]), (None, ["b"]), ("c", ["b", "c"])], ids=["wanted", "M7", "M13"])
async def test_R34_a_class_that_another_process_has_begun_is_marked_once_more(wish, applied):
    world = await with_classes(vac=wish, ms="InProgress", target="b")
    async with world.resizing():
        await world.modification_is(applied[-1], None, None, applied[-1])
        await world.settle()
    assert [MARK, MODIFY, SAVE_PV, MARK] * len(applied) == world.story
    assert applied == world.classes


LATE: dict[str, Json] = {
    EXPAND: {"allocatedResources": {"storage": "5Gi"}},
    MODIFY: {"modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "c"}},
}
"""The status of a mark for another size or class."""


@each_row("dead_for_s", [0.0, 5.0])
@each_row("method", [EXPAND, MODIFY])
async def test_R34_a_mark_that_a_dead_process_has_sent_is_not_written_after_the_next_call(method, dead_for_s):
    world = await (with_classes(vac="b") if method == MODIFY else ResizerWorld().volume(10, 3, pv=3))
    gate = world.driver.gate(method)
    async with world.resizing():
        await world.settle(0.1)
    for _ in range(3):  # the second and the third one find a claim that was marked once more
        sent = {
            "metadata": {"resourceVersion": (await world.claim())["metadata"]["resourceVersion"]},
            "status": LATE[method],
        }
        await world.settle(dead_for_s)
        async with world.resizing():
            await world.settle(0.1)
            with pytest.raises(Conflict):
                await world.patch(CLAIMS, "claim", sent, subresource="status")
    assert 4 == len(world.driver.made(method))
    gate.set()


async def test_R34_a_process_marks_once():
    world = await with_classes(spec=2, cap=1, vac="b")
    for method in (EXPAND, MODIFY):
        world.driver.always(method, Fail(Code.ABORTED))
    async with world.resizing():
        for method in (EXPAND, MODIFY):
            await world.calls_made(method, 5)
    assert [MARK] * 3 == without(world.story, EXPAND, MODIFY), (
        "a mark each, and the conditions of a class that was not applied"
    )


# -- growing


@each_row(("recover", "stays"), [(True, False), (False, True)])
async def test_R32_without_the_gate_of_recovery_the_nodes_annotation_is_not_touched(recover, stays):
    world = await ResizerWorld(ResizingDriver(), recover=recover).volume(2, 1, annotations={names.NOT_REQUIRED: "true"})
    async with world.resizing():
        await world.state_is(1, 2 if recover else None, NODE_PENDING if recover else None, 2)
        await world.has_condition(names.FS_PENDING)
        await world.settle(5)
    assert stays is (names.NOT_REQUIRED in (await world.claim())["metadata"].get("annotations", {}))
    assert STD_EXPAND == without(world.story, GET_SECRET)


async def test_a_write_to_the_volume_is_of_the_volume_as_it_was_read():
    """One that its sender gave up may be carried out when the volume shows a later size or class, which it must not
    undo.
    """
    world = await ResizerWorld().volume(2, 1)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
    written = world.bodies(SAVE_PV)
    assert written
    assert all("resourceVersion" in body["metadata"] for body in written)
