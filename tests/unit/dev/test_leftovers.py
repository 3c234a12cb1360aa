"""Item A11 of issue 27: no loop device and no folder of a run that was killed outlives the start of the next one."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.ending import Ending
from mooring.base.errors import ConfigError
from mooring.base.folders import hold
from mooring.dev import folder as folders
from mooring.dev.folder import LOCK, PREFIX, run_folder
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.namespace import MountSpace
from tests.support.rows import each_row

PRIVATE, SHARED = MountSpace(is_private=True), MountSpace()


class World:
    """Loop devices by what they are over: files and devices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.temporary, self.shown = tmp_path / "tmp", io.StringIO()
        self.temporary.mkdir()
        self.loops: dict[Path, Path] = {}
        self.released: list[str] = []
        monkeypatch.setattr(folders.tempfile, "tempdir", str(self.temporary))
        monkeypatch.setattr(folders, "mount_table", lambda: MountTable([]))
        monkeypatch.setattr(
            folders.loops, "devices", lambda file: [device for device, over in self.loops.items() if over == file]
        )
        monkeypatch.setattr(folders.loops, "release", self._detach)
        monkeypatch.setattr(folders.loops, "below", self._below)
        monkeypatch.setattr(folders, "run", lambda *words: self._detach_one(Path(words[-1])))

    def _detach(self, backing: Path) -> None:
        for device in [device for device, over in self.loops.items() if over == backing]:
            self._detach_one(device)

    def _below(self, folder: Path) -> list[Path]:
        return [device for device, over in self.loops.items() if over.is_relative_to(folder)]

    def _detach_one(self, device: Path) -> None:
        del self.loops[device]
        self.released.append(device.name)

    def volume(self, run: Path) -> None:
        """Of that run: one with a device, and the agent's over it."""
        volumes = run / "driver" / "volumes"
        volumes.mkdir(parents=True)
        (volumes / "v").write_text("data")
        self.loops = {Path("/dev/loop0"): volumes / "v", Path("/dev/loop1"): Path("/dev/loop0")}

    @contextlib.contextmanager
    def run(self, space: MountSpace = PRIVATE, state: str = "") -> Iterator[Path]:
        with run_folder(state, space, Story(PlainScreen(self.shown), LoopClock()), Ending()) as folder:
            yield folder

    def dead(self, name: str = f"{PREFIX}dead", *, lock: bool = True) -> Path:
        """The folder of a run that was killed. lock: it has one."""
        folder = self.temporary / name
        self.volume(folder)
        if lock:
            (folder / LOCK).touch()
        return folder


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


async def test_the_next_run_removes_the_folder_of_a_killed_one_and_its_devices(world: World) -> None:
    dead = world.dead()
    with world.run() as folder:
        assert [folder] == list(world.temporary.iterdir())
        assert ["loop1", "loop0"] == world.released
    assert f"{dead} is removed: a run that was killed had left it" in world.shown.getvalue()
    assert [] == list(world.temporary.iterdir())


async def test_a_run_that_lives_keeps_its_folder_and_its_devices(world: World) -> None:
    with world.run() as first:
        world.volume(first)
        with world.run() as second:
            assert {first, second} == set(world.temporary.iterdir())
            assert (first / LOCK).exists()
            assert (second / LOCK).exists()
        assert [] == world.released
    assert ["loop1", "loop0"] == world.released


@each_row("name", ["not-ours", f"{PREFIX}without"], fresh=[world])
async def test_what_has_no_lock_of_ours_is_left_alone(world: World, name: str) -> None:
    """A folder of another program, or of a run that is about to take its lock."""
    other = world.dead(name, lock=name == "not-ours")
    with world.run():
        assert other.exists()
    assert [] == world.released


