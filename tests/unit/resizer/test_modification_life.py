"""VolumeAttributesClasses from the claim's wish to the last write: lines of docs/behaviours/resizer.md, on the
in-process ports.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.kube.errors import Forbidden, Unreachable
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code, go_name
from tests.support.builders import a_secret, an_attributes_class
from tests.support.cluster_world import HeldWatch, LateWatch, without
from tests.support.resizing import (
    CLAIMS,
    EXPAND,
    GET_SECRET,
    MARK,
    MODIFY,
    NODE_PENDING,
    PVS,
    SECRET,
    STD_EXPAND,
    STD_MODIFY,
    VACS,
    ResizerWorld,
    ResizingDriver,
    condition,
)
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, Wait
from tests.support.staying_visible import stays_visible
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
NON_FINAL = (Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED)
FINAL = tuple(code for code in Code if code not in (*NON_FINAL, Code.INVALID_ARGUMENT, Code.OK))
MISSING = 'VAC "gone" does not exist.'


async def with_classes(*, has: str | None = "a", **claim: Any) -> ResizerWorld:
    """Classes a, b and c; the claim has one of them."""
    world = ResizerWorld()
    for name in "abc":
        await world.make_class(name)
    fields = {"vac": has, "current": has, "of_pv": {"volumeAttributesClassName": has}} if has else {}
    return await world.volume(**{**fields, **claim})


@pytest.fixture
async def world() -> ResizerWorld:
    return await with_classes()


def fail(world: ResizerWorld, code: Code, only: str = "") -> None:
    def step(request: Any) -> Any:
        return Fail(code) if only in ("", request.mutable_parameters["class"]) else None

    world.driver.always(MODIFY, step)


# -- success


async def test_M1_another_class(world: ResizerWorld):
    async with world.resizing():
        await world.settle(5)
        assert [] == world.story
        await world.ask_class("b")
        await world.modification_is("b", None, None, "b")
        await world.event("VolumeModifySuccessful")
        await world.settle(200)
    assert STD_MODIFY == world.story
    assert ({}, {"class": "b"}) == (await world.conditions(), world.driver.parameters["handle-pv"])
    assert [
        ("Normal", "VolumeModify", "external resizer is modifying volume claim with vac b"),
        ("Normal", "VolumeModifySuccessful", "external resizer modified volume claim with vac b successfully"),
    ] == await world.told()
    first, last = (body["metadata"] for body in world.bodies(MARK))
    assert {"uid", "resourceVersion"} == set(first) == set(last)


async def test_the_class_is_on_the_claim_before_the_driver_is_called(world: ResizerWorld):
    gate = world.driver.gate(MODIFY)
    async with world.resizing():
        await world.ask_class("b")
        await world.called(MODIFY)
        assert ("a", "b", "InProgress", "a") == await world.modification()
        (found,) = (await world.conditions()).values()
        assert (names.MODIFYING, "True", 'Modifying volume to "b" is in progress.') == (
            found["type"],
            found["status"],
            found["message"],
        )
        assert found["lastProbeTime"] == found["lastTransitionTime"]
        gate.set()
        await world.modification_is("b", None, None, "b")


async def test_the_first_class_and_back_again():
    world = await with_classes(has=None, vac="b")
    async with world.resizing():
        await world.modification_is("b", None, None, "b")
        await world.ask_class("a")
        await world.modification_is("a", None, None, "a")
        await world.ask_class("b")
        await world.modification_is("b", None, None, "b")
    assert ["b", "a", "b"] == world.classes


async def test_M9_metadata_goes_with_the_parameters():
    world = ResizerWorld(extra_modify_metadata=True)
    await world.make_class("b", iops="1", **{"csi.storage.k8s.io/pv/name": "mine"})
    await world.volume(vac="b")
    async with world.resizing():
        await world.modification_is("b", None, None, "b")
    prefix = "csi.storage.k8s.io/"
    wanted = {"iops": "1", f"{prefix}pvc/name": "claim", f"{prefix}pvc/namespace": "default", f"{prefix}pv/name": "pv"}
    assert wanted == world.driver.parameters["handle-pv"]


@each_row(
    ("name", "namespace", "used"),
    [
        pytest.param("modify", "default", "modify", id="M10"),
        pytest.param(None, None, "expand", id="no-annotation"),
        pytest.param("modify", None, "expand", id="no-namespace"),
        pytest.param("", "default", "expand", id="empty-name"),
    ],
)
async def test_the_secret_of_the_call(name, namespace, used):
    notes = {names.MODIFY_SECRET_NAME: name, names.MODIFY_SECRET_NAMESPACE: namespace}
    noted = {"annotations": {key: value for key, value in notes.items() if value is not None}}
    world = await with_classes(has=None, vac="b", csi_fields=SECRET, of_pv=noted)
    await world.create(a_secret(data={"which": "ZXhwYW5k"}), a_secret("modify", data={"which": "bW9kaWZ5"}))
    async with world.resizing():
        await world.modification_is("b", None, None, "b")
    assert {"which": used} == dict(world.driver.made(MODIFY)[0].request.secrets)


async def test_a_missing_secret_is_told_and_tried_again():
    world = await with_classes(has=None, vac="b", csi_fields=SECRET)
    async with world.resizing():
        await world.event("VolumeModifyFailed", "error getting secret secret in namespace default")
        await world.settle(5)
        assert [MARK] == without(world.story, GET_SECRET)
        await world.create(a_secret(data={}))
        await world.modification_is("b", None, None, "b")


@each_row(
    "body",
    [
        pytest.param({"vac": "a", "current": "a"}, id="same-class"),
        pytest.param({"vac": "b", "csi_fields": {"driver": "other"}}, id="M11-driver"),
        pytest.param({"vac": "b", "of_pv": {"source": {"hostPath": {"path": "/x"}}}}, id="M11-no-csi"),
        pytest.param({"vac": "b", "phase": "Pending"}, id="M11-unbound"),
        pytest.param({"ms": "Pending", "target": "b"}, id="taken-back"),
    ],
)
async def test_nothing_is_done_where_nothing_is_to_be_done(body):
    world = await with_classes(has=None, **body)
    async with world.resizing():
        await world.settle(700)
    assert [] == world.story


async def test_M11_a_claim_that_is_gone_is_forgotten(world: ResizerWorld):
    fail(world, Code.INTERNAL)
    async with world.resizing() as resizer:
        await world.ask_class("b")
        await world.called(MODIFY)
        await world.tear_away(CLAIMS, "claim")
        await world.settle(700)
        assert 1 == len(world.driver.made(MODIFY))
        assert 0 == len(resizer._parts[1]._view.memory)


class NoRightToClasses(ServerFaults):
    is_over = False

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if kind.plural == "volumeattributesclasses" and verb in ("list", "watch") and not self.is_over:
            raise Forbidden("volumeattributesclasses is forbidden", reason="Forbidden")


async def test_M12_volumes_grow_where_the_classes_can_not_be_read_and_are_modified_once_they_can():
    faults = NoRightToClasses()
    world = await ResizerWorld(faults=faults).volume(2, 1, vac="b")
    await world.make_class("b")
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.settle(100)
        assert ([], (None, None, None, None)) == (world.driver.made(MODIFY), await world.modification())
        faults.is_over = True
        await world.modification_is("b", None, None, "b", wait_s=120)


async def test_M12_a_resizer_that_can_not_read_the_classes_ends_at_once():
    world = await ResizerWorld(faults=NoRightToClasses()).volume(2, 1, vac="b")
    async with world.resizing() as resizer:
        await world.state_is(1, 2, NODE_PENDING, 2)
        began = world.clock.now()
        assert await resizer.drain(20.0)
        assert world.clock.now() - began < 1


async def test_a_claim_that_is_bound_later_is_modified_then():
    world = await with_classes(has=None, vac="b", phase="Pending")
    async with world.resizing():
        await world.settle(5)
        await world.set_status({"phase": "Bound"})
        await world.modification_is("b", None, None, "b", wait_s=0.5)


async def test_the_arrival_of_the_volume_wakes_its_claim():
    world = await with_classes(has=None, vac="b")
    pv = await world.pv()
    await world.tear_away(PVS, "pv")
    async with world.resizing():
        await world.settle(5)
        await world.create({**pv, "metadata": {"name": "pv"}})
        await world.modification_is("b", None, None, "b", wait_s=0.5)


# -- a class that is missing


@each_row("before", [None, "Infeasible"])
async def test_M2_a_missing_class_is_pending_and_its_arrival_wakes_the_claim(before):
    more = {"ms": before, "target": "b"} if before else {}
    world = await with_classes(vac="gone", conditions=[condition(names.MODIFY_ERROR)], **more)
    async with world.resizing():
        assert ("Warning", MISSING) == await world.event("VolumeModifyFailed")
        await world.settle(700)
        assert ("a", "b" if before else None, "Pending", "a") == await world.modification()
        assert ([MARK], {names.MODIFY_ERROR}) == (world.story, set(await world.conditions()))
        await world.make_class("gone")
        await world.modification_is("gone", None, None, "gone", wait_s=0.5)
    assert {} == await world.conditions()


async def test_M2_27c2_a_class_that_stays_away_is_told_again_and_stays_visible():
    world = await ResizerWorld(resync_s=0.0).volume(vac="gone")
    async with world.resizing():
        await world.event("VolumeModifyFailed", MISSING)
        await stays_visible(world, "claim", MISSING)


async def test_M2_another_class_in_place_of_the_missing_one(world: ResizerWorld):
    async with world.resizing():
        await world.ask_class("gone")
        await world.modification_is("a", None, "Pending", "a")
        await world.ask_class("b")
        await world.modification_is("b", None, None, "b", wait_s=0.5)


# -- a class of another driver


async def test_a_class_of_another_driver_is_sent(world: ResizerWorld):
    """The API server does not check its driver either; Kubernetes' storage suite makes one that is infeasible."""
    await world.create(an_attributes_class("foreign", driverName="other.csi"))
    async with world.resizing():
        await world.ask_class("foreign")
        await world.modification_is("foreign", None, None, "foreign", wait_s=5)


