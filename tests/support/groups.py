"""A group that this process may give its files to."""

from __future__ import annotations

import os
from pathlib import Path


def a_group() -> int:
    """Any other than its own where it is root; one of its own for an ordinary user."""
    return 3000 if os.geteuid() == 0 else sorted({os.getgid(), *os.getgroups()})[-1]


def is_given(folder: Path) -> bool:
    """True where the folder has the group and its rights. An ordinary user's folder may have had the group before."""
    status = folder.stat()
    has_group, has_rights = status.st_gid == a_group(), status.st_mode & 0o2770 == 0o2770
    assert os.geteuid() != 0 or has_group == has_rights, "the group and its rights come together"
    return has_group and has_rights
