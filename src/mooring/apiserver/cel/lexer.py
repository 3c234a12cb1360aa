"""CEL text into tokens."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_KEYWORDS: Final = {"true": True, "false": False, "null": None}
_RESERVED: Final = (
    "in as break const continue else for function if import let loop package namespace return var void while"
)
RESERVED: Final = frozenset(_RESERVED.split())
"""Words that name nothing."""

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<float>\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.\d+(?:[eE][-+]?\d+)?)
    | (?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    | (?P<string>[rR]?[bB]?[rR]?(?:
        '{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"
      ))
    | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    | (?P<quoted>`[-_./ a-zA-Z0-9]+`)
    | (?P<sign>\.\?|\[\?|&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {
    sign: sign for sign in "\\?\"'`"
}


class CelSyntaxError(ValueError):
    """The text is no CEL, or more of it than is known here. at: where, counted from 0."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


class Token(msgspec.Struct, frozen=True):
    """kind: name, value (a literal), sign or end. value: the name, the sign, or what the literal stands for."""

    kind: str
    value: Any
    at: int


def tokens_of(text: str) -> list[Token]:
    """Raises CelSyntaxError. The last token is the end."""
    found, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise CelSyntaxError(f"token recognition error at: '{text[place : place + 10]}'", place)
        kind = match.lastgroup or ""
        if kind != "space":
            try:
                found.append(_token(kind, match.group(), place))
            except CelSyntaxError:
                raise
            except (ValueError, OverflowError) as error:
                raise CelSyntaxError(f"invalid literal: {error}", place) from error
        place = match.end()
    return [*found, Token("end", "<EOF>", len(text))]


def _token(kind: str, text: str, at: int) -> Token:
    match kind:
        case "float":
            return Token("value", float(text), at)
        case "int":
            return Token("value", int(text.rstrip("uU"), 0 if text[:2] in ("0x", "0X") else 10), at)
        case "string":
            return Token("value", _string(text, at), at)
        case "quoted":
            return Token("name", text[1:-1], at)
        case "name" if text in _KEYWORDS:
            return Token("value", _KEYWORDS[text], at)
    return Token(kind, text, at)


def _string(text: str, at: int) -> str | bytes:
    quotes = min(place for place in (text.find("'"), text.find('"')) if place >= 0)
    prefix, body = text[:quotes].lower(), text[quotes:]
    inner = body[3:-3] if len(body) >= 6 and body[:3] in ("'''", '"""') else body[1:-1]
    if "r" not in prefix:
        inner = _ESCAPE.sub(lambda found: _unescaped(found, at), inner)
    return inner.encode() if "b" in prefix else inner


def _unescaped(found: re.Match[str], at: int) -> str:
    for digits, base in zip(found.groups()[:4], (16, 16, 16, 8), strict=True):
        if digits is not None:
            return chr(int(digits, base))
    if found[5] not in _ESCAPED:
        raise CelSyntaxError(f"unknown escape '\\{found[5]}'", at)
    return _ESCAPED[found[5]]
