"""Commands that people run by hand: the flags of every command, and words instead of log lines when something is
wrong.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO, TypeVar

from mooring.base.border import reason
from mooring.base.errors import ConfigError, MooringError
from mooring.base.flags import UsageError, parse
from mooring.cli.border import give_up, refusal, say
from mooring.cli.process import VERSION, Command, check_words, configure_logging
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.dev.story import Story

F = TypeVar("F", bound=ProcessFlags)

INTERRUPTED: Final = 130
"""Exit code of a command that was interrupted before its end, as a shell has it."""


def say_gone(prog: str, error: OSError, what_now: str) -> None:
    """Says on stderr that stdout takes nothing more; the rest of its buffer is lost."""
    give_up(sys.stdout)
    why = "stdout is closed" if isinstance(error, BrokenPipeError) else f"stdout can't be written: {reason(error)}"
    say(prog, f"{why}; {what_now}")


def leave(code: int) -> NoReturn:
    """Ends the process, without the half of a second in which the interpreter takes itself apart: whoever pressed
    Ctrl-C waits for it.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def check_server_parts() -> None:
    """Raises ConfigError when the embedded API server can't run: Mooring was installed without the extra `server`, or
    too few files may be open.
    """
    if importlib.util.find_spec("cryptography") is None:
        raise ConfigError(
            "the embedded API server needs the package cryptography, which is not installed; "
            f"install Mooring with its extra, as in: {_with_extras()}"
        )
    from mooring.apiserver.web.server import connections_max

    connections_max()


def check_completion_parts() -> None:
    """Raises ConfigError when no completion can be made, because Mooring was installed without the extra `ui`."""
    if importlib.util.find_spec("shtab") is None:
        raise ConfigError(
            "completion needs the package shtab, which is not installed; install Mooring with its extra, as "
            f"in: {_with_extras()}"
        )


def _with_extras() -> str:
    """The command to install the extras, for an installation from a package or from a folder (PEP 610 says which)."""
    from importlib import metadata  # (20 ms that nobody else needs)

    with contextlib.suppress(metadata.PackageNotFoundError):
        origin = metadata.distribution("mooring").read_text("direct_url.json")
        if "dir_info" not in (origin or ""):
            return "pip install 'mooring[server,ui]'"
    return "pip install '.[server,ui]' in the project's folder"


def story_log(story: Story, flags: ProcessFlags) -> AbstractContextManager[None]:
    """The log in the story's form and time while the block runs; JSON logging, where it is set, stays."""
    from mooring.dev.story import log_told_in

    return (
        nullcontext()
        if flags.logging_format == "json"
        else log_told_in(story, verbosity=flags.v, vmodule=flags.vmodule)
    )


def answer_of(work: Coroutine[Any, Any, int], prog: str, failed: int) -> int:
    """Runs the work; gives its exit code, or `failed`, with a line on stderr, for a MooringError that is no
    ConfigError.
    """
    import asyncio  # not every command has a loop

    try:
        return asyncio.run(work)
    except ConfigError:
        raise
    except MooringError as error:
        say(prog, str(error))
        return failed


def check_output(output: str, *known: str) -> None:
    """Raises ConfigError for a form of output that the command does not know."""
    if output not in known:
        raise ConfigError(f"--output: must be {', '.join(known[:-1])} or {known[-1]}, got {output!r}", exit_code=2)


def width_of(stdout: TextIO) -> int:
    """Columns of a line: the terminal's, 80 for what is piped."""
    return shutil.get_terminal_size((80, 24)).columns if stdout.isatty() else 80


def typed(stdin: TextIO | None) -> str:
    """A line that somebody types, "" where nobody can. Ctrl-C ends the wait for it: asyncio would wait for the end of
    the line first.
    """
    if stdin is None:  # closed
        return ""
    before = signal.getsignal(signal.SIGINT)
    is_caught = callable(before) and threading.current_thread() is threading.main_thread()
    if is_caught:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return stdin.readline().strip()
    except UnicodeDecodeError:
        return ""
    finally:
        if is_caught:
            signal.signal(signal.SIGINT, before)


def words_and_flags(
    table: type[ProcessFlags], argv: Sequence[str], leading_max: int | None = None
) -> tuple[list[str], list[str]]:
    """The words come before the flags, after them, or between them.

    leading_max: how many may come before; a further word counts as a flag then.
    """
    count = next((number for number, word in enumerate(argv) if word.startswith("-")), len(argv))
    if count:
        count = count if leading_max is None else min(count, leading_max)
        return list(argv[:count]), list(argv[count:])
    try:
        rest = parse(table, argv).rest
    except UsageError:
        return [], list(argv)  # whoever reads the flags says so
    head = list(argv[: len(argv) - len(rest)])
    if "--" in head[-1:]:
        return list(rest), head
    count = next((number for number, word in enumerate(rest) if word.startswith("-")), len(rest))
    return list(rest[:count]), [*head, *rest[count:]]


def run_for_people(command: Command[F], argv: Sequence[str], prog: str, serve: Callable[[F], int]) -> int:
    """Reads argv (without the program's name) and serves; gives the exit code. Raises what no system refuses."""
    try:
        parsed = parse(command.table, argv, command.removed, command.spellings)
        if parsed.help_wanted or parsed.flags.version:
            sys.stdout.write(command.help(prog) if parsed.help_wanted else f"{prog} {VERSION}\n")
            sys.stdout.flush()
            return 0
        with command.flag_errors():
            check_words(command, parsed)
            configure_logging(parsed)
            command.check(parsed)
        code = serve(parsed.flags)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        sys.stderr.write(command.refusal(prog, error))
        return error.exit_code
    except ConfigError as error:
        say(prog, str(error))
        return error.exit_code
    except Exception as error:
        if (refused := refusal(error)) is None:
            raise
        say(prog, str(refused))
        return refused.exit_code
