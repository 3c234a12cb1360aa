"""The host-path driver on a node that mounts: what is mounted where, after kills and reboots, and that nothing is left
behind.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import NodeCapability
from mooring.driver.hostpath import statefile
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.hostpath.state import State
from mooring.driver.hostpath.statefile import read_state
from mooring.mounts import filesystems, loops, system
from mooring.mounts.targets import mount_table
from mooring.wire.grpc.codes import Code
from tests.support.private_mounts import assert_no_loops_below, loops_below, mounted_below
from tests.support.rows import each_row
from tests.unit.driver.calls import (
    a_capability,
    a_deletion,
    a_publication,
    an_expansion,
    created,
    private_mounts,
    refused,
    snapshotted,
)
from tests.unit.driver.node_calls import MANY_NODES, MIB, OnNode, a_target, a_withdrawal, an_inline, mounting

pytestmark = pytest.mark.slow

SIZE = {"capacity_range": {"required_bytes": 32 * MIB}}
KINDS = each_row(
    ("block", "images"),
    [(False, False), (False, True), (True, False)],
    ids=["folder", "image", "block"],
    fresh=[private_mounts],
)


def data_of(driver: Any, on_node: OnNode) -> Path:
    path: Path = driver._folder.data(on_node.volume_id)
    return path


def nothing_left(folder: Path) -> None:
    assert [] == mounted_below(folder)
    assert_no_loops_below(folder)
    assert [] == [path for part in ("volumes", "snapshots", "mounts") for path in (folder / "state" / part).iterdir()]


@KINDS
async def test_nothing_is_left_of_a_volumes_life(private_mounts: Path, block: bool, images: bool) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts, block=block)
        await on_node.up(**SIZE)
        await on_node.stage()
        await on_node.publish()
        assert (not block, True) == (
            str(on_node.staging) in mounted_below(private_mounts),
            str(on_node.target) in mounted_below(private_mounts),
        )
        assert (block or images) is bool(loops_below(private_mounts))
        await on_node.down()
        assert not on_node.target.exists()
        assert on_node.staging.is_dir()
        nothing_left(private_mounts)


@KINDS
async def test_mounts_and_devices_that_a_reboot_took_are_made_again(
    private_mounts: Path, block: bool, images: bool
) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts, block=block)
        target = await on_node.up(**SIZE)
        mark(target, block=block)
        for point in reversed(mounted_below(private_mounts)):
            system.unmount(Path(point))
        loops.release(data_of(driver, on_node))
        assert_no_loops_below(private_mounts)
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node.driver = on_node.node = driver
        await on_node.publish()
        assert is_marked(target, block=block)
        await on_node.down()
        nothing_left(private_mounts)


def mark(target: Path, *, block: bool) -> None:
    if block:
        with target.open("r+b") as device:
            device.write(b"marked")
            device.flush()
            os.fsync(device.fileno())
    else:
        (target / "mark").write_text("marked")


def is_marked(target: Path, *, block: bool) -> bool:
    if block:
        with target.open("rb") as device:
            return device.read(6) == b"marked"
    return (target / "mark").read_text() == "marked"


@KINDS
async def test_a_mount_whose_record_is_lost_is_found_and_undone(
    private_mounts: Path, block: bool, images: bool
) -> None:
    """The state file is an old copy: it knows the volume, and nothing of what its node has."""
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts, block=block)
        await on_node.create(**SIZE)
        await on_node.attach()
        old = (private_mounts / "state" / "state.json").read_bytes()
        await on_node.stage()
        await on_node.publish()
    (private_mounts / "state" / "state.json").write_bytes(old)
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node.driver = on_node.node = driver
        await on_node.unpublish()
        assert not on_node.target.exists()
        await on_node.stage()
        await on_node.down()
        nothing_left(private_mounts)


@KINDS
async def test_a_staging_whose_record_is_lost_is_undone_too(private_mounts: Path, block: bool, images: bool) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts, block=block)
        await on_node.create(**SIZE)
        await on_node.attach()
        old = (private_mounts / "state" / "state.json").read_bytes()
        await on_node.stage()
    (private_mounts / "state" / "state.json").write_bytes(old)
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node.driver = on_node.node = driver
        await on_node.unstage()
        assert [] == mounted_below(private_mounts)
        if not block:
            assert_no_loops_below(private_mounts)
        await on_node.stage()
        await on_node.unstage()
        assert_no_loops_below(private_mounts)


@KINDS
async def test_what_is_mounted_of_a_deleted_volume_is_undone(private_mounts: Path, block: bool, images: bool) -> None:
    """Its node was given up: detached by force, the volume deleted. Then the node comes back."""
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts, block=block)
        await on_node.up(**SIZE)
        await on_node.detach()
        await driver.delete_volume(a_deletion(on_node.volume_id))
        assert (1 if block else 2) == len(mounted_below(private_mounts))
        await on_node.unpublish()
        if not block:  # which has nothing at its staging path
            await on_node.unstage()
        assert [] == mounted_below(private_mounts)
        assert_no_loops_below(private_mounts)


@KINDS
async def test_a_node_lets_a_deleted_volume_go_whose_mounts_a_reboot_took(
    private_mounts: Path, block: bool, images: bool
) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts, block=block)
        await on_node.up(**SIZE)
        for point in reversed(mounted_below(private_mounts)):
            system.unmount(Path(point))
        loops.release(data_of(driver, on_node))
        await on_node.detach()
        await driver.delete_volume(a_deletion(on_node.volume_id))
        for _ in range(2):
            await on_node.unpublish()
            await on_node.unstage()
        assert not on_node.target.exists()
        nothing_left(private_mounts)


async def test_a_volume_with_a_mount_in_it_is_not_deleted(private_mounts: Path) -> None:
    """Somebody else's files would go with it. The driver starts meanwhile, too."""
    (private_mounts / "foreign").mkdir()
    (private_mounts / "foreign" / "precious").touch()
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.create()
        inner = data_of(driver, on_node) / "inner"
        inner.mkdir()
        (inner.parent / "file").touch()
        system.bind(private_mounts / "foreign", inner)
        for _ in range(2):
            await refused(
                driver.delete_volume(a_deletion(on_node.volume_id)), Code.FAILED_PRECONDITION, f"mounted on '{inner}'"
            )
    with mounting(private_mounts) as driver:
        assert (True, True) == ((private_mounts / "foreign" / "precious").exists(), (inner.parent / "file").exists())
        system.unmount(inner)
        await driver.delete_volume(a_deletion(on_node.volume_id))
        nothing_left(private_mounts)