async def test_a_class_of_another_driver_that_is_refused_is_infeasible(world: ResizerWorld):
    fail(world, Code.INVALID_ARGUMENT)
    await world.create(an_attributes_class("foreign", driverName="other.csi"))
    async with world.resizing():
        await world.ask_class("foreign")
        await world.modification_is("a", "foreign", "Infeasible", "a")
        world.driver.forget_scripts()
        await world.ask_class("b")
        await world.modification_is("b", None, None, "b", wait_s=12)


# -- a driver that modifies no volumes


async def test_M15_a_class_for_a_driver_that_can_not_modify_is_told_once_an_hour():
    """external-resizer says nothing."""
    world = await ResizerWorld(ResizingDriver((RPC.EXPAND_VOLUME,)), resync_s=0.0).volume(2, 1, vac="b")
    text = 'CSI driver csi.test can\'t modify volumes: VAC "b" is not applied'
    async with world.resizing():
        assert ("Warning", text) == await world.event("VolumeModifyFailed")
        await world.state_is(1, 2, NODE_PENDING, 2)
        times = set()
        for _ in range(12 * 4 - 6):
            times |= {event["lastTimestamp"] for event in await world.events_about("claim") if event["message"] == text}
            await world.settle(300)
        assert 4 == len(times)
    assert (STD_EXPAND, (None, None, None, None)) == (world.story, await world.modification())


