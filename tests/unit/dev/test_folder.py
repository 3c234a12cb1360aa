"""The folder of a run goes at its end, and never with what is mounted in it."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.base.ending import Ending
from mooring.dev import folder as folders
from mooring.dev.folder import run_folder
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.mounts.mountinfo import Mount, MountTable
from mooring.mounts.namespace import MountSpace
from tests.support.rows import each_row

PRIVATE, SHARED = MountSpace(is_private=True), MountSpace()


class World:
    """A made-up mount table below a folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
        monkeypatch.setattr(folders, "mount_table", lambda: MountTable(self.mounts))
        monkeypatch.setattr(folders, "unmount", self._unmount)
        monkeypatch.setattr(folders, "run", lambda *words: self.released.append(words[-1]))
        monkeypatch.setattr(folders.loops, "all_devices", lambda: frozenset(map(Path, self.devices)))
        self.devices: list[str] = []
        self.released: list[str] = []
        self.mounts: list[Mount] = []
        self.unmounted: list[str] = []
        self.busy = False
        self.shown = io.StringIO()
        self.ending = Ending()

    def _unmount(self, point: Path) -> None:
        if self.busy:
            raise folders.ToolFailed("target is busy")
        self.unmounted.append(point.name)
        self.mounts = [mount for mount in self.mounts if mount.point != str(point)]

    async def run(self, space: MountSpace, points: Iterable[str] = (), state: str = "") -> Path:
        """The folder, after the run."""
        with run_folder(state, space, Story(PlainScreen(self.shown), LoopClock()), self.ending) as folder:
            folder.mkdir(exist_ok=True)
            (folder / "file").write_text("")
            self.mounts = [
                Mount(1, 0, "0:1", "/", str(folder / point), "rw", (), "ext4", "none", "rw") for point in points
            ]
        return folder


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


async def test_a_temporary_folder_goes_and_a_permanent_one_stays(world: World, tmp_path: Path) -> None:
    assert not (await world.run(PRIVATE)).exists()
    assert (await world.run(PRIVATE, ["a"], str(tmp_path / "state"))).exists()
    assert [] == world.unmounted


async def test_what_is_mounted_in_a_namespace_of_our_own_is_unmounted_first_the_deepest_one_before_the_others(
    world: World,
) -> None:
    assert not (await world.run(PRIVATE, ["a", "a/deeper"])).exists()
    assert ["deeper", "a"] == world.unmounted


@each_row("space", [PRIVATE, SHARED], ids=["which is busy", "which may be somebody's"], fresh=[world])
async def test_a_folder_with_a_mount_is_left_as_it_is_and_that_is_told(world: World, space: MountSpace) -> None:
    world.busy = True
    folder = await world.run(space, ["a"])
    assert (folder / "file").exists()
    assert (
        f"{folder} is left, since {folder}/a is still mounted in it: unmount that, then remove the folder"
        in world.shown.getvalue()
    )
    assert [] == world.unmounted


def of_device(number: int, root: str, point: Path, fs_type: str, source: str) -> Mount:
    return Mount(number, 0, "0:1", root, str(point), "rw", (), fs_type, source, "rw")


async def test_the_loop_devices_of_the_run_that_are_mounted_are_given_back_and_nobody_elses(world: World) -> None:
    """B1: A driver that hangs gives back nothing; a device that was there before is somebody's."""
    world.devices = ["/dev/loop1"]
    with run_folder("", PRIVATE, Story(PlainScreen(world.shown), LoopClock()), world.ending) as folder:
        world.devices += ["/dev/loop2", "/dev/loop3", "/dev/loop4"]
        world.mounts = [
            of_device(1, "/", folder / "a", "ext4", "/dev/loop1"),
            of_device(2, "/", folder / "b", "ext4", "/dev/loop2"),
            of_device(3, "/loop3", folder / "c", "devtmpfs", "udev"),
        ]
    assert ["/dev/loop2", "/dev/loop3"] == sorted(world.released)
    assert not folder.exists()


async def test_the_last_word_cleans_as_the_end_of_the_block_does(world: World) -> None:
    """B1 of what hurt drivers' authors."""
    with run_folder("", PRIVATE, Story(PlainScreen(world.shown), LoopClock()), world.ending) as folder:
        world.mounts = [of_device(1, "/", folder / "a", "ext4", "none")]
        world.ending._do_last()
        assert (False, ["a"]) == (folder.exists(), world.unmounted)


async def test_the_last_word_waits_for_a_cleaning_that_is_under_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1: Else the process would end in the midst of it, and half of the folder stay."""
    seen: list[bool] = []
    last = threading.Thread(target=world.ending._do_last)
    remove_tree = folders.remove_tree

    def slowly(folder: Path) -> None:
        last.start()
        last.join(0.2)
        seen.append(last.is_alive())
        remove_tree(folder)

    monkeypatch.setattr(folders, "remove_tree", slowly)
    with run_folder("", PRIVATE, Story(PlainScreen(world.shown), LoopClock()), world.ending) as folder:
        pass
    last.join(20)
    assert ([True], False, "") == (seen, folder.exists(), world.shown.getvalue())
