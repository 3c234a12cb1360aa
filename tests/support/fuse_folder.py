"""An empty folder that is served through /dev/fuse, without any library: stopped (SIGSTOP) it hangs, killed it is a
dead mount.

    python -m tests.support.fuse_folder MOUNT_POINT

Source: the kernel's include/uapi/linux/fuse.h, version 7.31.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Final

LOOKUP, FORGET, GETATTR, SETATTR, STATFS, INIT = 1, 2, 3, 4, 17, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
_IN: Final = struct.Struct("<IIQQIIII")
_OUT: Final = struct.Struct("<IiQ")
_INIT: Final = struct.Struct("<IIIIHHIIHHI28x")
_ATTR: Final = struct.Struct("<QII6Q10I")
_OPEN: Final = struct.Struct("<QII")
_FOLDER: Final = 0o040755
_REQUEST_BYTES_MAX: Final = 1 << 20


def mount(point: str) -> int:
    """Mounts on the point; gives the descriptor that the kernel asks through. Raises OSError."""
    descriptor = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={descriptor},rootmode={_FOLDER:o},user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"folder", point.encode(), b"fuse", 0, options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), point)
    return descriptor


def serve(descriptor: int) -> None:
    """Until it is unmounted."""
    while True:
        try:
            request = os.read(descriptor, _REQUEST_BYTES_MAX)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            if error.errno in (errno.EINTR, errno.ENOENT):  # the asker has gone
                continue
            raise
        _, opcode, unique, *_ = _IN.unpack_from(request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        code, body = answer(opcode)
        try:
            os.write(descriptor, _OUT.pack(_OUT.size + len(body), -code, unique) + body)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise


def answer(opcode: int) -> tuple[int, bytes]:
    """The error, 0 for none, and the answer."""
    if opcode == INIT:
        return 0, _INIT.pack(7, 31, 0, 0, 12, 9, 4096, 1, 1, 0, 0)
    if opcode in (GETATTR, SETATTR):  # valid for no time at all: who asks again asks us again
        return 0, _ATTR.pack(0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, _FOLDER, 2, 0, 0, 0, 4096, 0)
    if opcode == OPENDIR:
        return 0, _OPEN.pack(1, 0, 0)
    if opcode == STATFS:
        return 0, b"\0" * 80
    if opcode in (READDIR, RELEASEDIR):
        return 0, b""
    return (errno.ENOENT if opcode == LOOKUP else errno.ENOSYS), b""


if __name__ == "__main__":
    from_kernel = mount(sys.argv[1])
    print("mounted", flush=True)
    serve(from_kernel)
