"""What --help prints: what a command does, an example, its flags; for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any, Final

from mooring.base.flags import Flag, Section, flags_of

WIDTH: Final = 80
_COLUMN: Final = 26
"""Where the flags' texts begin."""
_NAMES_ALONE: Final = (Section.COMPATIBLE, Section.UNAVAILABLE)
_GLUE: Final = "\N{NO-BREAK SPACE}"


def usage(table: type[Any], program: str, about: str = "", example: str = "") -> str:
    """The help text. about: a sentence. example: lines to type. Flags in alphabetical order in each section, those that do nothing last."""
    rows = list(flags_of(table).values())
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
        return [_filled(", ".join(f"--{row.name}" for row in rows), "  ")]
    return [line for row in rows for line in _lines(row)]


def _lines(row: Flag) -> list[str]:
    """The flag, and its text beside it; below it where the flag is too long."""
    head, default = f"  --{row.name} {row.kind.word}".rstrip(), row.kind.show(row.default)
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
