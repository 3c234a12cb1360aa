"""A volume's folder on the disk: its record, `vol_data.json`, and the place where the driver mounts. Everything here
blocks.

The record has the kubelet's form, so that either can read what the other wrote. It is there before the driver is
called, and goes only after the driver has said that nothing is left: whoever finds one knows that there may be a mount.
It is written to a temporary file, synced, and renamed: half a record can't be read.

Mounts are read from the mount table, never by stat: a mount whose server is gone would hold the thread for ever.
Folders are removed one by one when they are empty and nothing is mounted on them; nothing is ever removed with what is
in it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mooring.base.errors import MooringError
from mooring.base.folders import sync_folder
from mooring.base.json_text import from_json
from mooring.mounts import system
from mooring.mounts.mountinfo import MountTable, is_within
from mooring.mounts.targets import mount_table
from mooring.node.layout import KubeletLayout, escaped

RECORD: Final = "vol_data.json"
PERSISTENT: Final = "Persistent"
EPHEMERAL: Final = "Ephemeral"
LABEL: Final = "seLinuxMountContext"
_BYTES_MAX: Final = 1 << 20
_MODE: Final = 0o750
_OF_A_POD: Final = re.compile(r"/pods/[^/]+/(volumes/kubernetes\.io~csi|volume-subpaths)/")
"""Below the root folder of some node."""


class LeftOver(MooringError):
    """Something is in the way of a clean end: a mount, or files in a folder that should be empty."""


class BadRecord(MooringError):
    """A record that is there and can't be read. The file is left as it is."""


def staging_record(driver: str, handle: str, label: str = "") -> dict[str, str]:
    """label: the SELinux label that the volume is mounted with, "" for none."""
    return {"driverName": driver, "volumeHandle": handle} | _labelled(label)


