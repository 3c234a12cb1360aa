"""A pod's group on what is in its volume: whatever links the pod swaps in, nothing outside is changed; and an end is
prompt.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.pods import PODS
from mooring.mounts import fs_group
from mooring.mounts.fs_group import Walk
from tests.support.groups import a_group
from tests.support.rows import each_row
from tests.unit.node.volume_world import VolumesWorld

_MODE = 0o600


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """volume/folder/file, and a place outside of the same shape that nobody else may read."""
    for top in ("volume", "outside"):
        (tmp_path / top / "folder").mkdir(parents=True)
        (tmp_path / top / "folder" / "file").touch()
        for path in (tmp_path / top, *(tmp_path / top).rglob("*")):
            path.chmod(0o700 if path.is_dir() else _MODE)
    return tmp_path / "volume"


@pytest.fixture(autouse=True)
def outside(volume: Path) -> Iterator[Path]:
    """The place outside, which is at the end as it was."""
    place = volume.parent / "outside"
    before = shown(place)
    yield place
    assert before == shown(place)


def shown(top: Path) -> list[tuple[str, int, int]]:
    return [(str(path), path.lstat().st_gid, path.lstat().st_mode) for path in sorted((top, *top.rglob("*")))]


def has_group(path: Path) -> bool:
    return path.lstat().st_gid == a_group() and path.lstat().st_mode & 0o660 == 0o660


def swapped(path: Path, outside: Path) -> None:
    path.rename(path.parent / "moved")
    path.symlink_to(outside)


def first(
    before: Callable[[], None], real: Callable[..., Any], when: Callable[..., bool] = lambda *_, **__: True
) -> Callable[..., Any]:
    """Calls `before` once, at the first call that this is about."""
    done: list[bool] = []

    def hooked(*args: Any, **options: Any) -> Any:
        if not done and when(*args, **options):
            done.append(True)
            before()
        return real(*args, **options)

    return hooked


def test_everything_gets_the_group(volume: Path) -> None:
    walk = Walk(volume, a_group(), "")
    walk.run()
    assert all(has_group(path) for path in (volume, *volume.rglob("*")))
    assert all(path.stat().st_mode & stat.S_ISGID for path in (volume, volume / "folder"))
    assert 2 == walk.count


@each_row("refused", ["chown", "chmod"], fresh=[volume])
def test_what_can_not_be_changed_is_passed_over_each_by_itself(
    volume: Path, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of files may refuse the one, and allow the other."""

    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    paths = (volume, *volume.rglob("*"))
    before = {path: path.lstat().st_gid for path in paths}
    with monkeypatch.context() as patched:
        patched.setattr(os, refused, refuses)
        Walk(volume, a_group(), "").run()
    for path in paths:
        assert path.lstat().st_gid == (a_group() if refused == "chmod" else before[path]), path
        assert (refused == "chown") == (path.lstat().st_mode & 0o660 == 0o660), path


def test_a_folder_that_becomes_a_link_before_it_is_opened_is_not_followed(
    volume: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap = first(
        lambda: swapped(volume / "folder", outside / "folder"),
        fs_group._descended,
        lambda _, names: names == ("folder",),
    )
    monkeypatch.setattr(fs_group, "_descended", swap)
    Walk(volume, a_group(), "").run()
    assert (volume / "folder").is_symlink()
    assert has_group(volume)


@each_row("name", ["file", "folder"], fresh=[volume, outside])
def test_what_becomes_a_link_before_it_is_changed_is_not_followed(
    volume: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Between the look at it and its opening."""
    path = volume / "folder" / "file" if name == "file" else volume / "folder"
    target = outside / path.relative_to(volume)
    swap = first(
        lambda: swapped(path, target),
        os.open,
        lambda opened, flags, **_: opened == name and flags == fs_group._AS_ANYTHING,
    )
    monkeypatch.setattr(os, "open", swap)
    Walk(volume, a_group(), "").run()
    assert path.is_symlink()
    assert has_group(volume)


def test_what_becomes_a_link_while_it_is_changed_is_not_followed(
    volume: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that was opened is changed, wherever it lies by now."""
    path = volume / "folder" / "file"
    is_file = lambda descriptor, _: stat.S_ISREG(os.fstat(descriptor).st_mode)  # noqa: E731
    swap = first(lambda: swapped(path, outside / "folder" / "file"), fs_group._change_opened, is_file)
    monkeypatch.setattr(fs_group, "_change_opened", swap)
    Walk(volume, a_group(), "").run()
    assert path.is_symlink()
    assert has_group(volume / "folder" / "moved")


def test_links_that_were_there_before_are_changed_themselves(volume: Path, outside: Path) -> None:
    (volume / "to-file").symlink_to(outside / "folder" / "file")
    (volume / "to-folder").symlink_to(outside / "folder")
    Walk(volume, a_group(), "").run()
    assert a_group() == (volume / "to-file").lstat().st_gid == (volume / "to-folder").lstat().st_gid


def test_a_target_that_is_a_link_is_changed_itself(volume: Path, outside: Path) -> None:
    link = volume / "link"
    link.symlink_to(outside)
    Walk(link, a_group(), "").run()
    assert a_group() == link.lstat().st_gid


def test_a_folder_that_goes_meanwhile_is_passed_over(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = first(
        lambda: (volume / "folder").rename(volume.parent / "gone"), fs_group._descended, lambda _, names: bool(names)
    )
    monkeypatch.setattr(fs_group, "_descended", moved)
    Walk(volume, a_group(), "").run()
    assert has_group(volume)


def test_pipes_and_sockets_are_not_waited_for(volume: Path) -> None:
    os.mkfifo(volume / "pipe", 0o600)
    Walk(volume, a_group(), "").run()
    assert has_group(volume / "pipe")


def test_a_tree_deeper_than_a_path_can_be_is_walked(volume: Path) -> None:
    """With as many descriptors as for a flat one."""
    above = os.open(volume, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 15, 0o700, dir_fd=above)
        below = os.open("d" * 15, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    Walk(volume, a_group(), "").run()
    assert a_group() == os.fstat(above).st_gid
    os.close(above)


def test_a_walk_that_is_stopped_leaves_the_folder_itself_as_it_was(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the next walk on mismatch alone is a whole one."""
    walk = Walk(volume, a_group(), "OnRootMismatch")
    monkeypatch.setattr(fs_group, "_change", first(walk.stop, fs_group._change))
    before = volume.stat()
    walk.run()
    assert (1, before.st_mode, before.st_gid) == (walk.count, volume.stat().st_mode, volume.stat().st_gid)
    monkeypatch.undo()
    Walk(volume, a_group(), "OnRootMismatch").run()
    assert all(has_group(path) for path in volume.rglob("*"))


def test_the_end_waits_for_no_walk(world: VolumesWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for one that hangs. The pod does not run, for its group is not set."""
    began, may_end = threading.Event(), threading.Event()

    def hangs(walk: Walk) -> None:
        began.set()
        assert may_end.wait(60.0)

    async def main() -> None:
        async with world.agent():
            pod = await world.pod(await world.volume(fsType="ext4"), securityContext={"fsGroup": 3000})
            await asyncio.to_thread(began.wait, 60.0)
            world.node.stop_walks()
            assert await world.node.controller.drain(10.0)
            assert "Pending" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]
            may_end.set()

    monkeypatch.setattr(Walk, "run", hangs)
    asyncio.run(main())
