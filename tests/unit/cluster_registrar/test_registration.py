"""The CSIDriver object of one driver, on the embedded server in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.storage import CSI_DRIVERS, CSIDriver, CSIDriverSpec
from mooring.kube.errors import Conflict, Forbidden, ServerError
from mooring.sidecars.cluster_registrar.registration import LOOK_S, ClusterRegistration, differences
from tests.support.builders import a_csi_driver
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
NAME = "csi.test"


def a_registration(world: ClusterWorld, *, attaches: bool = True, pod_info: bool = True) -> ClusterRegistration:
    return ClusterRegistration(
        world.cluster, NAME, attach_required=attaches, pod_info_on_mount=pod_info, clock=world.clock
    )


@asynccontextmanager
async def running(world: ClusterWorld, registration: ClusterRegistration) -> AsyncIterator[None]:
    async with world.running(registration.run()):
        await world.settle(2.0)
        yield


@each_row(("attaches", "pod_info"), [(True, True), (True, False), (False, True), (False, False)])
async def test_CDR1_the_object_is_made_as_v1(attaches: bool, pod_info: bool) -> None:
    world = ClusterWorld()
    async with running(world, a_registration(world, attaches=attaches, pod_info=pod_info)):
        made = await world.get(CSI_DRIVERS, NAME)
    (request,) = world.cluster.writes("create csidrivers")
    assert ("storage.k8s.io/v1", "CSIDriver") == (request.body["apiVersion"], request.body["kind"])
    assert (attaches, pod_info) == (made["spec"]["attachRequired"], made["spec"]["podInfoOnMount"])


async def test_CDR1_an_object_that_is_there_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    world = ClusterWorld()
    before = await world.create(a_csi_driver(NAME, labels={"by": "hand"}, attachRequired=True, podInfoOnMount=True))
    async with running(world, a_registration(world)):
        await asyncio.sleep(3 * LOOK_S)
    assert before == await world.get(CSI_DRIVERS, NAME)
    assert "differs" not in capsys.readouterr().err


async def test_CDR1_one_that_differs_is_named_once_and_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    world = ClusterWorld()
    before = await world.create(a_csi_driver(NAME, attachRequired=False, podInfoOnMount=True))
    async with running(world, a_registration(world)):
        await asyncio.sleep(3 * LOOK_S)
    assert before == await world.get(CSI_DRIVERS, NAME)
    assert 1 == capsys.readouterr().err.count("attachRequired is false, not true")
    assert {"create csidrivers", "get csidrivers"} == set(world.story)


async def test_CDR1_without_the_right_to_read_it_is_said_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The manifests of old give create and delete alone."""
    world = ClusterWorld()
    await world.create(a_csi_driver(NAME))
    world.cluster.refuse("get csidrivers", times=None, error=Forbidden("no get"))
    async with running(world, a_registration(world)):
        await asyncio.sleep(3 * LOOK_S)
    assert 1 == capsys.readouterr().err.count("no get")


async def test_CDR1_it_is_made_again_within_two_minutes() -> None:
    world = ClusterWorld()
    async with running(world, a_registration(world)):
        await world.delete(CSI_DRIVERS, NAME)
        await asyncio.sleep(LOOK_S - 3.0)
        assert await world.find(CSI_DRIVERS, NAME) is None
        await asyncio.sleep(2.0)
        assert await world.find(CSI_DRIVERS, NAME) is not None


async def test_CDR1_a_conflict_is_sent_again_soon() -> None:
    world = ClusterWorld()
    world.cluster.refuse("create csidrivers", times=3, error=Conflict("moved"))
    async with running(world, a_registration(world)):
        assert await world.find(CSI_DRIVERS, NAME) is not None


@each_row(
    "error",
    [Forbidden("no create"), ServerError("starting"), Conflict("always")],
    ids=lambda error: type(error).__name__,
)
async def test_CDR1_a_refusal_is_logged_and_asked_again(capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    world = ClusterWorld()
    rule = world.cluster.refuse("create csidrivers", times=None, error=error)  # type: ignore[arg-type]
    async with running(world, a_registration(world)):
        assert "Failed to create CSIDriver object" in capsys.readouterr().err
        rule.times = 0
        await asyncio.sleep(LOOK_S)
        assert await world.find(CSI_DRIVERS, NAME) is not None


async def test_CDR1_the_object_is_removed_on_demand_and_may_be_gone() -> None:
    world = ClusterWorld()
    registration = a_registration(world)
    async with running(world, registration):
        pass
    await registration.remove()
    await registration.remove()
    assert await world.find(CSI_DRIVERS, NAME) is None


@each_row(
    ("present", "wanted", "expected"),
    [
        ((True, True), (True, True), []),
        ((None, None), (True, False), []),
        ((None, None), (False, True), ["attachRequired is true, not false", "podInfoOnMount is false, not true"]),
        ((False, False), (True, False), ["attachRequired is false, not true"]),
    ],
)
def test_CDR1_what_is_not_set_counts_as_the_servers_default(
    present: tuple[bool | None, bool | None], wanted: tuple[bool, bool], expected: list[str]
) -> None:
    driver = CSIDriver(
        metadata=ObjectMeta(name=NAME), spec=CSIDriverSpec(attach_required=present[0], pod_info_on_mount=present[1])
    )
    assert expected == differences(driver, {"attachRequired": wanted[0], "podInfoOnMount": wanted[1]})
