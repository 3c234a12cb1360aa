"""Scenes that are played in a mount namespace of their own: python -m tests.unit.mounts.scenes FOLDER NAMES

Each is a function of a folder; it asserts what must hold, and cleans up its loop devices.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.node.mount_mode import AUTO, MOUNT, MountMode
from mooring.driver.hostpath.node.mounting import Links, RealMounts
from mooring.driver.hostpath.options import HostpathOptions
from mooring.mounts import filesystems, loops, system, targets, trees
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.system import ToolFailed
from mooring.mounts.targets import Occupied, mount_table
from mooring.mounts.trees import remove_tree
from tests.support.pages import blocks
from tests.support.private_mounts import assert_no_loops_over
from tests.support.scenes import play

MIB = 1 << 20


def options_at(path: Path) -> list[str]:
    mount = mount_table().at(str(path))
    return [] if mount is None else mount.options.split(",")


def a_folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    (parent / name / "file").write_text(name)
    return parent / name


@contextmanager
def an_image(folder: Path, size: int = 16 * MIB) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    image = folder / "image"
    image.touch()
    os.truncate(image, size)
    try:
        yield image
    finally:
        loops.release(image)
        assert_no_loops_over(image)


def a_folder_is_bound_once(folder: Path) -> None:
    source, target = a_folder(folder, "source"), folder / "target"
    for _ in range(3):
        targets.bind(source, target)
    assert "source" == (target / "file").read_text()
    assert 1 == len(mount_table().below(str(target)))
    assert targets.holds(source, target)
    assert not targets.holds(target, source)


def a_target_is_withdrawn_with_all_that_is_mounted_on_it(folder: Path) -> None:
    source, target = a_folder(folder, "source"), folder / "target"
    targets.bind(source, target)
    system.bind(source, target)
    for _ in range(2):
        targets.withdraw(target)
        assert not target.exists()
    assert () == mount_table().below(str(target))
    assert "source" == (source / "file").read_text()


def a_clear_path_stays(folder: Path) -> None:
    source, target = a_folder(folder, "source"), folder / "target"
    targets.bind(source, target)
    targets.clear(target)
    assert [] == list(target.iterdir())


def what_else_is_mounted_is_left_alone(folder: Path) -> None:
    source, other, target = a_folder(folder, "source"), a_folder(folder, "other"), folder / "target"
    targets.bind(other, target)
    with pytest.raises(Occupied, match="something else is mounted on"):
        targets.bind(source, target)
    assert "other" == (target / "file").read_text()


def a_mount_that_was_interrupted_becomes_read_only(folder: Path) -> None:
    """Mounting has two steps: who is killed between them has left what can be written to."""
    source, target = a_folder(folder, "source"), folder / "target"
    targets.bind(source, target, ("noexec",))
    targets.bind(source, target, ("nosuid",), readonly=True)
    assert {"ro", "nosuid", "noexec"} <= set(options_at(target))


def read_only_is_read_only(folder: Path) -> None:
    source, target = a_folder(folder, "source"), folder / "target"
    for _ in range(2):
        targets.bind(source, target, ("noatime", "data=ordered"), readonly=True)
    assert {"ro", "noatime"} <= set(options_at(target))
    with pytest.raises(OSError, match="Read-only"):
        (target / "new").touch()
    with pytest.raises(Occupied, match="readonly=False is asked for"):
        targets.bind(source, target)
    (source / "new").touch()


def below_a_read_only_mount_all_is_read_only(folder: Path) -> None:
    """The kernel gives a bind mount the flags of the mount that it is made from: no conflict of the second call with
    the first.
    """
    source, staging, target = a_folder(folder, "source"), folder / "staging", folder / "target"
    targets.bind(source, staging, readonly=True)
    for _ in range(2):
        targets.bind(staging, target)
    assert "ro" in options_at(target)


def a_bind_mount_has_the_restrictions_of_its_source(folder: Path) -> None:
    """mount(8) takes them away where it is asked for others: the source could be written to, and run programs."""
    source, staging = a_folder(folder, "source"), folder / "staging"
    for number, (of_source, flags, lasting) in enumerate(
        (
            (("nosuid", "nodev", "noexec"), ("ro",), {"nosuid", "nodev", "noexec", "ro"}),
            (("ro",), ("noexec",), {"ro", "noexec"}),
            (("nodev", "noatime"), ("relatime",), {"nodev", "noatime"}),
            ((), ("ro", "rw", "exec", "noexec"), {"rw", "noexec"}),
        )
    ):
        targets.bind(source, staging, of_source)
        for _ in range(2):
            targets.bind(staging, folder / f"{number}", flags)
            assert lasting <= set(options_at(folder / f"{number}"))
        targets.clear(staging)


def a_link_above_the_target_is_followed(folder: Path) -> None:
    source = a_folder(folder, "source")
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    target = targets.plain(folder / "link" / "target")
    assert folder / "real" / "target" == target
    for _ in range(2):
        targets.bind(source, target)
    targets.withdraw(target)
    assert [] == list((folder / "real").iterdir())


def a_device_is_bound_on_a_file(folder: Path) -> None:
    target = folder / "target"
    with an_image(folder) as image:
        device = loops.device(image)
        assert device == loops.device(image)
        assert image == loops.backing_of(device.name)
        for _ in range(2):
            targets.bind(device, target)
        assert target.is_block_device()
        with target.open("wb", buffering=0) as opened:
            opened.write(b"x" * 4096)
        loops.flush(image)
        assert b"x" * 4096 == image.read_bytes()[:4096]
        targets.withdraw(target)
        assert not target.exists()


def a_device_that_would_go_with_its_last_user_is_kept(folder: Path) -> None:
    """Somebody looked at it when it was given back, and it is asked for again before he has closed it."""
    with an_image(folder) as image:
        for ask in (loops.device, loops.any_device):
            device = loops.device(image)
            with device.open("rb"):
                loops.release(image)
                ask(image)
            assert (device,) == loops.devices(image)
        loops.release(image)
        assert_no_loops_over(image)
        assert not loops._keep(device, image)
        with an_image(folder / "other") as other:
            another = loops.device(other)
            with another.open("rb"):
                loops.release(other)
                assert not loops._keep(another, image), "as a device that has another file by now"


def a_device_that_was_kept_for_nothing_goes(folder: Path) -> None:
    """What it was kept for fails: nobody would give it back."""
    with an_image(folder) as image:
        device = loops.device(image)
        with device.open("rb"):
            loops.release(image)
            with pytest.raises(ToolFailed, match="mkfs"), loops.attached(image):
                raise ToolFailed("mkfs")
        assert_no_loops_over(image)


def a_device_by_a_link_is_that_device(folder: Path) -> None:
    """As LVM, multipath and /dev/disk name it."""
    staging, target = folder / "staging", folder / "target"
    with an_image(folder) as image:
        link = folder / "lv"
        link.symlink_to(loops.device(image))
        for _ in range(2):
            filesystems.mount(link, staging, "ext4")
            targets.bind(link, target)
        assert targets.holds(link, target)
        targets.withdraw(target)
        os.truncate(image, 32 * MIB)
        loops.grow(image)
        if may_use_resources():
            filesystems.grow(link)
        else:
            with pytest.raises(ToolFailed, match="CAP_SYS_RESOURCE"):
                filesystems.grow(link)
        targets.withdraw(staging)


def a_device_over_a_deleted_file_is_not_its_successors(folder: Path) -> None:
    with an_image(folder) as image:
        old = loops.device(image)
        image.unlink()
        assert (old,) == loops.devices(image), "nothing else has the name, and it is to be given back"
        image.write_bytes(b"new".ljust(MIB))
        assert () == loops.devices(image)
        new = loops.device(image)
        assert (new,) == loops.devices(image)
        with new.open("rb") as opened:
            assert b"new" == opened.read(3)
        loops.release(image)
        assert_no_loops_over(image)
        image.unlink()
        assert (old,) == loops.devices(image), "not the successor's any more"
        loops.release(image)


def two_files_of_one_inode_have_a_device_each(folder: Path) -> None:
    """As the files on which one device is mounted for two pods."""
    with an_image(folder) as image:
        other = folder / "other"
        os.link(image, other)
        for file in (image, other):
            loops.any_device(file)
            loops.any_device(file)
        (one,), (another,) = loops.devices(image), loops.devices(other)
        assert one != another
        loops.release(other)
        assert_no_loops_over(other)
        assert (one,) == loops.devices(image)


def a_device_over_a_mounted_file_is_found_when_that_mount_is_gone(folder: Path) -> None:
    """A run that was killed has left it, and with it went its mount namespace."""
    with an_image(folder) as image:
        shown = folder / "shown"
        shown.touch()
        system.bind(image, shown)
        loops.any_device(shown)
        (device,) = loops.devices(shown)
        system.run("umount", "--lazy", str(shown))
        assert (device,) == loops.devices(image)
        loops.release(image)
        assert_no_loops_over(image)


def a_device_over_a_file_in_another_folder_is_told_by_its_inode(folder: Path) -> None:
    """A mount namespace may have other folders above it."""
    with an_image(folder) as image:
        device = loops.device(image)
        seen = folder / "seen"
        seen.mkdir()
        system.bind(folder, seen)
        (folder / "link").symlink_to(image)
        assert (device,) == loops.devices(seen / image.name) == loops.devices(folder / "link")
        targets.clear(seen)


def a_file_system_is_mounted_once_also_by_way_of_a_link(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "led").symlink_to("elsewhere")
    with an_image(folder) as image:
        for _ in range(2):
            filesystems.mount(loops.device(image), folder / "led" / "staging", "ext4")
        targets.withdraw(folder / "led" / "staging")
        assert [] == os.listdir(folder / "elsewhere")


def readers_neither_format_nor_repair(folder: Path) -> None:
    """By the option, the flag, or the device."""
    staging = folder / "staging"
    with an_image(folder) as image:
        device = loops.device(image)
        reading = loops.device(image, readonly=True)
        asked: tuple[tuple[Path, dict[str, Any]], ...] = (
            (device, {"readonly": True}),
            (device, {"flags": ("ro",)}),
            (reading, {}),
        )
        for one, how in asked:
            with pytest.raises(ToolFailed, match="none is made"):
                filesystems.mount(one, staging, "ext4", **how)
        filesystems.prepare(device)
        system.run("tune2fs", "-E", "force_fsck", str(device))
        loops.flush(image)
        before = image.read_bytes()
        for one, how in asked:
            filesystems.mount(one, staging, "ext4", ("noload", *how.pop("flags", ())), **how)
            assert "ro" in options_at(staging)
            targets.clear(staging)
        loops.flush(image)
        assert before == image.read_bytes()
        targets.withdraw(staging)


def readers_have_a_device_of_their_own(folder: Path) -> None:
    with an_image(folder) as image:
        writing, reading = loops.device(image), loops.device(image, readonly=True)
        assert writing != reading
        assert {writing, reading} == set(loops.devices(image))
        with pytest.raises(OSError), reading.open("wb", buffering=0) as opened:
            opened.write(b"x" * 4096)


def a_file_system_is_made_once(folder: Path) -> None:
    staging = folder / "staging"
    with an_image(folder) as image:
        device = loops.device(image)
        filesystems.mount(device, staging, "ext4", ("noatime",))
        (staging / "file").write_text("kept")
        assert "noatime" in options_at(staging)
        in_bytes, inodes = filesystems.usage(staging)
        assert in_bytes.total > in_bytes.available > 0 < inodes.total
        targets.clear(staging)
        for _ in range(2):
            filesystems.mount(device, staging)
        assert "kept" == (staging / "file").read_text()
        assert "ext4" == filesystems.type_on(device)
        targets.clear(staging)
        with pytest.raises(Occupied, match="nothing is formatted over it"):
            filesystems.mount(device, staging, "xfs")
        filesystems.mount(device, staging, readonly=True)
        assert "ro" in options_at(staging)
        targets.withdraw(staging)


def the_type_that_is_asked_for_is_mounted(folder: Path) -> None:
    """As by mount-utils: mount(8) decides, and what fails with another type on the device says so."""
    staging = folder / "staging"
    with an_image(folder) as image:
        device = loops.device(image)
        filesystems.prepare(device, "ext3")
        for wanted in ("ext4", "auto", ""):
            for flags in ((), ("ro",)):
                filesystems.mount(device, staging, wanted, flags)
                mount = mount_table().at(str(staging))
                assert mount is not None
                assert wanted == "auto" or mount.fs_type == "ext4"
                targets.clear(staging)
        with pytest.raises(Occupied, match="has the file system ext3, and strange is asked for"):
            filesystems.mount(device, staging, "strange")
        with pytest.raises(ToolFailed, match="bad option"):
            filesystems.mount(device, staging, "ext3", ("nonsense",))


def a_file_system_grows_with_its_device(folder: Path) -> None:
    staging = folder / "staging"
    with an_image(folder) as image:
        device = loops.device(image)
        filesystems.mount(device, staging)
        before = filesystems.usage(staging)[0].total
        targets.clear(staging)
        os.truncate(image, 32 * MIB)
        for _ in range(2):
            loops.grow(image)
            filesystems.grow(device)
        filesystems.mount(device, staging)
        assert filesystems.usage(staging)[0].total > before + 8 * MIB
        targets.withdraw(staging)


def a_mounted_file_system_grows_where_the_kernel_allows_it(folder: Path) -> None:
    """ext4 asks for CAP_SYS_RESOURCE, which a container's root may lack: then the tool's own words come through, and
    what lacks (B4).
    """
    staging = folder / "staging"
    with an_image(folder) as image:
        device = loops.device(image)
        filesystems.mount(device, staging)
        before = filesystems.usage(staging)[0].total
        os.truncate(image, 32 * MIB)
        loops.grow(image)
        try:
            if may_use_resources():
                filesystems.grow(device)
                assert filesystems.usage(staging)[0].total > before + 8 * MIB
            else:
                with pytest.raises(ToolFailed, match=r"(?s)Permission denied to resize filesystem.*CAP_SYS_RESOURCE"):
                    filesystems.grow(device)
        finally:
            targets.withdraw(staging)


def may_use_resources() -> bool:
    """True for a process with CAP_SYS_RESOURCE."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 24 & 1)


