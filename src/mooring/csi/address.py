"""The socket of a driver: the forms of its address, and texts for everything that can be wrong with it."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import Final

from mooring.base.errors import ConfigError
from mooring.wire.grpc.socket_file import PATH_BYTES_MAX

ABSENT: Final = (
    "the socket does not exist yet: is the driver running, and is the folder of its socket mounted here too?"
)

_IN_WORDS: Final = {
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.ECONNREFUSED: "the socket is there, but nobody listens on it",
    errno.EAGAIN: "the socket is there, but nobody takes connections from it",
}


def socket_path(address: str) -> str:
    """The path of a driver's socket.

    address: an absolute path, or `unix://` or `unix:` and one; extra slashes do no harm. Raises ConfigError for
    everything else: over a network the loss of a driver could not be told from a slow one.

    Go's livenessprobe and registrar take `unix:/path`, the other Go programs `unix:///path` alone.
    """
    # What follows two slashes and is no third one would be a host.
    rest = address.removeprefix("unix://" if address.startswith("unix://") else "unix:")
    if not rest.startswith("/"):
        raise ConfigError(
            f"csi-address {address!r} is not the path of a unix socket, and a driver is reached over nothing "
            "else: give an absolute path, "
            "as in /run/csi/socket or unix:///run/csi/socket (OnConnectionLoss callback only supported for "
            "unix:// addresses)"
        )
    path = f"/{rest.lstrip('/')}"
    if path == "/" or "\0" in path:
        raise ConfigError(f"csi-address {address!r} names no socket: give its path, as in /run/csi/socket")
    length = len(os.fsencode(path))
    if length > PATH_BYTES_MAX:
        raise ConfigError(
            f"csi-address {address!r}: the path has {length} bytes, a socket's may have {PATH_BYTES_MAX}: "
            "let the driver serve in a shorter one"
        )
    return path


def trouble(path: str, absent: str = ABSENT) -> str:
    """The reason that nobody can be reached at this path now; "" when somebody accepts connections. absent: where
    nothing is.
    """
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISSOCK(mode):
            return f"{_kind(mode)}, not a socket"
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            client.connect(path)
    except FileNotFoundError:
        return absent
    except PermissionError:
        return _denied(path)
    except OSError as error:
        return _IN_WORDS.get(error.errno or 0, error.strerror or str(error))
    return ""


def _denied(path: str) -> str:
    """This process' user, and the socket's owner."""
    user = os.geteuid()
    try:
        owned = os.stat(path)
    except OSError:
        return f"permission denied: user {user} may not look into the socket's folder"
    return (
        f"permission denied: this is user {user}, and the socket, mode {stat.S_IMODE(owned.st_mode):04o}, is "
        f"of user {owned.st_uid} and "
        f"group {owned.st_gid}: run both as one user, or let the driver give a group of both the right to write to it"
    )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "it is a folder"
    return "it is a file" if stat.S_ISREG(mode) else "it is something else"