async def test_M15_nothing_is_told_of_a_class_that_the_volume_has():
    world = await ResizerWorld(ResizingDriver((RPC.EXPAND_VOLUME,))).volume(vac="b", current="b")
    async with world.resizing():
        await world.settle(700)
    assert [] == await world.told()


# -- refusals


async def test_a_refusal_is_not_written_to_a_claim_that_asks_for_no_other_class_any_more(world: ResizerWorld):
    gate = world.driver.gate(MODIFY)
    fail(world, Code.INVALID_ARGUMENT)
    async with world.resizing():
        await world.ask_class("b")
        await world.called(MODIFY)
        await world.ask_class("a")
        await world.set_status({"modifyVolumeStatus": None, "conditions": None})
        gate.set()
        await world.event("VolumeModifyFailed")
        await world.settle(5)
    assert (("a", None, None, "a"), {}) == (await world.modification(), await world.conditions())


async def test_M3_an_infeasible_class_waits_long(world: ResizerWorld):
    fail(world, Code.INVALID_ARGUMENT)
    async with world.resizing():
        await world.ask_class("b")
        await world.modification_is("a", "b", "Infeasible", "a")
        await world.settle(290)
        assert ["b"] == world.classes
        found = await world.conditions()
        error = found[names.MODIFY_ERROR]
        assert ("True", "InvalidArgument", "no") == (error["status"], error["reason"], error["message"])
        assert 'Modifying volume to "b" failed. Waiting for retry.' == found[names.MODIFYING]["message"]
        assert ("Warning", "rpc error: code = InvalidArgument desc = no") == await world.event("VolumeModifyFailed")
        world.driver.forget_scripts()
        await world.modification_is("b", None, None, "b", wait_s=12)


