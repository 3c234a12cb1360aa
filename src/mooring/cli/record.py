"""`mooring record`: asks a program on this machine, or in this container, for its flight record, and says where the file is.

It sends SIGUSR1 and waits for the file; it asks neither the API server nor the driver for anything.

| exit code | when |
|---|---|
| 0 | the file is there |
| 1 | there is no such program, it keeps no record, or the file did not come |
| 2 | a command line that is wrong |
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mooring.base.clock import LoopClock
from mooring.base.errors import MooringError
from mooring.base.flagkinds import BOOL, DURATION, STRING
from mooring.base.flags import UsageError, flag
from mooring.cli.flight import PREFIX
from mooring.cli.people import answer_of, run_for_people, words_and_flags
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

CANNOT: Final = 1
LOOK_S: Final = 0.05
PROC: Final = Path("/proc")
_SUBCOMMANDS: Final = frozenset(
    {"attacher", "provisioner", "resizer", "snapshotter", "controller", "attachdetach", "binder"}
)
_PROGRAMS: Final = frozenset(
    {"csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter", "snapshot-controller"}
)
_WITHOUT: Final = "node-agent"
"""Keeps no record, though it catches the signal."""
_EACH: Final = frozenset({"leader-election-lease-each", "leader-election-lease-each=true"})
"""Of mooring controller; its controllers come and go one by one then, and no record is kept."""
_DIR_FLAG: Final = "flight-recorder-dir="


class NoRecord(MooringError):
    """There is no record to be had."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordFlags(ProcessFlags):
    stdout: bool = flag(
        "stdout", BOOL, False, "Write the file's content to stdout, for kubectl exec, and remove the file."
    )
    folder: str = flag(
        "folder", STRING, "", "Where the program writes. Empty: as its flags say, or the folder for temporary files."
    )
    timeout: float = flag("timeout", DURATION, 30.0, "How long to wait for the file.")


COMMAND: Final[Command[RecordFlags]] = Command(
    RecordFlags,
    epilog="\nExit codes: 0 the file is there; 1 there is no such program, it keeps no\nrecord, or the file did not come; "
    "2 the command line is wrong.\n",
    about="Asks a program on this machine, by its process id, for its flight record: what came in during the last minutes, without "
    "secrets. mooring replay runs the file again.",
    example="mooring record 1",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring record`: a process id, none for the only program there is, and flags. Gives the exit code."""
    words, flags = words_and_flags(RecordFlags, argv)
    return run_for_people(COMMAND, flags, prog, lambda given: answer_of(_record(words, given), prog, CANNOT))


async def _record(words: Sequence[str], flags: RecordFlags) -> int:
    if len(words) > 1 or not all(word.isdecimal() for word in words):
        raise UsageError("name one process by its id, or none: mooring record [PID]")
    pid = int(words[0]) if words else _the_only_one()
    if ("mooring", _WITHOUT) in _pairs(_words(pid)):
        raise NoRecord(
            f"process {pid} is mooring {_WITHOUT}, which keeps no flight record: what it does on its node can't be replayed"
        )
    if _EACH.intersection(word.lstrip("-") for word in _words(pid)):
        raise NoRecord(f"process {pid} keeps no flight record: --leader-election-lease-each can't be replayed")
    folder = Path(flags.folder or _folder_of(pid))
    before = set(_files(folder, pid))
    if not _hears(pid):
        raise NoRecord(f"process {pid} keeps no flight record: it would be ended by the signal")
    os.kill(pid, signal.SIGUSR1)
    path = await _arrived(folder, pid, before, flags.timeout)
    if flags.stdout:
        sys.stdout.buffer.write(path.read_bytes())
        path.unlink()
    else:
        sys.stdout.write(f"{path}\n")
    return 0


async def _arrived(folder: Path, pid: int, before: set[Path], timeout_s: float) -> Path:
    """The new file. Raises NoRecord."""
    clock = LoopClock()
    try:
        async with asyncio.timeout(timeout_s):
            while not (new := set(_files(folder, pid)) - before):
                await clock.sleep(LOOK_S)  # another process writes it: no event tells
            return min(new)
    except TimeoutError:
        raise NoRecord(
            f"process {pid} has written no record into {folder} within {timeout_s:g} s; its log says why"
        ) from None


def _files(folder: Path, pid: int) -> Iterator[Path]:
    return folder.glob(f"{PREFIX}*-{pid}-*.gz")


def _the_only_one() -> int:
    """Raises NoRecord where there is none, or more than one."""
    found = [
        pid for pid in map(int, filter(str.isdecimal, os.listdir(PROC))) if pid != os.getpid() and _is_ours(_words(pid))
    ]
    if len(found) != 1:
        raise NoRecord(
            f"name the process: there are {', '.join(map(str, sorted(found))) or 'none'} that may keep a record"
        )
    return found[0]


def _is_ours(words: Sequence[str]) -> bool:
    return bool(_PROGRAMS.intersection(_names(words))) or any(
        one == "mooring" and other in _SUBCOMMANDS | _PROGRAMS for one, other in _pairs(words)
    )


def _names(words: Sequence[str]) -> list[str]:
    return [Path(word).name for word in words[:4]]


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """A command and the word after it."""
    return list(itertools.pairwise(_names(words)))


def _words(pid: int) -> list[str]:
    """Of its command line, none where it can't be read."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _folder_of(pid: int) -> str:
    words = (word.lstrip("-") for word in _words(pid))
    return (
        next((word.removeprefix(_DIR_FLAG) for word in words if word.startswith(_DIR_FLAG)), "")
        or tempfile.gettempdir()
    )


def _hears(pid: int) -> bool:
    """True for a process that catches SIGUSR1. Raises NoRecord where there is none of this id."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError as error:
        raise NoRecord(f"process {pid} can't be asked: {error.strerror}") from None
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (signal.SIGUSR1 - 1) & 1)
