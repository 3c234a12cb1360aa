"""The border to the system: its errors in words that end with the next step."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mooring.base.errors import ConfigError

_ROOM: Final = "make room there, or give a place on another disk"
_RIGHTS: Final = "give a place that this user may use, or become a user who may use this one"

_NEXT: Final = {
    errno.ENOENT: "check the path, and that its folder is there",
    errno.ENOTDIR: "a part of the path is a file: give another path",
    errno.EISDIR: "give a file",
    errno.EEXIST: "give another name, or move away what is there",
    errno.ENOTEMPTY: "give another name, or move away what is there",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "links in the path lead in a circle: give another path",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "give a place that can be written to",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EIO: "the disk fails: look into the kernel's log",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs: the whole system has no file left to open",
    errno.ENOMEM: "give the program more memory",
}


def reason(error: OSError, where: str = "") -> str:
    """The system's words for the error and, where there is one, the next step: `Is a directory; give a file`.

    where: follows the words, such as `: 'state/tls'`.

    Texts of others (TLS, resolvers) stay alone: their numbers have other meanings.
    """
    text = error.strerror or str(error) or type(error).__name__
    number = error.errno or 0
    step = f"; {_NEXT[number]}" if number in _NEXT and text == os.strerror(number) else ""
    return f"{text}{where}{step}"


@contextmanager
def refused_as(what: str, *, exit_code: int = 1) -> Iterator[None]:
    """Turn the errors of a file that is used in the block into a ConfigError. what: begins it: `can't read x.yaml`."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{what}: {reason(error)}", exit_code=exit_code) from error
    except UnicodeError as error:
        raise ConfigError(f"{what}: it is no UTF-8; save it as UTF-8", exit_code=exit_code) from error
