"""Label and field selectors: text in, a question about labels or fields out.

Labels know `=`, `==`, `!=`, `in`, `notin`, presence, absence, and `<`, `>` on integers; fields only `=`, `==`, `!=`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from mooring.api import names

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_COMPARISONS = ("=", "==", "!=", "<", ">")


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
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
        (bound,) = self.values
        try:
            number = int(value)
        except ValueError:
            return False
        return number < int(bound) if self.operator == "<" else number > int(bound)


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none: everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, values: Mapping[str, str]) -> bool:
        return all(requirement.holds(values) for requirement in self.requirements)


ANYTHING = Selector()


@functools.lru_cache(maxsize=1024)
def parse_labels(text: str) -> Selector:
    """Raises ValueError for what is no label selector."""
    tokens = _tokens(text)
    requirements = []
    while tokens:
        requirements.append(_requirement(tokens))
        if tokens and (tokens.pop(0) != "," or not tokens):
            raise ValueError(f"unable to parse requirement: found more than a requirement in {text!r}")
    return Selector(tuple(requirements))


@functools.lru_cache(maxsize=1024)
def parse_fields(text: str) -> Selector:
    """Raises ValueError for what is no field selector. The value's `\\`, `,` and `=` are escaped by a backslash."""
    requirements = []
    for term in _split_unescaped(text):
        if not term:
            continue
        found = re.match(r"([^=!]*)(!=|==|=)(.*)", term, re.DOTALL)
        if found is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        operator = "notin" if found[2] == "!=" else "in"
        requirements.append(Requirement(found[1], operator, frozenset({_unescaped(found[3])})))
    return Selector(tuple(requirements))


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"unable to parse requirement in {text!r}")
        tokens.append(found[1])
        at = found.end()
    return tokens


def _requirement(tokens: list[str]) -> Requirement:
    """Takes one requirement off the front."""
    first = tokens.pop(0)
    if first == "!":
        return Requirement(_key(tokens), "absent")
    key = _key([first])
    if not tokens or tokens[0] == ",":
        return Requirement(key, "exists")
    operator = tokens.pop(0)
    if operator in ("in", "notin"):
        return Requirement(key, operator, _value_set(tokens))
    if operator not in _COMPARISONS:
        raise ValueError(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    value = _value(tokens.pop(0) if tokens and tokens[0] != "," else "")
    if operator in ("<", ">"):
        _whole_number(value)
        return Requirement(key, operator, frozenset({value}))
    return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))


def _key(tokens: list[str]) -> str:
    key = tokens.pop(0) if tokens else ""
    wrong = names.qualified_name(key)
    if wrong:
        raise ValueError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(wrong)}')
    return key


def _value_set(tokens: list[str]) -> frozenset[str]:
    if not tokens or tokens.pop(0) != "(":
        raise ValueError("unable to parse requirement: expected '('")
    values: set[str] = set()
    last = ""
    while tokens:
        token = tokens.pop(0)
        if token == ")":
            return frozenset(values | {_value(last)})
        if token == ",":
            values.add(_value(last))
            last = ""
        elif last or token in ("(", "=", "==", "!=", "<", ">", "!"):
            raise ValueError(f"unable to parse requirement: found '{token}', expected: ',', or ')'")
        else:
            last = token
    raise ValueError("unable to parse requirement: found '', expected: ',', or ')'")


def _value(text: str) -> str:
    wrong = names.label_value(text)
    if wrong:
        raise ValueError(f'unable to parse requirement: values: Invalid value: "{text}": {"; ".join(wrong)}')
    return text


def _whole_number(text: str) -> None:
    if not re.fullmatch(r"[-+]?[0-9]+", text):
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise ValueError(f'unable to parse requirement: values: Invalid value: "{text}": {why}')


def _split_unescaped(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _unescaped(text: str) -> str:
    if re.search(r"(?<!\\)=", text):
        raise ValueError(f"invalid field selector: unescaped '=' in value '{text}'")
    return re.sub(r"\\([\\,=])", r"\1", text)
