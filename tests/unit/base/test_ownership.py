"""A state folder is taken only if nobody else could have prepared it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from mooring.base import ownership
from mooring.base.errors import ConfigError
from mooring.base.ownership import danger_in, own_folder
from tests.support.rows import each_row

STRANGER = 65_534


def seen_otherwise(monkeypatch: pytest.MonkeyPatch, path: Path, place: int, value: int) -> None:
    """Another user, or group, is shown as the path's owner: to give something away takes root."""
    real = os.lstat

    def lstat(asked: str) -> os.stat_result:
        found = list(real(asked))
        if str(path) == asked:
            found[place] = value
        return os.stat_result(found)

    monkeypatch.setattr(ownership.os, "lstat", lstat)


def given_away(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    seen_otherwise(monkeypatch, path, stat.ST_UID, STRANGER)


def reason(path: Path) -> str:
    with pytest.raises(ConfigError) as found:
        own_folder(path)
    return str(found.value)


def test_a_missing_folder_is_made_for_the_owner_alone(tmp_path: Path) -> None:
    own_folder(tmp_path / "a" / "b")
    assert 0o700 == (tmp_path / "a" / "b").stat().st_mode & 0o7777
    own_folder(tmp_path / "a" / "b")


@each_row("place", ["", "state", "state/tls", "state/tls/token", "state/objects.db"])
def test_what_belongs_to_another_user_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "state" / "tls").mkdir(parents=True)
    (tmp_path / "state" / "tls" / "token").write_text("planted")
    (tmp_path / "state" / "objects.db").write_text("planted")
    given_away(monkeypatch, tmp_path / place)
    assert (
        f"state folder '{tmp_path / 'state'}' can't be used: '{tmp_path / place}' belongs to user 65534; "
        "give a folder that nobody else can write to"
    ) == reason(tmp_path / "state")


@each_row(("place", "mode"), [("", 0o777), ("state", 0o757), ("state", 0o1777), ("state/tls", 0o722)])
def test_a_folder_that_others_may_write_to_is_refused_by_its_mode(tmp_path: Path, place: str, mode: int) -> None:
    (tmp_path / "state" / "tls").mkdir(parents=True)
    (tmp_path / place).chmod(mode)
    assert f"others may write to '{tmp_path / place}' (mode {mode:04o})" in reason(tmp_path / "state")
    (tmp_path / place).chmod(0o755)
    own_folder(tmp_path / "state")


def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("known to all")
    for mode in (0o666, 0o1666):
        (tmp_path / "token").chmod(mode)
        assert f"others may write to '{tmp_path / 'token'}' (mode {mode:04o})" == danger_in(tmp_path)


def test_a_sticky_folder_above_is_fine(tmp_path: Path) -> None:
    """As the system's folder for temporary files is: nobody can put another folder in the place of ours."""
    tmp_path.chmod(0o1777)
    own_folder(tmp_path / "state")


def test_the_way_by_links_counts_too(tmp_path: Path) -> None:
    (tmp_path / "there" / "state").mkdir(parents=True)
    (tmp_path / "state").symlink_to(tmp_path / "there" / "state")
    own_folder(tmp_path / "state")
    (tmp_path / "there").chmod(0o777)
    assert f"others may write to '{tmp_path / 'there'}'" in reason(tmp_path / "state")


def test_a_link_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tls").symlink_to(tmp_path / "elsewhere")
    given_away(monkeypatch, tmp_path / "tls")
    assert f"'{tmp_path / 'tls'}' belongs to user 65534" in reason(tmp_path)


def test_who_used_sudo_is_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_away(monkeypatch, tmp_path)
    me, seen = os.geteuid(), os.lstat

    def with_mine_as_roots(asked: str) -> os.stat_result:
        found = list(seen(asked))
        found[stat.ST_UID] = 0 if found[stat.ST_UID] == me else found[stat.ST_UID]
        return os.stat_result(found)

    monkeypatch.setattr(ownership.os, "lstat", with_mine_as_roots)
    monkeypatch.setattr(ownership.os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    own_folder(tmp_path / "state")


@each_row(("members", "is_refused"), [([], False), (["me"], False), (["me", "you"], True)])
def test_a_group_of_one_is_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: list[str], is_refused: bool
) -> None:
    """Some systems give each user a group, and let new folders be written by it."""
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name="me", gr_mem=members))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me", pw_gid=77))
    seen_otherwise(monkeypatch, tmp_path, stat.ST_GID, 77)
    tmp_path.chmod(0o775)
    assert is_refused == bool(danger_in(tmp_path))


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    assert "it is a file; give a folder" in reason(tmp_path / "state")
