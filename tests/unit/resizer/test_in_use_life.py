"""Volumes that their driver does not grow while a pod uses them: lines of docs/behaviours/resizer.md."""

from __future__ import annotations

from typing import Any

from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.apiserver.local import ServerFaults
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Forbidden
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_pod, an_ephemeral_volume
from tests.support.cluster_world import without
from tests.support.resizing import EXPAND, MARK, NODE_PENDING, PROGRESS, ResizerWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.staying_visible import stays_visible
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
ONLINE = csi.PluginCapability.VolumeExpansion.ONLINE
OFFLINE = (
    "Unable to expand default/claim because CSI driver csi.test only supports offline expansion and volume is "
    "currently in-use"
)


async def in_use(*pods: Any, **options: Any) -> ResizerWorld:
    """The driver refuses once, and would not again."""
    world = await ResizerWorld(**options).volume(2, 1)
    await world.create(*(pods or (a_pod("user", "claim", node="n", phase="Running"),)))
    world.driver.script(EXPAND, Fail(Code.FAILED_PRECONDITION))
    return world


async def test_R21_the_driver_is_not_asked_again_while_a_pod_uses_the_claim():
    world = await in_use()
    async with world.resizing():
        assert ("Warning", OFFLINE) == await world.event("VolumeResizeFailed", "offline")
        await world.settle(1000)
        assert [2] == world.asked
        assert ("1Gi", "2Gi", PROGRESS, "1Gi") == await world.state()
        await world.users.delete(PODS, "user", "default", grace_period_s=0)
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)
    assert 1 == [message for _, _, message in await world.told()].count(OFFLINE)


@each_row("phase", ["Succeeded", "Failed"])
async def test_R21_a_pod_that_ends_uses_nothing(phase):
    world = await in_use()
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
        await world.patch(PODS, "user", {"status": {"phase": phase}}, subresource="status")
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)


async def test_R21_the_pods_end_wakes_the_claim_in_its_first_back_off_too():
    world = await in_use(retry_interval_start_s=20, retry_interval_max_s=60)
    async with world.resizing():
        await world.event("VolumeResizeFailed")
        await world.settle(1)
        await world.users.delete(PODS, "user", "default", grace_period_s=0)
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)


async def test_R21_without_a_pod_a_refusal_waits_for_its_back_off():
    """What uses the volume then is not known to the API server."""
    world = await in_use(a_pod("user", "another"), retry_interval_start_s=20, retry_interval_max_s=60)
    world.driver.script(EXPAND, Fail(Code.FAILED_PRECONDITION))
    async with world.resizing():
        await world.settle(15)
        assert [2] == world.asked
        await world.settle(10)
        assert [2, 2] == world.asked
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=60)


async def test_R21_each_of_two_pods_counts():
    world = await in_use(a_pod("one", "claim"), a_pod("two", "claim"))
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
        await world.users.delete(PODS, "one", "default", grace_period_s=0)
        await world.settle(100)
        assert [2] == world.asked
        await world.users.delete(PODS, "two", "default", grace_period_s=0)
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)


@each_row("pod", [a_pod("user", "another"), a_pod("user", "claim", phase="Succeeded")], ids=["another-claim", "ended"])
async def test_R21_other_pods_do_not_count(pod):
    world = await in_use(pod)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=5)


async def test_R21_a_claim_of_an_ephemeral_volume_is_used_by_its_pod():
    """Differs from external-resizer, which does not count it."""
    world = await ResizerWorld().volume(2, 1, name="user-scratch")
    await world.create(a_pod("user", volumes=[an_ephemeral_volume()]))
    world.driver.script(EXPAND, Fail(Code.FAILED_PRECONDITION))
    async with world.resizing():
        await world.settle(1000)
        assert [2] == world.asked


async def test_R21_another_size_is_not_said_to_be_under_way_before_the_driver_is_called():
    world = await in_use()
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
        await world.ask(3)
        await world.settle(100)
        assert [2] == world.asked
        assert ("1Gi", "3Gi", PROGRESS, "1Gi") == await world.state()
        assert 1 == [reason for _, reason, _ in await world.told()].count("Resizing")


async def test_R21_a_restart_knows_that_the_volume_must_not_be_in_use():
    world = await in_use()
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
    async with world.resizing():
        await world.settle(1000)
        assert [2] == world.asked
        await world.users.delete(PODS, "user", "default", grace_period_s=0)
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)


