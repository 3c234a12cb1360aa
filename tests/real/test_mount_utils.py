"""Our functions and k8s.io/mount-utils on equal devices: both mount, refuse, format, repair and grow the same.

hack/mount-oracle is the Go program on mount-utils. Where we differ on purpose, the row says in what, and why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import ANY

import pytest

from mooring.mounts import filesystems, loops, system, targets
from tests.support import device_states as states
from tests.support.device_states import MIB, State
from tests.support.layers import REAL_MOUNTS, XFS, not_tested
from tests.support.private_mounts import clear_below, enter_private_mounts
from tests.support.real import binary
from tests.support.rows import each_row
from tests.unit.mounts.scenes import may_use_resources

pytestmark = [pytest.mark.real, pytest.mark.slow]

WITH_TOOLS: Final = {**os.environ, "PATH": system.tool_path()}
TABLE: Final = "unknown data, probably partitions"
"""mount-utils' word for any partition table."""

KINDS: Final = {
    r"is not empty": "NotEmpty",
    r"^something else is mounted": "Occupied",
    r"none is made": "UnformattedReadOnly",
    r"is asked for|and no file system": "FilesystemMismatch",
    r"^(e2fsck|fsck) ": "HasFilesystemErrors",
    r"^mkfs\.": "FormatFailed",
    r"^(blkid |\[Errno)": "GetDiskFormatFailed",
    r"^mount ": "UnknownMountError",
}
"""What our errors say, and mount-utils' type of such an error. It has none for a device that is not empty, nor for a
mount point that is taken.
"""

BLOCK: Final = 4096
XFS_SIZE: Final = 320 * MIB
"""mkfs.xfs makes none below 300 MiB."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A device, and what is asked for."""

    state: State
    wanted: str = "ext4"
    """The file system."""
    options: tuple[str, ...] = ()
    size: int = 32 * MIB
    is_readonly: bool = False
    """The device."""
    link: str = ""
    """The name of a link that the device is given by."""
    at_point: Callable[[Path, Path], None] = lambda _device, _point: None
    """Is done with the device and the mount point, a folder, before anything is asked for."""
    hides: tuple[str, ...] = ()
    """Tools that are not found."""
    is_file: bool = False
    """The image is given, not its device, and has all its room afterwards."""
    is_mounted: bool = True
    grows: bool = False
    """It shall have the whole device afterwards."""
    differs: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    """What of the outcome differs: mount-utils' and ours."""
    why: str = ""


def without_point(_device: Path, point: Path) -> None:
    """Nobody has made the folder."""
    point.rmdir()


def mounted_already(device: Path, point: Path) -> None:
    """As after a call whose answer was lost."""
    system.run("mount", str(device), str(point))


def taken(_device: Path, point: Path) -> None:
    """Something else is mounted there."""
    system.run("mount", "-t", "tmpfs", "tmpfs", str(point))


def beside_its_origin(device: Path, point: Path) -> None:
    """The volume that this one was restored from is mounted."""
    origin, other = point.with_name("origin"), point.with_name("other")
    system.run("cp", "--sparse=always", str(loops.backing_of(device.name)), str(origin))
    other.mkdir()
    system.run("mount", str(loops.device(origin)), str(other))


OURS_MOUNTS: Final[dict[str, tuple[Any, Any]]] = {
    "mounted": ("", "ext4"),
    "options": ([], ["relatime", "rw"]),
    "size": (0, ANY),
    "available": (0, ANY),
    "written": (False, True),
}
THEIRS_FORMATS: Final[dict[str, tuple[Any, Any]]] = {
    **{key: (theirs, ours) for key, (ours, theirs) in OURS_MOUNTS.items()},
    "kind": ("", "NotEmpty"),
    "on_it": ("ext4", ""),
    "blocks": (ANY, None),
    "sound": (True, None),
}
GROWN_BEFORE: Final[dict[str, tuple[Any, Any]]] = (
    {}
    if may_use_resources()
    else {"grown": ("failed", ""), "size": (ANY, ANY), "available": (ANY, ANY), "blocks": ("32768", "65536")}
)
BEFORE: Final = "" if may_use_resources() else "a mounted one grows only with CAP_SYS_RESOURCE: ours grows before"
NOT_OVER: Final = "nothing is formatted over: no signature is no proof that nobody needs the content"
UNASKED: Final = "nothing is written to a file system that will not be mounted"
BOTH_MOUNT: Final = "the name is for messages; both mount the file system, and both refuse to let it grow"