def another_device_is_not_mounted_over(folder: Path) -> None:
    staging, source = folder / "staging", a_folder(folder, "source")
    targets.bind(source, staging)
    with an_image(folder) as image, pytest.raises(Occupied, match="something else is mounted"):
        filesystems.mount(loops.device(image), staging)


def mounting_is_possible_here(folder: Path) -> None:
    assert "" == targets.mounting_refusal(folder)
    assert [] == list(folder.iterdir())
    trial = a_folder(folder, targets.TRIAL)
    system.bind(trial, trial)  # as a trial leaves it that was killed
    assert "" == targets.mounting_refusal(folder)
    assert (None, [trial]) == (mount_table().at(str(trial)), list(folder.iterdir()))
    (folder / "link").symlink_to(folder)
    assert "" == targets.mounting_refusal(folder / "link")
    assert mount_table().at(str(trial)) is None


@contextmanager
def a_small_disk(folder: Path) -> Iterator[Path]:
    """It has room for two folders."""
    disk = folder / "disk"
    disk.mkdir()
    system.run("mount", "-t", "tmpfs", "-o", "nr_inodes=3", "tmpfs", str(disk))
    try:
        yield disk
    finally:
        targets.clear(disk)


UNCLEAR = "whether this process may mount could not be found out: "


