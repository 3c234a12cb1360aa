"""Nothing is formatted over: every device that is not empty, or can't be read, stays as it is. Files stand for devices
here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from mooring.mounts import filesystems, system
from mooring.mounts.system import ToolFailed
from mooring.mounts.targets import Occupied
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.rows import each_row

MIB: Final = 1 << 20
GROUP: Final = 128 * MIB


@pytest.fixture(autouse=True)
def _tools() -> None:
    if missing := system.missing_tools((*filesystems.tools_for("ext4"), "mkswap")):
        not_tested(REAL_MOUNTS, f"no {', '.join(missing)}")


def a_device(folder: Path, size: int = 16 * MIB, *contents: tuple[int, bytes]) -> Path:
    device = folder / "device"
    with device.open("wb") as file:
        file.truncate(size)
        for place, content in contents:
            file.seek(place)
            file.write(content)
    return device


def fingerprint(device: Path) -> str:
    return hashlib.sha256(device.read_bytes()).hexdigest()


def identity(device: Path) -> bytes:
    """The UUID of an ext4."""
    with device.open("rb") as file:
        return os.pread(file.fileno(), 16, 1024 + 104)


def with_tool(*words: str) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        device = a_device(folder)
        system.run(*words, str(device))
        return device

    return made


def with_bytes(*contents: tuple[int, bytes], size: int = 16 * MIB) -> Callable[[Path], Path]:
    return lambda folder: a_device(folder, size, *contents)


def dos_table() -> bytes:
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\xff\xff\xff", 2048, 20000)
    return b"".join((bytes(440), b"abcd", bytes(2), entry, bytes(48), b"\x55\xaa"))


def gpt_table() -> bytes:
    """Its protective table, and a head whose check sums are wrong: blkid knows the first of them only."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, 32767)
    return b"".join((bytes(446), entry, bytes(48), b"\x55\xaa", b"EFI PART", bytes(504)))


def damaged(device: Path, start: int, end: int) -> Path:
    with device.open("r+b") as file:
        file.seek(start)
        file.write(bytes(end - start))
    return device


def a_file_system_without_its_superblock(folder: Path) -> Path:
    return damaged(with_tool("mkfs.ext4", "-qF")(folder), 1024, 2048)


def a_file_system_without_its_beginning(folder: Path) -> Path:
    """A copy of the superblock is left, 128 MiB behind."""
    device = a_device(folder, 2 * GROUP + 8 * MIB)
    system.run("mkfs.ext4", "-qF", "-b", "4096", str(device))
    return damaged(damaged(device, 0, 64 * MIB), 2 * GROUP, 2 * GROUP + 8 * MIB)


DEVICES: Final[dict[str, Callable[[Path], Path]]] = {
    "a dos partition table": with_bytes((0, dos_table())),
    "a gpt partition table": with_bytes((0, gpt_table())),
    "swap": with_tool("mkswap"),
    "an encrypted device": with_bytes((0, b"LUKS\xba\xbe\0\1".ljust(592, b"x"))),
    "a member of a volume group": with_bytes((512, b"LABELONE" + bytes(8) + b"\0" * 8 + b"LVM2 001")),
    "a RAID member, at its end": with_bytes((16 * MIB - (64 << 10), struct.pack("<I", 0xA92B4EFC) + b"x" * 60)),
    "another file system": with_tool("mkfs.minix"),
    "a file system without its superblock": a_file_system_without_its_superblock,
    "a file system without its beginning": a_file_system_without_its_beginning,
    "data of no kind at its beginning": with_bytes((0, b"x")),
    "data of no kind within": with_bytes((7 * MIB + 5, b"x")),
    "data of no kind at its end": with_bytes((80 * MIB - 1, b"x"), size=80 * MIB),
}


@pytest.mark.slow
@each_row("kind", DEVICES)
def test_nothing_is_formatted_over(tmp_path: Path, kind: str) -> None:
    device = DEVICES[kind](tmp_path)
    before = fingerprint(device)
    with pytest.raises((Occupied, ToolFailed)):
        filesystems.prepare(device, "ext4")
    assert before == fingerprint(device)


@pytest.mark.slow
@each_row("size", [MIB, 16 * MIB, 2 * GROUP])
def test_an_empty_device_is_formatted_once(tmp_path: Path, size: int) -> None:
    device = a_device(tmp_path, size)
    assert ("ext4", "ext4") == (filesystems.prepare(device), filesystems.type_on(device))
    before = identity(device)
    for wanted in ("", "ext4"):
        assert "ext4" == filesystems.prepare(device, wanted)
    assert before == identity(device)
    assert b"mooring" not in device.read_bytes()


def test_what_can_not_be_read_is_not_taken_for_empty(tmp_path: Path) -> None:
    for device in (tmp_path / "nothing", Path("/proc/self/mem")):
        with pytest.raises(OSError):
            filesystems.prepare(device)
        with pytest.raises(OSError):
            filesystems.type_on(device)


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs come first."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "bin"