def publish_record(
    driver: str, handle: str, *, spec_name: str, node: str, attachment: str, mode: str, label: str = ""
) -> dict[str, str]:
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
    """The record as Go encodes a map of strings: sorted, no spaces, `<`, `>`, `&` escaped, a line feed at the end."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"{text}\n".encode()


def write_record(folder: Path, record: Mapping[str, str]) -> None:
    """Puts the record into the folder, durably. Blocks. Raises OSError."""
    path, temporary = folder / RECORD, folder / f".{RECORD}.tmp"
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


def read_record(folder: Path) -> dict[str, str] | None:
    """The record of a folder, None where there is none. Blocks. Raises BadRecord, OSError."""
    path = folder / RECORD
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise BadRecord(f"{path}: not a regular file")
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )  # a pipe would wait for its writer
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(_BYTES_MAX + 1)
    if len(text) > _BYTES_MAX:
        raise BadRecord(f"{path}: longer than {_BYTES_MAX} bytes")
    try:
        found = from_json(text)
    except ValueError as error:
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


def remove_record(folder: Path) -> None:
    """Removes the record; one that is not there is fine. Blocks. Raises OSError."""
    for name in (RECORD, f".{RECORD}.tmp"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)


def mounts_of(layout: KubeletLayout) -> MountTable:
    """The mounts now, in this process' mount namespace, with the node's own paths of its volumes."""
    return mount_table(layout.root, *layout.folders_of_volumes)


def make_folders(folder: Path) -> None:
    """The folder, with those above it that are missing, each for its owner and his group, as a kubelet makes them.
    Raises OSError.
    """
    try:
        folder.mkdir(mode=_MODE)
    except FileNotFoundError:
        make_folders(folder.parent)
        make_folders(folder)
    except FileExistsError:
        if not folder.is_dir():
            raise


class VolumeFiles:
    """layout: the node's. mount_table: what is mounted now, None for the truth."""

    def __init__(self, layout: KubeletLayout, mount_table: Callable[[], MountTable] | None = None) -> None:
        self._mount_table = mount_table or (lambda: mounts_of(layout))

    def begin(self, folder: Path, record: Mapping[str, str], own: str = "") -> None:
        """Makes the volume's folder and its record, durably. own: a folder in it, made where it is not mounted. Raises
        OSError.
        """
        point = folder / own
        if not self.is_mounted(point):  # what is mounted may hang, and is not asked
            make_folders(point)
        write_record(folder, record)

    def is_mounted(self, path: Path) -> bool:
        return self._mount_table().at(str(path)) is not None

    def end(self, folder: Path, mounted: str) -> None:
        """Removes what `begin` made, with what the driver has left at `mounted` in it.

        The record goes last but for its folder: as long as it is there, the volume is found again. Raises LeftOver,
        with everything in place, when there still is a mount, or a file where none belongs; OSError.
        """
        point = folder / mounted
        if below := self._mount_table().below(str(point)):
            raise LeftOver(f"{below[-1].point} is still mounted")
        remove_target(point)
        remove_record(folder)
        with contextlib.suppress(LeftOver):
            remove_folder(folder)

    def end_sub_paths(self, folder: Path) -> None:
        """Takes away the parts of a volume that a kubelet has bound below this folder, and the empty files and folders
        under them.

        Raises ToolFailed, OSError; LeftOver for a link in the place of a folder, and for what is not empty.
        """
        for path in (folder, folder.parent):
            if path.is_symlink():
                raise LeftOver(f"{path} is a link in the place of a folder: look where it leads, and remove it by hand")
        if not folder.is_dir():
            return
        for mount in reversed(self._mount_table().below(str(folder))):
            system.unmount(Path(mount.point))
        for parent, folders, files in os.walk(folder, topdown=False):
            for name in files:
                _remove_empty_file(Path(parent, name))
            for name in folders:
                remove_folder(Path(parent, name))
        remove_folder(folder)
        with contextlib.suppress(LeftOver):
            remove_folder(folder.parent)

    def foreign_references(self, staging: Path, root: Path) -> tuple[str, ...]:
        """Other places where what is staged is mounted: those of another node of this machine, which has staged it for
        itself, aside.
        """
        part = str(staging).removeprefix(str(root))
        found = [point for point in self._mount_table().references(str(staging)) if part not in point]
        return tuple(point for point in found if is_within(point, str(root)) or not _OF_A_POD.search(point))

    def mounted_targets(self, layout: KubeletLayout, spec_name: str, driver: str, handle: str) -> tuple[str, ...]:
        """Where in folders of pods something is mounted that is this volume, or may be: not every driver publishes what
        it has staged.

        spec_name: "" where it is not known. What has no record of its own is this volume's where the names allow it.
        """
        found = []
        for mount in self._mount_table().below(str(layout.pods)):
            name = layout.spec_folder_of(mount.point)
            if not name:
                continue
            try:
                record = read_record(Path(mount.point).parent)
            except (BadRecord, OSError):
                record = None
            if record is None or escaped(record.get("specVolID", "")) != name:
                is_this = not spec_name or name == escaped(spec_name)
            else:
                is_this = (record["driverName"], record["volumeHandle"]) == (driver, handle)
            if is_this:
                found.append(mount.point)
        return tuple(found)


def remove_target(path: Path) -> None:
    """Removes what a driver may leave where nothing is mounted: an empty folder, an empty file, a device's file, a
    link.

    The target of a link stays. Nothing there is fine. Raises LeftOver for what has content, OSError.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    kind = stat.S_IFMT(status.st_mode)
    if kind in (stat.S_IFLNK, stat.S_IFBLK, stat.S_IFCHR):
        path.unlink()
    elif kind == stat.S_IFREG:
        _remove_empty_file(path)
    else:
        remove_folder(path)


def _remove_empty_file(path: Path) -> None:
    """Raises LeftOver for any other, OSError."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size:
        raise LeftOver(f"{path} is no empty file: look what it is, and remove it by hand")
    path.unlink()


def remove_folder(folder: Path) -> None:
    """An empty folder; one that is not there is fine. Raises LeftOver."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise LeftOver(f"{folder} is no folder: look what it is, and remove it by hand") from None
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EBUSY, errno.EEXIST):
            raise LeftOver(
                f"{folder} can't be removed ({error.strerror}): look what is in it, and remove it by hand"
            ) from None
        raise
