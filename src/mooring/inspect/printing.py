"""Text for a terminal of any width, without colour; values as JSON and YAML."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

import yaml

from mooring.base.text import visible
from mooring.base.units import format_duration

WIDTH: Final = 80


def wrapped(head: str, text: str, width: int, *, breaks: bool = False) -> list[str]:
    """The lines of a paragraph. head: before the first; the others are indented by as much. width: of a line, 40 at
    least. breaks: words that are longer than a line, which else stand whole, to be copied.
    """
    room = max(40, width)
    body = textwrap.wrap(
        visible(text),
        room,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=breaks,
        break_on_hyphens=False,
    )
    return body or [head.rstrip()]


def ago(seconds: float) -> str:
    """A span of time in a few letters."""
    return format_duration(float(max(0, round(seconds))))


def as_json(values: Any) -> str:
    return json.dumps(values, indent=2) + "\n"


def as_yaml(values: Any) -> str:
    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
