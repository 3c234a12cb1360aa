"""Records that can't be read, or are gone, after a restart: what may be mounted stays in use, and nothing is unstaged
under a mount.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from mooring.api.pods import PODS
from mooring.apiserver.local import LocalCluster
from mooring.kube.errors import ServerError
from mooring.node.volumes.state import folders
from tests.support.builders import a_csi_driver
from tests.support.cluster_world import HeldWatch
from tests.support.fake_mounts import FakeTools
from tests.support.node_driver import NODE_RPC, PUBLISH, UNPUBLISH, UNSTAGE
from tests.support.node_habits import NodeHabits
from tests.support.recording import RecordingCluster
from tests.support.rows import each_row
from tests.support.scripted_driver import Wait
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_block_life import tools
from tests.unit.node.test_injected_life import inline
from tests.unit.node.volume_world import Bound, VolumesWorld, world

TORN, EMPTY = '{"volumeHandle":', ""
FOREIGN = '{"driverName":"d1","specVolID":"other","volumeHandle":"handle-other"}'
GONE = None


@dataclasses.dataclass(frozen=True)
class Row:
    """record: which one can't be read: of the `pod`, of what is `staged`, or of the `device`. stages: the driver
    does.
    """

    record: str
    stages: bool = True
    is_block: bool = False
    is_inline: bool = False


ROWS = {
    "file-system": Row("pod"),
    "file-system-staged": Row("staged"),
    "file-system-of-a-driver-that-does-not-stage": Row("pod", stages=False),
    "device": Row("device", is_block=True),
    "device-of-a-driver-that-does-not-stage": Row("device", stages=False, is_block=True),
    "inline": Row("pod", stages=False, is_inline=True),
}
rows = each_row("row", ROWS.values(), ids=ROWS, fresh=[world, tools], parts=2)
texts = each_row("text", [TORN, EMPTY, FOREIGN, GONE], ids=["torn", "empty", "foreign", "gone"])


@dataclasses.dataclass(frozen=True)
class Scene:
    """volume: None for an inline one. record: the file that is spoilt."""

    world: VolumesWorld
    pod: dict[str, Any]
    volume: Bound | None
    record: Path
    text: str

    async def goes_on(self, seconds: int) -> None:
        """What is mounted is in use at each moment, and nothing is unstaged under a mount in the pod."""
        for _ in range(seconds):
            await self.world.settle(1.0)
            if self.volume is not None and self.world.mounts.points:
                assert [self.volume.unique] == await self.world.in_use()
            if UNSTAGE in self.world.driver.calls_for_volumes():
                assert not self.in_pod()

    def in_pod(self) -> list[str]:
        """What is mounted for the pod."""
        return [point for point in self.world.mounts.points if self.pod["metadata"]["uid"] in point]

    def mend(self) -> None:
        self.record.parent.mkdir(parents=True, exist_ok=True)
        self.record.write_text(self.text)

    async def is_taken_back(self) -> None:
        async def is_gone() -> bool:
            return ([], []) == (self.world.mounts.points, await self.world.in_use())

        await self.world.until(is_gone, what="nothing is left", wait_s=1300.0)
        await self.world.settle(5.0)
        assert [] == self.world.left()


async def spoilt(world: VolumesWorld, row: Row, text: str | None) -> Scene:
    """A pod that runs with its volume, on a node whose agent is away, and a record that can't be read."""
    world.driver.habits = NodeHabits(mounts_apart=True)
    world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME,) if row.stages else ()
    volume = None
    async with world.agent():
        if row.is_inline:
            await world.create(a_csi_driver("d1", volumeLifecycleModes=["Ephemeral"]))
            pod, name = await world.running_pod(**inline()), "scratch"
        else:
            volume, name = await world.volume(mode="Block" if row.is_block else "Filesystem"), "vol"
            pod = await world.running_pod(volume, devices=row.is_block)
    folder = world.target(pod, name).parent
    if row.record == "staged":
        assert volume is not None
        folder = world.staging(volume).parent
    elif row.record == "device":
        folder = world.layout.block_record_folder(name)
    record = folder / folders.RECORD
    before = record.read_text()
    if text is None:
        record.unlink()
    else:
        record.write_text(text)
    world.driver.calls.clear()
    return Scene(world, pod, volume, record, before)


@pytest.mark.slow
@rows
@texts
@in_virtual_time
async def test_what_a_pod_that_is_gone_has_left_stays_in_use_until_it_is_taken_back(
    world: VolumesWorld, tools: FakeTools, row: Row, text: str | None
) -> None:
    """Whoever forgets it lets it be detached under its mount. Once the record is put right it is taken back, without a
    restart.
    """
    scene = await spoilt(world, row, text)
    await world.users.delete(PODS, scene.pod["metadata"]["name"], "default", grace_period_s=0)
    async with world.agent():
        await scene.goes_on(700)
        assert (row.record == "staged") == (UNPUBLISH in world.driver.calls_for_volumes())
        is_known = row.record == "staged" and text in (FOREIGN, GONE)  # by the Node's own list, and by the mount
        assert is_known == (not world.mounts.points)
        if not is_known:
            scene.mend()
        await scene.goes_on(650)
        await scene.is_taken_back()


