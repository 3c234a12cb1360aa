"""Scenes on real mounts, played in a mount namespace of their own: python -m tests.unit.node.scenes FOLDER NAMES

Each is a function of a world whose root folder lies on a small tmpfs; it asserts what must hold.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from mooring.api.pods import PODS
from mooring.mounts import loops
from mooring.node.layout import KubeletLayout
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.private_mounts import assert_no_loops_over
from tests.support.scenes import play
from tests.support.virtual_loop import run_virtual
from tests.unit.node.real_mounts import DeviceDriver, RealMounts, mount, umount
from tests.unit.node.volume_world import VolumesWorld

Scene = Callable[[VolumesWorld], Coroutine[Any, Any, None]]
SIZE = 512 * 1024
RUNNING = "Running"


def fill(world: VolumesWorld) -> Path:
    """Leaves no byte free. The file that does it."""
    path = world.layout.root / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return path


async def runs(world: VolumesWorld, pod: dict[str, Any]) -> None:
    await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == RUNNING)


async def goes(world: VolumesWorld, *pods: dict[str, Any]) -> None:
    """Nothing is left of the pods, on the disk or in the mount table."""
    for pod in pods:
        await world.delete_pod(pod)
    for pod in pods:
        await world.gone(PODS, pod["metadata"]["name"])
    await world.settle()
    assert ([], [], []) == (world.left(), world.mounts.points, await world.in_use())


async def data_is_kept_from_pod_to_pod(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteMany",))
        first, second = await world.running_pod(volume), await world.running_pod(volume)
        (world.target(first, "vol") / "file").write_text("kept")
        assert "kept" == (world.target(second, "vol") / "file").read_text()
        assert 3 == len(world.mounts.points)
        await world.delete_pod(first)
        await world.gone(PODS, first["metadata"]["name"])
        assert "kept" == (world.target(second, "vol") / "file").read_text()
        await goes(world, second)


async def a_restart_finds_what_is_mounted(world: VolumesWorld) -> None:
    async with world.agent():
        stays, leaves = (
            await world.running_pod(await world.volume()),
            await world.running_pod(await world.volume("other")),
        )
        (world.target(stays, "vol") / "file").write_text("kept")
    await world.users.delete(PODS, leaves["metadata"]["name"], "default", grace_period_s=0)
    before = [point for point in world.mounts.points if "/vol/" in point]
    async with world.agent():
        await world.until_called(UNSTAGE)
        await world.settle(5.0)
        assert before == [point for point in world.mounts.points if "/vol/" in point]
        assert 2 == len(world.mounts.points)
        assert "kept" == (world.target(stays, "vol") / "file").read_text()
        await goes(world, stays)


async def nothing_below_a_mount_is_removed(world: VolumesWorld) -> None:
    """Somebody has mounted something below the target: the volume is not taken, and no file there is touched."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        target = world.target(pod, "vol")
        (target / "deeper").mkdir()
        mount("-t", "tmpfs", "none", target / "deeper")
        (target / "deeper" / "file").write_text("precious")
        world.driver.lies = True
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH, 2)
        assert "precious" == (target / "deeper" / "file").read_text()
        assert world.record(target.parent) is not None
        umount(target / "deeper")
        world.driver.lies = False
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)


async def a_foreign_bind_mount_keeps_what_is_staged(world: VolumesWorld) -> None:
    foreign = world.layout.root.parent / "foreign"
    foreign.mkdir()
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        mount("--bind", world.staging(volume), foreign)
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH)
        await world.settle(10.0)
        assert UNSTAGE not in world.driver.calls_for_volumes()
        umount(foreign)
        await world.until_called(UNSTAGE)


