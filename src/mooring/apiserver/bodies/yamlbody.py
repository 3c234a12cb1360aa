"""Untrusted YAML, parsed into JSON values within bounds.

The C parser builds nested values by recursion on the C stack; hostile depth overflows it, which is a crash, not an
error. So the events are examined first, without recursion: depth and count are bounded before anything is built, and
aliases, by which a small text grows into a huge value, are refused. Numbers and words are read as Go's parser reads
them: it knows no base 60, in which a long number takes minutes.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec
import yaml

from mooring.apiserver.bodies.objects import TOO_DEEP, VALUES_MAX
from mooring.apiserver.codecs.jsonbody import DEPTH_MAX, TOLD_MAX

BYTES_MAX: Final = 1024 * 1024
_EVENTS_MAX: Final = 3 * VALUES_MAX

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TAG: Final = "tag:yaml.org,2002:"
_READ_HERE: Final = tuple(f"{_TAG}{name}" for name in ("bool", "float", "int", "timestamp"))
_BAD_TAG: Final = (KeyError, IndexError, AttributeError)
"""Errors that the loader itself raises for `!!timestamp x` and similar tags."""
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OCTAL: Final = re.compile(r"([-+]?)0([0-7]+)")
_DIGITS_MAX: Final = 70
"""64 bits, written one by one."""
_WORDS: Final = {
    **dict.fromkeys(("y", "yes", "true", "on"), True),
    **dict.fromkeys(("n", "no", "false", "off"), False),
}


class _JsonLikeLoader(_Loader):  # type: ignore[misc]
    """YAML whose scalars are those of JSON: what looks like a date stays text."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _READ_HERE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """With true and false among the keys as text, since JSON's keys are text."""
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return {str(key).lower() if isinstance(key, bool) else key: value for key, value in found.items()}


def _plain(text: str) -> Any:
    """The value of a number or a word; the text itself for one that is neither."""
    if text in (text.lower(), text.upper(), text.capitalize()) and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    plain = text.replace("_", "")
    number = _whole(plain) if len(plain) <= _DIGITS_MAX else None
    if number is not None and -(2**63) <= number < 2**64:
        return number
    found = float(plain) if _FLOAT.fullmatch(plain) else math.inf
    return found if math.isfinite(found) else text


def _whole(text: str) -> int | None:
    octal = _OCTAL.fullmatch(text)
    try:
        return int(octal[1] + octal[2], 8) if octal is not None else int(text, 0)
    except ValueError:
        return None


def _construct_plain(loader: Any, node: Any) -> Any:
    return _plain(loader.construct_scalar(node))


def _construct_as(kind: type, name: str) -> Any:
    """For what says its type itself."""

    def construct(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        if name == "float" and text.lower().lstrip("+-") in (".inf", ".nan"):
            raise ValueError(f"json: unsupported value: {text}")
        value = _plain(text)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ValueError(f"cannot decode !!str `{text}` as a !!{name}")
        return value

    return construct


_JsonLikeLoader.add_implicit_resolver(
    "!plain", re.compile(r"[-+.]?[0-9]|[yYnNtTfFoO]"), list("-+.0123456789yYnNtTfFoO")
)
_JsonLikeLoader.add_implicit_resolver(
    f"{_TAG}float", re.compile(r"[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"), list("-+.")
)
_JsonLikeLoader.add_constructor("!plain", _construct_plain)
for _kind, _name in ((int, "int"), (float, "float"), (bool, "bool")):
    _JsonLikeLoader.add_constructor(f"{_TAG}{_name}", _construct_as(_kind, _name))


class NoYaml(ValueError):
    """A text that is no YAML. why: in the words of Go's parser, where they are known."""

    def __init__(self, error: yaml.YAMLError) -> None:
        super().__init__(f"no YAML: {error}")
        self.why = _in_words_of_go(error) or str(self)


def _in_words_of_go(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return ""
    lines = [mark.line for mark in (error.context_mark, error.problem_mark) if mark is not None and mark.line]
    line = f"line {lines[0] + isinstance(error, yaml.scanner.ScannerError)}: " if lines else ""
    return f"{line}{error.problem}"


def parse_yaml(body: bytes) -> Any:
    """The JSON value of a YAML document. Raises ValueError, of which NoYaml is one."""
    if len(body) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes of YAML; send JSON")
    try:
        _check_bounds(body)
        value = yaml.load(body, Loader=_JsonLikeLoader)
        return msgspec.json.decode(msgspec.json.encode(value))
    except yaml.YAMLError as error:
        raise NoYaml(error) from error
    except TypeError as error:
        raise ValueError(f"a key that JSON does not know: {error}") from error
    except _BAD_TAG as error:
        raise ValueError(f"a value that is not what its tag says: {error}") from error


def dump_yaml(value: Any) -> bytes:
    """A JSON value as YAML, keys sorted."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=True).encode()


def _check_bounds(body: bytes) -> None:
    """Raises ValueError for a document that would cost more than it is worth."""
    depth = 0
    for number, event in enumerate(yaml.parse(body, Loader=_JsonLikeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise ValueError("YAML aliases are not supported; write the value out")
        if depth > DEPTH_MAX:
            raise ValueError(TOO_DEEP)
        if number > _EVENTS_MAX:
            raise ValueError("YAML with too many values")


def duplicate_keys(body: bytes) -> list[str]:
    """One `line 7: key "x" already set in map` for each, the inner ones first, as Go's parser tells them; of very many
    the first.

    body: what `parse_yaml` takes.
    """
    finder = _Twice()
    try:
        for event in yaml.parse(body, Loader=_JsonLikeLoader):
            finder.take(event)
            if len(finder.found) >= TOLD_MAX:
                break
    except yaml.YAMLError:  # (JSON that is no YAML: nothing is known of its lines)
        return []
    return finder.found


class _Map:
    """A map that is being read. key: the one whose value comes; line: where that begins."""

    def __init__(self) -> None:
        self.seen: set[tuple[type, Any]] = set()
        self.key: tuple[type, Any] | None = None
        self.line = 0


class _Twice:
    """Follows a parser's events."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._open: list[_Map | None] = []

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event)
            self._open.append(_Map() if isinstance(event, yaml.MappingStartEvent) else None)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
            self._end()
        elif isinstance(event, yaml.ScalarEvent):
            above = self._open[-1] if self._open else None
            if above is not None and above.key is None:
                value = _plain(event.value) if event.implicit[0] else event.value
                above.key = (type(value), value)
            else:
                self._begin(event)
                self._end()

    def _begin(self, event: Any) -> None:
        above = self._open[-1] if self._open else None
        if above is not None:
            above.line = event.start_mark.line + 1

    def _end(self) -> None:
        """A value is complete."""
        above = self._open[-1] if self._open else None
        if above is None or above.key is None:
            return
        if above.key in above.seen:
            self.found.append(f"line {above.line}: key {msgspec.json.encode(above.key[1]).decode()} already set in map")
        above.seen.add(above.key)
        above.key = None