def a_full_disk_says_nothing_about_the_right_to_mount(folder: Path) -> None:
    with a_small_disk(folder) as disk:
        (disk / "one").mkdir()
        (disk / "two").mkdir()
        mount_mode = MountMode(disk)
        mount_mode.check(HostpathOptions())
        with pytest.raises(OSError, match=f"{UNCLEAR}No space left on device") as caught:
            mount_mode.mounts()
        assert errno.ENOSPC == caught.value.errno
        with pytest.raises(ConfigError, match=f"mounting is asked for, and .*{UNCLEAR}No space left on device"):
            MountMode(disk, MOUNT).check(HostpathOptions())
        (disk / "two").rmdir()
        assert isinstance(mount_mode.mounts(), RealMounts), "the next call tries again"


def on_a_disk_that_is_full_by_now_the_trial_has_its_folder(folder: Path) -> None:
    with a_small_disk(folder) as disk:
        for choice in (AUTO, MOUNT):
            MountMode(disk, choice).check(HostpathOptions())
        (disk / "last").mkdir()
        assert isinstance(MountMode(disk).mounts(), RealMounts)
        system.run("mount", "-o", "remount,ro", str(disk))
        assert isinstance(MountMode(disk).mounts(), RealMounts)
        assert {targets.TRIAL, "last"} == {path.name for path in disk.iterdir()}