async def test_M3_another_class_is_tried_at_once(world: ResizerWorld):
    fail(world, Code.INVALID_ARGUMENT, only="b")
    async with world.resizing():
        await world.ask_class("b")
        await world.modification_is("a", "b", "Infeasible", "a")
        await world.settle(5)
        await world.ask_class("c")
        await world.modification_is("c", None, None, "c", wait_s=0.5)
    assert (["b", "c"], {}) == (world.classes, await world.conditions())


async def test_M3_a_class_that_was_made_anew_is_tried_at_once(world: ResizerWorld):
    fail(world, Code.INVALID_ARGUMENT)
    async with world.resizing():
        await world.ask_class("b")
        await world.modification_is("a", "b", "Infeasible", "a")
        await world.settle(5)
        world.driver.forget_scripts()
        await world.tear_away(VACS, "b")
        await world.make_class("b", **{"class": "better"})
        await world.modification_is("b", None, None, "b", wait_s=0.5)
    assert ["b", "better"] == world.classes


@each_row("code", FINAL)
async def test_M4_a_final_error_is_tried_again(code):
    world = await with_classes()
    fail(world, code)
    async with world.resizing():
        await world.ask_class("b")
        await world.calls_made(MODIFY, 4)
        error = (await world.conditions())[names.MODIFY_ERROR]
        assert (go_name(code), "no") == (error["reason"], error["message"])
        assert ("a", "b", "InProgress", "a") == await world.modification()
        assert ("Warning", f"rpc error: code = {go_name(code)} desc = no") == await world.event("VolumeModifyFailed")
        assert [MARK, MARK] == without(world.story, MODIFY)
        world.driver.forget_scripts()
        await world.modification_is("b", None, None, "b")
    assert {} == await world.conditions()


@each_row("code", NON_FINAL)
async def test_M5_while_the_driver_may_be_at_work_the_class_stays(code):
    world = await with_classes()
    fail(world, code, only="b")
    async with world.resizing():
        await world.ask_class("b")
        text = f"rpc error: code = {go_name(code)} desc = no. Still modifying to VAC b"
        assert ("Warning", text) == await world.event("VolumeModifyFailed")
        found = await world.conditions()
        assert 'Modifying volume to "b" is still in progress.' == found[names.MODIFYING]["message"]
        assert go_name(code) == found[names.MODIFY_ERROR]["reason"]
        await world.ask_class("c")
        await world.calls_made(MODIFY, 5)
        assert ({"b"}, ("a", "b", "InProgress", "a")) == (set(world.classes), await world.modification())
        world.driver.forget_scripts()
        await world.modification_is("c", None, None, "c")
    assert ["b", "c"] == world.classes[-2:]


