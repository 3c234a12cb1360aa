"""The state file is replaced whole, and has room for the next one."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest

from mooring.driver.hostpath.kept_file import KeptFile

STEP = 16 << 10


def sizes(folder: Path) -> tuple[int, ...]:
    return tuple(path.stat().st_size for path in (folder / "file", folder / "file.new"))


def test_the_newest_content_is_there_with_blanks_behind_it(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "file")
    for content in (b"first\n", b"second, which is longer\n", b"3\n"):
        file.write(content)
        assert content.strip() == (tmp_path / "file").read_bytes().strip()


def test_there_is_room_for_as_much_again_and_a_little_more(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "file")
    for length in (5, 5 * STEP, 5 * STEP + 100, 20 * STEP):
        content = b"x" * length
        file.write(content)
        assert content == (tmp_path / "file").read_bytes().rstrip()
        assert min(sizes(tmp_path)[1:]) >= length + STEP


def test_the_room_is_not_given_back_in_between(tmp_path: Path) -> None:
    """Who fills the disk would take it: the former file is the room for the next one."""
    file = KeptFile(tmp_path / "file")
    file.write(b"first")
    for content in (b"second", b"third"):
        file_before, room_before = (tmp_path / "file").stat().st_ino, (tmp_path / "file.new").stat().st_ino
        file.write(content)
        assert (room_before, file_before) == ((tmp_path / "file").stat().st_ino, (tmp_path / "file.new").stat().st_ino)


def test_room_that_is_not_needed_any_more_is_given_back(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "file")
    file.write(b"x" * 100 * STEP)
    for _ in range(3):
        file.write(b"x")
    assert max(sizes(tmp_path)) <= 4 * 2 * STEP


def test_room_is_kept_for_a_file_that_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * STEP)
    KeptFile(tmp_path / "file").keep_room()
    assert (STEP, 3 * STEP) == sizes(tmp_path)


def test_a_write_that_was_torn_away_leaves_the_former_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = KeptFile(tmp_path / "file")
    file.write(b"whole")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", _torn_away)
        with pytest.raises(OSError, match="torn away"):
            file.write(b"half")
    assert b"whole" == (tmp_path / "file").read_bytes().strip()
    file.write(b"next")
    assert b"next" == (tmp_path / "file").read_bytes().strip()


def _torn_away(_: int) -> None:
    raise OSError("torn away")


def test_a_file_system_that_exchanges_no_names_takes_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameat2=lambda *_: -1))
    file = KeptFile(tmp_path / "file")
    for content in (b"first", b"second"):
        file.write(content)
        assert content == (tmp_path / "file").read_bytes().strip()