@pytest.mark.slow
@rows
@texts
@in_virtual_time
async def test_what_a_pod_has_that_can_t_be_looked_at_stays_as_it_is(
    world: VolumesWorld, tools: FakeTools, row: Row, text: str | None
) -> None:
    """The API server does not give the pod's claim at first; then the pod has its volume as before, and gives it back
    at its end.
    """
    scene = await spoilt(world, row, text)
    refused, error = "get persistentvolumeclaims", ServerError("starting")
    rule = world.cluster.refuse(refused, times=None, error=error, perhaps=row.is_inline)
    async with world.agent(is_registered=False):
        await world.register()
        await scene.goes_on(60)
        if not row.is_inline:
            assert [] == world.driver.calls_for_volumes()
        rule.times = 0
        await world.until_called(PUBLISH)
        assert ([], 1) == (world.driver.made(UNPUBLISH, UNSTAGE), len(world.driver.made(PUBLISH)))
        await world.delete_pod(scene.pod)
        await scene.is_taken_back()


@each_row("row", [ROWS["file-system"], ROWS["device"]], ids=["file-system", "device"], fresh=[world, tools])
@in_virtual_time
async def test_a_pod_that_ends_before_it_has_its_volume_again_gives_it_back(
    world: VolumesWorld, tools: FakeTools, row: Row
) -> None:
    """Its claim tells what the record does not; the driver comes late."""
    scene = await spoilt(world, row, TORN)
    async with world.agent(is_registered=False):
        await world.settle(5.0)
        await world.delete_pod(scene.pod)
        await scene.goes_on(5)
        await world.register()
        await scene.is_taken_back()
        assert [UNPUBLISH, UNSTAGE] == world.driver.calls_for_volumes()