@each_row("is_restarted", [False, True])
async def test_M6_after_a_final_error_another_class_counts(is_restarted):
    world = await with_classes()
    fail(world, Code.INTERNAL, only="b")
    async with world.resizing():
        await world.ask_class("b")
        await world.calls_made(MODIFY, 3)
        await world.settle(0.5)
        if not is_restarted:
            await world.ask_class("c")
            await world.modification_is("c", None, None, "c")
    if is_restarted:  # the process before may have called once more, and died
        await world.ask_class("c")
        async with world.resizing():
            await world.modification_is("c", None, None, "c")
    assert ["b", "b", "b", *(["b"] if is_restarted else []), "c"] == world.classes


async def test_M5_M6_uncertain_and_then_final(world: ResizerWorld):
    world.driver.script(MODIFY, Fail(Code.ABORTED), Fail(Code.INTERNAL))
    async with world.resizing():
        await world.ask_class("b")
        await world.called(MODIFY)
        await world.ask_class("c")
        await world.modification_is("c", None, None, "c")
    assert ["b", "b", "c"] == world.classes


async def test_a_call_past_its_deadline_or_a_lost_answer_is_repeated(world: ResizerWorld):
    world.driver.script(MODIFY, Wait(60), Lose())
    async with world.resizing():
        await world.ask_class("b")
        await world.called(MODIFY)
        await world.ask_class("c")
        await world.modification_is("c", None, None, "c")
    assert ["b", "b", "b", "c"] == world.classes


async def test_a_failure_is_not_told_of_a_claim_that_has_its_class(world: ResizerWorld):
    """An answer was lost, the call is made once more and fails, and the claim says that it is done: nothing would ever
    mend that.
    """
    world.driver.script(MODIFY, Wait(2.0, Fail(Code.INTERNAL)))
    async with world.resizing():
        await world.ask_class("b")
        await world.called(MODIFY)
        await world.set_status(
            {"currentVolumeAttributesClassName": "b", "modifyVolumeStatus": None, "conditions": None}
        )
        await world.settle(5.0)
        assert {} == await world.conditions()


async def test_a_class_that_was_saved_is_not_asked_for_again_where_the_answer_was_lost():
    """The driver might be at work on it again, when the claim, which shows it, asks for the next one."""
    world = ResizerWorld(faults=LateWatch(CLAIMS.plural, seconds=60.0))
    for name in "bc":
        await world.make_class(name)
    await world.volume(vac="b")
    gate = world.driver.gate(MODIFY)
    async with world.resizing():
        await world.called(MODIFY)
        world.cluster.refuse(MARK, times=1, error=Unreachable("reset"), after=True)
        gate.set()
        await world.settle(30)
        assert ["b"] == world.classes
        await world.ask_class("c")
        await world.modification_is("c", None, None, "c")
    assert ["b", "c"] == world.classes


async def test_a_volume_that_the_cache_alone_says_to_have_the_class_is_written():
    """An API server was set back, say: a claim that says it is done is looked at no more, and the volume kept its
    former class.
    """
    watch = HeldWatch(PVS.plural)
    world = ResizerWorld(faults=watch)
    for name in "bc":
        await world.make_class(name)
    await world.volume(vac="b", ms="InProgress", target="b", of_pv={"volumeAttributesClassName": "b"})
    gate = world.driver.gate(MODIFY)
    async with world.resizing():
        await world.called(MODIFY)
        watch.hold()
        await world.patch(PVS, "pv", {"spec": {"volumeAttributesClassName": "c"}})
        gate.set()
        await world.modification_is("b", None, None, "b")


# -- taken back


