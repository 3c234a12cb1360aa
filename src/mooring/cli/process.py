"""From the words of a command line to a process that runs: flags, logging, gates, version, and the exit code of every
way to end.

| exit code | when |
| --- | --- |
| 0         | --version, --help, an end by SIGTERM or SIGINT |
| 2         | a command line that can't be read, impossible lease durations; in `mooring` also unusable flags |
| 141       | nobody reads what --version or --help prints |
| 1         | anything else |

Nothing here imports a client: --version and --help answer before gRPC and msgspec are loaded.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, Generic, NoReturn, TypeVar

import mooring
from mooring.base import log
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import Gate, Gates, decide_gates
from mooring.base.flags import (
    Flag,
    Former,
    Parsed,
    Section,
    Spellings,
    UsageError,
    flags_of,
    gates_of,
    options_from,
    parse,
)
from mooring.base.logform import Lines
from mooring.cli.border import place_of, refusal
from mooring.cli.tables import ALPHA_LOGGING, ProcessFlags, is_off

WIDTH: Final = 80
_COLUMN: Final = 26
"""Where the flags' texts begin."""
_NAMES_ALONE: Final = (Section.COMPATIBLE, Section.UNAVAILABLE)
_GLUE: Final = "\N{NO-BREAK SPACE}"


def usage(table: type[Any], program: str, about: str = "", example: str = "", unused: tuple[str, ...] = ()) -> str:
    """The help text. about: a sentence. example: lines to type. Flags in alphabetical order in each section, those that
    do nothing last.

    unused: beginnings of the names of flags that are left out.
    """
    rows = [row for row in flags_of(table).values() if not row.name.startswith(unused)]
    parts = [f"{_filled(about)}\n"] if about else []
    if example:
        parts.append(f"For example:\n{textwrap.indent(example, '  ')}\n")
    for section in Section:
        found = [row for row in rows if row.section is section]
        if found:
            parts.append("\n".join((f"{section.value or f'Usage of {program}'}:", *_shown(section, found), "")))
    return "\n".join(parts)


def _shown(section: Section, rows: Iterable[Flag]) -> Iterable[str]:
    if section in _NAMES_ALONE:
        return [_filled(", ".join(_typed(row) for row in rows), "  ")]
    return [line for row in rows for line in _lines(row)]


def _typed(row: Flag) -> str:
    """As people type it: both ways of writing are read."""
    return f"{'-' if len(row.name) == 1 else '--'}{row.name}"


def _lines(row: Flag) -> list[str]:
    """The flag, and its text beside it; below it where the flag is too long."""
    head, default = f"  {_typed(row)} {row.kind.word}".rstrip(), row.kind.show(row.default)
    text = row.text + (f" (default {default})".replace(" ", _GLUE).replace(_GLUE, " ", 1) if default else "")
    lines = [_filled(line, " " * _COLUMN) for line in text.split("\n")]
    if len(head) < _COLUMN:
        return [f"{head:<{_COLUMN}}{lines[0].lstrip()}", *lines[1:]]
    return [head, *lines]


