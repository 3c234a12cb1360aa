"""Commands that people run by hand: the flags of every command, and words instead of log lines when something is wrong."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TypeVar

from mooring.base.errors import ConfigError
from mooring.base.flags import UsageError, parse, usage
from mooring.cli.process import Command, configure_logging
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.dev.story import Story

F = TypeVar("F", bound=ProcessFlags)

INTERRUPTED: Final = 130
"""Exit code of a command that was interrupted before its end, as a shell has it."""


def check_server_parts() -> None:
    """Raises ConfigError when the embedded API server can't run, because Mooring was installed without the extra `server`."""
    if importlib.util.find_spec("cryptography") is None:
        raise ConfigError(
            "the embedded API server needs the package cryptography, which is not installed; "
            "install Mooring with its extra, as in: pip install '.[server,ui]' in the project's folder"
        )


def story_log(story: Story, flags: ProcessFlags) -> AbstractContextManager[None]:
    """The log in the story's own form and time while the block runs; log lines as JSON, which somebody asked for, stay as they are."""
    from mooring.dev.loglines import log_told_in

    return nullcontext() if flags.logging_format == "json" else log_told_in(story, verbosity=flags.v, vmodule=flags.vmodule)


def run_for_people(command: Command[F], argv: Sequence[str], prog: str, serve: Callable[[F], int]) -> int:
    """Reads argv (without the program's name) and serves; gives the exit code. What nobody expected is raised."""
    try:
        parsed = parse(command.table, argv, {})
        if parsed.rest:
            raise UsageError(f"{parsed.rest[0]!r} is no flag")
        if parsed.help_wanted:
            sys.stdout.write(usage(command.table, prog))
            return 0
        configure_logging(parsed)
        command.check(parsed)
        return serve(parsed.flags)
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        sys.stderr.write(f"{prog}: {error}; {prog} --help lists the flags\n")
        return error.exit_code
    except ConfigError as error:
        sys.stderr.write(f"{prog}: {error}\n")
        return error.exit_code