async def test_what_others_mounted_is_left_alone(private_mounts: Path) -> None:
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.create()
        await on_node.attach()
        await on_node.stage()
        (private_mounts / "foreign").mkdir()
        on_node.target.mkdir()
        system.bind(private_mounts / "foreign", on_node.target)
        await refused(on_node.publish(), Code.ALREADY_EXISTS, "something else is mounted")
        await on_node.unpublish()
        await driver.node_unpublish_volume(a_withdrawal("vol-1", on_node.target))
        assert str(on_node.target) in mounted_below(private_mounts)
        system.unmount(on_node.target)
        (on_node.target / "file").touch()
        await refused(on_node.publish(), Code.ALREADY_EXISTS, "is no empty folder")
        assert (on_node.target / "file").exists()
        await on_node.unstage()


@KINDS
async def test_a_failed_publish_leaves_nothing_at_the_target(
    private_mounts: Path, block: bool, images: bool, monkeypatch: Any
) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts, block=block)
        await on_node.create(**SIZE)
        await on_node.attach()
        await on_node.stage()
        run = system.run

        def refusing(*words: str, **options: Any) -> str:
            if words[-1] == str(on_node.target):
                raise system.ToolFailed("mount: No space left on device")
            return run(*words, **options)

        monkeypatch.setattr(system, "run", refusing)
        await refused(on_node.publish(), Code.RESOURCE_EXHAUSTED)
        monkeypatch.undo()
        assert not on_node.target.exists()
        assert () == driver._core.state.volumes[on_node.volume_id].uses[0].targets
        await on_node.publish()
        await on_node.down()
        nothing_left(private_mounts)


# A disk that is full


