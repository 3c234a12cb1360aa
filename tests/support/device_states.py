"""What the device of a volume may hold: each function here fills an image, a file that a loop device is then over."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mooring.mounts.system import run
from tests.unit.mounts.test_devices import dos_table, gpt_table

MIB: Final = 1 << 20
KEPT: Final = "kept"
"""The file that `torn_from_its_mount` leaves, with its name as its content."""

State = Callable[[Path], None]


def empty(_image: Path) -> None:
    """All zeros."""


def made_by(*words: str) -> State:
    """By a tool that gets the image as its last word."""
    return lambda image: _run(*words, str(image))


def with_bytes(*contents: tuple[int, bytes]) -> State:
    """All zeros but these bytes."""
    return lambda image: _write(image, *contents)


def a_part(kind: str) -> State:
    """A file system on the first half of the image, as before its device has grown."""

    def filled(image: Path) -> None:
        size = image.stat().st_size
        os.truncate(image, size // 2)
        _run(f"mkfs.{kind}", "-q", str(image))
        os.truncate(image, size)

    return filled


def changed_by(*requests: str, kind: str = "ext4", size: str = "") -> State:
    """A file system that debugfs(8) has then written to."""

    def filled(image: Path) -> None:
        _run(f"mkfs.{kind}", "-qF", str(image), *([size] if size else []))
        for request in requests:
            _run("debugfs", "-w", "-R", request, str(image))

    return filled


def wiped(image: Path) -> None:
    """An ext4 whose superblock is gone: blkid(8) sees nothing."""
    _run("mkfs.ext4", "-qF", str(image))
    _write(image, (1024, bytes(1024)))


def ambiguous(image: Path) -> None:
    """An ext4 behind the head of a squashfs: blkid(8) refuses to choose."""
    _run("mkfs.ext4", "-qF", str(image))
    _write(image, (0, struct.pack("<IIIIIHHHHHH", 0x73717368, 1, 0, 1 << 17, 0, 1, 17, 0, 1, 4, 0).ljust(96, b"\0")))


def a_table_before_ext4(image: Path) -> None:
    """A partition table that nobody has removed from the blocks before an ext4."""
    _run("mkfs.ext4", "-qF", str(image))
    _write(image, (0, dos_table()))


def torn_from_its_mount(image: Path) -> None:
    """An ext4 as it is when the power goes: the file that was written is in the journal only."""
    point = image.with_name("power")
    point.mkdir()
    live = image.with_name("live")
    live.touch()
    os.truncate(live, image.stat().st_size)
    _run("mkfs.ext4", "-qF", str(live))
    _run("mount", "-o", "loop", str(live), str(point))
    try:
        (point / KEPT).write_text(KEPT)
        with (point / KEPT).open("rb") as written:
            os.fsync(written.fileno())
        _run("dd", f"if={live}", f"of={image}", "bs=1M", "conv=notrunc")
    finally:
        _run("umount", str(point))
    live.unlink()


def damaged_minix(image: Path) -> None:
    """It says itself that it has errors."""
    _run("mkfs.minix", str(image))
    _write(image, (1024 + 18, struct.pack("<H", 2)))


def a_volume_group(image: Path) -> None:
    """The label of a member of it, with its check sum."""
    checked = struct.pack("<I", 32) + b"LVM2 001" + (b"m" * 32 + struct.pack("<Q", 1 << 24)).ljust(512 - 32, b"\0")
    check_sum = zlib.crc32(checked, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    _write(image, (512, b"LABELONE" + struct.pack("<QI", 1, check_sum) + checked))


DOS: Final = with_bytes((0, dos_table()))
GPT: Final = with_bytes((0, gpt_table()))
LUKS: Final = with_bytes((0, b"LUKS\xba\xbe\0\1".ljust(592, b"x")))
GARBAGE: Final = with_bytes((7 * MIB + 5, b"x"))


def _run(*words: str) -> None:
    run(*words)


def _write(image: Path, *contents: tuple[int, bytes]) -> None:
    with image.open("r+b") as opened:
        for place, content in contents:
            opened.seek(place)
            opened.write(content)
