"""Logging: a constant message and key-values, through the standard library, in klog's levels and forms.

    _log = logger(__name__)
    _log.info(2, "Attached", VolumeAttachment=va.name)
    _log.error("Failed to attach", error=error, VolumeAttachment=va.name)

Levels as klog: 0 always, 2 lifecycle and what was done, 4 why, 5 gRPC bodies. A disabled line costs one comparison. To
`logging` level N is INFO - N, so handlers, filters and pytest's caplog work as with any library. `configure` is for
programs: it writes the process's log to stderr in one of the forms of `base/logform.py`; nothing is ever written to
stdout.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TextIO

from mooring.base.errors import ConfigError
from mooring.base.logform import LineHead, json_line, plain_text, text_line

_LETTERS: Final = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "E"}


class LogLine(logging.LogRecord):
    """One line. values: its key-values. error: what it tells of; its traceback is not shown. verbosity: klog's
    level.
    """

    verbosity: int = 0
    error: BaseException | None = None
    values: Mapping[str, Any] = {}  # never written to

    def getMessage(self) -> str:  # the library's name
        """The message with its key-values, for formatters that know nothing of them."""
        return plain_text(str(self.msg), self.values, self.error)


class Logger:
    """A logger of one module, with the values bound to it. Beneath it is `logging.getLogger(name)`."""

    __slots__ = ("_bound", "_logger")

    def __init__(self, under: logging.Logger, bound: Mapping[str, Any]) -> None:
        self._logger = under
        self._bound = bound

    def enabled(self, level: int) -> bool:
        """True when a line of this level would be written; guard what is costly to compute."""
        return self._logger.isEnabledFor(logging.INFO - level)

    def info(self, level: int, message: str, /, **values: Any) -> None:
        """level: klog's, from 0."""
        if self._logger.isEnabledFor(logging.INFO - level):
            self._emit(logging.INFO - level, message, values, None)

    def warning(self, message: str, /, **values: Any) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._emit(logging.WARNING, message, values, None)

    def error(self, message: str, /, error: BaseException | None = None, **values: Any) -> None:
        """error: shown as err="…"; its traceback is not."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._emit(logging.ERROR, message, values, error)

    def bind(self, /, **values: Any) -> Logger:
        """A logger that adds these values to each of its lines."""
        return Logger(self._logger, {**self._bound, **values})

    def _emit(self, level: int, message: str, values: Mapping[str, Any], error: BaseException | None) -> None:
        frame = sys._getframe(2)  # 0 is here, 1 is info, warning or error
        code = frame.f_code
        record = LogLine(self._logger.name, level, code.co_filename, frame.f_lineno, message, None, None, code.co_name)
        record.verbosity = max(0, logging.INFO - level)
        record.values = {**self._bound, **values} if self._bound else values
        record.error = error
        self._logger.handle(record)


def logger(name: str) -> Logger:
    """The logger of a module. name: its `__name__`; the last part is what vmodule patterns match."""
    under = logging.getLogger(name)
    level = _program.level_of(name)
    if level is not None:
        under.setLevel(level)
    return Logger(under, {})


class _Program(logging.Handler):
    """The log of a program: the lines of all our loggers, in one form on one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.json = False
        self.stream: TextIO | None = None
        self.wall_s: Callable[[], float] = time.time
        self.verbosity = 0
        self.patterns: tuple[tuple[str, int], ...] = ()

    def level_of(self, name: str) -> int | None:
        """A vmodule pattern's level for a logger, None for none. It only raises, as in klog; the first that matches
        counts.
        """
        for pattern, verbosity in self.patterns:
            if fnmatch.fnmatchcase(name.rpartition(".")[2], pattern):
                return logging.INFO - max(self.verbosity, verbosity)
        return None

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line. Lost when the stream is gone."""
        stream = sys.stderr if self.stream is None else self.stream
        if stream is None:
            return
        line = self._line(record)
        try:
            stream.write(f"{line}\n")
        except UnicodeEncodeError:
            stream.write(f"{line.encode('ascii', 'backslashreplace').decode()}\n")
        except (OSError, ValueError):
            return

    def _line(self, record: logging.LogRecord) -> str:
        caller = f"{os.path.basename(record.pathname)}:{record.lineno}"
        letter = _LETTERS.get(record.levelno, "I")
        if isinstance(record, LogLine):
            head = LineHead(letter, record.verbosity, str(record.msg), caller, self.wall_s(), os.getpid())
            return (json_line if self.json else text_line)(head, record.values, record.error)
        head = LineHead(letter, 0, record.getMessage(), caller, self.wall_s(), os.getpid())
        return (json_line if self.json else text_line)(head, {}, None)


_program: Final = _Program()
_ours: Final = logging.getLogger("mooring")


def configure(
    *,
    verbosity: int = 0,
    vmodule: str = "",
    json: bool = False,
    stream: TextIO | None = None,
    wall_s: Callable[[], float] = time.time,
) -> None:
    """Makes this process's log, or changes its form and levels, for loggers made before too.

    vmodule: `pattern=N,…`, patterns over file names without .py, text form only. stream: None is whatever sys.stderr is
    at each line. wall_s: the time stamps' source. Raises ConfigError (exit code 2) for a vmodule that can't be read.
    """
    _program.patterns = () if json else parse_vmodule(vmodule)
    _program.verbosity, _program.json, _program.stream, _program.wall_s = verbosity, json, stream, wall_s
    _ours.addHandler(_program)  # not the root: what other libraries log may show a request, and so a secret
    _ours.setLevel(logging.INFO - verbosity)
    for name, under in tuple(logging.Logger.manager.loggerDict.items()):
        if name.startswith("mooring.") and isinstance(under, logging.Logger):
            level = _program.level_of(name) or logging.NOTSET
            if level != under.level:  # setting one makes all loggers look for theirs again
                under.setLevel(level)


def parse_vmodule(text: str) -> tuple[tuple[str, int], ...]:
    """`queue=4,kube*=2` as pairs, empty items skipped. Raises ConfigError (exit code 2)."""
    pairs = []
    for item in filter(None, text.split(",")):
        pattern, equals, level = item.partition("=")
        if not (pattern and equals and level.isascii() and level.isdecimal()):
            raise ConfigError(f'vmodule: "{item}" is not of the form pattern=N, as in queue=4,informer=2', exit_code=2)
        pairs.append((pattern, int(level)))
    return tuple(pairs)


class LogOnce:
    """Logs an error that repeats once, until its text changes or all is well again.

    over: logged at level 0 when all is well again, "" for nothing.
    """

    def __init__(self, log: Logger, over: str = "") -> None:
        self._log = log
        self._over = over
        self._last = ""

    def error(self, message: str, error: Exception) -> None:
        """Logs at error level, unless this was the last that was logged."""
        if self._is_new(message, error):
            self._log.error(message, error=error)

    def info(self, message: str, error: Exception) -> None:
        """Logs an error that needs no action, unless this was the last that was logged."""
        if self._is_new(message, error):
            self._log.info(0, message, why=str(error))

    def _is_new(self, message: str, error: Exception) -> bool:
        text, last = f"{message}: {error}", self._last
        self._last = text
        return text != last

    def reset(self) -> None:
        """All is well."""
        if self._last:
            self._last = ""
            if self._over:
                self._log.info(0, self._over)