async def parts_that_a_kubelet_has_bound_go_first(world: VolumesWorld) -> None:
    """A folder and a file of the volume, as it binds them for containers."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        target, parts = world.target(pod, "vol"), world.layout.sub_paths(pod["metadata"]["uid"], "vol")
        (target / "folder").mkdir()
        (target / "file").write_text("kept")
        (parts / "c" / "0").mkdir(parents=True)
        (parts / "c" / "1").touch()
        mount("--bind", target / "folder", parts / "c" / "0")
        mount("--bind", target / "file", parts / "c" / "1")
    async with world.agent():
        await world.until_called(PUBLISH, 2)
        assert 4 == len(world.mounts.points)
        await goes(world, pod)
        assert not parts.exists()


async def a_part_that_is_in_use_keeps_the_volume(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        parts = world.layout.sub_paths(pod["metadata"]["uid"], "vol") / "c" / "0"
        parts.mkdir(parents=True)
        mount("--bind", world.target(pod, "vol"), parts)
        with (parts / "open").open("w"):
            await world.delete_pod(pod)
            await world.settle(10.0)
            assert UNPUBLISH not in world.driver.calls_for_volumes()
        await goes_at_last(world, pod)


async def goes_at_last(world: VolumesWorld, pod: dict[str, Any]) -> None:
    await world.gone(PODS, pod["metadata"]["name"])
    await world.until_called(UNSTAGE)
    await world.settle()
    assert ([], []) == (world.left(), world.mounts.points)


async def a_full_disk_is_told_and_waited_for(world: VolumesWorld) -> None:
    async with world.agent():
        present = await world.running_pod(await world.volume())
        record = world.record(world.target(present, "vol").parent)
        filler = fill(world)
        other = await world.volume("other")
        waiting = await world.pod(other)
        await world.until_told(waiting, "No space left on device")
        assert {"handle-vol"} == {call.request.volume_id for call in world.driver.made(STAGE, PUBLISH)}, (
            "nothing without its record"
        )
        assert record == world.record(world.target(present, "vol").parent)
        assert not list(world.layout.root.rglob(".vol_data.json.tmp"))
        await world.delete_pod(present)
        await world.gone(PODS, present["metadata"]["name"])
        fill(world)
        filler.unlink()
        await runs(world, waiting)
        await goes(world, waiting)


async def a_read_only_folder_is_told_and_waited_for(world: VolumesWorld) -> None:
    root = world.layout.root
    async with world.agent():
        present = await world.running_pod(await world.volume())
        mount("-o", "remount,ro", root)
        waiting = await world.pod(await world.volume("other"))
        await world.until_told(waiting, "Read-only file system")
        assert {"handle-vol"} == {call.request.volume_id for call in world.driver.made(STAGE, PUBLISH)}
        assert RUNNING == (await world.get(PODS, present["metadata"]["name"]))["status"]["phase"]
        mount("-o", "remount,rw", root)
        await runs(world, waiting)
        await goes(world, present, waiting)


async def a_pod_s_end_on_a_read_only_folder_is_finished_later(world: VolumesWorld) -> None:
    root = world.layout.root
    world.driver.leaves_target = True
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        mount("-o", "remount,ro", root)
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH, 2)
        assert world.record(world.target(pod, "vol").parent) is not None
        assert [volume.unique] == await world.in_use()
        mount("-o", "remount,rw", root)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


async def a_start_on_a_read_only_folder_goes_on(world: VolumesWorld) -> None:
    """With folders on it that are to be removed."""
    root = world.layout.root
    (world.layout.csi / "d1" / "aa" / "globalmount").mkdir(parents=True)
    world.layout.target("uid-old", "x").mkdir(parents=True)
    mount("-o", "remount,ro", root)
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "Read-only file system")
        mount("-o", "remount,rw", root)
        await runs(world, pod)


async def a_raw_device_comes_and_goes(world: VolumesWorld) -> None:
    image = world.layout.root.parent / "image"
    image.touch()
    os.truncate(image, 1 << 20)
    world.driver = DeviceDriver(world.mounts, image)
    try:
        async with world.agent():
            pod = await world.running_pod(await world.volume(mode="Block"), devices=True)
            uid = pod["metadata"]["uid"]
            link, mapped = world.layout.block_link(uid, "vol"), world.layout.block_map("vol") / uid
            with link.open("r+b", buffering=0) as device:
                device.write(b"x" * 512)
                os.fsync(device.fileno())
            assert b"x" * 512 == image.read_bytes()[:512]
            assert mapped.is_block_device()
            assert 1 == len(loops.devices(mapped))
            await goes(world, pod)
            assert_no_loops_over(mapped)
    finally:
        loops.release(image)


async def links_in_a_volume_lead_nowhere(world: VolumesWorld) -> None:
    """The group is set on the links themselves, never on what they lead to."""
    outside = world.layout.root.parent / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("x")
    before = [path.stat() for path in (outside / "file", outside / "folder")]
    async with world.agent():
        volume = await world.volume(
            modes=("ReadWriteMany",), fsType="ext4", pv={"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}
        )
        first = await world.running_pod(volume)
        (world.target(first, "vol") / "file").symlink_to(outside / "file")
        (world.target(first, "vol") / "folder").symlink_to(outside / "folder")
        (world.target(first, "vol") / "up").symlink_to("../../../../../../outside")
        await world.running_pod(volume, securityContext={"fsGroup": 3000})
        assert 3000 == world.target(first, "vol").stat().st_gid
    after = [path.stat() for path in (outside / "file", outside / "folder")]
    assert [(one.st_gid, one.st_mode) for one in before] == [(one.st_gid, one.st_mode) for one in after]


async def a_root_behind_a_link(world: VolumesWorld) -> None:
    """Drivers are told the paths that the agent was given; what is mounted there is found all the same, over a restart
    as well.
    """
    link, image = world.layout.root.parent / "link", world.layout.root.parent / "image"
    link.symlink_to(world.layout.root)
    world.layout = KubeletLayout(link)
    image.touch()
    os.truncate(image, 1 << 20)
    world.driver = DeviceDriver(world.mounts, image)
    try:
        async with world.agent():
            volume = await world.volume()
            pod, other = (
                await world.running_pod(volume),
                await world.running_pod(await world.volume("b", mode="Block"), devices=True),
            )
            assert str(world.staging(volume)).startswith(f"{link}/")
            assert str(world.staging(volume)) == world.request(STAGE, 0).staging_target_path
            world.driver.lies = True
            await world.delete_pod(pod)
            await world.until_called(UNPUBLISH, 2)
            assert world.record(world.target(pod, "vol").parent) is not None, "it is mounted still"
            world.driver.lies = False
            await world.gone(PODS, pod["metadata"]["name"])
        async with world.agent():
            mapped = world.layout.block_map("b") / other["metadata"]["uid"]
            await world.until_called(PUBLISH, 3)
            await world.settle()
            assert 1 == len(loops.devices(mapped.resolve()))
            await goes(world, other)
            assert_no_loops_over(mapped.parent.resolve() / mapped.name)
    finally:
        loops.release(image)


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        data_is_kept_from_pod_to_pod,
        a_restart_finds_what_is_mounted,
        nothing_below_a_mount_is_removed,
        a_foreign_bind_mount_keeps_what_is_staged,
        parts_that_a_kubelet_has_bound_go_first,
        a_part_that_is_in_use_keeps_the_volume,
        a_full_disk_is_told_and_waited_for,
        a_read_only_folder_is_told_and_waited_for,
        a_pod_s_end_on_a_read_only_folder_is_finished_later,
        a_start_on_a_read_only_folder_goes_on,
        a_raw_device_comes_and_goes,
        links_in_a_volume_lead_nowhere,
        a_root_behind_a_link,
    )
}


def on_a_small_disk(scene: Scene, folder: Path) -> None:
    root = folder / "root"
    root.mkdir()
    mount("-t", "tmpfs", "-o", f"size={SIZE}", "none", root)
    run_virtual(scene(VolumesWorld(folder, RealMounts(root))))  # type: ignore[arg-type]


if __name__ == "__main__":
    scenes = {name: functools.partial(on_a_small_disk, scene) for name, scene in SCENES.items()}
    play(scenes, Path(sys.argv[1]), sys.argv[2:])