@in_virtual_time
async def test_a_pod_s_folder_that_can_t_be_listed_keeps_what_is_mounted_in_it(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await spoilt(world, ROWS["file-system-of-a-driver-that-does-not-stage"], GONE)
    scene.mend()
    await world.users.delete(PODS, scene.pod["metadata"]["name"], "default", grace_period_s=0)
    with monkeypatch.context() as patched:
        _can_t_be_listed(world.layout.pod_volumes(scene.pod["metadata"]["uid"]), patched)
        async with world.agent():
            await scene.goes_on(60)
            assert [] == world.driver.calls_for_volumes()
            patched.undo()
            await scene.is_taken_back()


@in_virtual_time
async def test_a_pod_s_folder_that_can_t_be_listed_may_have_what_the_pod_wants(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 6095 of the node: the call of a killed agent mounts late, and the pod is deleted before."""
    world.driver.able = ()
    async with world.agent():
        volume = await world.volume()
        world.driver.script(PUBLISH, Wait(600.0))
        pod = await world.pod(volume)
        await world.until_called(PUBLISH)
    with monkeypatch.context() as patched:
        _can_t_be_listed(world.layout.pod_volumes(pod["metadata"]["uid"]), patched)
        async with world.agent(is_registered=False):
            await world.settle(5.0)
            await world.delete_pod(pod)
            await world.settle(5.0)
            world.mounts.mount(world.target(pod, "vol"))
            assert [volume.unique] == await world.in_use()
            await world.register()
            await world.gone(PODS, pod["metadata"]["name"])
            assert [PUBLISH, UNPUBLISH] == world.driver.calls_for_volumes()
            await world.settle(5.0)
            assert ([], []) == (world.mounts.points, await world.in_use())


@in_virtual_time
async def test_a_pod_s_folder_that_can_t_be_listed_may_have_what_was_in_use_once_the_pod_has_gone(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 13294 of the node: the pod was deleted already when the agent began. What is found elsewhere is let go all
    the same.
    """
    world.driver.able = ()
    async with world.agent():
        volume, other = await world.volume(), await world.volume("other")
        gone = await world.running_pod(other)
        world.driver.script(PUBLISH, Wait(600.0))
        pod = await world.pod(volume)
        await world.until_calls(PUBLISH, PUBLISH)
    for one in (pod, gone):
        await world.users.delete(PODS, one["metadata"]["name"], "default", grace_period_s=0)
    with monkeypatch.context() as patched:
        _can_t_be_listed(world.layout.pod_volumes(pod["metadata"]["uid"]), patched)
        async with world.agent():
            await world.settle(60.0)
            assert [volume.unique] == await world.in_use()
            world.mounts.mount(world.target(pod, "vol"))
            patched.undo()
            await world.until(lambda: _is_free(world), what="no volume in use", wait_s=700.0)
            assert [] == world.mounts.points


def _can_t_be_listed(folder: Path, patched: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def fails(place: Any = ".") -> Any:
        if str(place) == str(folder):
            raise OSError(5, "Input/output error", str(place))
        return scandir(place)

    patched.setattr(os, "scandir", fails)


@in_virtual_time
async def test_a_record_that_can_t_be_read_holds_back_no_volume_of_another_name(world: VolumesWorld) -> None:
    async with world.agent():
        volume, other = await world.volume(), await world.volume("other")
        pod, gone = await world.running_pod(volume), await world.running_pod(other)
    (world.target(pod, "vol").parent / folders.RECORD).write_text(TORN)
    for one in (pod, gone):
        await world.users.delete(PODS, one["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    async with world.agent():
        await world.until_called(UNSTAGE)
        await world.settle(5.0)
        assert {"handle-other"} == {call.request.volume_id for call in world.driver.made(UNPUBLISH, UNSTAGE)}
        assert [volume.unique] == await world.in_use()


@in_virtual_time
async def test_of_two_records_in_one_pod_s_folder_the_one_that_is_put_right_is_believed(world: VolumesWorld) -> None:
    async with world.agent():
        volume, other = await world.volume(), await world.volume("other")
        pod = await world.running_pod(volume, other)
    files = [world.target(pod, name).parent / folders.RECORD for name in ("vol", "other")]
    text = files[1].read_text()
    for file in files:
        file.write_text(TORN)
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    async with world.agent():
        await world.settle(10.0)
        files[1].write_text(text)
        await world.until_called(UNSTAGE)
        await world.settle(10.0)
        assert {"handle-other"} == {call.request.volume_id for call in world.driver.made(UNPUBLISH, UNSTAGE)}
        assert [volume.unique] == await world.in_use()


@each_row("text", [TORN, GONE], ids=["torn", "gone"], fresh=[world, tools])
@in_virtual_time
async def test_a_device_that_is_staged_for_no_pod_stays_in_use(
    world: VolumesWorld, tools: FakeTools, text: str | None
) -> None:
    """Its staging folder is made after its record, and goes before: a record that is missing then was lost."""
    scene = await spoilt(world, ROWS["device"], text)
    assert scene.volume is not None
    await world.users.delete(PODS, scene.pod["metadata"]["name"], "default", grace_period_s=0)
    _is_unmapped(scene)
    async with world.agent():
        await world.settle(30.0)
        assert [scene.volume.unique] == await world.in_use()
        scene.mend()
        await world.until_called(UNSTAGE)
        await scene.is_taken_back()


def _is_unmapped(scene: Scene) -> None:
    """The device is taken from the pod."""
    uid, layout, mounts = scene.pod["metadata"]["uid"], scene.world.layout, scene.world.mounts
    mounts.unbind_file(str(layout.block_map("vol") / uid))
    for path in (layout.block_map("vol") / uid, layout.block_publish("vol", uid), layout.block_link(uid, "vol")):
        path.unlink()


@in_virtual_time
async def test_a_record_that_can_t_be_read_and_is_removed_with_its_mount_frees_the_volume(
    world: VolumesWorld, tools: FakeTools
) -> None:
    """As the log advises."""
    scene = await spoilt(world, ROWS["device-of-a-driver-that-does-not-stage"], TORN)
    await world.users.delete(PODS, scene.pod["metadata"]["name"], "default", grace_period_s=0)
    async with world.agent():
        await scene.goes_on(30)
        _is_unmapped(scene)
        scene.record.unlink()
        await world.until(lambda: _is_free(world), what="no volume in use", wait_s=700.0)


async def _is_free(world: VolumesWorld) -> bool:
    return [] == await world.in_use()


@in_virtual_time
async def test_the_folder_of_a_pod_whose_record_is_put_right_after_the_pod_was_removed_goes_with_its_volume(
    world: VolumesWorld,
) -> None:
    """And the watch is late: the agent's cache still has the pod that it has removed itself."""
    held = HeldWatch("pods")
    world.cluster = RecordingCluster(
        LocalCluster(world.store, clock=world.clock, randomness=world.randomness, faults=held), world.story
    )
    async with world.agent():
        pod = await world.running_pod(await world.volume())
    record = world.target(pod, "vol").parent / folders.RECORD
    text = record.read_text()
    record.write_text(TORN)
    await world.delete_pod(pod)
    async with world.agent():
        held.hold()
        await world.gone(PODS, pod["metadata"]["name"])
        record.write_text(text)
        await world.until_called(UNSTAGE)
        held.let_go()
        await world.settle(60.0)
        assert [] == world.left()