@pytest.fixture
def small_disk(private_mounts: Path) -> Path:
    """The state folder, on a disk of its own."""
    (private_mounts / "state").mkdir()
    system.run("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(private_mounts / "state"))
    return private_mounts / "state"


def fill(path: Path) -> None:
    """As a pod does that takes each byte as soon as it is free."""
    with path.open("ab", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        all(file.write(bytes(512)) for _ in itertools.count())


async def test_on_a_full_disk_volumes_are_unpublished_and_deleted(private_mounts: Path, small_disk: Path) -> None:
    """That makes room; nothing else does."""
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.up()
        others = [await created(driver, f"other-{number}") for number in range(10)]
        hog = small_disk / "hog"
        fill(hog)
        for volume_id in others:
            await driver.delete_volume(a_deletion(volume_id))
            fill(hog)
        for step in (on_node.unpublish, on_node.unstage, on_node.detach):
            await step()
            fill(hog)
        await driver.delete_volume(a_deletion(on_node.volume_id))
        assert State(publication_count=1) == read_state(small_disk)


async def test_what_needs_more_room_is_refused_on_a_full_disk_and_what_needs_less_is_not(
    private_mounts: Path, small_disk: Path
) -> None:
    with mounting(private_mounts) as driver:
        fill(small_disk / "hog")
        made: list[str] = []

        async def create_many() -> None:
            while True:
                made.append(
                    await created(driver, f"pvc-{len(made)}", parameters={"csi.storage.k8s.io/pvc/name": "x" * 1000})
                )

        await refused(create_many(), Code.RESOURCE_EXHAUSTED)
        for volume_id in made:
            await driver.delete_volume(a_deletion(volume_id))
    with mounting(private_mounts):
        assert State() == read_state(small_disk)


# File systems of their size


def may_grow_mounted() -> bool:
    """Whether the kernel lets this process grow a mounted ext4: some sandboxes' root lacks CAP_SYS_RESOURCE, which is
    bit 24.
    """
    (mask,) = (
        line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")
    )
    return bool(int(mask, 16) >> 24 & 1)


async def test_an_image_is_full_when_it_is_full_and_grows_while_it_is_used(private_mounts: Path) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        target = await on_node.up(**SIZE)
        with pytest.raises(OSError) as caught:
            (target / "large").write_bytes(bytes(40 * MIB))
        assert errno.ENOSPC == caught.value.errno
        await driver.controller_expand_volume(an_expansion(on_node.volume_id, 64 * MIB))
        growth = csi.NodeExpandVolumeRequest(
            volume_id=on_node.volume_id, volume_path=str(target), capacity_range={"required_bytes": 64 * MIB}
        )
        if may_grow_mounted():
            await driver.node_expand_volume(growth)
        else:
            await refused(
                driver.node_expand_volume(growth),
                Code.INTERNAL,
                "CAP_SYS_RESOURCE; this one grows when it is staged again",
            )
            await on_node.unpublish()
            await on_node.unstage()
            await on_node.stage()
            await on_node.publish()
            await driver.node_expand_volume(growth)
        (target / "large").write_bytes(bytes(40 * MIB))
        stats = await driver.node_get_volume_stats(
            csi.NodeGetVolumeStatsRequest(volume_id=on_node.volume_id, volume_path=str(target))
        )
        (in_bytes,) = (usage for usage in stats.usage if usage.unit == csi.VolumeUsage.BYTES)
        assert 40 * MIB < in_bytes.used < in_bytes.total < 64 * MIB
        await on_node.down()
        nothing_left(private_mounts)


async def test_a_block_device_grows_while_it_is_used(private_mounts: Path) -> None:
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts, block=True)
        target = await on_node.up(**SIZE)
        await driver.controller_expand_volume(an_expansion(on_node.volume_id, 64 * MIB))
        request = csi.NodeExpandVolumeRequest(
            volume_id=on_node.volume_id, volume_path=str(target), capacity_range={"required_bytes": 64 * MIB}
        )
        await driver.node_expand_volume(request)
        with target.open("rb") as device:
            assert 64 * MIB == device.seek(0, os.SEEK_END)
        await on_node.down()


async def test_flags_and_type_are_of_the_mount(private_mounts: Path) -> None:
    capability = csi.VolumeCapability(
        access_mode=a_capability().access_mode, mount={"fs_type": "ext2", "mount_flags": ["noexec", "noatime"]}
    )
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        on_node.capability = capability
        target = await on_node.up(**SIZE)
        mount = mount_table().at(str(target))
        assert mount is not None
        assert ("ext2", {"noexec", "noatime"}) == (mount.fs_type, {"noexec", "noatime"} & set(mount.options.split(",")))
        await on_node.unpublish()
        await on_node.unstage()
        other = csi.VolumeCapability(access_mode=a_capability().access_mode, mount={"fs_type": "xfs"})
        await refused(on_node.stage(volume_capability=other), Code.ALREADY_EXISTS, "nothing is formatted over it")
        assert () == driver._core.state.volumes[on_node.volume_id].uses, "what failed is not recorded"
        assert [] == mounted_below(private_mounts)
        assert_no_loops_below(private_mounts)


async def test_folders_take_the_flags_that_any_mount_can_have(private_mounts: Path) -> None:
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts)
        on_node.capability = csi.VolumeCapability(
            access_mode=a_capability().access_mode, mount={"mount_flags": ["noexec", "data=ordered"]}
        )
        target = await on_node.up()
        (target / "program").write_text("#!/bin/sh\n")
        (target / "program").chmod(0o755)
        with pytest.raises(PermissionError):
            await asyncio.create_subprocess_exec(target / "program")
        await on_node.down()


