"""An agent that was killed is started again on the same root folder: what is on the disk is found, and finished or
undone.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.kube.errors import ServerError
from mooring.node.volumes import leftovers
from mooring.node.volumes.state import folders, on_disk
from mooring.node.volumes.state.folders import remove_folder
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_node
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import Bound, VolumesWorld, world

REPORT = "patch nodes/status"


def reports(world: VolumesWorld) -> list[list[str]]:
    """What the Node was told to be in use, in order."""
    bodies = [request.body for request in world.cluster.writes(REPORT)]
    return [body["status"]["volumesInUse"] or [] for body in bodies if "volumesInUse" in body.get("status", {})]


@in_virtual_time
async def test_RST1_a_pod_that_is_still_there_gets_its_volume_again_and_is_never_unpublished(
    world: VolumesWorld,
) -> None:
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
    for _ in range(3):
        before = len(reports(world))
        world.driver.calls.clear()
        async with world.agent():
            await world.until_calls(STAGE, PUBLISH)
            await world.settle(60.0)
            assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()
            assert [[volume.unique]] * len(reports(world)[before:]) == reports(world)[before:]
    async with world.agent():
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], [], []) == (world.left(), world.mounts.points, await world.in_use())


def held_back(world: VolumesWorld, claim: str) -> asyncio.Event:
    """The API server answers for this claim once the event is set."""
    gate, read = asyncio.Event(), world.cluster.get

    async def late(kind: object, name: str, namespace: str = "") -> object:
        if name == claim:
            await gate.wait()
        return await read(kind, name, namespace)  # type: ignore[arg-type]

    world.cluster.get = late  # type: ignore[method-assign, assignment]
    return gate


@in_virtual_time
async def test_RST1_what_was_reported_and_never_mounted_stays_reported(world: VolumesWorld) -> None:
    """Killed between the report and the first call: the next report comes when the pods were looked at."""
    world.driver.always(STAGE, Wait(1000.0))
    async with world.agent(is_registered=False):
        volume = await world.volume()
        await world.pod(volume)
        await world.shown(NODES, "n", lambda node: node["status"].get("volumesInUse"))
    before = len(reports(world))
    gate = held_back(world, "vol")
    async with world.agent(is_registered=False):
        await world.settle(20.0)
        gate.set()
        await world.settle(20.0)
        assert [volume.unique] == await world.in_use()
    assert [] == reports(world)[before:]


@in_virtual_time
async def test_a_pod_that_can_t_be_resolved_keeps_no_other_pod_s_volume_in_use(world: VolumesWorld) -> None:
    """Neither one that is taken back after the restart, nor one that was reported and never mounted."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        await world.pod(Bound("no-such-claim", "x", "d1"))
        await world.settle(5.0)
    other = await world.volume("other")
    await world.patch(
        NODES, "n", {"status": {"volumesInUse": [*await world.in_use(), other.unique]}}, subresource="status"
    )
    async with world.agent():
        await world.settle(5.0)
        assert other.unique not in await world.in_use()
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        await world.settle(5.0)
        assert [] == await world.in_use()


