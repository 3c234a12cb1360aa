"""The border of every command: what the system refuses ends in one line with the next step and an exit code.

Commands let OSError, UnicodeError, RecursionError and the errors of a database's file through. `refusal` turns them
into a ConfigError: in `run_for_people` for commands that people type, in `run_command` for programs that log, and in
`entered` for what is printed outside of both. With --v=4 a log line says where the error was raised.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

from mooring.base.errors import ConfigError, first_of

CUT_OFF: Final = 141
"""Exit code of a command whose output nobody read to its end, as a shell has it."""
STDOUT: Final = "<stdout>"
_AS_IT_CAME: Final = "mooring.as_it_came"
_OF_FILES: Final = (("sqlite3", "OperationalError"), ("sqlite3", "DatabaseError"))
"""Errors of a database that its file or disk may cause; others of the kind are defects of ours. By their names, since
most commands import no sqlite3.
"""


def refusal(found: BaseException) -> ConfigError | None:
    """The line for an error of the system; None for any other, which is a defect of ours and keeps its traceback.

    The text is empty where nobody reads stdout any more: nothing is to be said then.
    """
    from mooring.base.border import reason

    error = first_of(found) if isinstance(found, BaseExceptionGroup) else found
    if isinstance(error, OSError) and error.filename == STDOUT:
        give_up(sys.stdout)
        is_cut = isinstance(error, BrokenPipeError)
        return (
            ConfigError("", exit_code=CUT_OFF) if is_cut else ConfigError(f"stdout can't be written: {reason(error)}")
        )
    _log_place(found)
    match error:
        case OSError(errno=int()):
            named = f"'{os.fsdecode(error.filename)}': " if isinstance(error.filename, str | bytes) else ""
            return ConfigError(f"{named}{reason(error)}")
        case UnicodeError():
            return ConfigError(f"{error}; give names and texts in UTF-8")
        case RecursionError():
            return ConfigError("the input is nested too deeply; give a flatter one")
        case Exception() if (type(error).__module__, type(error).__name__) in _OF_FILES:
            return ConfigError(f"a database: {error}; look at the rights of its file and folder, and at the room there")
        case _:
            return None


def place_of(found: BaseException) -> str:
    """Where the error was raised: a program that has run for days tells so once."""
    import traceback

    error = first_of(found) if isinstance(found, BaseExceptionGroup) else found
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def _log_place(found: BaseException) -> None:
    import traceback

    from mooring.base.log import logger
    from mooring.base.logform import Lines

    logger(__name__).info(4, "The system refused", traceback=Lines("".join(traceback.format_exception(found))))


def entered(prog: str, serve: Callable[[], int]) -> int:
    """Run an executable, with streams of ours, and return its exit code."""
    _open_streams()
    try:
        code = serve()
        sys.stdout.flush()
        return code
    except Exception as error:
        if (refused := refusal(error)) is None:
            raise
        say(prog, str(refused))
        return refused.exit_code


def say(prog: str, text: str) -> None:
    """Write the text of a refusal to stderr, where there is one."""
    from mooring.base.text import visible_lines

    if text:
        sys.stderr.write(f"{prog}: {visible_lines(text)}\n")


def give_up(stream: TextIO) -> None:
    """Lead the stream to nowhere: at its end the interpreter writes what is left in the buffer, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # (no file, in tests)
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open_streams() -> None:
    """Put our streams in the place of Python's. Those that the caller has closed (`>&-`) lead to nowhere."""
    codecs.register_error(_AS_IT_CAME, _as_it_came)
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = _ours(sys.stdout, _Stdout, _AS_IT_CAME) if sys.stdout else _nowhere("w")
    sys.stderr = _ours(sys.stderr, _Stderr, "backslashreplace") if sys.stderr else _nowhere("w")


def _nowhere(mode: str) -> TextIO:
    """In this order each gets the descriptor that was closed, so that no other file does."""
    stream: Any = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
    result: TextIO = stream
    return result


class _Stdout(io.FileIO):
    def write(self, data: Any, /) -> int:
        """As any file; its error names it, since nothing else tells it from that of another file."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STDOUT
            raise


class _Stderr(io.FileIO):
    def write(self, data: Any, /) -> int:
        """What can't be written is lost: nobody is left to be told, and the exit code stays that of the work."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _ours(stream: TextIO, kind: type[io.FileIO], errors: str) -> TextIO:
    """The same stream through our file. One in memory stays as it is."""
    try:
        stream.flush()
        file = kind(stream.fileno(), "w", closefd=False)
    except OSError:
        return stream
    by_line = isinstance(stream, io.TextIOWrapper) and (stream.line_buffering or stream.write_through)
    return io.TextIOWrapper(io.BufferedWriter(file), stream.encoding, errors, line_buffering=by_line)


def _as_it_came(error: UnicodeError) -> tuple[str | bytes, int]:
    """A path's bytes as the system gave them; whatever else the stream's encoding lacks is written out."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.backslashreplace_errors(error)