async def test_a_larger_volume_from_a_snapshot_has_a_larger_file_system(private_mounts: Path) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        target = await on_node.up(**SIZE)
        (target / "file").write_text("data")
        snapshot_id = await snapshotted(driver, on_node.volume_id)
        (target / "file").write_text("changed")
        restored = OnNode(driver, private_mounts, node=driver.node("node-2"), node_id="node-2")
        source = {"volume_content_source": {"snapshot": {"snapshot_id": snapshot_id}}}
        shown = await restored.up("restored", capacity_range={"required_bytes": 96 * MIB}, **source)
        assert "data" == (shown / "file").read_text()
        found = os.statvfs(shown)
        assert found.f_blocks * found.f_frsize > 80 * MIB
        await restored.down()
        await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot_id))
        await on_node.down()
        nothing_left(private_mounts)


async def test_a_file_system_that_a_killed_driver_left_frozen_goes_on(private_mounts: Path) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        target = await on_node.up(**SIZE)
        system.run("fsfreeze", "--freeze", str(on_node.staging))
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        async with asyncio.timeout(20):
            touch = await asyncio.create_subprocess_exec("touch", target / "file")
            assert 0 == await touch.wait()
        on_node.driver = on_node.node = driver
        await on_node.down()


class SlowCopies:
    """Copies of volumes that begin, and end when the test lets them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._real = statefile.copy_file
        self._begun, self._may_end = threading.Semaphore(0), threading.Semaphore(0)
        patch.setattr(statefile, "copy_file", self._copy)

    def _copy(self, *words: Any) -> None:
        self._begun.release()
        assert self._may_end.acquire(timeout=20)
        self._real(*words)

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._begun.acquire, timeout=20)

    def end_one(self) -> None:
        self._may_end.release()


async def test_copies_of_a_volume_at_once_are_each_of_one_moment(
    private_mounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the first one lets nobody write into the second."""
    copies = SlowCopies(monkeypatch)
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        target = await on_node.up(**SIZE)
        first = asyncio.ensure_future(snapshotted(driver, on_node.volume_id, "one"))
        await copies.begun()
        second = asyncio.ensure_future(snapshotted(driver, on_node.volume_id, "two"))
        await copies.begun()
        copies.end_one()
        await first
        touch = await asyncio.create_subprocess_exec("touch", target / "file")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(touch.wait(), 0.3)
        copies.end_one()
        snapshot_id = await second
        async with asyncio.timeout(20):
            assert 0 == await touch.wait()
        monkeypatch.undo()
        restored = OnNode(driver, private_mounts, node=driver.node("node-2"), node_id="node-2")
        shown = await restored.up("restored", **SIZE, volume_content_source={"snapshot": {"snapshot_id": snapshot_id}})
        assert ["lost+found"] == [path.name for path in shown.iterdir()]
        await restored.down()
        await on_node.down()