def pretend(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@each_row("code", [1, 3, 4, 8, 126], fresh=[pretended])
def test_an_answer_of_blkid_that_is_no_answer_formats_nothing(tmp_path: Path, pretended: Path, code: int) -> None:
    pretend(pretended, "blkid", f"exit {code}")
    device = a_device(tmp_path)
    with pytest.raises(ToolFailed):
        filesystems.prepare(device)
    assert bytes(16 * MIB) == device.read_bytes()


@pytest.mark.slow
def test_formatting_that_was_torn_away_is_begun_again(tmp_path: Path, pretended: Path) -> None:
    device = a_device(tmp_path)
    pretend(
        pretended,
        "mkfs.ext4",
        'for last; do :; done; echo half | dd of="$last" bs=1 seek=5000 conv=notrunc status=none; exit 1',
    )
    for _ in range(2):
        with pytest.raises(ToolFailed):
            filesystems.prepare(device)
    (pretended / "mkfs.ext4").unlink()
    assert "ext4" == filesystems.prepare(device)
    damaged(device, 1024, 2048)
    with pytest.raises(Occupied, match="is not empty: nothing is formatted over it"):
        filesystems.prepare(device)


@pytest.mark.slow
def test_a_mark_that_a_kill_left_on_a_whole_file_system_does_not_outlive_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = a_device(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("mooring.mounts.filesystems.forget_formatting", lambda _: None)
        filesystems.prepare(device)
    assert b"mooring" in device.read_bytes()
    filesystems.prepare(device)
    assert b"mooring" not in device.read_bytes()


@pytest.mark.slow
def test_an_ext_is_mounted_as_ext4_where_no_type_is_asked_for(tmp_path: Path) -> None:
    """As by mount-utils; of any other, the type is its own."""
    for made, wanted, mounted in (("ext3", "", "ext4"), ("ext2", "", "ext4"), ("ext3", "ext3", "ext3")):
        assert mounted == filesystems.prepare(with_tool(f"mkfs.{made}", "-qF")(tmp_path), wanted)
    assert "minix" == filesystems.prepare(with_tool("mkfs.minix")(tmp_path))


def test_what_mount_may_know_by_another_name_is_left_to_it(tmp_path: Path) -> None:
    assert "auto" == filesystems.prepare(with_tool("mkfs.ext4", "-qF")(tmp_path), "auto")


@pytest.mark.slow
@each_row(
    ("made", "words", "flag"),
    [("minix", ["mkfs.minix"], "-a"), ("ext4", ["mkfs.ext4", "-qF"], "-p")],
    fresh=[pretended],
)
def test_each_type_is_checked_and_what_is_left_damaged_is_refused(
    tmp_path: Path, pretended: Path, made: str, words: list[str], flag: str
) -> None:
    device = with_tool(*words)(tmp_path)
    for tool in ("fsck", "e2fsck"):
        pretend(pretended, tool, f"echo $0 $* > {tmp_path}/asked; exit $(cat {tmp_path}/code)")
    for code in (0, 1, 5, 8):
        (tmp_path / "code").write_text(str(code))
        assert made == filesystems.prepare(device)
    assert (tmp_path / "asked").read_text().endswith(f"fsck {flag} {device}\n")
    (tmp_path / "code").write_text("4")
    with pytest.raises(ToolFailed, match="fsck"):
        filesystems.prepare(device)


@pytest.mark.slow
def test_a_missing_check_does_not_keep_a_file_system_from_its_mount(
    tmp_path: Path, pretended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = with_tool("mkfs.ext4", "-qF")(tmp_path)
    (pretended / "blkid").symlink_to(shutil.which("blkid", path=system.tool_path()) or "")
    monkeypatch.setenv("PATH", str(pretended))
    monkeypatch.setattr(system, "SBIN", ())
    assert "ext4" == filesystems.prepare(device)


def test_a_missing_tool_writes_nothing(tmp_path: Path) -> None:
    """The mark of a device that is being formatted allows to format over whatever somebody puts there meanwhile."""
    device = a_device(tmp_path)
    with pytest.raises(ToolFailed, match=r"mkfs\.nofs is not on this machine"):
        filesystems.prepare(device, "nofs")
    assert bytes(16 * MIB) == device.read_bytes()


@pytest.mark.slow
@each_row("fs_type, kept", [("ext2", "819"), ("ext3", "0"), ("ext4", "0")])
def test_blocks_are_kept_for_root_on_ext2_alone(tmp_path: Path, fs_type: str, kept: str) -> None:
    device = a_device(tmp_path)
    filesystems.prepare(device, fs_type)
    (found,) = re.findall(r"Reserved block count: +(\d+)", system.run("dumpe2fs", "-h", str(device)))
    assert kept == found


def a_table_before_a_file_system(folder: Path) -> Path:
    device = with_tool("mkfs.ext4", "-qF")(folder)
    with device.open("r+b") as file:
        file.write(dos_table())
    return device


@pytest.mark.slow
@each_row(
    "made",
    [
        *(DEVICES[kind] for kind in ("a dos partition table", "a gpt partition table", "swap", "an encrypted device")),
        a_table_before_a_file_system,
        with_tool("mkfs.minix"),
    ],
)
def test_what_can_not_grow_is_no_success(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    device = made(tmp_path)
    before = fingerprint(device)
    with pytest.raises(ToolFailed, match="nothing here can grow that"):
        filesystems.grow(device)
    assert before == fingerprint(device)


def test_an_empty_device_has_nothing_that_grows(tmp_path: Path) -> None:
    filesystems.grow(a_device(tmp_path))


@pytest.mark.slow
def test_before_a_mount_a_file_system_grows_but_for_one_behind_a_table(tmp_path: Path) -> None:
    for made, blocks in ((with_tool("mkfs.ext4", "-qF"), "32768"), (a_table_before_a_file_system, "16384")):
        device = made(tmp_path)
        os.truncate(device, 32 * MIB)
        filesystems.fit(device)
        assert [blocks] == re.findall(r"Block count: +(\d+)", system.run("dumpe2fs", "-h", str(device)))
