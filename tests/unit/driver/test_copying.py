"""A copy is like its source in all that can be seen, and never leads out of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.driver import copying
from mooring.driver.copying import copy_file, copy_folder
from tests.support.rows import each_row


def never() -> None:
    pass


def a_source(folder: Path) -> Path:
    source = folder / "source"
    (source / "inner" / "empty").mkdir(parents=True)
    (source / "file").write_text("text")
    (source / "file").chmod(0o600)
    os.utime(source / "file", (1_000_000, 2_000_000))
    os.link(source / "file", source / "inner" / "same")
    (source / "inner" / "tool").write_bytes(b"x" * 100_000)
    (source / "inner" / "tool").chmod(0o4755)
    (source / "link").symlink_to("inner/tool")
    (source / "out").symlink_to("/etc/passwd")
    (source / "lost").symlink_to("nowhere")
    os.mkfifo(source / "pipe", 0o640)
    (source / "ünicode \n name").write_text("")
    source.chmod(0o2770)
    return source


def a_copy(source: Path, check: Callable[[], None] = never) -> Path:
    target = source.parent / "target"
    target.mkdir()
    copy_folder(str(source), str(target), check)
    return target


def seen(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder by its path: type and mode, owner, time, and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        links = 0 if path.is_dir() else status.st_nlink
        modified = status.st_mtime_ns
        found[str(path.relative_to(folder))] = (
            stat.filemode(status.st_mode),
            status.st_uid,
            status.st_gid,
            modified,
            links,
            content,
        )
    return found


def test_modes_links_times_and_pipes_are_kept(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    target = a_copy(source)
    assert seen(source) == seen(target)
    assert (target / "file").samefile(target / "inner" / "same"), "hard links stay hard links"
    (target / "file").write_text("changed")
    assert "text" == (source / "file").read_text()


def test_holes_stay_holes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "sparse").open("wb") as file:
        file.seek(50 << 20)
        file.write(b"data")
        file.truncate(100 << 20)
    copy = a_copy(source) / "sparse"
    assert 100 << 20 == copy.stat().st_size
    assert copy.stat().st_blocks * 512 < 1 << 20
    with copy.open("rb") as file:
        file.seek(50 << 20)
        assert b"data\0" == file.read(5)


@each_row("copied", [OSError(errno.EXDEV, "another file system"), None])
def test_one_file_is_copied_and_made_larger(
    tmp_path: Path, copied: OSError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_arguments: object) -> int:
        assert copied is not None
        raise copied

    if copied is not None:
        monkeypatch.setattr(os, "copy_file_range", refused)
    monkeypatch.setattr(copying, "CHUNK_BYTES", 1000)
    (tmp_path / "source").write_bytes(bytes(range(250)) * 10)
    copy_file(str(tmp_path / "source"), str(tmp_path / "target"), 4096, never)
    assert bytes(range(250)) * 10 + bytes(4096 - 2500) == (tmp_path / "target").read_bytes()


def test_a_file_that_grows_meanwhile_is_cut(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 2000)
    copy_file(str(tmp_path / "source"), str(tmp_path / "target"), 1000, never)
    assert b"x" * 1000 == (tmp_path / "target").read_bytes()


def test_a_link_that_takes_a_folders_place_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As somebody might try who can write into a volume, and wants to read what the driver can."""
    source, secret = a_source(tmp_path), tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    real, swapped = os.stat, []

    def swap(path: object, **options: object) -> os.stat_result:
        status = real(path, **options)  # type: ignore[call-overload]
        if path == "inner" and not swapped:
            swapped.append(path)
            (source / "inner").rename(tmp_path / "away")
            (source / "inner").symlink_to(secret)
        return status  # type: ignore[no-any-return]

    monkeypatch.setattr(os, "stat", swap)
    target = a_copy(source)
    assert swapped
    assert not (target / "inner").exists()
    assert "text" == (target / "file").read_text()


def test_what_vanishes_meanwhile_was_never_there(tmp_path: Path) -> None:
    source, steps = a_source(tmp_path), []

    def remove_the_rest() -> None:
        steps.append(1)
        if len(steps) == 1:
            (source / "file").unlink()

    target = a_copy(source, remove_the_rest)
    assert not (target / "file").exists()
    assert "text" == (target / "inner" / "same").read_text()


def test_folders_too_deep_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "DEPTH_MAX", 2)
    (tmp_path / "source" / "1" / "2" / "3").mkdir(parents=True)
    with pytest.raises(OSError, match="more than 2 deep"):
        a_copy(tmp_path / "source")


def test_it_can_be_stopped_at_any_entry(tmp_path: Path) -> None:
    source, entries = a_source(tmp_path), []
    a_copy(source, lambda: entries.append(1))
    for stop_at in range(len(entries)):
        left = iter([None] * stop_at)
        (tmp_path / "target").rename(tmp_path / f"former-{stop_at}")
        with pytest.raises(StopIteration):
            a_copy(source, lambda left=left: next(left))  # type: ignore[misc]
