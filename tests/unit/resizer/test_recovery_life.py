"""Failures of growing, what may be changed after them, and when they are tried again: lines of
docs/behaviours/resizer.md.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from mooring.api.core import SECRETS
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.kube.errors import ServerError, Unreachable
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code, go_name
from tests.support.builders import a_secret
from tests.support.cluster_world import LateWatch, without
from tests.support.resizing import (
    CLAIMS,
    EXPAND,
    GET_SECRET,
    INFEASIBLE,
    MARK,
    NODE_INFEASIBLE,
    NODE_PENDING,
    NODE_PROGRESS,
    PROGRESS,
    PVS,
    SAVE_PV,
    SECRET,
    ResizerWorld,
    ResizingDriver,
    condition,
)
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import GiB

pytestmark = in_virtual_time
NON_FINAL = (Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED)
INFEASIBLE_CODES = (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND)
FINAL = tuple(code for code in Code if code not in (*NON_FINAL, *INFEASIBLE_CODES, Code.OK))


def error_text(code: Code) -> str:
    return f'resize volume "pv" by resizer "csi.test" failed: rpc error: code = {go_name(code)} desc = no'


async def a_failure(code: Code, **options: Any) -> ResizerWorld:
    """10 GiB are refused with this code, for good; the claim has 3."""
    world = await ResizerWorld(**options).volume(10, 3, pv=3)
    world.driver.always(EXPAND, Fail(code))
    return world


# -- uncertain


@each_row("code", NON_FINAL)
async def test_R18_while_the_driver_may_be_at_work_the_size_stays(code):
    world = await a_failure(code)
    async with world.resizing():
        assert ("Warning", error_text(code)) == await world.event("VolumeResizeFailed")
        assert ("3Gi", "10Gi", PROGRESS, "3Gi") == await world.state()
        assert {names.RESIZING} == set(await world.conditions())
        await world.ask(5)
        await world.calls_made(EXPAND, 5)
        assert {10} == set(world.asked)
        assert [MARK] == without(world.story, EXPAND)
        world.driver.forget_scripts()
        await world.state_is(3, 10, NODE_PENDING, 10)


async def test_R18_a_call_past_its_deadline_may_have_grown_the_volume():
    world = await ResizerWorld(timeout_s=1).volume(10, 3, pv=3)
    world.driver.script(EXPAND, Wait(4))
    async with world.resizing():
        await world.event("VolumeResizeFailed", "code = DeadlineExceeded")
        await world.ask(5)
        await world.state_is(3, 10, NODE_PENDING, 10)


@each_row(("first", "second", "wanted"), [(Code.INTERNAL, Code.ABORTED, 10), (Code.ABORTED, Code.INTERNAL, 5)])
async def test_R18_the_last_answer_counts(first, second, wanted):
    world = await a_failure(first)
    async with world.resizing():
        await world.event("VolumeResizeFailed")
        world.driver.always(EXPAND, Fail(second))
        await world.event("VolumeResizeFailed", f"code = {go_name(second)}")
        await world.ask(5)
        await world.calls_made(EXPAND, 8)
    assert wanted == world.asked[-1]


async def test_an_uncertain_error_takes_the_place_of_a_final_one_on_the_claim():
    """So that whoever comes after a crash finishes the size that the driver may be at work on."""
    world = await a_failure(Code.INTERNAL)
    async with world.resizing():
        assert "Internal" == (await world.has_condition(names.CONTROLLER_ERROR))["reason"]
        world.driver.always(EXPAND, Fail(Code.ABORTED))
        await world.event("VolumeResizeFailed", "Aborted")
    assert "Aborted" == (await world.conditions())[names.CONTROLLER_ERROR]["reason"]
    world.driver.forget_scripts()
    await world.ask(5)
    async with world.resizing():
        await world.state_is(3, 10, NODE_PENDING, 10)


# -- final


@each_row("code", FINAL)
async def test_a_final_error_is_on_the_claim_and_tried_again(code):
    world = await a_failure(code)
    async with world.resizing():
        assert ("Warning", error_text(code)) == await world.event("VolumeResizeFailed")
        await world.has_condition(names.CONTROLLER_ERROR)
        assert ("3Gi", "10Gi", PROGRESS, "3Gi") == await world.state()
        shown = (await world.conditions())[names.CONTROLLER_ERROR]
        text = f"failed to expand pvc with rpc error: code = {go_name(code)} desc = no"
        assert (go_name(code), text) == (shown["reason"], shown["message"])
        world.driver.forget_scripts()
        await world.state_is(3, 10, NODE_PENDING, 10)
        assert {names.RESIZING, names.FS_PENDING} == set(await world.conditions())


@each_row("is_restarted", [False, True])
async def test_R10_after_a_final_error_the_size_may_be_lowered(is_restarted):
    world = await a_failure(Code.INTERNAL)
    async with world.resizing():
        await world.has_condition(names.CONTROLLER_ERROR)
        if not is_restarted:
            await _lowered(world)
    if is_restarted:
        async with world.resizing():
            await _lowered(world)


async def _lowered(world: ResizerWorld) -> None:
    made = len(world.asked)
    await world.ask(5)
    await world.calls_made(EXPAND, made + 3)
    assert {5} == set(world.asked[made + 1 :])
    world.driver.forget_scripts()
    await world.state_is(3, 5, NODE_PENDING, 5)


@each_row("code", [Code.INTERNAL, Code.OUT_OF_RANGE])
async def test_a_size_that_is_refused_once_more_after_a_restart_does_not_hold_up_the_lowered_one(code):
    """A call may have been under way when the process died, so it is repeated; its refusal frees the driver, slow
    retries or not.
    """
    world = await a_failure(Code.INTERNAL, retry_interval_start_s=600.0, retry_interval_max_s=600.0)
    async with world.resizing():
        await world.has_condition(names.CONTROLLER_ERROR)
    await world.ask(5)
    world.driver.always(EXPAND, lambda request: Fail(code) if request.capacity_range.required_bytes > 5 * GiB else None)
    async with world.resizing():
        await world.state_is(3, 5, NODE_PENDING, 5, wait_s=5)
    assert [10, 10, 5] == world.asked


@each_row(
    ("code", "step"), [(Code.INVALID_ARGUMENT, INFEASIBLE), (Code.FAILED_PRECONDITION, PROGRESS)], ids=["R11", "R12"]
)
async def test_the_lowered_size_is_refused_too(code, step):
    world = await a_failure(Code.INTERNAL)
    async with world.resizing():
        await world.has_condition(names.CONTROLLER_ERROR)
        world.driver.always(EXPAND, Fail(code))
        await world.ask(5)
        assert ("Warning", error_text(code)) == await world.event("VolumeResizeFailed", go_name(code))
        await world.state_is(3, 5, step, 3)
        assert go_name(code) == (await world.has_condition(names.CONTROLLER_ERROR))["reason"]


async def test_a_failure_that_stays_is_written_and_told_once():
    world = await a_failure(Code.INTERNAL)
    async with world.resizing():
        await world.calls_made(EXPAND, 8)
    assert [MARK, MARK] == without(world.story, EXPAND)
    assert 1 == [reason for _, reason, _ in await world.told()].count("VolumeResizeFailed")


@each_row("takes_s", [0.0, 1.5])
async def test_the_back_off_holds_from_the_first_failure(takes_s):
    world = await ResizerWorld().volume(10, 3, pv=3)
    world.driver.always(EXPAND, Wait(takes_s, Fail(Code.INTERNAL)))
    async with world.resizing():
        await world.calls_made(EXPAND, 5)
    began = [call.started_s for call in world.driver.made(EXPAND)]
    gaps = [later - earlier - takes_s for earlier, later in itertools.pairwise(began)]
    assert [1, 2, 4, 8] == [round(gap, 0) for gap in gaps[:4]]


async def test_a_change_that_means_nothing_does_not_end_the_back_off():
    world = await a_failure(Code.INTERNAL)
    async with world.resizing():
        await world.calls_made(EXPAND, 6)
        await world.patch(CLAIMS, "claim", {"metadata": {"annotations": {"touched": "1"}, "labels": {"a": "b"}}})
        await world.patch(PVS, "pv", {"metadata": {"labels": {"a": "b"}}})
        await world.settle(5)
    assert 6 == len(world.asked)


async def test_a_failure_that_could_not_be_saved_is_told_all_the_same():
    world = await a_failure(Code.INTERNAL)
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        world.cluster.refuse(MARK, error=ServerError("no"))
        gate.set()
        await world.event("VolumeResizeFailed", "Internal")


# -- infeasible


@each_row("code", INFEASIBLE_CODES)
async def test_R19_an_infeasible_size_waits_long(code):
    world = await a_failure(code, retry_interval_max_s=300.0)
    async with world.resizing():
        await world.state_is(3, 10, INFEASIBLE, 3)
        assert ("Warning", error_text(code)) == await world.event("VolumeResizeFailed")
        assert {names.RESIZING, names.CONTROLLER_ERROR} == set(await world.conditions())
        await world.patch(CLAIMS, "claim", {"metadata": {"annotations": {"touched": "1"}}})
        await world.settle(290)
        assert [MARK, EXPAND, MARK] == world.story
        world.driver.forget_scripts()
        await world.state_is(3, 10, NODE_PENDING, 10, wait_s=12)
    began = [call.started_s for call in world.driver.made(EXPAND)]
    assert began[1] - began[0] >= 300


async def test_an_infeasible_size_counts_as_in_progress_while_it_is_tried_again():
    """A crash during that call must not let another size overtake it."""
    world = await a_failure(Code.OUT_OF_RANGE)
    async with world.resizing():
        await world.state_is(3, 10, INFEASIBLE, 3)
        gate = world.driver.gate(EXPAND)
        await world.settle(305)
        await world.state_is(3, 10, PROGRESS, 3)
    await world.ask(5)
    gate.set()
    world.driver.forget_scripts()
    async with world.resizing():
        await world.state_is(3, 10, NODE_PENDING, 10)


@each_row("amount", [5, 12])
async def test_R20_another_size_is_tried_at_once(amount):
    world = await ResizerWorld().volume(10, 3, pv=3)
    world.driver.always(
        EXPAND, lambda request: Fail(Code.OUT_OF_RANGE) if request.capacity_range.required_bytes > 6 * GiB else None
    )
    async with world.resizing():
        await world.state_is(3, 10, INFEASIBLE, 3)
        await world.settle(20)
        await world.ask(amount)
        if amount == 5:
            await world.state_is(3, 5, NODE_PENDING, 5, wait_s=0.5)
        else:
            await world.state_is(3, 12, INFEASIBLE, 3, wait_s=0.5)
            await world.settle(250)
    assert [10, amount] == world.asked


async def test_R8_an_infeasible_size_is_given_up_at_the_start():
    world = await ResizerWorld().volume(5, 3, 10, INFEASIBLE, 3, conditions=[condition(names.CONTROLLER_ERROR)])
    async with world.resizing():
        await world.state_is(3, 5, NODE_PENDING, 5)
    assert ([5], {names.RESIZING, names.FS_PENDING}) == (world.asked, set(await world.conditions()))


async def test_a_restart_tries_an_infeasible_size_at_once():
    world = await a_failure(Code.INVALID_ARGUMENT)
    async with world.resizing():
        await world.state_is(3, 10, INFEASIBLE, 3)
    world.driver.forget_scripts()
    async with world.resizing():
        await world.state_is(3, 10, NODE_PENDING, 10, wait_s=1)


async def test_the_return_of_the_driver_ends_the_wait():
    world = await a_failure(Code.NOT_FOUND)
    async with world.resizing() as resizer:
        await world.state_is(3, 10, INFEASIBLE, 3)
        await world.settle(5)
        world.driver.forget_scripts()
        resizer.driver_returned()
        await world.state_is(3, 10, NODE_PENDING, 10, wait_s=1)


@each_row("is_changed", [True, False])
async def test_another_secret_ends_the_wait(is_changed):
    world = await ResizerWorld().volume(10, 3, pv=3, csi_fields=SECRET)
    await world.create(a_secret(data={"a": "b25l"}))
    world.driver.always(EXPAND, Fail(Code.INVALID_ARGUMENT))
    async with world.resizing():
        await world.state_is(3, 10, INFEASIBLE, 3)
        world.driver.forget_scripts()
        if is_changed:
            await world.patch(SECRETS, "secret", {"data": {"a": "dHdv"}})
            await world.state_is(3, 10, NODE_PENDING, 10, wait_s=3)
        else:
            await world.settle(250)
            assert [10] == world.asked
            assert 10 < world.story.count(GET_SECRET) < 16


# -- the node


@each_row(
    ("spec", "cap", "alloc", "step", "pv"),
    [
        pytest.param(1, "512Mi", 1, NODE_PENDING, 1, id="R13"),
        pytest.param(10, 1, 3, NODE_PENDING, 3, id="R14-pending"),
        pytest.param(10, 1, 3, NODE_PROGRESS, 3, id="R14-in-progress"),
    ],
)
async def test_it_is_the_nodes_turn(spec, cap, alloc, step, pv):
    world = await ResizerWorld().volume(spec, cap, alloc, step, pv)
    async with world.resizing():
        await world.patch(CLAIMS, "claim", {"metadata": {"annotations": {"touched": "1"}}})
        await world.settle(700)
    assert [] == world.story


async def test_R15_an_infeasible_size_on_the_node_is_confirmed_by_the_driver():
    world = await ResizerWorld().volume(2, 1)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
        shown = [*(await world.conditions()).values(), condition(names.NODE_ERROR)]
        await world.set_status({"allocatedResourceStatuses": {"storage": NODE_INFEASIBLE}, "conditions": shown})
        await world.calls_made(EXPAND, 2)
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.settle(50)
    assert [2, 2] == world.asked


async def test_R16_a_node_only_driver_can_go_down():
    world = await ResizerWorld(ResizingDriver((), on_node=True)).volume(5, 3, 10, NODE_INFEASIBLE, 10)
    async with world.resizing():
        await world.state_is(3, 5, NODE_PENDING, 5)
    assert [MARK, SAVE_PV, MARK] == world.story


@each_row("on_node", [True, False])
async def test_R15_a_size_that_a_claim_has_and_a_node_refused_is_handed_over_again_before_a_larger_one(on_node):
    """A ReadWriteMany volume grows on each of its nodes: one of them refuses what another one has made."""
    driver = ResizingDriver(() if on_node else (RPC.EXPAND_VOLUME,), on_node=on_node)
    world = await ResizerWorld(driver).volume(5, 2, 2, NODE_INFEASIBLE, 2)
    async with world.resizing():
        await world.state_is(2, 2, NODE_PENDING, 2, wait_s=0.5)
        await world.settle(100)
        assert ([] if on_node else [2]) == world.asked
        await world.node_done(2)
        await world.state_is(2, 5, NODE_PENDING, 5)


async def test_R15_a_size_that_a_claim_has_and_whose_step_was_left_behind_is_handed_over_once():
    world = await ResizerWorld().volume(8, 6, 6, PROGRESS, 9)
    world.driver.answers.append(6 * GiB)
    async with world.resizing():
        await world.state_is(6, 6, NODE_PENDING, 6, wait_s=0.5)
        await world.settle(100)
    assert [6] == world.asked


@each_row("is_pending", [True, False])
async def test_R17_a_claim_without_the_fields_of_recovery_waits_for_the_node(is_pending):
    world = await ResizerWorld().volume(1, "512Mi", conditions=[condition(names.FS_PENDING)] if is_pending else [])
    async with world.resizing():
        await world.settle(50)
    assert ([] if is_pending else [1]) == world.asked


async def test_R3_a_refusal_is_not_written_to_a_claim_that_asks_for_nothing_any_more():
    world = await ResizerWorld().volume(3, 1)
    gate = world.driver.gate(EXPAND)
    world.driver.script(EXPAND, Fail(Code.OUT_OF_RANGE))
    async with world.resizing():
        await world.called()
        await world.ask(2)
        await world.set_status({"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": None, "conditions": None})
        gate.set()
        await world.event("VolumeResizeFailed")
        await world.settle(5)
        assert ("2Gi", "3Gi", None, "1Gi") == await world.state()
        assert {} == await world.conditions()
    assert [3] == world.asked


# -- crashes


async def test_R9_a_size_that_was_begun_is_finished_first():
    world = await ResizerWorld(ResizingDriver(node_step=False)).volume(5, 3, 10, PROGRESS, 3)
    async with world.resizing():
        await world.state_is(10, 10, None, 10)
    assert [10] == world.asked


async def test_a_crash_during_the_call_is_taken_up_with_the_same_size():
    world = await ResizerWorld().volume(10, 3, pv=3)
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        await world.settle()
    await world.ask(5)
    gate.set()
    async with world.resizing():
        await world.state_is(3, 10, NODE_PENDING, 10)
    assert [10, 10] == world.asked


class UnansweredWrite(ServerFaults):
    """The n-th write takes effect, and its answer never comes."""

    def __init__(self, number: int) -> None:
        self._left = number

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        self._left -= verb == "patch"
        if verb == "patch" and self._left == 0:
            await asyncio.get_running_loop().create_future()


@each_row("node_step", [True, False])
@each_row("number", [1, 2, 3])
async def test_a_crash_at_each_write_loses_nothing(number, node_step):
    world = await ResizerWorld(ResizingDriver(node_step=node_step), UnansweredWrite(number)).volume(10, 3, pv=3)
    async with world.resizing():
        await world.settle(0.5)
    if number == 1:
        await world.ask(5)
    async with world.resizing():
        await world.state_is(*((3, 10, NODE_PENDING, 10) if node_step else (10, 10, None, 10)))
        await world.settle(50)
    assert {10} == set(world.asked)
    assert {"handle-pv": 10 * GiB} == world.driver.sizes


async def test_a_lost_answer_of_the_driver_is_asked_for_again():
    world = await ResizerWorld().volume(10, 3, pv=3)
    world.driver.script(EXPAND, Lose())
    async with world.resizing():
        await world.state_is(3, 10, NODE_PENDING, 10)
    assert [10, 10] == world.asked


async def test_a_restart_with_everything_done_writes_nothing():
    world = await ResizerWorld(ResizingDriver(node_step=False)).volume(2, 1)
    async with world.resizing():
        await world.state_is(2, 2, None, 2)
        await world.settle()
    world.story.clear()
    async with world.resizing():
        await world.settle(700)
    assert [] == world.story


class LateAnswers(ServerFaults):
    """The answer to each write of a claim comes a second late."""

    def __init__(self, world: list[ResizerWorld]) -> None:
        self._world = world

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "patch" and kind is CLAIMS:
            await self._world[0].clock.sleep(1.0)


async def test_a_wish_that_only_the_answer_to_our_write_shows_counts():
    """The watch is late, and then brings nothing new."""
    world = await ResizerWorld(faults=LateWatch("persistentvolumeclaims"), retry_interval_start_s=200).volume(
        10, 3, pv=3
    )
    world.driver.script(EXPAND, Fail(Code.INTERNAL))
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        await world.settle(3)
        await world.ask(5)
        gate.set()
        await world.state_is(3, 5, NODE_PENDING, 5, wait_s=5)
    assert [10, 5] == world.asked


async def test_a_wish_that_comes_before_the_answer_to_the_last_write_counts():
    worlds: list[ResizerWorld] = []
    world = await ResizerWorld(ResizingDriver(node_step=False), LateAnswers(worlds)).volume(2, 1)
    worlds.append(world)
    async with world.resizing():
        await world.state_is(2, 2, None, 2)
        await world.ask(3)
        await world.state_is(3, 3, None, 3, wait_s=10)


async def test_the_memory_ends_with_the_claim():
    world = await a_failure(Code.INTERNAL)
    async with world.resizing() as resizer:
        await world.event("VolumeResizeFailed")
        await world.tear_away(CLAIMS, "claim")
        await world.settle(700)
        expansion, *_ = resizer._parts
        assert 0 == len(expansion._view.memory)


async def test_that_a_write_was_not_answered_is_forgotten_with_the_claim():
    world = await ResizerWorld().volume(2, 1)
    gate = world.driver.gate(EXPAND)
    async with world.resizing() as resizer:
        await world.called()
        world.cluster.refuse(MARK, times=1, error=Unreachable("reset"), after=True)
        gate.set()
        await world.settle(0.2)
        expansion, *_ = resizer._parts
        unsure = expansion._reconciler._claims._unanswered
        assert 1 == len(unsure)
        await world.tear_away(CLAIMS, "claim")
        await world.settle(5)
        assert 0 == len(unsure)