async def test_a_volume_is_neither_unmounted_nor_mounted_nor_grown_while_it_is_copied(
    private_mounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen file system that is unmounted stays frozen; one that is mounted while it is copied is torn."""
    copies = SlowCopies(monkeypatch)
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        target = await on_node.up(**SIZE)
        first = asyncio.ensure_future(snapshotted(driver, on_node.volume_id, "one"))
        await copies.begun()
        await on_node.stage()
        await on_node.publish()
        growth = csi.NodeExpandVolumeRequest(
            volume_id=on_node.volume_id, volume_path=str(target), capacity_range={"required_bytes": MIB}
        )
        await refused(driver.node_expand_volume(growth), Code.ABORTED, "is being copied")
        await on_node.unpublish()
        await refused(on_node.unstage(), Code.ABORTED, "is being copied")
        with pytest.raises(system.ToolFailed, match="busy"):
            system.unmount(on_node.staging)
        copies.end_one()
        await first
        await on_node.unstage()
        second = asyncio.ensure_future(snapshotted(driver, on_node.volume_id, "two"))
        await copies.begun()
        await refused(on_node.stage(), Code.ABORTED, "is being copied")
        filesystems.mount(loops.device(data_of(driver, on_node)), on_node.staging)
        copies.end_one()
        await refused(second, Code.INTERNAL, "was mounted at")
        system.unmount(on_node.staging)
        await on_node.stage()
        await on_node.publish()
        await on_node.down()


async def test_a_file_system_that_can_not_be_frozen_is_not_copied(private_mounts: Path) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.up(**SIZE)
        system.run(
            "fsfreeze", "--freeze", str(on_node.staging)
        )  # by somebody else, who will let it go in the middle of our copy
        await refused(snapshotted(driver, on_node.volume_id), Code.INTERNAL, "the data can't be copied: fsfreeze")
        system.run("fsfreeze", "--unfreeze", str(on_node.staging))
        snapshot_id = await snapshotted(driver, on_node.volume_id)
        await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot_id))
        await on_node.down()
        nothing_left(private_mounts)


async def test_a_file_system_that_is_mounted_read_only_is_copied_as_it_is(private_mounts: Path) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.create(**SIZE)
        await on_node.attach(readonly=True)
        await refused(on_node.stage(), Code.INTERNAL, "no file system, and is to be mounted read-only")
        await on_node.detach()
        await on_node.attach()
        await on_node.stage()
        await on_node.unstage()
        await on_node.detach()
        await on_node.attach(readonly=True)
        await on_node.stage()
        await snapshotted(driver, on_node.volume_id)
        await on_node.unstage()


# Several nodes, several paths


async def test_nodes_share_a_volumes_device_and_the_last_gives_it_back(private_mounts: Path) -> None:
    with mounting(private_mounts, attach=False) as driver:
        first = OnNode(driver, private_mounts, block=True)
        await first.create(**SIZE)
        await first.stage()
        await first.publish()
        second = OnNode(driver, private_mounts, node=driver.node("node-2"), node_id="node-2", block=True)
        second.volume_id = first.volume_id
        await second.stage()
        await second.publish()
        assert 1 == len(loops.devices(data_of(driver, first)))
        mark(first.target, block=True)
        assert is_marked(second.target, block=True)
        await first.unpublish()
        await first.unstage()
        assert is_marked(second.target, block=True)
        await second.unpublish()
        await second.unstage()
        assert_no_loops_below(private_mounts)


@each_row("images", [False, True], ids=["folder", "image"], fresh=[private_mounts])
async def test_nodes_share_a_volume_and_each_leaves_alone(private_mounts: Path, images: bool) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        first = OnNode(driver, private_mounts)
        first.capability = MANY_NODES
        await first.up(**SIZE)
        second = OnNode(driver, private_mounts, node=driver.node("node-2"), node_id="node-2")
        second.volume_id, second.capability = first.volume_id, MANY_NODES
        await second.attach()
        for _ in range(2):
            await second.stage()
            await second.publish()
            (second.target / "file").write_text("seen by both")
            assert "seen by both" == (first.target / "file").read_text()
            await first.unpublish()
            await first.unstage()
            await first.detach()
            assert "seen by both" == (second.target / "file").read_text()
            await first.attach()
            await first.stage()
            await first.publish()
        await second.unpublish()
        await second.unstage()
        await second.detach()
        await first.down()
        nothing_left(private_mounts)


async def test_a_device_that_is_published_read_only_takes_no_writes(private_mounts: Path) -> None:
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts, block=True)
        await on_node.create(**SIZE)
        await on_node.attach()
        await on_node.stage()
        await on_node.publish(readonly=True)
        with pytest.raises(OSError):
            mark(on_node.target, block=True)
        other = await on_node.publish(private_mounts / "other")
        mark(other, block=True)
        await on_node.unpublish(other)
        await on_node.down()
        assert_no_loops_below(private_mounts)


@each_row("images", [False, True], ids=["folder", "image"], fresh=[private_mounts])
async def test_an_attachment_that_is_read_only_is_so_on_the_node(private_mounts: Path, images: bool) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.up(**SIZE)
        await on_node.unpublish()
        await on_node.unstage()
        await on_node.detach()
        await driver.controller_publish_volume(a_publication(on_node.volume_id, readonly=True))
        await on_node.stage()
        await on_node.publish()
        with pytest.raises(OSError) as caught:
            (on_node.target / "file").touch()
        assert errno.EROFS == caught.value.errno
        await on_node.down()


@each_row("images", [False, True], ids=["folder", "image"], fresh=[private_mounts])
async def test_a_mount_that_was_cut_off_before_it_got_its_flags_is_completed(
    private_mounts: Path, images: bool
) -> None:
    """A bind mount is made first, and made read-only then: who is killed in between has left one that a pod could write
    to.
    """
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts)
        on_node.capability = csi.VolumeCapability(
            access_mode=a_capability().access_mode, mount={"mount_flags": ["noexec"]}
        )
        await on_node.create(**SIZE)
        await on_node.attach()
        await on_node.stage()
        on_node.target.mkdir()
        system.bind(on_node.staging, on_node.target)
        system.run("mount", "-o", "remount,bind,exec,nosuid", str(on_node.target))
        for _ in range(2):
            await on_node.publish(readonly=True)
        mount = mount_table().at(str(on_node.target))
        assert mount is not None
        assert {"ro", "noexec", "nosuid"} <= set(mount.options.split(","))
        with pytest.raises(OSError, match="Read-only"):
            (on_node.target / "file").touch()
        (on_node.staging / "file").touch()
        await on_node.down()


async def test_a_staging_that_was_cut_off_before_it_got_its_flags_is_completed(private_mounts: Path) -> None:
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts)
        on_node.capability = csi.VolumeCapability(
            access_mode=a_capability().access_mode, mount={"mount_flags": ["noexec"]}
        )
        await on_node.create()
        await on_node.attach()
        system.bind(data_of(driver, on_node), on_node.staging)
        await on_node.stage()
        mount = mount_table().at(str(on_node.staging))
        assert mount is not None
        assert "noexec" in mount.options.split(",")
        await on_node.unstage()


async def test_statistics_of_a_block_volume_are_told_where_a_kubelet_has_mounted_it(private_mounts: Path) -> None:
    """It publishes at one path, mounts the device at another, and asks for that."""
    mapped = private_mounts / "volumeDevices" / "pv" / "dev" / "pod"
    mapped.parent.mkdir(parents=True)
    mapped.touch()
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts, block=True)
        request = csi.NodeGetVolumeStatsRequest(volume_id=await on_node.create(**SIZE), volume_path=str(mapped))
        await refused(driver.node_get_volume_stats(request), Code.NOT_FOUND)
        await on_node.attach()
        await on_node.stage()
        target = await on_node.publish()
        await refused(driver.node_get_volume_stats(request), Code.NOT_FOUND)
        system.bind(target, mapped)
        answer = await driver.node_get_volume_stats(request)
        assert ([32 * MIB], False) == ([usage.total for usage in answer.usage], answer.volume_condition.abnormal)
        system.unmount(mapped)
        await on_node.down()


async def test_statistics_tell_that_a_volume_is_not_mounted(private_mounts: Path) -> None:
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts)
        target = await on_node.up()
        request = csi.NodeGetVolumeStatsRequest(volume_id=on_node.volume_id, volume_path=str(target))
        assert not (await driver.node_get_volume_stats(request)).volume_condition.abnormal
        system.unmount(target)
        condition = (await driver.node_get_volume_stats(request)).volume_condition
        assert (True, "The volume isn't mounted") == (condition.abnormal, condition.message)
        await on_node.down()


async def test_a_volume_that_nobody_stages_is_neither_mounted_nor_unmounted_while_it_is_copied(
    private_mounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who mounts it, writes and leaves before the copy ends would be in it by half."""
    copies = SlowCopies(monkeypatch)
    with mounting(
        private_mounts, options=HostpathOptions(images=True), without_on_nodes=[NodeCapability.STAGE_UNSTAGE_VOLUME]
    ) as driver:
        volume_id = await created(driver, **SIZE)
        await driver.controller_publish_volume(a_publication(volume_id))
        one, two = private_mounts / "one", private_mounts / "two"
        first = asyncio.ensure_future(snapshotted(driver, volume_id, "one"))
        await copies.begun()
        await refused(driver.node_publish_volume(a_target(volume_id, "", one)), Code.ABORTED, "is being copied")
        copies.end_one()
        await first
        await driver.node_publish_volume(a_target(volume_id, "", one))
        second = asyncio.ensure_future(snapshotted(driver, volume_id, "two"))
        await copies.begun()
        await driver.node_publish_volume(a_target(volume_id, "", two))
        await driver.node_unpublish_volume(a_withdrawal(volume_id, one))
        await refused(driver.node_unpublish_volume(a_withdrawal(volume_id, two)), Code.ABORTED, "is being copied")
        copies.end_one()
        await second
        await driver.node_unpublish_volume(a_withdrawal(volume_id, two))
        assert [] == mounted_below(private_mounts)
        assert_no_loops_below(private_mounts)


@each_row("images", [False, True], ids=["folder", "image"], fresh=[private_mounts])
@each_row("stages", [True, False])
async def test_a_pods_own_volume_is_mounted_and_gone_afterwards(
    private_mounts: Path, images: bool, stages: bool
) -> None:
    without = [] if stages else [NodeCapability.STAGE_UNSTAGE_VOLUME]
    with mounting(private_mounts, options=HostpathOptions(images=images), without_on_nodes=without) as driver:
        target = private_mounts / "target"
        for _ in range(2):
            await driver.node_publish_volume(an_inline("csi-1", target))
        (target / "file").write_text("data")
        assert str(target) in mounted_below(private_mounts)
        await driver.node_unpublish_volume(a_withdrawal("csi-1", target))
        nothing_left(private_mounts)


async def test_a_driver_that_stages_nothing_mounts_when_it_publishes(private_mounts: Path) -> None:
    with mounting(
        private_mounts, options=HostpathOptions(images=True), without_on_nodes=[NodeCapability.STAGE_UNSTAGE_VOLUME]
    ) as driver:
        volume_id = await created(driver, **SIZE)
        await driver.controller_publish_volume(a_publication(volume_id))
        one, two = private_mounts / "one", private_mounts / "two"
        for target in (one, two):
            await driver.node_publish_volume(a_target(volume_id, "", target))
        (one / "file").write_text("data")
        assert "data" == (two / "file").read_text()
        for target in (one, two):
            await driver.node_unpublish_volume(a_withdrawal(volume_id, target))
        assert [] == mounted_below(private_mounts)
        assert_no_loops_below(private_mounts)


async def test_the_files_of_a_volume_are_given_to_the_group_that_is_asked_for(private_mounts: Path) -> None:
    of_group = a_capability()
    of_group.mount.volume_mount_group = "4321"
    with mounting(private_mounts, options=HostpathOptions(mount_group=True)) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.up()
        (on_node.target / "inner").mkdir()
        (on_node.target / "inner" / "file").write_text("data")
        (on_node.target / "inner" / "file").chmod(0o600)
        (on_node.target / "link").symlink_to("/etc/passwd")
        before = os.stat("/etc/passwd").st_gid
        await on_node.unpublish()
        on_node.capability = of_group
        await on_node.publish()
        inner, file = (on_node.target / "inner").stat(), (on_node.target / "inner" / "file").stat()
        assert (4321, 0o2770) == (inner.st_gid, inner.st_mode & 0o2770)
        assert (4321, 0o660) == (file.st_gid, file.st_mode & 0o777)
        assert before == os.stat("/etc/passwd").st_gid
        on_node.capability = a_capability()
        on_node.capability.mount.volume_mount_group = "staff"
        await refused(on_node.publish(private_mounts / "other"), Code.INVALID_ARGUMENT, "is no number of a group")
        await on_node.down()