async def test_another_users_folder_and_a_locked_up_one_are_left_without_a_word(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, locked_up = world.dead(f"{PREFIX}others"), world.dead(f"{PREFIX}locked-up")
    locked_up.chmod(0)
    see = os.stat

    def refuses(path: Path, **words: Any) -> os.stat_result:
        if Path(path).parent in (others, locked_up):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return see(path, **words)

    def of_another_user(path: Path) -> os.stat_result:
        status = list(see(path, follow_symlinks=False))
        status[stat.ST_UID] += path == others
        return os.stat_result(status)

    monkeypatch.setattr(os, "stat", refuses)
    monkeypatch.setattr(os, "lstat", of_another_user)
    with world.run():
        assert "" == world.shown.getvalue()
    monkeypatch.undo()
    locked_up.chmod(0o700)
    assert (others / LOCK).exists()
    assert (locked_up / LOCK).exists()


async def test_a_folder_that_another_run_removes_meanwhile_is_no_trouble(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = world.dead()

    def removed(folder: Path) -> bool:
        shutil.rmtree(folder)
        return True

    monkeypatch.setattr(folders, "_is_ours", removed)
    with world.run():
        assert ("", False) == (world.shown.getvalue(), dead.exists())


async def test_a_link_to_a_folder_is_not_followed(world: World, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / LOCK).touch()
    (world.temporary / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
    with world.run():
        assert (tmp_path / "elsewhere" / LOCK).exists()


async def test_a_folder_that_can_not_be_removed_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = world.dead()

    def refuses(folder: Path) -> None:
        raise OSError("no")

    monkeypatch.setattr(folders, "remove_tree", refuses)
    with world.run():
        assert f"{dead}, left by a run that was killed, can't be removed: no" in world.shown.getvalue()


async def test_what_could_not_be_removed_is_known_to_the_next_run_by_its_lock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = folders.remove_tree

    def refuses(path: Path) -> None:
        if path.name == "in-use":
            raise OSError("no")
        whole(path)

    monkeypatch.setattr(folders, "remove_tree", refuses)
    with world.run() as folder:
        (folder / "in-use").touch()
    assert f"{folder} can't be removed: no" in world.shown.getvalue()
    assert (folder / LOCK).exists()
    monkeypatch.setattr(folders, "remove_tree", whole)
    with world.run():
        assert not folder.exists()


@each_row(("space", "released"), [(PRIVATE, ["loop1", "loop0"]), (SHARED, [])], fresh=[world])
async def test_a_kept_folder_has_no_device_at_the_start_and_none_at_the_end(
    world: World, tmp_path: Path, space: MountSpace, released: list[str]
) -> None:
    state = tmp_path / "state"
    world.volume(state)
    before = dict(world.loops)
    with world.run(space, str(state)):
        assert released == world.released
        world.loops, world.released = before, []
    assert released == world.released
    assert (state / "driver" / "volumes" / "v").exists()


async def test_an_agents_device_whose_path_is_still_there_goes_too(world: World, tmp_path: Path) -> None:
    """At the end of a run its mounts are there, and devices have the names of their files."""
    state = tmp_path / "state"
    with world.run(state=str(state)):
        world.volume(state)
        world.loops[Path("/dev/loop1")] = state / "nodes" / "n1" / "map"
        world.loops[Path("/dev/loop9")] = tmp_path / "nodes" / "n1" / "map"
    assert (["loop1", "loop0"], [Path("/dev/loop9")]) == (world.released, list(world.loops))


async def test_a_kept_folder_is_of_one_run_at_a_time(world: World, tmp_path: Path) -> None:
    """Else the second one would take the devices of the first."""
    state = tmp_path / "state"
    with world.run(state=str(state)):
        world.volume(state)
        with (
            pytest.raises(ConfigError, match=rf"is in use by mooring dev of process {os.getpid()}: stop it"),
            world.run(state=str(state)),
        ):
            pass
        assert [] == world.released
    os.close(hold(state / LOCK, "the next one"))


async def test_a_kept_folder_that_can_not_be_made_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"state folder '.*' can't be used"), world.run(state=str(tmp_path / "file")):
        pass
