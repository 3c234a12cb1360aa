"""Go's regular expressions on Python's: the same meaning, as far as the two differ in what people write."""

from __future__ import annotations

import functools
import re
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[:\w+:\]|.", re.DOTALL)


@functools.lru_cache(maxsize=2048)
def go_regexp(pattern: str) -> re.Pattern[str]:
    """Raises ValueError for what is none."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"error parsing regexp: {error}: `{pattern}`") from error


def _translated(pattern: str) -> str:
    several_lines = re.match(r"\(\?[a-zA-Z]*m", pattern) is not None  # (there $ is the end of a line, in both)
    parts: list[str] = []
    in_class = False
    for token in _TOKEN.findall(pattern):
        if token.startswith(r"\Q"):
            parts.append(re.escape(token[2:].removesuffix(r"\E")))
        elif token == r"\z":
            parts.append(r"\Z")
        elif token == "$" and not in_class and not several_lines:
            parts.append(r"\Z")  # (Python's $ would let a line break follow)
        elif in_class and token.startswith("[:") and token[2:-2] in _POSIX:
            parts.append(_POSIX[token[2:-2]])
        elif in_class and token == "[":
            parts.append(r"\[")
        else:
            parts.append(token)
        if token == "[" and not in_class:
            in_class = True
        elif token == "]" and in_class and parts[-2:-1] != ["["] and parts[-3:-1] != ["[", "^"]:
            in_class = False
    return "".join(parts)
