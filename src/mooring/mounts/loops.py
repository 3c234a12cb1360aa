"""Loop devices over files: one for all who write, one for all who only read. Everything here blocks.

mount-utils has none; mount(8) with the option loop, which Go drivers use, makes a new device for each mount.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.mounts import system

_BLOCK: Final = Path("/sys/block")
_TRIES: Final = 5


def all_devices() -> frozenset[Path]:
    """Every loop device that is over a file."""
    return frozenset(Path("/dev") / entry.parent.parent.name for entry in _BLOCK.glob("loop*/loop/backing_file"))


def devices(file: Path) -> tuple[Path, ...]:
    """The devices over this file."""
    return system.loop_devices_of(file)


def device(file: Path, *, readonly: bool = False) -> Path:
    """The device over this file, made where there is none: after a reboot, for example. Raises ToolFailed."""
    for tries_left in reversed(range(_TRIES)):
        if found := _of_kind(file, readonly=readonly):
            return found
        try:
            system.run("losetup", *(["--read-only"] if readonly else []), "--find", str(file))
        except system.ToolFailed:  # two who look for a free device at once may find the same one
            if not tries_left:
                raise
    raise system.ToolFailed(f"losetup made no device for {str(file)!r}")


@contextlib.contextmanager
def attached(file: Path, *, readonly: bool = False) -> Iterator[Path]:
    """The device over this file, made where there is none. It stays if the block ends well; with an error goes what was
    made here.

    So whoever fails half-way (at mkfs, say) leaves no device that nobody will ever give back. Raises ToolFailed.
    """
    before = devices(file)
    found = device(file, readonly=readonly)
    try:
        yield found
    except BaseException:
        if found not in before:
            with contextlib.suppress(system.ToolFailed):  # the error of the block is the one to tell
                system.run("losetup", "-d", str(found))
        raise


def backing_of(name: str) -> Path:
    """The file of the loop device with this name, as in loop7; `/` for any other."""
    try:
        return Path(
            (_BLOCK / name / "loop" / "backing_file").read_text(encoding="utf-8", errors="surrogateescape").strip()
        )
    except OSError:
        return Path("/")


def below(folder: Path) -> tuple[Path, ...]:
    """The devices over files in this folder, as far as their names tell: not those of a mount namespace that is
    gone.
    """
    names = sorted(entry.parent.parent.name for entry in _BLOCK.glob("loop*/loop/backing_file"))
    return tuple(Path("/dev") / name for name in names if backing_of(name).is_relative_to(os.path.realpath(folder)))


def grow(file: Path) -> None:
    """Lets every device over the file see its new size. Raises ToolFailed."""
    for one in devices(file):
        system.run("losetup", "--set-capacity", str(one))


def release(file: Path) -> None:
    """Gives back all devices over the file. Raises ToolFailed."""
    system.detach_loops(file)


def flush(file: Path) -> None:
    """Writes the devices' data to the file. Raises OSError."""
    for one in devices(file):
        descriptor = os.open(one, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _of_kind(file: Path, *, readonly: bool) -> Path | None:
    for one in devices(file):
        with contextlib.suppress(OSError):  # it was given back just now
            is_readonly = (_BLOCK / one.name / "ro").read_text().strip() == "1"
            if is_readonly == readonly and system.keep_loop(one, file):
                return one
    return None
