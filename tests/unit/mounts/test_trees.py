"""Folders are removed with all that is in them, whoever has had them. What mounts change about it is in `scenes.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mooring.mounts.trees import DEPTH_MAX, remove_tree
from tests.support.rows import each_row

_AS_A_PLAIN_USER: Final = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
"""What lets root read and write everywhere is left out; files are the user's own as before."""


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "precious")
    remove_tree(tmp_path / "tree")
    (tmp_path / "tree").symlink_to("precious")
    remove_tree(tmp_path / "tree")
    assert ["precious"] == [path.name for path in tmp_path.iterdir()]
    assert (tmp_path / "precious" / "file").exists()


def test_a_file_goes_and_what_is_not_there_is_gone_already(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for _ in range(2):
        remove_tree(tmp_path / "file")
    remove_tree(tmp_path / "nothing" / "file")
    assert [] == list(tmp_path.iterdir())


def test_what_its_owner_has_removed_meanwhile_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server that ends removes its socket."""
    (tmp_path / "tree" / "folder").mkdir(parents=True)
    (tmp_path / "tree" / "folder" / "file").touch()
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: ["gone", *listed(folder)])
    remove_tree(tmp_path / "tree")
    monkeypatch.undo()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
@each_row("levels", [DEPTH_MAX, DEPTH_MAX + 1, 1200])
def test_a_tree_may_be_as_deep_as_it_likes(tmp_path: Path, levels: int) -> None:
    """Deeper than a stack, and than a process may have files open. The names that it is moved to may be taken."""
    (tmp_path / "tree" / ".deep-0").mkdir(parents=True)
    (tmp_path / "tree" / ".deep-0" / "file").touch()
    at = os.open(tmp_path / "tree", os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    try:
        remove_tree(tmp_path / "tree")
        assert [] == list(tmp_path.iterdir())
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "tree"], check=True)  # pytest could not remove it


@pytest.mark.slow
def test_folders_without_permission_go_for_a_plain_user_too(tmp_path: Path) -> None:
    """As a Go module cache has them."""
    for mode in (0o555, 0o111, 0o000):
        folder = tmp_path / "tree" / f"{mode:o}" / "inner"
        folder.mkdir(parents=True)
        (folder / "file").touch()
        folder.chmod(mode)
        folder.parent.chmod(mode)
    (tmp_path / "tree").chmod(0o500)
    code = f"import pathlib, mooring.mounts.trees as t; t.remove_tree(pathlib.Path({str(tmp_path / 'tree')!r}))"
    words = [*(_AS_A_PLAIN_USER if os.geteuid() == 0 else ()), sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert not (tmp_path / "tree").exists()
