"""A mount namespace of this process' own: what is mounted in it is gone with its last process, whatever ends that.

Entered once, before the process has threads: a thread keeps the namespace it was born in, and a process with threads
may not enter a user namespace at all. As root the mount namespace is enough; everybody else enters a user namespace
too, in which they are root, where the kernel allows it. Mounts of the host still arrive here; ours never get there.

Every way is tried in a child process first: a half that is refused (a user namespace without rights, as AppArmor grants
it) would leave this process with fewer rights than it began with.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from mooring.mounts.system import MOUNT_TOOLS, ToolFailed, missing_tools

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_BIND: Final = 0x1000
_RECURSIVE: Final = 0x4000
_SLAVE: Final = 0x80000


class MountSpace(msgspec.Struct, frozen=True):
    """Where this process mounts. obstacle: why it can't, "" where it can. is_private: in a namespace of its own;
    as_user: a user's.
    """

    obstacle: str = ""
    is_private: bool = False
    as_user: bool = False

    @property
    def can_mount(self) -> bool:
        return not self.obstacle


def enter_private_mounts() -> MountSpace:
    """Enters a mount namespace that nothing leaves; where that can't be had, says why, and everything stays as it
    was.
    """
    if sys.platform != "linux":
        return MountSpace("volumes are mounted on Linux only")
    if missing := missing_tools(MOUNT_TOOLS):
        return MountSpace(
            f"this machine has no {' and no '.join(missing)}: install the package that has them (util-linux)"
        )
    if len(os.listdir("/proc/self/task")) > 1:
        return MountSpace("this process has threads already, which would stay outside of a mount namespace")
    root_refusal = "" if os.geteuid() == 0 else "only root may"
    if not root_refusal and not (root_refusal := _tried(_enter_as_root)):
        _enter_as_root()
        return MountSpace(is_private=True)
    if user_refusal := _tried(_enter_as_user):
        return MountSpace(f"no mount namespace: {root_refusal}; none in a user namespace: {user_refusal}")
    _enter_as_user()
    return MountSpace(is_private=True, as_user=True)


def _enter_as_root() -> None:
    _unshare(_NEW_MOUNTS)
    _mount(b"none", b"/", _RECURSIVE | _SLAVE)


def _enter_as_user() -> None:
    """Root in a user namespace: our own user and group are mapped, nobody else's."""
    user, group = os.geteuid(), os.getegid()
    _unshare(_NEW_USERS | _NEW_MOUNTS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")
    _mount(b"none", b"/", _RECURSIVE | _SLAVE)


def _tried(enter: Callable[[], None]) -> str:
    """Enters in a child process, and mounts something there: why that fails, "" where it does not."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter()
            _mount(b"/dev/null", b"/dev/null", _BIND)
        except BaseException as error:  # whatever it is: the child must not go on as if it were the parent
            os.write(writer, (str(error) or type(error).__name__).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def _unshare(flags: int) -> None:
    if _libc().unshare(flags):
        raise _error("unshare")


def _mount(source: bytes, target: bytes, flags: int) -> None:
    if _libc().mount(source, target, None, ctypes.c_ulong(flags), None):
        raise _error("mount")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error(call: str) -> ToolFailed:
    return ToolFailed(f"{call}: {os.strerror(ctypes.get_errno())}")
