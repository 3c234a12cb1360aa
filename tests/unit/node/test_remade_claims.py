"""A claim is deleted by force and made anew under its name, on another volume, while its pod lives: the pod keeps what
it has.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.wire.grpc.codes import Code
from tests.support.builders import Json, a_bound_claim, a_pv
from tests.support.fake_mounts import FakeTools
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_block_life import tools
from tests.unit.node.volume_world import Bound, VolumesWorld, world

OTHER_PV, SAME_PV = "pv-2", "vol"


async def made_anew(
    world: VolumesWorld, pv: str = OTHER_PV, handle: str = "another", mode: str = "Filesystem"
) -> Bound:
    """The claim `vol`, on a PersistentVolume of this name for this volume, which is attached."""
    await world.remove_now(PERSISTENT_VOLUME_CLAIMS, "vol")
    await world.remove_now(PERSISTENT_VOLUMES, "vol")
    claim = await world.create(a_bound_claim("vol", pv, sc=None, volumeMode=mode, uid=None))
    await world.create(a_pv(pv, source={"csi": {"driver": "d1", "volumeHandle": handle}}, claim=claim, volumeMode=mode))
    bound = Bound(pv, handle, "d1")
    if handle != "handle-vol":
        await world.attach(bound)
    return bound


async def changed(world: VolumesWorld, pod: Json) -> None:
    """So that the agent looks at it at once."""
    await world.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}})


def calls_of(world: VolumesWorld, handle: str) -> list[str]:
    return [call.method for call in world.driver.calls if getattr(call.request, "volume_id", "") == handle]


@each_row("is_restarted", [False, True], fresh=[world, tools])
@each_row("pv", [OTHER_PV, SAME_PV])
@each_row("mode", ["Filesystem", "Block"])
@in_virtual_time
async def test_a_pod_that_runs_keeps_its_volume_until_it_is_deleted(
    world: VolumesWorld, tools: FakeTools, mode: str, pv: str, is_restarted: bool
) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.agent())
        volume = await world.volume(mode=mode)
        pod = await world.running_pod(volume, devices=mode == "Block")
        if is_restarted:
            await stack.aclose()
        await made_anew(world, pv, mode=mode)
        if is_restarted:
            await stack.enter_async_context(world.agent())
        await changed(world, pod)
        text = await world.until_told(pod, "error processing PVC default/vol: it was made anew")
        assert all(f"{name!r} (PersistentVolume {of})" in text for name, of in (("another", pv), ("handle-vol", "vol")))
        await world.settle(100.0)
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()
        assert [volume.unique] == await world.in_use()
        assert "Running" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle(5.0)
        assert [STAGE, PUBLISH, UNPUBLISH, UNSTAGE] == calls_of(world, "handle-vol")
        assert ([], [], [], []) == (world.left(), world.mounts.points, tools.backing_files, await world.in_use())
        assert [] == calls_of(world, "another")
        await world.running_pod(Bound("vol", "another", "d1"), devices=mode == "Block")
        assert [STAGE, PUBLISH] == calls_of(world, "another"), "the pod's successor has the new one"


@in_virtual_time
async def test_after_a_restart_the_pod_s_other_volumes_are_published_again(world: VolumesWorld) -> None:
    """Also one of no claim; and a second claim that can't be found any more keeps its volume."""
    await world.no_attach(volumeLifecycleModes=["Persistent", "Ephemeral"])
    async with world.agent():
        volumes = [await world.volume(name, attached=False) for name in ("vol", "lost", "good")]
        sources: list[dict[str, Any]] = [
            {"name": one.name, "persistentVolumeClaim": {"claimName": one.name}} for one in volumes
        ]
        pod = await world.running_pod(volumes=[*sources, {"name": "inline", "csi": {"driver": "d1"}}])
    await made_anew(world)
    await world.remove_now(PERSISTENT_VOLUME_CLAIMS, "lost")
    world.driver.calls.clear()
    async with world.agent():
        await world.until_told(pod, "it was made anew")
        await world.until_told(pod, "failed to fetch PVC")
        await world.settle(100.0)
        assert [STAGE, PUBLISH, PUBLISH] == sorted(world.driver.calls_for_volumes(), reverse=True)
        assert ([STAGE, PUBLISH], []) == (calls_of(world, "handle-good"), calls_of(world, "another"))
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle(5.0)
        assert ([], []) == (world.left(), world.mounts.points)


@in_virtual_time
async def test_a_pod_that_waits_for_another_volume_keeps_what_it_was_given(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.pod(await world.volume(), await world.volume("late", attached=False))
        await world.until_called(PUBLISH)
        await made_anew(world)
        await changed(world, pod)
        await world.until_told(pod, "it was made anew")
        await world.settle(30.0)
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()


@in_virtual_time
async def test_a_pod_that_never_got_its_volume_gets_the_new_one(world: VolumesWorld) -> None:
    """As one whose PersistentVolume was wrong, and is put right."""
    world.driver.always(PUBLISH, Fail(Code.UNAVAILABLE, "no such export"))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "no such export")
        new = await made_anew(world)
        world.driver.forget_scripts()
        await changed(world, pod)
        await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")
        await world.settle(5.0)
        assert UNPUBLISH in calls_of(world, "handle-vol")
        assert ([STAGE, PUBLISH], [new.unique]) == (calls_of(world, "another"), await world.in_use())


@in_virtual_time
async def test_no_volume_is_published_where_another_may_still_be(world: VolumesWorld) -> None:
    """A PersistentVolume of the same name has the same folder in the pod."""
    world.driver.always(PUBLISH, Fail(Code.UNAVAILABLE, "no such export"))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "no such export")
        await made_anew(world, SAME_PV)
        await changed(world, pod)
        await world.until_told(pod, "it was made anew")
        await world.settle(30.0)
        assert [] == calls_of(world, "another")
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle(5.0)
        assert ([], []) == (world.left(), await world.in_use())


@each_row("is_restarted", [False, True], fresh=[world])
@in_virtual_time
async def test_the_same_volume_by_another_name_stays_in_its_folder(world: VolumesWorld, is_restarted: bool) -> None:
    """A claim that was lost is made anew on the volume that the pod has: nothing is wrong, and it is published again
    where it is.
    """
    await world.no_attach(requiresRepublish=True)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.agent())
        pod = await world.running_pod(await world.volume(attached=False))
        if is_restarted:
            await stack.aclose()
        await made_anew(world, handle="handle-vol")
        if is_restarted:
            await stack.enter_async_context(world.agent())
        await changed(world, pod)
        await world.until_called(PUBLISH, 2)
        await world.settle(100.0)
        assert {str(world.target(pod, "vol"))} == {call.request.target_path for call in world.driver.made(PUBLISH)}
        assert [] == [
            message for kind, _, message, _ in await world.events(pod["metadata"]["name"]) if kind == "Warning"
        ]
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle(5.0)
        assert ([], []) == (world.left(), world.mounts.points)
