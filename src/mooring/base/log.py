"""Logging: a constant message and key-values, in klog's levels and forms, on stderr.

    _log = logger(__name__)
    _log.info(2, "Attached", VolumeAttachment=va.name)
    _log.error("Failed to attach", error=error, VolumeAttachment=va.name)

Levels as klog: 0 always, 2 lifecycle and what was done, 4 why, 5 gRPC bodies. A disabled line costs one comparison.
structlog carries the bound values and the chain; the forms are in `base/logform.py`. Nothing is ever written to stdout.
"""

from __future__ import annotations

import fnmatch
import os
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final, TextIO

from mooring.base.errors import ConfigError
from mooring.base.logform import Head, json_line, text_line

# structlog imports rich wherever it is installed, for tracebacks that we never print: 7 MB in every sidecar. So it does not see it.
_hide_rich = "rich" not in sys.modules
if _hide_rich:
    sys.modules["rich"] = None  # type: ignore[assignment]
try:
    from structlog import BoundLoggerBase
finally:
    if _hide_rich:
        del sys.modules["rich"]

_HEAD: Final = ""  # the key under which a record's head travels: no keyword can have this name


class _File:
    """One source file's door to the log; structlog's wrapped logger. verbosity: the highest level that is written."""

    __slots__ = ("name", "verbosity")

    def __init__(self, name: str) -> None:
        self.name = name
        self.verbosity = 0

    def write(self, line: str) -> None:
        _write(line)


class Logger(BoundLoggerBase):
    """A logger of one module, with the values bound to it."""

    _logger: _File

    def enabled(self, level: int) -> bool:
        """True when a line of this level would be written; guard what is costly to compute."""
        return level <= self._logger.verbosity

    def info(self, level: int, message: str, /, **values: Any) -> None:
        """level: klog's, from 0."""
        if level <= self._logger.verbosity:
            self._emit("I", level, message, values, None)

    def warning(self, message: str, /, **values: Any) -> None:
        self._emit("W", 0, message, values, None)

    def error(self, message: str, /, error: BaseException | None = None, **values: Any) -> None:
        """error: shown as err="…"; its traceback is not."""
        self._emit("E", 0, message, values, error)

    def bind(self, /, **values: Any) -> Logger:
        """A logger that adds these values to each of its lines."""
        return super().bind(**values)

    def _emit(self, letter: str, level: int, message: str, values: dict[str, Any], error: BaseException | None) -> None:
        frame = sys._getframe(2)  # 0 is here, 1 is info, warning or error
        caller = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        values[_HEAD] = Head(letter, level, message, caller, _output.wall_s(), os.getpid()), error
        (line,), _ = self._process_event(letter, None, values)
        self._logger.write(line)


class _Output:
    """Where lines go and how they look; one for the process."""

    def __init__(self) -> None:
        self.json = False
        self.stream: TextIO | None = None
        self.wall_s: Callable[[], float] = time.time
        self.verbosity = 0
        self.patterns: tuple[tuple[str, int], ...] = ()

    def verbosity_of(self, file_name: str) -> int:
        """vmodule only raises, as in klog; the first pattern that matches counts."""
        for pattern, level in self.patterns:
            if fnmatch.fnmatchcase(file_name, pattern):
                return max(self.verbosity, level)
        return self.verbosity


_output = _Output()
_files: dict[str, _File] = {}


def logger(name: str) -> Logger:
    """The logger of a module. name: its `__name__`; the last part is what vmodule patterns match."""
    file_name = name.rpartition(".")[2]
    file = _files.get(file_name)
    if file is None:
        file = _files[file_name] = _File(file_name)
        file.verbosity = _output.verbosity_of(file_name)
    return Logger(file, (_render,), {})


def configure(
    *, verbosity: int = 0, vmodule: str = "", json: bool = False, stream: TextIO | None = None, wall_s: Callable[[], float] = time.time
) -> None:
    """Sets the form and the levels for all loggers, those made before too.

    vmodule: `pattern=N,…`, patterns over file names without .py, text form only. stream: None is whatever sys.stderr is at each
    line. wall_s: the time stamps' source. Raises ConfigError (exit code 2) for a vmodule that can't be read.
    """
    _output.patterns = () if json else parse_vmodule(vmodule)
    _output.verbosity, _output.json, _output.stream, _output.wall_s = verbosity, json, stream, wall_s
    for file in _files.values():
        file.verbosity = _output.verbosity_of(file.name)


def parse_vmodule(text: str) -> tuple[tuple[str, int], ...]:
    """`queue=4,kube*=2` as pairs, empty items skipped. Raises ConfigError (exit code 2)."""
    pairs = []
    for item in filter(None, text.split(",")):
        pattern, equals, level = item.partition("=")
        if not (pattern and equals and level.isascii() and level.isdecimal()):
            raise ConfigError(f'vmodule: "{item}" is not of the form pattern=N, as in queue=4,informer=2', exit_code=2)
        pairs.append((pattern, int(level)))
    return tuple(pairs)


def _render(_file: _File, _method: str, values: MutableMapping[str, Any]) -> str:
    """The chain's only step: the record as its line."""
    head, error = values.pop(_HEAD)
    return (json_line if _output.json else text_line)(head, values, error)


def _write(line: str) -> None:
    """Writes one line. A stream that is gone loses the line: there is nobody left to tell."""
    stream = sys.stderr if _output.stream is None else _output.stream
    if stream is None:
        return
    try:
        stream.write(f"{line}\n")
    except UnicodeEncodeError:
        stream.write(f"{line.encode('ascii', 'backslashreplace').decode()}\n")
    except (OSError, ValueError):
        return