async def test_R21_a_driver_that_grows_volumes_in_use_is_called_once_after_a_restart():
    """Another release of it may have refused: one that grows volumes offline alone."""
    world = await in_use()
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
    world.driver.expansion = (ONLINE,)
    world.driver.script(EXPAND, Fail(Code.FAILED_PRECONDITION))
    async with world.resizing() as resizer:
        await world.settle(1000)
        assert [2, 2] == world.asked
        resizer.driver_returned()
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)
    assert [2, 2, 2] == world.asked


async def test_R21_a_driver_that_grows_volumes_offline_is_not_called_after_its_own_restart_either():
    world = await in_use()
    async with world.resizing() as resizer:
        await world.event("VolumeResizeFailed", "offline")
        resizer.driver_returned()
        await world.settle(1000)
        assert [2] == world.asked


async def test_R21_another_size_waits_for_the_pod_too():
    world = await in_use()
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
        await world.ask(3)
        await world.settle(100)
        assert [2] == world.asked
        await world.users.delete(PODS, "user", "default", grace_period_s=0)
        await world.state_is(1, 3, NODE_PENDING, 3, wait_s=0.5)


@each_row("is_restarted", [False, True])
async def test_R21_the_claim_says_at_once_which_size_it_is_to_get_when_the_pod_lets_go(is_restarted):
    world = await ResizerWorld().volume(10, 3, pv=3)
    await world.create(a_pod("user", "claim", node="n", phase="Running"))
    world.driver.script(EXPAND, Fail(Code.FAILED_PRECONDITION))
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
        await world.ask(5)
        await world.state_is(3, 5, PROGRESS, 3, wait_s=0.5)
        await world.settle(100)
        assert ([MARK, MARK, MARK], [10]) == (without(world.story, EXPAND), world.asked)
        if not is_restarted:
            await _let_go(world)
    if is_restarted:
        async with world.resizing():
            await world.settle(100)
            await _let_go(world)


async def _let_go(world: ResizerWorld) -> None:
    assert [10] == world.asked
    await world.users.delete(PODS, "user", "default", grace_period_s=0)
    await world.state_is(3, 5, NODE_PENDING, 5, wait_s=0.5)
    assert ([10, 5], {names.RESIZING, names.FS_PENDING}) == (world.asked, set(await world.conditions()))


async def test_R22_without_the_flag_the_driver_is_asked_again_and_no_pod_is_watched():
    world = await in_use(handle_volume_inuse_error=False)
    async with world.resizing() as resizer:
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=5)
        assert resizer._pods.wanted_at is None
    assert [2, 2] == world.asked


async def test_pods_are_not_watched_before_a_driver_minds_them():
    world = await ResizerWorld().volume(2, 1)
    world.driver.script(EXPAND, Fail(Code.INTERNAL))
    async with world.resizing() as resizer:
        await world.state_is(1, 2, NODE_PENDING, 2)
        assert (None, False) == (resizer._pods.wanted_at, resizer._pods.informer.has_synced)


class NoRightToPods(ServerFaults):
    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if kind.plural == "pods":
            raise Forbidden("pods is forbidden", reason="Forbidden")


async def test_without_the_right_to_pods_the_driver_is_asked_again():
    world = await in_use(faults=NoRightToPods())
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=60)
    assert names.CONTROLLER_ERROR not in await world.conditions()
    assert [2, 2] == world.asked


async def test_27c2_a_growth_that_pods_keep_from_being_made_stays_visible():
    """The driver is not asked again meanwhile: only time passes."""
    world = await in_use(resync_s=0.0)
    async with world.resizing():
        await world.event("VolumeResizeFailed", "offline")
        await stays_visible(world, "claim", OFFLINE)
        assert [2] == world.asked


@each_row("code", [Code.INTERNAL, Code.OUT_OF_RANGE])
async def test_27c2_a_growth_that_the_driver_refuses_stays_visible(code):
    world = await ResizerWorld(resync_s=0.0).volume(2, 1)
    world.driver.always(EXPAND, Fail(code))
    async with world.resizing():
        await world.event("VolumeResizeFailed")
        await stays_visible(world, "claim", "resize volume")