@each_row("target", ["b", "gone"])
async def test_M7_a_class_that_is_taken_back_in_progress_is_finished(target):
    world = await with_classes(has=None, ms="InProgress", target=target)
    async with world.resizing():
        if target == "b":
            await world.modification_is("b", None, None, "b")
            assert ["b"] == world.classes
            return
        assert ("Warning", MISSING) == await world.event("VolumeModifyFailed")
        await world.settle(50)
        assert ([], (None, "gone", "InProgress", None)) == (world.story, await world.modification())


async def test_M8_an_infeasible_class_is_taken_back():
    world = await with_classes(has=None)
    fail(world, Code.INVALID_ARGUMENT)
    async with world.resizing():
        await world.ask_class("b")
        await world.modification_is(None, "b", "Infeasible", None)
        await world.ask_class(None)
        assert ("Normal", "Cancelled modify.") == await world.event("VolumeModifyCanceled")
        await world.settle(700)
    assert (["b"], {}) == (world.classes, await world.conditions())
    assert (None, "b", "Infeasible", None) == await world.modification()


# -- restarts, gates, and both controllers


async def test_M13_a_class_that_was_begun_is_finished_first():
    world = await with_classes(vac="c", ms="InProgress", target="b")
    async with world.resizing():
        await world.modification_is("c", None, None, "c")
    assert ["b", "c"] == world.classes


async def test_M13_a_crash_during_the_call(world: ResizerWorld):
    gate = world.driver.gate(MODIFY)
    async with world.resizing():
        await world.ask_class("b")
        await world.called(MODIFY)
        await world.settle()
    await world.ask_class("c")
    gate.set()
    async with world.resizing():
        await world.modification_is("c", None, None, "c")
        await world.settle()
    assert (["b", "b", "c"], {"class": "c"}) == (world.classes, world.driver.parameters["handle-pv"])


@each_row(
    ("driver", "options"),
    [
        pytest.param(ResizingDriver(), {"modify": False}, id="M12"),
        pytest.param(ResizingDriver((RPC.EXPAND_VOLUME,)), {}, id="driver"),
    ],
)
async def test_without_modification_volumes_grow_all_the_same(driver, options):
    world = ResizerWorld(driver, **options)
    await world.make_class("b")
    await world.volume(2, 1, vac="b")
    async with world.resizing() as resizer:
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.settle(20)
        assert ["persistentvolumeclaims", "persistentvolumes"] == [
            one.name.split("/")[1] for one in resizer.caches.informers
        ]
    assert STD_EXPAND == world.story


async def test_a_driver_that_only_modifies_grows_nothing():
    world = ResizerWorld(ResizingDriver((RPC.MODIFY_VOLUME,)))
    await world.make_class("b")
    await world.volume(2, 1, vac="b")
    async with world.resizing():
        await world.modification_is("b", None, None, "b")
        await world.settle(20)
    assert STD_MODIFY == world.story


async def test_growing_and_modifying_take_turns_at_the_driver(world: ResizerWorld):
    for method in (EXPAND, MODIFY):
        world.driver.always(method, Wait(2.0))
    async with world.resizing():
        wish = {"resources": {"requests": {"storage": "2Gi"}}, "volumeAttributesClassName": "b"}
        await world.patch(CLAIMS, "claim", {"spec": wish})
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=5)
        await world.modification_is("b", None, None, "b", wait_s=5)
    assert ([], [2], ["b"]) == (world.driver.overlaps, world.asked, world.classes)


async def test_a_growth_that_fails_does_not_hold_up_a_modification(world: ResizerWorld):
    world.driver.always(EXPAND, Fail(Code.INTERNAL))
    async with world.resizing():
        await world.ask(2)
        await world.calls_made(EXPAND, 6)
        await world.ask_class("b")
        await world.modification_is("b", None, None, "b", wait_s=0.5)
    assert {names.RESIZING, names.CONTROLLER_ERROR} == set(await world.conditions())