def a_disk_that_is_read_only_says_nothing_about_the_right_to_mount(folder: Path) -> None:
    with a_small_disk(folder) as disk:
        system.run("mount", "-o", "remount,ro", str(disk))
        with pytest.raises(OSError, match=f"{UNCLEAR}Read-only file system"):
            MountMode(disk).mounts()


def too_many_open_files_say_nothing_about_the_right_to_mount(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    mount_mode = MountMode(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(OSError, match=f"{UNCLEAR}Too many open files"):
            mount_mode.mounts()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def a_tool_that_fails_says_nothing_about_the_right_to_mount(folder: Path) -> None:
    """The kernel would mount for this process."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("umount", "losetup", "sh"):
        (tools / name).symlink_to(shutil.which(name, path=system.tool_path()) or "")
    (tools / "mount").write_text("#!/bin/sh\necho cannot allocate memory >&2; exit 32\n")
    (tools / "mount").chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(tools))
        with pytest.raises(ToolFailed, match=f"{UNCLEAR}mount .*cannot allocate memory"):
            MountMode(folder).mounts()
        patched.setattr(os, "geteuid", lambda: 65534)  # as with the capability alone: mount(8) refuses all but root
        assert isinstance(MountMode(folder).mounts(), Links)
    assert [] == list(mount_table().below(str(folder)))


def root_without_the_capability_gets_links(folder: Path) -> None:
    code = (
        "import sys; from mooring.driver.hostpath.node.mount_mode import *; "
        "print(type(MountMode(Path(sys.argv[1])).mounts()).__name__)"
    )
    python = ("env", "LC_ALL=C.UTF-8", sys.executable, "-c", code)  # its own folder may have any letters in its name
    assert "Links\n" == system.run("setpriv", "--bounding-set=-sys_admin", *python, str(folder))


def other_users_get_links(_folder: Path) -> None:
    """In a folder that they can reach."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            os._exit(0 if isinstance(MountMode(Path(name)).mounts(), Links) else 1)
        assert (child, 0) == os.waitpid(child, 0)


def what_is_mounted_is_no_empty_folder(folder: Path) -> None:
    source, target = folder / "source", folder / "target"
    source.mkdir()
    targets.bind(source, target)
    targets.remove_empty(target)
    assert targets.holds(source, target)
    targets.clear(target)
    for _ in range(2):
        targets.remove_empty(target)
    assert not target.exists()


def a_tree_with_a_mount_in_it_stays_whole(folder: Path) -> None:
    tree, foreign = a_folder(folder, "tree"), a_folder(folder, "foreign")
    targets.bind(foreign, tree / "inner")
    with pytest.raises(OSError, match=f"something is mounted on '{tree}/inner'"):
        remove_tree(tree)
    assert ["file", "inner"] == sorted(path.name for path in tree.iterdir())
    assert "foreign" == (foreign / "file").read_text()
    targets.clear(tree / "inner")
    remove_tree(tree)
    assert not tree.exists()


def a_mount_that_comes_while_a_tree_is_removed_is_not_entered(folder: Path) -> None:
    tree, foreign = a_folder(folder, "tree"), a_folder(folder, "foreign")
    foreign.chmod(0o500)
    targets.bind(foreign, tree / "inner")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "mount_table", lambda: MountTable(()))
        with pytest.raises(OSError, match="something is mounted on 'inner'"):
            remove_tree(tree)
    assert ("foreign", 0o500) == ((foreign / "file").read_text(), foreign.stat().st_mode & 0o777)


def a_device_frees_itself_where_the_block_fails(folder: Path) -> None:
    """B2 of what hurt drivers' authors."""
    with an_image(folder) as image:
        with pytest.raises(ToolFailed, match=r"mkfs.nofs is not on this machine"):
            filesystems.mount_file(image, folder / "point", "nofs")
        assert_no_loops_over(image)  # no call would ever give it back
        with loops.attached(image) as device:
            filesystems.prepare(device)
        assert (device,) == loops.devices(image), "kept where the block ends well"
        with pytest.raises(ToolFailed), loops.attached(image):
            raise ToolFailed("no luck")
        assert (device,) == loops.devices(image), "it was there before: somebody else's"
        with pytest.raises(ToolFailed), loops.attached(image, readonly=True):
            raise ToolFailed("no luck")
        assert (device,) == loops.devices(image), "one for readers is another"


def a_file_is_mounted_with_all_its_room(folder: Path) -> None:
    """B2 of what hurt drivers' authors."""
    with an_image(folder) as image:
        point = folder / "point"
        for _ in range(2):
            filesystems.mount_file(image, point)
        small = filesystems.usage(point)[0].total
        targets.clear(point)
        loops.release(image)
        assert_no_loops_over(image)
        os.truncate(image, 64 * MIB)
        filesystems.grow_file(image)
        assert_no_loops_over(image)  # nothing is made for one that is not in use
        filesystems.mount_file(image, point)
        assert filesystems.usage(point)[0].total > 2 * small
        targets.clear(point)


def the_second_driver_of_the_page_leaves_no_device(folder: Path) -> None:
    """B2: docs/driver.md: a file system that can't be made is a call that fails, and nothing else."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(blocks("driver.md", "python")[1], "driver.md", "exec"), names)
    (folder / "images").mkdir()
    driver = names["Images"](folder / "images", "here")

    def capability(**access: Any) -> Any:
        return {"access_mode": {"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER}, **access}

    async def story() -> None:
        made = await driver.create_volume(csi.CreateVolumeRequest(name="a", volume_capabilities=[capability(mount={})]))
        image = folder / "images" / made.volume.volume_id
        fields: dict[str, Any] = {"volume_id": made.volume.volume_id}
        staging: dict[str, Any] = {"staging_target_path": str(folder / "staging")}
        with pytest.raises(DriverError, match=r"mkfs.nofs is not on this machine"):
            await driver.node_stage_volume(
                csi.NodeStageVolumeRequest(**fields, **staging, volume_capability=capability(mount={"fs_type": "nofs"}))
            )
        assert_no_loops_over(image)
        (folder / "foreign").mkdir()
        targets.bind(folder / "foreign", folder / "target")
        shown = csi.NodePublishVolumeRequest(
            **fields, **staging, target_path=str(folder / "target"), volume_capability=capability(block={})
        )
        with pytest.raises(DriverError, match="something else is mounted"):
            await driver.node_publish_volume(shown)
        assert_no_loops_over(image)
        targets.clear(folder / "target")

    asyncio.run(story())


SCENES: dict[str, Callable[[Path], None]] = {
    scene.__name__: scene
    for scene in (
        a_full_disk_says_nothing_about_the_right_to_mount,
        on_a_disk_that_is_full_by_now_the_trial_has_its_folder,
        a_disk_that_is_read_only_says_nothing_about_the_right_to_mount,
        too_many_open_files_say_nothing_about_the_right_to_mount,
        a_tool_that_fails_says_nothing_about_the_right_to_mount,
        root_without_the_capability_gets_links,
        other_users_get_links,
        a_folder_is_bound_once,
        a_target_is_withdrawn_with_all_that_is_mounted_on_it,
        a_clear_path_stays,
        what_else_is_mounted_is_left_alone,
        a_mount_that_was_interrupted_becomes_read_only,
        read_only_is_read_only,
        below_a_read_only_mount_all_is_read_only,
        a_bind_mount_has_the_restrictions_of_its_source,
        a_link_above_the_target_is_followed,
        a_device_is_bound_on_a_file,
        a_device_that_would_go_with_its_last_user_is_kept,
        a_device_that_was_kept_for_nothing_goes,
        a_device_by_a_link_is_that_device,
        a_device_over_a_deleted_file_is_not_its_successors,
        two_files_of_one_inode_have_a_device_each,
        a_device_over_a_mounted_file_is_found_when_that_mount_is_gone,
        a_device_over_a_file_in_another_folder_is_told_by_its_inode,
        a_file_system_is_mounted_once_also_by_way_of_a_link,
        readers_neither_format_nor_repair,
        readers_have_a_device_of_their_own,
        a_file_system_is_made_once,
        the_type_that_is_asked_for_is_mounted,
        a_file_system_grows_with_its_device,
        a_mounted_file_system_grows_where_the_kernel_allows_it,
        another_device_is_not_mounted_over,
        mounting_is_possible_here,
        what_is_mounted_is_no_empty_folder,
        a_tree_with_a_mount_in_it_stays_whole,
        a_mount_that_comes_while_a_tree_is_removed_is_not_entered,
        a_device_frees_itself_where_the_block_fails,
        a_file_is_mounted_with_all_its_room,
        the_second_driver_of_the_page_leaves_no_device,
    )
}

if __name__ == "__main__":
    play(SCENES, Path(sys.argv[1]), sys.argv[2:])
