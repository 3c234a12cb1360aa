"""Parses Go's regular expressions (RE2's syntax, without backreferences) into a tree.

Go's errors are given in its words. The parser knows Unicode's general categories (`\\pL`, `\\p{Lu}`), no scripts.
"""

from __future__ import annotations

import bisect
import functools
import re
import unicodedata
from collections.abc import Callable
from typing import Final

import msgspec

REPEAT_MAX: Final = 1000
_DEPTH_MAX: Final = 100
_CATEGORIES: Final = re.compile(r"C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASSES: Final = {"d": "0-9", "s": "\t\n\f\r ", "w": "0-9A-Za-z_"}
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\x00-\x7f",
    "blank": "\t ",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@[-`{-~",
    "space": "\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}

_COUNT: Final = re.compile(r"\{([0-9]{1,4})(,[0-9]{0,4})?\}")
_GROUP: Final = re.compile(r"(?:P?<[A-Za-z0-9_]+>|([imsU-]*):)")
_UNICODE: Final = re.compile(r"[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Za-z]))")
_NUMBER: Final = re.compile(r"x\{([0-9A-Fa-f]{1,8})\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_NAMED: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_RANGE: Final = re.compile(r".-.|.", re.DOTALL)

Fits = Callable[[str], bool]
"""Whether a letter may stand there."""


class Letter(msgspec.Struct, frozen=True):
    fits: Fits


class Anchor(msgspec.Struct, frozen=True):
    """kind: ^ and $ for lines, A and z for the text, b and B for words."""

    kind: str


class Sequence(msgspec.Struct, frozen=True):
    parts: tuple[Node, ...]


class Choice(msgspec.Struct, frozen=True):
    """The first that fits is preferred."""

    ways: tuple[Node, ...]


class Repeat(msgspec.Struct, frozen=True):
    """most: None for no end. greedy: as often as possible."""

    part: Node
    least: int
    most: int | None
    greedy: bool


Node = Letter | Anchor | Sequence | Choice | Repeat


class _Flags(msgspec.Struct, frozen=True):
    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


class RegexpError(ValueError):
    """No regular expression; or one that is too large."""


def parse(text: str) -> Node:
    """Raises RegexpError."""
    reader = _Reader(text)
    tree = reader.choice(_Flags())
    if reader.rest:
        raise RegexpError("unexpected )")
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0

    @property
    def rest(self) -> bool:
        return self._at < len(self._text)

    def choice(self, flags: _Flags) -> Node:
        """Up to the end, or to a closing parenthesis that was not opened here."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise RegexpError("expression nests too deeply")
        ways, parts = list[Node](), list[Node]()
        while self.rest and self._text[self._at] != ")":
            if self._take("|"):
                ways.append(Sequence(tuple(parts)))
                parts = []
            elif self._text.startswith("(?", self._at) and (changed := self._changed_flags(flags)) is not None:
                flags = changed
            else:
                parts += self._repeated(flags)
        self._depth -= 1
        last = Sequence(tuple(parts))
        return Choice((*ways, last)) if ways else last

    def _take(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._at)
        self._at += len(sign) if found else 0
        return found

    def _changed_flags(self, flags: _Flags) -> _Flags | None:
        """The flags that `(?i)` sets for the rest of the group; None for a group."""
        end = self._text.find(")", self._at)
        inside = self._text[self._at + 2 : end]
        if end < 0 or inside.strip("imsU-"):
            return None
        self._at = end + 1
        return _with(flags, inside)

    def _repeated(self, flags: _Flags) -> list[Node]:
        """One part, or the letters of a quotation, of which the last may be repeated."""
        begin = self._at
        if self._count() is not None:
            self._take("?")
            raise RegexpError(f"missing argument to repetition operator: `{self._text[begin : self._at]}`")
        parts, begin = self._atom(flags), self._at
        count = self._count()
        if count is None or not parts:
            return parts
        greedy = not self._take("?")
        if self._count() is not None:
            self._take("?")
            raise RegexpError(f"invalid nested repetition operator: `{self._text[begin : self._at]}`")
        return [*parts[:-1], Repeat(parts[-1], *count, greedy is not flags.U)]

    def _count(self) -> tuple[int, int | None] | None:
        """How often, where that is said."""
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return count
        found = _COUNT.match(self._text, self._at)
        if found is None:
            return None  # (then the brace is a letter)
        least = int(found[1])
        most = least if found[2] is None else int(found[2][1:]) if found[2][1:] else None
        if max(least, most or 0) > REPEAT_MAX or (most is not None and most < least):
            raise RegexpError(f"invalid repeat count: `{found[0]}`")
        self._at = found.end()
        return least, most

    def _atom(self, flags: _Flags) -> list[Node]:
        if self._take("("):
            return [self._group(flags)]
        if self._take("["):
            return [self._class(flags)]
        if self._take("\\Q"):
            end = self._text.find("\\E", self._at)
            quoted, self._at = (
                (self._text[self._at :], len(self._text)) if end < 0 else (self._text[self._at : end], end + 2)
            )
            return [Letter(_one(letter, flags)) for letter in quoted]
        sign = self._next()
        match sign:
            case ".":
                return [Letter((lambda _: True) if flags.s else (lambda letter: letter != "\n"))]
            case "^":
                return [Anchor("^" if flags.m else "A")]
            case "$":
                return [Anchor("$" if flags.m else "z")]
            case "\\":
                return [self._escape(flags)]
        return [Letter(_one(sign, flags))]

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _group(self, flags: _Flags) -> Node:
        begin = self._at - 1
        if self._take("?"):
            found = _GROUP.match(self._text, self._at)
            if found is None:
                raise RegexpError(f"invalid or unsupported Perl syntax: `{self._text[begin : begin + 3]}`")
            self._at = found.end()
            flags = _with(flags, found[1] or "")
        inside = self.choice(flags)
        if not self._take(")"):
            raise RegexpError("missing closing )")
        return inside

    def _escape(self, flags: _Flags) -> Node:
        if self.rest and self._text[self._at] in "AzbB":
            return Anchor(self._next())
        known = self._known_class(flags)
        return Letter(known or _one(self._letter(), flags))

    def _known_class(self, flags: _Flags) -> Fits | None:
        """The class that stands after a backslash; None for a letter."""
        sign = self._text[self._at : self._at + 1]
        if sign and sign.lower() in _CLASSES:
            self._at += 1
            return _outside(_CLASSES[sign.lower()]) if sign.isupper() else _within(_CLASSES[sign])
        if sign not in ("p", "P"):
            return None
        found = _UNICODE.match(self._text, self._at)
        name = (found[2] or found[3]).capitalize() if found is not None else ""
        if found is None or _CATEGORIES.fullmatch(name) is None:
            raise RegexpError(
                f"invalid character class range: `\\{self._text[self._at : found.end() if found else None]}`"
            )
        self._at = found.end()
        return _category(name, is_negated=(sign == "P") != bool(found[1]), is_folded=flags.i)

    def _letter(self) -> str:
        if not self.rest:
            raise RegexpError("trailing backslash at end of expression: ``")
        begin = self._at - 1
        found = _NUMBER.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            number = int(found[1] or found[2], 16) if found[1] or found[2] else int(found[3], 8)
            if number <= 0x10FFFF:
                return chr(number)
        elif self._text[self._at] in _ESCAPES:
            return _ESCAPES[self._next()]
        elif self._text[self._at].isascii() and not self._text[self._at].isalnum():
            return self._next()
        raise RegexpError(f"invalid escape sequence: `{self._text[begin : max(self._at, begin + 2)]}`")

    def _class(self, flags: _Flags) -> Node:
        begin, negated, members, ranges = self._at - 1, self._take("^"), dict[Fits, None](), list[tuple[str, str]]()
        while not (members or ranges) or not self._take("]"):
            if not self.rest:
                raise RegexpError(f"missing closing ]: `{self._text[begin:]}`")
            member = self._member(flags)
            if isinstance(member, tuple):
                ranges.append(member)
            else:
                members[member] = None
        within = _folded(_among(ranges), flags)
        fits: Fits = lambda letter: within(letter) or any(member(letter) for member in members)  # noqa: E731
        return Letter(_not(fits) if negated else fits)

    def _member(self, flags: _Flags) -> Fits | tuple[str, str]:
        """A range, from one letter to another, or a known class."""
        posix = _NAMED.match(self._text, self._at)
        if posix is not None:
            if posix[2] not in _POSIX:
                raise RegexpError(f"invalid character class range: `{posix[0]}`")
            self._at = posix.end()
            return _posix_class(posix[2], is_negated=bool(posix[1]), is_folded=flags.i)
        begin, low = self._at, self._next()
        if low == "\\":
            known = self._known_class(flags)
            if known is not None:
                return known
            low = self._letter()
        if (
            not self._text.startswith("-", self._at)
            or self._text.startswith("-]", self._at)
            or self._at + 1 >= len(self._text)
        ):
            return low, low
        self._at += 1
        high = self._next()
        if high == "\\":
            high = self._letter()
        if high < low:
            raise RegexpError(f"invalid character class range: `{self._text[begin : self._at]}`")
        return low, high


def _with(flags: _Flags, signs: str) -> _Flags:
    on, _, off = signs.partition("-")
    return msgspec.structs.replace(flags, **{**dict.fromkeys(on, True), **dict.fromkeys(off, False)})


def _not(fits: Fits) -> Fits:
    return lambda letter: not fits(letter)


def _one(wanted: str, flags: _Flags) -> Fits:
    return _folded(lambda letter: letter == wanted, flags)


@functools.cache
def _within(ranges: str) -> Fits:
    """ranges: letters, and `a-z` for all from one to another. One function for each class, so that a class that is said
    twice is one.
    """
    return _among([(part[0], part[-1]) for part in _RANGE.findall(ranges)])


@functools.cache
def _outside(ranges: str) -> Fits:
    return _not(_within(ranges))


@functools.cache
def _posix_class(name: str, *, is_negated: bool, is_folded: bool) -> Fits:
    fits = _folded(_within(_POSIX[name]), _Flags(i=is_folded))
    return _not(fits) if is_negated else fits


@functools.cache
def _category(name: str, *, is_negated: bool, is_folded: bool) -> Fits:
    fits = _folded(lambda letter: unicodedata.category(letter).startswith(name), _Flags(i=is_folded))
    return _not(fits) if is_negated else fits


def _among(ranges: list[tuple[str, str]]) -> Fits:
    """One look, however many ranges there are: those that touch are joined."""
    lows, highs = list[str](), list[str]()
    for low, high in sorted(ranges):
        if highs and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)
    return lambda letter: (place := bisect.bisect_right(lows, letter)) > 0 and letter <= highs[place - 1]


def _folded(fits: Fits, flags: _Flags) -> Fits:
    """If large and small letters differ, it is enough that one fits."""
    if not flags.i:
        return fits
    return lambda letter: (
        fits(letter) or any(len(other) == 1 and fits(other) for other in (letter.lower(), letter.upper()))
    )