ROWS: Final = {
    "empty": Row(states.empty),
    "empty, no type": Row(states.empty, ""),
    "empty, ext3": Row(states.empty, "ext3"),
    "empty, ext2": Row(states.empty, "ext2"),
    "empty, no such type": Row(states.empty, "nofs"),
    "empty, any type": Row(states.empty, "auto"),
    "empty, ro": Row(states.empty, options=("ro",)),
    "empty, ro in one word with another": Row(states.empty, options=("noatime,ro",)),
    "empty, options": Row(states.empty, options=("noexec", "nosuid", "nodev", "noatime")),
    "empty, no such option": Row(states.empty, options=("nonsense",)),
    "empty, device read-only": Row(
        states.empty,
        is_readonly=True,
        differs={"kind": ("FormatFailed", "UnformattedReadOnly")},
        why="mkfs is not tried on what can't be written",
    ),
    "empty, by a link": Row(states.empty, link="disk"),
    "no such device": Row(
        states.empty,
        link="/dev/there-is-none",
        differs={"kind": ("FormatFailed", "GetDiskFormatFailed")},
        why="what can't be read is not taken for empty",
    ),
    "ext4": Row(states.made_by("mkfs.ext4", "-qF")),
    "ext4, no type": Row(states.made_by("mkfs.ext4", "-qF"), ""),
    "ext4, any type": Row(states.made_by("mkfs.ext4", "-qF"), "auto"),
    "ext4, ro": Row(states.made_by("mkfs.ext4", "-qF"), options=("ro",)),
    "ext4, rw": Row(states.made_by("mkfs.ext4", "-qF"), options=("rw", "noatime")),
    "ext4, no such option": Row(states.made_by("mkfs.ext4", "-qF"), options=("nonsense",)),
    "ext4, device read-only": Row(states.made_by("mkfs.ext4", "-qF"), is_readonly=True),
    "ext4, by a link": Row(states.made_by("mkfs.ext4", "-qF"), link="disk"),
    "ext4, by a link with an equals sign": Row(
        states.made_by("mkfs.ext4", "-qF"),
        link="disk=1",
        differs={"found": ("", "ext4"), "kind": ("GetDiskFormatFailed", ""), **OURS_MOUNTS},
        why="a slip of mount-utils, which splits the name of the device, too",
    ),
    "ext4, strange type": Row(states.made_by("mkfs.ext4", "-qF"), "strange"),
    "ext4, all types but one": Row(states.made_by("mkfs.ext4", "-qF"), "noxfs"),
    "ext4, ext3 asked": Row(states.made_by("mkfs.ext4", "-qF"), "ext3"),
    "ext4, ext2 asked": Row(states.made_by("mkfs.ext4", "-qF"), "ext2"),
    "ext4, xfs asked": Row(states.made_by("mkfs.ext4", "-qF"), "xfs", differs={"written": (True, False)}, why=UNASKED),
    "ext4, xfs asked, ro": Row(states.made_by("mkfs.ext4", "-qF"), "xfs", options=("ro",)),
    "ext3": Row(states.made_by("mkfs.ext3", "-qF"), "ext3"),
    "ext3, no type": Row(states.made_by("mkfs.ext3", "-qF"), ""),
    "ext3, no type, ro": Row(states.made_by("mkfs.ext3", "-qF"), "", options=("ro",)),
    "ext3, ext4 asked": Row(states.made_by("mkfs.ext3", "-qF")),
    "ext3, ext4 asked, ro": Row(states.made_by("mkfs.ext3", "-qF"), options=("ro",)),
    "ext3, ext2 asked": Row(states.made_by("mkfs.ext3", "-qF"), "ext2"),
    "ext2, ext3 asked": Row(states.made_by("mkfs.ext2", "-qF"), "ext3"),
    "ext2, ext4 asked": Row(states.made_by("mkfs.ext2", "-qF")),
    "an error flag": Row(states.changed_by("ssv state 2")),
    "an error flag, ro": Row(states.changed_by("ssv state 2"), options=("ro",)),
    "an error flag, device read-only": Row(states.changed_by("ssv state 2"), is_readonly=True),
    "an error flag, xfs asked": Row(
        states.changed_by("ssv state 2"), "xfs", differs={"written": (True, False)}, why=UNASKED
    ),
    "errors that are repaired": Row(states.changed_by("ssv state 2", "ssv free_blocks_count 5")),
    "ext2, not unmounted": Row(states.changed_by("ssv state 0", kind="ext2"), "ext2"),
    "damaged": Row(states.changed_by("ssv state 2", "clri <2>")),
    "damaged, no type": Row(states.changed_by("ssv state 2", "clri <2>"), ""),
    "damaged, ro": Row(states.changed_by("ssv state 2", "clri <2>"), options=("ro",)),
    "damaged, device read-only": Row(states.changed_by("ssv state 2", "clri <2>"), is_readonly=True),
    "damaged, xfs asked": Row(
        states.changed_by("ssv state 2", "clri <2>"),
        "xfs",
        differs={"kind": ("HasFilesystemErrors", "FilesystemMismatch"), "written": (True, False)},
        why=UNASKED,
    ),
    "torn from its mount": Row(states.torn_from_its_mount),
    "torn from its mount, ro": Row(states.torn_from_its_mount, options=("ro",)),
    "torn from its mount, device read-only": Row(states.torn_from_its_mount, is_readonly=True),
    "minix with errors": Row(states.damaged_minix, "minix"),
    "a dos table": Row(states.DOS),
    "a dos table, ro": Row(states.DOS, options=("ro",)),
    "a gpt table": Row(states.GPT),
    "a dos table before ext4": Row(states.a_table_before_ext4, differs={"found": (TABLE, "ext4")}, why=BOTH_MOUNT),
    "swap": Row(states.made_by("mkswap")),
    "swap, asked for": Row(
        states.made_by("mkswap"),
        "swap",
        differs={"kind": ("UnknownMountError", "FilesystemMismatch")},
        why="mount(8) is not tried with what is no file system",
    ),
    "LUKS": Row(states.LUKS),
    "LUKS, no type": Row(states.LUKS, ""),
    "minix": Row(states.made_by("mkfs.minix")),
    "two heads": Row(states.ambiguous),
    "garbage": Row(states.GARBAGE, differs=THEIRS_FORMATS, why=NOT_OVER),
    "ext4 without its superblock": Row(states.wiped, differs=THEIRS_FORMATS, why=NOT_OVER),
    "ext4 grows": Row(states.a_part("ext4"), size=64 * MIB, grows=True),
    "ext3 grows": Row(states.a_part("ext3"), "ext3", size=64 * MIB, grows=True),
    "ext2 grows": Row(states.a_part("ext2"), "ext2", size=64 * MIB, grows=True),
    "ext4 grows, ro": Row(states.a_part("ext4"), options=("ro",), size=64 * MIB, grows=True),
    "ext4 grows, device read-only": Row(states.a_part("ext4"), size=64 * MIB, grows=True, is_readonly=True),
    "ext4 grows, by a link": Row(states.a_part("ext4"), size=64 * MIB, grows=True, link="disk"),
    "ext4 has its size": Row(states.made_by("mkfs.ext4", "-qF"), grows=True),
    "ext4 before a table grows": Row(
        states.a_table_before_ext4, grows=True, differs={"found": (TABLE, "ext4")}, why=BOTH_MOUNT
    ),
    "ext4 grows, not mounted": Row(states.a_part("ext4"), size=64 * MIB, is_mounted=False, grows=True),
    "LVM": Row(states.a_volume_group),
    "LVM grows": Row(states.a_volume_group, is_mounted=False, grows=True),
    "no folder": Row(
        states.made_by("mkfs.ext4", "-qF"),
        at_point=without_point,
        differs={
            "kind": ("UnknownMountError", ""),
            **{key: OURS_MOUNTS[key] for key in OURS_MOUNTS if key != "written"},
        },
        why="our callers leave the folder to us",
    ),
    "mounted already": Row(
        states.made_by("mkfs.ext4", "-qF"),
        at_point=mounted_already,
        differs={"kind": ("UnknownMountError", "")},
        why="calls are repeated; Go drivers look at the mount point before they ask mount-utils",
    ),
    "something else is mounted": Row(
        states.made_by("mkfs.ext4", "-qF"),
        at_point=taken,
        differs={
            "kind": ("", "Occupied"),
            "mounted": ("ext4", "tmpfs"),
            "size": (ANY, ANY),
            "available": (ANY, ANY),
            "written": (True, False),
        },
        why="what others have mounted is not covered",
    ),
    "an error flag, no fsck": Row(states.changed_by("ssv state 2"), hides=("fsck", "e2fsck", "fsck.ext4")),
    "damaged, no fsck for its type": Row(states.changed_by("ssv state 2", "clri <2>"), hides=("e2fsck", "fsck.ext4")),
    "minix with errors, no fsck for its type": Row(states.damaged_minix, "minix", hides=("fsck.minix",)),
    "empty, no mkfs": Row(states.empty, hides=("mkfs.ext4",)),
    "no blkid": Row(states.made_by("mkfs.ext4", "-qF"), hides=("blkid",)),
    "ext4 grows, no resize2fs": Row(states.a_part("ext4"), size=64 * MIB, grows=True, hides=("resize2fs",)),
    "a file": Row(states.empty, is_file=True, grows=True),
    "a file, ext4": Row(states.made_by("mkfs.ext4", "-qF"), is_file=True, grows=True),
    "a file, ext4 grows": Row(
        states.a_part("ext4"), size=64 * MIB, is_file=True, grows=True, differs=GROWN_BEFORE, why=BEFORE
    ),
    "a file, ext3 grows": Row(
        states.a_part("ext3"), "", size=64 * MIB, is_file=True, grows=True, differs=GROWN_BEFORE, why=BEFORE
    ),
    "a file, ext4 grows, ro": Row(
        states.a_part("ext4"),
        options=("ro",),
        size=64 * MIB,
        is_file=True,
        grows=True,
        differs={"grown": ("failed", "")},
        why="a reader does not let it grow",
    ),
    "a file, ext4, xfs asked": Row(
        states.a_part("ext4"),
        "xfs",
        size=64 * MIB,
        is_file=True,
        grows=True,
        differs={"written": (True, False)},
        why=UNASKED,
    ),
    "a file, ext4, strange type": Row(
        states.a_part("ext4"),
        "strange",
        size=64 * MIB,
        is_file=True,
        grows=True,
        differs={"blocks": ("32768", "65536")},
        why="it grows before its mount, which only then is refused",
    ),
    "a file, torn from its mount": Row(states.torn_from_its_mount, is_file=True, grows=True),
    "a file, damaged": Row(states.changed_by("ssv state 2", "clri <2>"), is_file=True, grows=True),
    "a file, ext4 behind a table": Row(
        states.a_table_before_ext4,
        is_file=True,
        grows=True,
        differs={"found": (TABLE, "ext4"), "grown": ("failed", "")},
        why="both mount it and leave its size; a volume that is mounted is a success",
    ),
    "nothing grows": Row(states.empty, is_mounted=False, grows=True),
    "swap grows": Row(states.made_by("mkswap"), is_mounted=False, grows=True),
    "a dos table grows": Row(states.DOS, is_mounted=False, grows=True),
    "LUKS grows": Row(states.LUKS, is_mounted=False, grows=True),
    "minix grows": Row(states.made_by("mkfs.minix"), is_mounted=False, grows=True),
    "two heads grow": Row(states.ambiguous, is_mounted=False, grows=True),
}

