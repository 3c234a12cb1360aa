"""Label and field selectors. Labels know `=`, `==`, `!=`, `in`, `notin`, presence, absence, integers' `<`, `>`; fields
`=`, `==`, `!=`.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Mapping

import msgspec

from mooring.api import names

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_TOKEN_SIGN = re.compile(r"==|!=|[=!<>(),]")
_COMPARISONS = ("=", "==", "!=", "<", ">")
_KEPT_MAX = 1024
"""Letters of a selector that is read once and not again."""


class Requirement(msgspec.Struct, frozen=True):
    """One condition. operator: in, notin, exists, absent, <, >."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        number, bound = int64(value), int64(*self.values)
        if number is None or bound is None:
            return False
        return number < bound if self.operator == "<" else number > bound


class Selector(msgspec.Struct, frozen=True):
    """A selector, all of whose requirements must hold; without any everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, values: Mapping[str, str]) -> bool:
        return all(requirement.holds(values) for requirement in self.requirements)


ANYTHING = Selector()


def int64(text: str) -> int | None:
    """The number that Gt and Lt compare, as Go's ParseInt reads it; None for text that is no integer of 64 bits."""
    if not re.fullmatch(r"[-+]?0*[0-9]{1,19}", text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def parse_labels(text: str) -> Selector:
    """Raises ValueError for what is no label selector."""
    return (_labels if len(text) <= _KEPT_MAX else _labels.__wrapped__)(text)


def parse_fields(text: str) -> Selector:
    """Raises ValueError for what is no field selector. The value's `\\`, `,` and `=` are escaped by a backslash."""
    return (_fields if len(text) <= _KEPT_MAX else _fields.__wrapped__)(text)


@functools.lru_cache(maxsize=1024)
def _labels(text: str) -> Selector:
    tokens = _tokens(text)
    requirements = []
    while tokens:
        requirements.append(_requirement(tokens))
        if tokens and tokens[0] != ",":
            raise ValueError(f"found '{tokens[0]}', expected: ',' or 'end of string'")
        if tokens and len(tokens) == 1:
            raise ValueError("found '', expected: identifier after ','")
        if tokens:
            tokens.popleft()
    return Selector(tuple(dict.fromkeys(requirements)))


@functools.lru_cache(maxsize=1024)
def _fields(text: str) -> Selector:
    requirements = []
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        found = re.match(r"([^=!]*)(!=|==|=)(.*)", term, re.DOTALL)
        if found is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        operator = "notin" if found[2] == "!=" else "in"
        value = _unescaped(found[3])
        if found[1] or value:  # (nothing that is nothing holds of everything)
            requirements.append(Requirement(found[1], operator, frozenset({value})))
    return Selector(tuple(dict.fromkeys(requirements)))


def _tokens(text: str) -> deque[str]:
    tokens, at = deque[str](), 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"unable to parse requirement in {text!r}")
        tokens.append(found[1])
        at = found.end()
    return tokens


def _requirement(tokens: deque[str]) -> Requirement:
    """Takes one requirement off the front."""
    first = tokens.popleft()
    if first != "!" and _TOKEN_SIGN.fullmatch(first):
        raise ValueError(f"found '{first}', expected: !, identifier, or 'end of string'")
    if first == "!":
        return Requirement(_key(tokens), "absent")
    key = _key(deque((first,)))
    if not tokens or tokens[0] == ",":
        return Requirement(key, "exists")
    operator = tokens.popleft()
    if operator in ("in", "notin"):
        return Requirement(key, operator, _value_set(key, tokens))
    if operator not in _COMPARISONS:
        raise ValueError(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    value = tokens.popleft() if tokens and tokens[0] != "," else ""
    if operator in ("<", ">"):
        if int64(value) is None:
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise ValueError(f'unable to parse requirement: values[0]: Invalid value: "{value}": {why}')
    else:
        operator = "notin" if operator == "!=" else "in"
    _check_values(key, [value])  # a number with a sign is no label's value either
    return Requirement(key, operator, frozenset({value}))


def _key(tokens: deque[str]) -> str:
    key = tokens.popleft() if tokens else ""
    wrong = names.qualified_name(key)
    if wrong:
        raise ValueError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(wrong)}')
    return key


def _value_set(key: str, tokens: deque[str]) -> frozenset[str]:
    first = tokens.popleft() if tokens else ""
    if first != "(":
        raise ValueError(f"unable to parse requirement: found '{first}' expected: '('")
    values: set[str] = set()
    last = ""
    while tokens:
        token = tokens.popleft()
        if token == ")":
            values.add(last)
            _check_values(key, sorted(values))
            return frozenset(values)
        if token == ",":
            values.add(last)
            last = ""
        elif last or token in ("(", "=", "==", "!=", "<", ">", "!"):
            raise ValueError(f"unable to parse requirement: found '{token}', expected: ',' or ')'")
        else:
            last = token
    raise ValueError("unable to parse requirement: found '', expected: ',' or ')'")


def _check_values(key: str, values: list[str]) -> None:
    for number, text in enumerate(values):
        wrong = names.label_value(text)
        if wrong:
            raise ValueError(
                f'unable to parse requirement: values[{number}][{key}]: Invalid value: "{text}": {"; ".join(wrong)}'
            )


def _unescaped(text: str) -> str:
    if re.search(r"(?<!\\)=", text):
        raise ValueError(f"invalid field selector: unescaped '=' in value '{text}'")
    return re.sub(r"\\([\\,=])", r"\1", text)