def _filled(text: str, indent: str = "") -> str:
    """Wrapped at words, which stay whole."""
    wrapped = textwrap.fill(
        text, WIDTH - 1, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapped.replace(_GLUE, " ")


_log = log.logger(__name__)

F = TypeVar("F", bound=ProcessFlags)
R = TypeVar("R")

VERSION: Final = f"v{mooring.__version__}"


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A process's surroundings; tests bring their own."""

    environ: Mapping[str, str] = dataclasses.field(default_factory=lambda: os.environ)
    host_name: Callable[[], str] = socket.gethostname
    termination_log: Path = Path("/dev/termination-log")
    service_account: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    exit_now: Callable[[int], NoReturn] = os._exit


@dataclasses.dataclass(frozen=True, slots=True)
class Command(Generic[F]):
    """How one executable reads its flags. removed: former flags, by their names with underscores. spellings: former
    ones that still act.

    check: raises ConfigError. check_first: so does this one, before --version is answered. about, example, epilog:
    texts of --help before and after the flags. drop_in: replaces a Go program, with its manifests and exit codes.
    unused: beginnings of the names of the table's flags that it has no use for.
    """

    table: type[F]
    removed: Mapping[str, Former] = dataclasses.field(default_factory=dict)
    check: Callable[[Parsed[F]], None] = lambda _: None
    check_first: Callable[[Parsed[F]], None] = lambda _: None
    spellings: Spellings = dataclasses.field(default_factory=dict)
    epilog: str = ""
    about: str = ""
    example: str = ""
    drop_in: bool = False
    unused: tuple[str, ...] = ()

    @property
    def gates(self) -> Mapping[str, Gate]:
        """Those of the table."""
        return gates_of(self.table)

    def help(self, prog: str) -> str:
        return usage(self.table, prog, self.about, self.example, self.unused) + self.epilog

    def refusal(self, prog: str, error: UsageError) -> str:
        """The message about a wrong command line: with the usage in drop-in programs, as upstream; else one line."""
        if self.drop_in and not prog.startswith("mooring "):
            return f"{error}\n{self.help(prog)}\n{prog}: {error}\n"  # last, too: the usage fills a screen
        return f"{prog}: {error}; {prog} --help lists the flags\n"

    @contextmanager
    def flag_errors(self) -> Iterator[None]:
        """Ends one of our own commands on wrong flags found in the block, with the exit code of unreadable ones."""
        try:
            yield
        except ConfigError as error:
            if self.drop_in:
                raise
            raise UsageError(str(error)) from None


@dataclasses.dataclass(frozen=True, slots=True)
class Setup(Generic[F]):
    """A command line that was accepted. given: the flags that stood there. prog: argv[0] as typed."""

    prog: str
    flags: F
    given: frozenset[str]
    gates: Mapping[str, bool]

    def options(self, kind: type[R], **derived: Any) -> R:
        """A room's options as the command line has them. derived: the fields that no flag or gate says alone."""
        return options_from(kind, self.flags, self.gates, **derived)


def run_command(command: Command[F], argv: Sequence[str], prog: str, serve: Callable[[Setup[F]], int]) -> int:
    """Reads argv (without the program's name) and serves. Gives the exit code; raises nothing but what ends the
    interpreter.
    """
    try:
        with _signals_end_quietly():
            setup = prepare(command, argv, prog)
            code = 0 if setup is None else serve(setup)
            sys.stdout.flush()
            return code
    except UsageError as error:
        sys.stderr.write(command.refusal(prog, error))
        return error.exit_code
    except ConfigError as error:
        _log.error("Cannot start", error=error)
        return error.exit_code
    except Exception as error:
        if (refused := refusal(error)) is not None:
            if str(refused):
                _log.error("Cannot go on", error=refused, place=place_of(error))
            return refused.exit_code
        _log.error("Ended by an unexpected error", error=error, traceback=Lines(traceback.format_exc()))
        return 1


def prepare(command: Command[F], argv: Sequence[str], prog: str) -> Setup[F] | None:
    """Flags, logging and gates in upstream's order; None when --help or --version has been answered. Raises
    ConfigError.
    """
    parsed = parse(command.table, argv, command.removed, command.spellings)
    if parsed.help_wanted:
        sys.stdout.write(command.help(prog))
        return None
    with command.flag_errors():
        check_words(command, parsed)
        configure_logging(parsed)
    gates = decide_gates(getattr(parsed.flags, "feature_gates", {}), command.gates)
    command.check_first(parsed)
    if parsed.flags.version:
        sys.stdout.write(f"{prog} {VERSION}\n")
        return None
    _log.info(0, "Version", version=VERSION)
    _warn(parsed, gates)
    with command.flag_errors():
        command.check(parsed)
    return Setup(prog, parsed.flags, parsed.given, gates.enabled)


def check_words(command: Command[F], parsed: Parsed[F]) -> None:
    """Raises UsageError for words after the flags. In the place of a Go program they are told, and ignored as there."""
    if parsed.rest and not command.drop_in:
        raise UsageError(f"{parsed.rest[0]!r} is no flag")


def configure_logging(parsed: Parsed[F]) -> None:
    """Raises ConfigError for a format or an alpha option that we don't have."""
    flags = parsed.flags
    if flags.logging_format not in ("text", "json"):
        raise ConfigError(f'logging-format: unsupported log format "{flags.logging_format}"; use text or json')
    for name, field in ALPHA_LOGGING.items():
        if name in parsed.given and not is_off(getattr(flags, field)):
            raise ConfigError(f"{name}: an alpha option that is not available; remove the flag")
    if flags.vmodule and flags.logging_format == "json":
        raise ConfigError("vmodule: only works with the text format; remove it, or use --logging-format=text")
    log.configure(verbosity=flags.v, vmodule=flags.vmodule, json=flags.logging_format == "json")


def _warn(parsed: Parsed[Any], gates: Gates) -> None:
    for name, value, became in parsed.removed:
        _log.warning("Flag is deprecated and has no effect", flag=name, value=value, why=became)
    for former, today in parsed.respelled:
        _log.warning("A former spelling of a flag; write it as it is now", flag=former, now=today)
    for warning in gates.warnings:
        _log.warning(warning)
    if parsed.rest:
        words = " ".join(parsed.rest)
        _log.warning(
            "Words after the flags are ignored; flags among them too: write booleans as --flag=false", words=words
        )


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """Before the event loop has its handlers, SIGTERM and SIGINT end the process with 0. (PID 1 without a handler would
    ignore SIGTERM.)
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _end_quietly) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_quietly(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(0)
