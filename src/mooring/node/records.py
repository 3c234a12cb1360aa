"""`vol_data.json`: what a folder says about the volume in it, in the kubelet's form, so that either can read what the other wrote.

A record is there before the driver is called, and goes only after the driver has said that nothing is left: whoever finds one knows
that there may be a mount. Written to a temporary file, synced, and renamed: half a record can't be read.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mooring.base.errors import MooringError
from mooring.base.folders import sync_folder

NAME: Final = "vol_data.json"
PERSISTENT: Final = "Persistent"
EPHEMERAL: Final = "Ephemeral"
LABEL: Final = "seLinuxMountContext"
_BYTES_MAX: Final = 1 << 20


class BadRecord(MooringError):
    """A record that is there and can't be read. The file is left as it is."""


def staging_record(driver: str, handle: str, label: str = "") -> dict[str, str]:
    """label: the SELinux label that the volume is mounted with, "" for none."""
    return {"driverName": driver, "volumeHandle": handle} | _labelled(label)


def publish_record(driver: str, handle: str, *, spec_name: str, node: str, attachment: str, mode: str, label: str = "") -> dict[str, str]:
    """mode: PERSISTENT, EPHEMERAL, or "" for block volumes, whose records have no mode.

    attachment: the VolumeAttachment's name, always. label: as in staging_record.
    """
    record = {
        "attachmentID": attachment,
        "driverName": driver,
        "nodeName": node,
        "specVolID": spec_name,
        "volumeHandle": handle,
        "volumeLifecycleMode": mode,
    }
    if not mode:
        del record["volumeLifecycleMode"]
    return record | _labelled(label)


def _labelled(label: str) -> dict[str, str]:
    return {LABEL: label} if label else {}


def encoded(record: Mapping[str, str]) -> bytes:
    """As Go's encoder writes a map of strings: sorted, no spaces, `<`, `>` and `&` escaped, a line feed at the end."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"{text}\n".encode()


def write(folder: Path, record: Mapping[str, str]) -> None:
    """Puts the record into the folder, durably. Blocks. Raises OSError."""
    path, temporary = folder / NAME, folder / f".{NAME}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(encoded(record))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)
    sync_folder(folder.parent)


def read(folder: Path) -> dict[str, str] | None:
    """The record of a folder, None where there is none. Blocks. Raises BadRecord, OSError."""
    path = folder / NAME
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise BadRecord(f"{path}: not a regular file")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for its writer
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(_BYTES_MAX + 1)
    if len(text) > _BYTES_MAX:
        raise BadRecord(f"{path}: longer than {_BYTES_MAX} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"{path}: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise BadRecord(f"{path}: not an object of strings")
    try:
        encoded(found)
    except UnicodeEncodeError as error:
        raise BadRecord(f"{path}: {error}") from None
    if not found.get("driverName") or not found.get("volumeHandle"):
        raise BadRecord(f"{path}: driverName or volumeHandle is missing")
    return found


def remove(folder: Path) -> None:
    """Removes the record; one that is not there is fine. Blocks. Raises OSError."""
    for name in (NAME, f".{NAME}.tmp"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)
