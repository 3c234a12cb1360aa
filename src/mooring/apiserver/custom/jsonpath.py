"""Paths into objects, in kubectl's dialect of JSONPath: as far as the columns of custom kinds go.

    .spec.source    ['a.b']    [0]  [-1]    [0:2]    [*]    ..name    [?(@.type=="Ready")]

A path is a chain of steps; each takes the values found so far and gives those one step further. How many values may be
looked at is bounded: `..a..a..a` would look at some of them again and again.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from mooring.apiserver import effort
from mooring.apiserver.effort import Effort, TooMuch
from mooring.base.json_text import ANY_JSON

Path = Callable[[Any], list[Any]]
"""The values at the path, in order; nothing where the object does not go so far, or where to find them is too much
work.
"""

_TEXT_MAX: Final = 1024
_LOOKED_AT_MAX: Final = 5000
_LOOK: Final = 2
"""Steps of work."""
_TOKEN: Final = re.compile(
    r"""
      \.\.(?P<deep>[^.\[\]*'"(){}\s]+)
    | \.?\[\s*(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\s*\]
    | \.?\[\s*(?P<index>-?\d+)\s*\]
    | \.?\[\s*+(?P<low>-?\d*)\s*+:\s*+(?P<high>-?\d*)\s*+(?::\s*+(?P<stride>\d*)\s*+)?\]
    | (?P<all>\.?\[\s*\*\s*\]|\.\*)
    | \.?\[\s*\?\((?P<filter>[^()]*+)\)\s*\]
    | \.(?P<field>(?:[^.\[\]*'"(){}\s\\]|\\.)+)
    """,
    re.VERBOSE,
)
_FILTER: Final = re.compile(r"\s*+@(?P<path>[^=!<>]*+)(?:(?P<sign>==|!=|<=|>=|<|>)(?P<value>.+))?", re.DOTALL)
_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


_Step = Callable[[Any, Effort], Iterable[Any]]


def parse_path(text: str) -> Path:
    """Raises ValueError for what is no path. To find is work of the request: it raises TooMuch where that is over."""
    steps = _parsed(text)

    def find(value: Any) -> list[Any]:
        left = Effort(_LOOKED_AT_MAX)
        try:
            return _walk(steps, value, left)
        except TooMuch:
            return []
        finally:
            effort.current().spend(_LOOK * (_LOOKED_AT_MAX - left.left))

    return find


def printed(value: Any) -> str:
    """A value as text: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _parsed(text: str) -> list[_Step]:
    if len(text) > _TEXT_MAX:
        raise ValueError(f"a JSONPath of more than {_TEXT_MAX} characters")
    return list(_steps(text))


def _walk(steps: list[_Step], value: Any, left: Effort) -> list[Any]:
    found = [value]
    for step in steps:
        found = [inner for outer in found for inner in step(outer, left)]
    return found


def _steps(text: str) -> Iterator[_Step]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"unrecognized JSONPath {text!r}")
        yield _step(found)
        at = found.end()


def _step(found: re.Match[str]) -> _Step:
    match found.lastgroup:
        case "index":
            return _at(int(found["index"]))
        case "all":
            return _every
        case "deep":
            return _deep(found["deep"])
        case "filter":
            return _filter(found["filter"])
        case "field" | "single" | "double" as kind:
            return _member(re.sub(r"\\(.)", r"\1", found[kind]))
    low, high, stride = (int(found[part]) if found[part] else None for part in ("low", "high", "stride"))
    part = slice(low, high, stride or 1)
    return lambda value, left: _items(value, left)[part]


def _member(name: str) -> _Step:
    def find(value: Any, left: Effort) -> list[Any]:
        left.spend(1)
        return [value[name]] if isinstance(value, dict) and name in value else []

    return find


def _at(index: int) -> _Step:
    def find(value: Any, left: Effort) -> list[Any]:
        left.spend(1)
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []

    return find


def _every(value: Any, left: Effort) -> list[Any]:
    left.spend(_size(value))
    if isinstance(value, dict):
        return [value[name] for name in sorted(value)]
    return value if isinstance(value, list) else []


def _deep(name: str) -> _Step:
    def find(value: Any, left: Effort) -> Iterator[Any]:
        waiting = [value]
        while waiting:
            here = waiting.pop()
            inside = _every(here, left)
            if isinstance(here, dict) and name in here:
                yield here[name]
            waiting.extend(reversed(inside))

    return find


def _filter(text: str) -> _Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise ValueError(f"unrecognized JSONPath filter {text!r}")
    path, sign = _parsed(found["path"].strip()), found["sign"]
    if not sign:
        return lambda value, left: [item for item in _items(value, left) if _walk(path, item, left)]
    wanted, compare = _literal(found["value"].strip()), _SIGNS[sign]

    def find(value: Any, left: Effort) -> list[Any]:
        return [
            item
            for item in _items(value, left)
            if any(_holds(compare, given, wanted) for given in _walk(path, item, left)[:1])
        ]

    return find


def _size(value: Any) -> int:
    """The cost of a look at the value, and at its content."""
    return 1 + (len(value) if isinstance(value, dict | list) else 0)


def _items(value: Any, left: Effort) -> list[Any]:
    left.spend(_size(value))
    return value if isinstance(value, list) else []


def _holds(compare: Callable[[Any, Any], bool], given: Any, wanted: Any) -> bool:
    try:
        return compare(given, wanted)
    except TypeError:  # (of types that have no order)
        return False


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return ANY_JSON.decode(text)
    except ValueError:
        raise ValueError(f"unrecognized value {text!r} in a JSONPath filter") from None