XFS_ROWS: Final = {
    "empty, xfs": Row(states.empty, "xfs", size=XFS_SIZE),
    "empty, too small for its type": Row(
        states.empty,
        "xfs",
        size=8 * MIB,
        differs={"written": (False, True)},
        why="the mark stays, since mkfs may have written half of a file system",
    ),
    "xfs": Row(states.made_by("mkfs.xfs", "-q"), "xfs", size=XFS_SIZE),
    "xfs, ro": Row(states.made_by("mkfs.xfs", "-q"), "xfs", ("ro",), size=XFS_SIZE),
    "xfs, ext4 asked": Row(states.made_by("mkfs.xfs", "-q"), size=XFS_SIZE),
    "xfs, no type": Row(
        states.made_by("mkfs.xfs", "-q"),
        "",
        size=XFS_SIZE,
        differs={"kind": ("FilesystemMismatch", ""), **OURS_MOUNTS, "mounted": ("", "xfs")},
        why="a restored volume has the type of its origin, and its class may name none",
    ),
    "xfs grows": Row(states.a_part("xfs"), "xfs", size=2 * XFS_SIZE, grows=True),
    "xfs beside its origin": Row(
        states.made_by("mkfs.xfs", "-q"),
        "xfs",
        size=XFS_SIZE,
        at_point=beside_its_origin,
        differs={"kind": ("UnknownMountError", ""), **OURS_MOUNTS, "mounted": ("", "xfs")},
        why="nouuid, which Go drivers add themselves",
    ),
    "a file, xfs grows": Row(states.a_part("xfs"), "xfs", size=2 * XFS_SIZE, is_file=True, grows=True),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Whatever is mounted in it is unmounted, and whatever loop device is over a file in it is given back."""
    enter_private_mounts(tmp_path)
    if missing := system.missing_tools((*TOOLS, "debugfs", "dumpe2fs", "mkfs.minix", "mkswap")):
        not_tested(REAL_MOUNTS, f"no {', '.join(missing)}")
    try:
        yield tmp_path
    finally:
        clear_below(tmp_path)


@pytest.mark.long
@each_row("name", ROWS, parts=4, fresh=[folder])
def test_a_device_is_treated_as_by_mount_utils(name: str, folder: Path) -> None:
    treated_alike(ROWS[name], folder)


@pytest.mark.long
@each_row("name", XFS_ROWS, fresh=[folder])
def test_an_xfs_is_treated_as_by_mount_utils(name: str, folder: Path) -> None:
    if missing := system.missing_tools(("mkfs.xfs", "xfs_growfs")):
        not_tested(XFS, f"no {', '.join(missing)}")
    treated_alike(XFS_ROWS[name], folder)


def treated_alike(row: Row, folder: Path) -> None:
    """Two equal devices, of which mount-utils gets one and our functions the other."""
    oracle = binary("mount-oracle")
    image = folder / "image"
    image.touch()
    os.truncate(image, row.size)
    row.state(image)
    outcomes = []
    for whose in ("theirs", "ours"):
        own = folder / whose
        (own / "point").mkdir(parents=True)
        system.run("cp", "--sparse=always", str(image), str(own / "image"))
        before = fingerprint(own / "image")
        device = named(loops.device(own / "image", readonly=row.is_readonly), own, row.link)
        row.at_point(device, own / "point")
        with hidden(own / "tools", row.hides):
            answer = (
                asked(oracle, device, own / "point", row) if whose == "theirs" else done(device, own / "point", row)
            )
        outcomes.append({**answer, **seen(own, before)})
        clear_below(own)
    words = [outcome.pop("words") for outcome in outcomes]
    theirs, ours = outcomes
    differences = {key: (theirs.get(key), ours.get(key)) for key in theirs | ours if theirs.get(key) != ours.get(key)}
    assert row.differs == differences, "\n".join(words)
    assert bool(row.differs) == bool(row.why)


def named(device: Path, own: Path, link: str) -> Path:
    """The device as it is given: by a link to it, or by the name of one that is not there."""
    if not link or link.startswith("/"):
        return Path(link or device)
    (own / link).symlink_to(device)
    return own / link


TOOLS: Final = (
    *("blkid", "blockdev", "e2fsck", "fsck", "fsck.ext4", "fsck.minix", "losetup", "mkfs.ext4", "mount"),
    *("resize2fs", "umount"),
)


@contextlib.contextmanager
def hidden(folder: Path, names: tuple[str, ...]) -> Iterator[None]:
    """While the block runs, none of these tools is found, and all other ones that are needed."""
    if not names:
        yield
        return
    folder.mkdir()
    for tool in TOOLS:
        if tool not in names:
            (folder / tool).symlink_to(shutil.which(tool, path=system.tool_path()) or "")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(folder))
        patched.setattr(system, "SBIN", ())
        yield


def asked(oracle: Path, device: Path, point: Path, row: Row) -> dict[str, Any]:
    """What mount-utils does with the device."""
    asking = {
        "device": str(device),
        "point": str(point) if row.is_mounted else "",
        "fsType": row.wanted,
        "options": row.options,
        "grow": row.grows,
    }
    output = subprocess.run(
        [oracle], input=json.dumps([asking]), capture_output=True, text=True, check=True, timeout=60, env=WITH_TOOLS
    )
    (answer,) = json.loads(output.stdout)
    return {
        "found": answer["format"],
        "kind": answer["kind"] or answer["error"],
        "grown": "failed" if answer["resizeError"] else "",
        "words": answer["error"] or answer["resizeError"] or answer["formatError"],
    }


def done(device: Path, point: Path, row: Row) -> dict[str, Any]:
    """What our functions do with it."""
    answer = {"found": "", "kind": "", "grown": "", "words": ""}
    try:
        found = filesystems.signature_on(device)[0]
        answer["found"] = TABLE if found in ("dos", "gpt", "PMBR") else found
    except (system.ToolFailed, OSError) as error:
        answer["words"] = str(error)
    try:
        if row.is_file:
            filesystems.mount_file(point.with_name("image"), point, row.wanted, row.options)
        elif row.is_mounted:
            filesystems.mount(device, point, row.wanted, row.options)
    except (targets.Occupied, system.ToolFailed, OSError) as error:
        kind = next((kind for said, kind in KINDS.items() if re.search(said, str(error))), str(error))
        return {**answer, "kind": kind, "words": str(error)}
    try:
        if row.grows and not row.is_file:
            filesystems.grow(device)
    except (system.ToolFailed, OSError) as error:
        return {**answer, "grown": "failed", "words": str(error)}
    return answer


def seen(own: Path, before: str) -> dict[str, Any]:
    """What is on the device and at the point afterwards, whoever has done it."""
    image, point = own / "image", own / "point"
    mount = targets.mount_table().at(str(point))
    found: dict[str, Any] = {"mounted": "", "options": [], "size": 0, "available": 0, "kept": False}
    if mount is not None:
        usage = filesystems.usage(point)[0]
        found |= {
            "mounted": mount.fs_type,
            "options": sorted(mount.options.split(",")),
            "size": usage.total,
            "available": usage.available,
            "kept": (point / states.KEPT).exists(),
        }
        system.unmount(point)
    loops.release(image)
    found["on_it"] = system.run("blkid", "-p", "-o", "value", "-s", "TYPE", str(image), allowed=(0, 2, 8)).strip()
    found["written"] = before != fingerprint(image)
    if found["on_it"].startswith("ext"):
        (found["blocks"],) = re.findall(r"Block count: +(\d+)", system.run("dumpe2fs", "-h", str(image)))
        check = subprocess.run(["e2fsck", "-fn", image], capture_output=True, check=False, timeout=60, env=WITH_TOOLS)
        found["sound"] = check.returncode == 0
    return found


def fingerprint(image: Path) -> str:
    """The same for equal contents; what the image has no blocks for is not read."""
    digest, place = hashlib.sha256(), 0
    with image.open("rb", buffering=0) as opened:
        while True:
            try:
                place = os.lseek(opened.fileno(), place, os.SEEK_DATA)
            except OSError:  # no data behind this place
                return digest.hexdigest()
            if (block := os.pread(opened.fileno(), BLOCK, place)) != bytes(BLOCK):
                digest.update(b"%d" % place + block)
            place += BLOCK


OF_SOURCES: Final = (
    (),
    ("noexec", "nosuid"),
    ("nodev", "noatime"),
    ("ro",),
    ("nodiratime", "relatime"),
    ("strictatime",),
)
OF_BINDS: Final = (
    (),
    ("ro",),
    ("rw",),
    ("noexec",),
    ("ro", "noexec", "nosuid"),
    ("noatime",),
    ("exec", "suid", "dev"),
    ("ro", "rw"),
    ("relatime",),
    ("nodiratime", "ro"),
    ("data=ordered", "nosuid"),
    ("nonsense", "ro"),
)


@each_row("flags", OF_BINDS, fresh=[folder])
@each_row("of_source", OF_SOURCES)
@each_row("part", ["", "file"])
def test_a_folder_is_bound_as_by_mount_utils(
    folder: Path, of_source: tuple[str, ...], flags: tuple[str, ...], part: str
) -> None:
    """The bind mount has the flags that are asked for and those of its source."""
    oracle = binary("mount-oracle")
    source = folder / "source"
    source.mkdir()
    system.run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(source))
    (source / "file").touch()
    if of_source:
        system.run("mount", "-o", ",".join(("remount", "bind", *of_source)), str(source))
    outcomes = []
    for whose in ("theirs", "ours"):
        target = folder / whose
        target.touch() if part == "file" else target.mkdir()
        if whose == "theirs":
            asking = [{"device": str(source / part), "point": str(target), "options": ["bind", *flags]}]
            output = subprocess.run([oracle], input=json.dumps(asking), capture_output=True, text=True, check=True)
            error = json.loads(output.stdout)[0]["error"]
        else:
            error = ""
            try:
                targets.bind(source / part, target, flags)
            except (targets.Occupied, system.ToolFailed) as failure:
                error = str(failure)
        mount = targets.mount_table().at(str(target))
        outcomes.append((bool(error), mount is not None and set(mount.options.split(","))))
    theirs, ours = outcomes
    assert theirs == ours
