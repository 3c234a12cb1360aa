"""Writes objects as a template of Helm: YAML by hand, since what stands for a value is no YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9./_-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


@dataclass(frozen=True)
class Scalar:
    """What the expression says, as it is. optional: without the key, where the value is empty."""

    expression: str
    optional: bool = False


@dataclass(frozen=True)
class Tree:
    """A value as YAML. optional: without the key, where the value is empty."""

    expression: str
    optional: bool = False


@dataclass(frozen=True)
class Or:
    """A value as YAML, or the usual one where it is null."""

    expression: str
    usual: Any


@dataclass(frozen=True)
class More:
    """What a value adds to the list, or the map, that this stands in."""

    expression: str


@dataclass(frozen=True)
class When:
    """Items of a list that are there when a value says so."""

    expression: str
    items: Sequence[str]


def document(obj: Mapping[str, Any], condition: str = "") -> str:
    """One object, after the line that parts it from the one before. condition: an expression; "" for none."""
    text = "\n".join(["---", *_of_map(obj, "")])
    return f"{{{{- if {condition} }}}}\n{text}\n{{{{- end }}}}\n" if condition else f"{text}\n"


def _of_map(obj: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in obj.items():
        yield from _entry(key, value, indent)


def _entry(key: str, value: Any, indent: str) -> Iterator[str]:
    deeper = indent + "  "
    match value:
        case Scalar(expression, True):
            yield f"{indent}{{{{- with {expression} }}}}"
            yield f"{indent}{key}: {{{{ . }}}}"
            yield f"{indent}{{{{- end }}}}"
        case More():
            yield from _more(value, indent)
        case Tree(expression, optional):
            if optional:
                yield f"{indent}{{{{- with {expression} }}}}"
            yield f"{indent}{key}:"
            yield f"{deeper}{{{{- toYaml {'.' if optional else f'({expression})'} | nindent {len(deeper)} }}}}"
            if optional:
                yield f"{indent}{{{{- end }}}}"
        case Or(expression, usual):
            yield f'{indent}{{{{- if kindIs "invalid" {expression} }}}}'
            yield from _entry(key, usual, indent)
            yield f"{indent}{{{{- else }}}}"
            yield from _entry(key, Tree(expression), indent)
            yield f"{indent}{{{{- end }}}}"
        case dict() if value:
            yield f"{indent}{key}:"
            yield from _of_map(value, deeper)
        case list() if value:
            yield f"{indent}{key}:"
            yield from _of_list(value, deeper)
        case _:
            yield f"{indent}{key}: {_scalar(value)}"


def _of_list(items: Sequence[Any], indent: str) -> Iterator[str]:
    for item in items:
        match item:
            case More():
                yield from _more(item, indent)
            case When(expression, words):
                yield f"{indent}{{{{- if {expression} }}}}"
                yield from _of_list(words, indent)
                yield f"{indent}{{{{- end }}}}"
            case dict():
                first, *others = _of_map(item, indent + "  ")
                assert not first.lstrip().startswith("{{"), f"no item can begin with a condition: {first}"
                yield f"{indent}- {first.lstrip()}"
                yield from others
            case _:
                yield f"{indent}- {_scalar(item)}"


def _more(more: More, indent: str) -> Iterator[str]:
    yield f"{indent}{{{{- with {more.expression} }}}}"
    yield f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}"
    yield f"{indent}{{{{- end }}}}"


def _scalar(value: Any) -> str:
    if isinstance(value, Scalar):
        return f"{{{{ {value.expression} }}}}"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
