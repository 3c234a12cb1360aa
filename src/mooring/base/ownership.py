"""Checks that nobody else could have prepared a folder, since programs trust the token or the CA in it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mooring.base import folders
from mooring.base.errors import ConfigError

_SECRETS: Final = "tls"


def own_folder(path: Path) -> None:
    """Makes the folder where it is missing, for its owner alone. Raises ConfigError where another user could have put
    something into it.

    That is so if somebody else owns it, a folder above it or what lies in it, or may write to one of those folders (a
    sticky one above apart). Root and who used sudo are nobody else.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for reason in (*_above(path), danger_in(path), danger_in(path / _SECRETS)):
            if reason:
                raise ConfigError(
                    f"state folder '{path}' can't be used: {reason}; give a folder that nobody else can write to"
                )
    except OSError as error:
        raise folders.refusal(path, error) from error


def danger_in(folder: Path) -> str:
    """How another user could have put something into the folder, or changed a file in it: "" if none could. Raises
    OSError.
    """
    try:
        entries = [entry.path for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return _first(
        [_strangers(str(folder), is_sticky_fine=False), *(_strangers(entry, is_sticky_fine=True) for entry in entries)]
    )


def _above(path: Path) -> Iterable[str]:
    """The same for each folder above, by the path as given, and as its links lead."""
    for way in {os.path.abspath(path), os.path.realpath(path)}:
        for folder in Path(way).parents:
            yield _strangers(str(folder), is_sticky_fine=True)


def _strangers(path: str, *, is_sticky_fine: bool) -> str:
    found = os.lstat(path)
    if found.st_uid not in _us():
        return f"'{path}' belongs to user {found.st_uid}"
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return ""
    if is_sticky_fine and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return ""
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid)):
        return f"others may write to '{path}' (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def _us() -> set[int]:
    """The users who may own what we believe."""
    us = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        us.add(int(os.environ["SUDO_UID"]))
    return us


def _is_private(gid: int) -> bool:
    """True for root's group, and for a group of one of us alone, by which some systems let new files be written."""
    if gid == 0:
        return True
    try:
        group, users = grp.getgrgid(gid), [pwd.getpwuid(uid) for uid in _us()]
    except KeyError:
        return False
    return any(
        user.pw_gid == gid and user.pw_name == group.gr_name and set(group.gr_mem) <= {user.pw_name} for user in users
    )


def _first(reasons: Iterable[str]) -> str:
    return next(filter(None, reasons), "")
