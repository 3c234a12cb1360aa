"""`mooring apiserver backup` and `mooring apiserver restore`: a server's objects as one file, and back."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, STRING
from mooring.base.flags import Parsed, UsageError, flag, parse
from mooring.cli.people import run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

F = TypeVar("F", bound=ProcessFlags)

WORDS: Final = ("backup", "restore")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackupFlags(ProcessFlags):
    state: str = flag("state", STRING, "", "The server's folder. The server may be running.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoreFlags(ProcessFlags):
    state: str = flag("state", STRING, "", "The server's folder. No server may be running on it; made if missing.")
    replace: bool = flag("replace", BOOL, False, "Put the backup in the place of objects that are there; they stay in the folder.")


def _check_state(parsed: Parsed[BackupFlags] | Parsed[RestoreFlags]) -> None:
    if not parsed.flags.state:
        raise ConfigError("state: give the server's folder")


_BACKUP: Final[Command[BackupFlags]] = Command(
    BackupFlags,
    check=_check_state,
    about="Writes a server's objects to one new FILE. The server may be running.",
    example="mooring apiserver backup --state ./state backup.db",
)
_RESTORE: Final[Command[RestoreFlags]] = Command(
    RestoreFlags,
    check=_check_state,
    about="Puts the objects of a backup, a FILE, into a server's folder.",
    example="mooring apiserver restore --state ./other backup.db",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: one of WORDS, its flags, and a file. Gives the exit code."""
    word, *rest = argv
    if word == "backup":
        return _run(_BACKUP, rest, f"{prog} {word}", _back_up)
    return _run(_RESTORE, rest, f"{prog} {word}", _restore)


def _run(command: Command[F], argv: Sequence[str], prog: str, serve: Callable[[F, Path], None]) -> int:
    try:
        words = parse(command.table, argv).rest
    except UsageError:
        words = ()  # it is said below

    def checked(flags: F) -> int:
        if len(words) != 1:
            raise UsageError("give one FILE, after the flags")
        serve(flags, Path(words[0]))
        return 0

    return run_for_people(command, argv[: len(argv) - len(words)], prog, checked)


def _back_up(flags: BackupFlags, file: Path) -> None:
    from mooring.apiserver.disk.backup import back_up

    saved = back_up(Path(flags.state), file)
    sys.stdout.write(f"'{file}' has the objects as of version {saved.version}\n")


def _restore(flags: RestoreFlags, file: Path) -> None:
    from mooring.apiserver.disk.backup import restore
    from mooring.base.clock import LoopClock

    saved, replaced = restore(Path(flags.state), file, LoopClock().wall_s(), replace=flags.replace)
    sys.stdout.write(f"'{flags.state}' has the {len(saved.objects)} objects of '{file}'; versions go on after {saved.version}\n")
    if replaced is not None:
        sys.stdout.write(f"What was there before is kept as '{replaced}'\n")