@in_virtual_time
async def test_RST2_a_pod_that_went_meanwhile_is_taken_away(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    async with world.agent():
        assert [volume.unique] == await world.in_use()
        await world.until_calls(UNPUBLISH, UNSTAGE)
        await world.settle()
        assert ([], [], []) == (world.left(), world.mounts.points, await world.in_use())
        assert not world.layout.pod(pod["metadata"]["uid"]).exists()


@in_virtual_time
async def test_RST2_what_is_staged_is_reported_in_use_also_by_a_node_that_was_made_anew(world: VolumesWorld) -> None:
    """Somebody else has made it, and it lists nothing; the pod is gone, and the driver not there to take the volume
    back.
    """
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    await world.remove_now(NODES, "n")
    await world.create(a_node("n"))
    async with world.agent(is_registered=False):
        await world.settle(5.0)
        assert [volume.unique] == await world.in_use()
        await world.register()
        await world.until_called(UNSTAGE)
        await world.settle(5.0)
        assert [] == await world.in_use()


@in_virtual_time
async def test_RST2_a_pod_is_removed_only_once_what_is_staged_is_reported(world: VolumesWorld) -> None:
    """Seed 446 of the node. With neither the pod nor the report, a controller detaches what is staged."""
    world.driver.script(STAGE, *[Fail(Code.UNAVAILABLE)] * 20)
    async with world.agent():
        volume = await world.volume()
        pod = await world.pod(volume)
        await world.until_called(STAGE)
    name = pod["metadata"]["name"]
    await world.remove_now(NODES, "n")
    await world.create(a_node("n"))
    await world.users.delete(PODS, name, "default")
    world.cluster.refuse(REPORT, times=20, error=ServerError("busy"))
    async with world.agent(is_registered=False):
        await world.settle(10.0)
        assert [] == await world.in_use()
        assert await world.find(PODS, name) is not None
        await world.gone(PODS, name)
        assert [volume.unique] == await world.in_use()


@in_virtual_time
async def test_RST2_what_was_reported_stays_so_while_its_folder_without_a_record_can_t_be_removed(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 1014 of the node: somebody has removed the record, and the stage that a killed agent has sent is still to
    take effect.
    """
    world.driver.script(STAGE, *[Fail(Code.UNAVAILABLE)] * 20)
    async with world.agent():
        volume = await world.volume()
        pod = await world.pod(volume)
        await world.until_called(STAGE)
    folder = world.staging(volume).parent
    (folder / folders.RECORD).unlink()
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    protected = True

    def remove(path: Path) -> None:
        if protected and path.is_relative_to(folder):
            raise PermissionError(13, "Permission denied", str(path))
        remove_folder(path)

    for module in (on_disk, leftovers):
        monkeypatch.setattr(module, "remove_folder", remove)
    async with world.agent():
        await world.settle(100.0)
        assert [volume.unique] == await world.in_use()
        protected = False
        await world.settle(1300.0)
        assert ([], False) == (await world.in_use(), folder.exists())


@in_virtual_time
async def test_RST2_nothing_is_taken_away_before_the_node_was_read(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    gate = asyncio.Event()
    read = world.cluster.get

    async def late(kind: object, name: str, namespace: str = "") -> object:
        if kind is NODES:
            await gate.wait()
        return await read(kind, name, namespace)  # type: ignore[arg-type]

    world.cluster.get = late  # type: ignore[method-assign, assignment]
    async with world.agent():
        await world.settle(30.0)
        assert [] == world.driver.calls_for_volumes()
        gate.set()
        await world.until_calls(UNPUBLISH, UNSTAGE)


@in_virtual_time
async def test_RST2_it_waits_until_every_pod_of_the_node_is_known_and_no_longer(world: VolumesWorld) -> None:
    """Of a pod that was not looked at nobody knows whether it wants the volume."""
    async with world.agent():
        gone = await world.running_pod(await world.volume())
        other = await world.volume("other")
        await world.running_pod(other)
    await world.users.delete(PODS, gone["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    gate = held_back(world, "other")
    async with world.agent():
        await world.settle(30.0)
        assert [] == world.driver.calls_for_volumes()
        gate.set()
        await world.until_called(UNPUBLISH)
        await world.until_called(UNSTAGE)
        assert {str(world.target(gone, "vol"))} == {call.request.target_path for call in world.driver.made(UNPUBLISH)}


@in_virtual_time
async def test_RST2_a_claim_that_can_t_be_read_does_not_hold_up_the_others(world: VolumesWorld) -> None:
    async with world.agent():
        gone = await world.running_pod(await world.volume())
        await world.running_pod(await world.volume("other"))
    await world.users.delete(PODS, gone["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    world.cluster.refuse("get persistentvolumeclaims", times=None, error=ServerError("busy"))
    async with world.agent():
        await world.until_called(UNSTAGE)
        assert {str(world.target(gone, "vol"))} == {call.request.target_path for call in world.driver.made(UNPUBLISH)}


@each_row("method", [STAGE, PUBLISH, UNPUBLISH, UNSTAGE], fresh=[world])
@each_row("stays", [True, False], ids=["pod-stays", "pod-goes"])
@in_virtual_time
async def test_an_agent_killed_during_a_call_finishes_or_undoes_it(
    world: VolumesWorld, method: str, stays: bool
) -> None:
    gate = world.driver.gate(method)
    async with world.agent():
        volume = await world.volume()
        pod = await world.pod(volume)
        if method in (UNPUBLISH, UNSTAGE):
            await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")
            await world.delete_pod(pod)
        await world.until_called(method)
    gate.set()
    if method in (STAGE, PUBLISH) and not stays:
        await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    async with world.agent():
        if method in (STAGE, PUBLISH) and stays:
            await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")
            return
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], [], []) == (world.left(), world.mounts.points, await world.in_use())


@in_virtual_time
async def test_a_found_volume_whose_publish_fails_for_good_keeps_its_record(world: VolumesWorld) -> None:
    """What is known of it comes from the disk: an error of today says nothing about the mount of yesterday."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
    world.driver.always(STAGE, Fail(Code.INTERNAL))
    world.driver.calls.clear()
    async with world.agent():
        await world.until_called(STAGE, 2)
        assert world.record(world.target(pod, "vol").parent) is not None
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH)
        await world.until_called(UNSTAGE)
        await world.gone(PODS, pod["metadata"]["name"])
        assert ([], []) == (world.left(), world.mounts.points)


@in_virtual_time
async def test_RST4_folders_of_pods_that_are_no_more_are_removed_when_they_are_empty(world: VolumesWorld) -> None:
    empty = world.layout.target("uid-empty", "vol")
    full = world.layout.target("uid-full", "vol")
    empty.mkdir(parents=True)
    full.mkdir(parents=True)
    (full / "data").write_text("precious")
    async with world.agent():
        await world.settle(5.0)
    assert not world.layout.pod("uid-empty").exists()
    assert "precious" == (full / "data").read_text()


@in_virtual_time
async def test_RST4_what_was_kept_is_logged(world: VolumesWorld, caplog: pytest.LogCaptureFixture) -> None:
    full = world.layout.target("uid-full", "vol")
    full.mkdir(parents=True)
    (full / "data").write_text("precious")
    async with world.agent():
        await world.settle(5.0)
    assert "uid-full" in caplog.text


@in_virtual_time
async def test_RST4_an_orphan_is_not_touched_while_something_is_mounted_below_it(world: VolumesWorld) -> None:
    target = world.layout.target("uid-mounted", "vol")
    world.mounts.mount(target)
    (world.layout.pod_volumes("uid-mounted") / "empty").mkdir()
    async with world.agent():
        await world.settle(5.0)
    assert (target / "content").is_file()
    assert (world.layout.pod_volumes("uid-mounted") / "empty").is_dir()


@in_virtual_time
async def test_RST4_the_folder_of_a_pod_that_is_there_stays(world: VolumesWorld) -> None:
    made = await world.pod()
    folder = world.layout.pod_volumes(made["metadata"]["uid"])
    folder.mkdir(parents=True)
    async with world.agent():
        await world.settle(5.0)
    assert folder.is_dir()


@in_virtual_time
async def test_RST4_a_link_in_the_place_of_a_folder_leads_nowhere(world: VolumesWorld) -> None:
    outside = world.layout.root.parent / "outside"
    empty = outside / "kubernetes.io~csi" / "theirs" / "mount"
    empty.mkdir(parents=True)
    world.layout.pods.mkdir(parents=True)
    (world.layout.pods / "uid-a").symlink_to(outside)
    (world.layout.pods / "uid-b").mkdir()
    (world.layout.pods / "uid-b" / "volumes").symlink_to(outside)
    (world.layout.pods / "uid-c" / "volumes").mkdir(parents=True)
    (world.layout.pods / "uid-c" / "volumes" / "kubernetes.io~csi").symlink_to(outside / "kubernetes.io~csi")
    (outside / "volumes").symlink_to(outside)
    async with world.agent():
        await world.settle(5.0)
    assert empty.is_dir()
    assert ["uid-a", "uid-b", "uid-c"] == sorted(os.listdir(world.layout.pods))


@in_virtual_time
async def test_a_staged_volume_without_any_pods_record_is_found(world: VolumesWorld) -> None:
    """Killed after the last unpublish: the kubelet never unstages such a one."""
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        gate = world.driver.gate(UNSTAGE)
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
    gate.set()
    assert folders.read_record(world.staging(volume).parent) is not None
    world.driver.calls.clear()
    async with world.agent():
        await world.until_calls(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
async def test_a_claim_that_is_slow_to_read_delays_its_own_pod_alone(world: VolumesWorld) -> None:
    """That of a new pod: what other pods have left is taken away meanwhile, from their folders and from the node."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        slow = await world.volume("slow")
        gate = held_back(world, "slow")
        waiting = await world.pod(slow)
        await world.settle(1.0)
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        gate.set()
        await world.shown(PODS, waiting["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")


@in_virtual_time
async def test_the_first_pod_of_an_empty_node_delays_nobody_else(world: VolumesWorld) -> None:
    """Its claim is slow to read. It was not there when the agent began: nothing of it can be here."""
    async with world.agent():
        slow, volume = await world.volume("slow"), await world.volume()
        gate = held_back(world, "slow")
        await world.settle(1.0)
        await world.pod(slow)
        pod = await world.running_pod(volume)
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        gate.set()
