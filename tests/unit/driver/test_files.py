"""B4: a volume's file is copied whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.driver import copying
from mooring.driver.files import copy_file

MIB = 1 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Data in the first and the third of four MiB, and holes."""
    path = tmp_path / "source"
    path.write_bytes(b"a" * MIB)
    with path.open("r+b") as file:
        file.seek(2 * MIB)
        file.write(b"b" * MIB)
    os.truncate(path, 4 * MIB)
    return path


def test_the_copy_has_the_data_and_the_holes(source: Path, tmp_path: Path) -> None:
    copy_file(source, target := tmp_path / "target")
    assert source.read_bytes() == target.read_bytes()
    assert target.stat().st_blocks <= source.stat().st_blocks
    assert {"source", "target"} == set(os.listdir(tmp_path))


def test_it_may_be_larger(source: Path, tmp_path: Path) -> None:
    copy_file(source, target := tmp_path / "target", size_bytes=8 * MIB)
    assert source.read_bytes() + bytes(4 * MIB) == target.read_bytes()


def test_progress_is_told_to_the_end(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "CHUNK_BYTES", MIB // 2)
    steps: list[tuple[int, int]] = []
    copy_file(source, tmp_path / "target", progress=lambda done, whole: steps.append((done, whole)))
    halves = [MIB // 2, MIB, 2 * MIB + MIB // 2, 3 * MIB, 4 * MIB]
    assert [(done, 4 * MIB) for done in halves] == steps


def test_who_ends_it_leaves_nothing(source: Path, tmp_path: Path) -> None:
    def stop(_done: int, _whole: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        copy_file(source, tmp_path / "target", progress=stop)
    assert ["source"] == os.listdir(tmp_path)


def test_what_a_kill_has_left_is_begun_anew(source: Path, tmp_path: Path) -> None:
    (tmp_path / "target.part").write_bytes(b"half of another")
    copy_file(source, target := tmp_path / "target")
    assert source.read_bytes() == target.read_bytes()
    assert {"source", "target"} == set(os.listdir(tmp_path))


def test_nothing_is_copied_over(source: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    with pytest.raises(FileExistsError):
        copy_file(source, tmp_path / "target")
    assert "precious" == (tmp_path / "target").read_text()
