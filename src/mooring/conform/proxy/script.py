"""A script of faults, read from YAML. Each mistake is told with its line and the next step.

seed: 7
faults:
- do: drop
  rpc: CreateVolume
  request: {name: pvc-*}
  nth: 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import yaml

from mooring.base.errors import ConfigError
from mooring.base.json_text import TooDeep
from mooring.base.units import parse_duration_s
from mooring.base.yaml_text import Loader
from mooring.conform.call.names import BY_NAME, hint, hint_or_list, paths_in
from mooring.conform.proxy.faults import Fault, Kind, When, is_for
from mooring.csi.driver import RPCS
from mooring.wire.grpc.codes import CODES, Code

T = TypeVar("T")

FAILURES: Final = {name: int(code) for name, code in CODES.items() if code is not Code.OK}

_FOR_ALL: Final = ("do", "rpc", "request", "nth", "every", "times", "probability")
_OWN: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.DELAY: ("for", "when"),
    Kind.DROP: (),
    Kind.FAIL: ("code", "message", "when"),
    Kind.TWICE: ("at_once",),
    Kind.HANG: (),
    Kind.CUT: ("when",),
}
"""The words of each kind of fault, beside those of all."""
_NEEDED: Final[Mapping[Kind, str]] = {Kind.DELAY: "for", Kind.FAIL: "code"}


class Script(msgspec.Struct, frozen=True):
    seed: int
    faults: tuple[Fault, ...]


class _Wrong(Exception):
    """line: counts from 0. more: other mistakes, further down."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.more: tuple[_Wrong, ...] = ()


def script_of(text: str, name: str) -> Script:
    """name: the file's. Raises ConfigError, with exit code 2."""
    return _read(
        text, name, _script, "the script is empty: give faults, as in `faults: [{do: drop, rpc: CreateVolume}]`"
    )


def fault_of(text: str, place: str) -> Fault:
    """One fault, in a script's words. place: where it was asked for. Raises ConfigError."""
    fault = _read(text, "", _fault, "say what it does, as in `{do: drop, rpc: CreateVolume}`")
    return msgspec.structs.replace(fault, place=place)


def _read(text: str, name: str, read: Callable[[yaml.Node, str], T], empty: str) -> T:
    """name: of the file, "" for a text that is none."""

    def refused(why: str, line: int | None = None) -> ConfigError:
        place = "" if not name else f"{name}: " if line is None else f"{name}:{line + 1}: "
        return ConfigError(f"{place}{why}", exit_code=2)

    try:
        root = yaml.compose(text, Loader=Loader)
        if root is None:
            raise _Wrong(0, empty)
        return read(root, name)
    except _Wrong as error:
        raise ConfigError(
            "\n".join(str(refused(str(one), one.line)) for one in (error, *error.more)), exit_code=2
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise refused(f"is no YAML: {getattr(error, 'problem', None) or error}", mark.line if mark else 0) from None
    except TooDeep as error:
        raise refused(str(error)) from None


def _script(root: yaml.Node, name: str) -> Script:
    seed, faults = 0, tuple[Fault, ...]()
    for key, node in _pairs(root, "the script").items():
        match key:
            case "seed":
                seed = _whole(node, "seed", 0)
            case "faults":
                faults = tuple(_faults(_items(node, "faults"), name))
            case _:
                raise _Wrong(_key_line(root, key), f"a script has no {key!r}{hint_or_list(key, ('seed', 'faults'))}")
    if not faults:
        raise _Wrong(
            root.start_mark.line,
            "the script has no faults: give at least one, as in `faults: [{do: drop, rpc: CreateVolume}]`",
        )
    return Script(seed, faults)


def _faults(nodes: Iterable[yaml.Node], name: str) -> Iterator[Fault]:
    """Raises _Wrong with the first mistake of each fault, once all are read."""
    wrong = list[_Wrong]()
    for one in nodes:
        try:
            fault = _fault(one, name)
        except _Wrong as error:
            wrong.append(error)
        else:
            yield fault
    if wrong:
        wrong[0].more = tuple(wrong[1:])
        raise wrong[0]


def _fault(node: yaml.Node, name: str) -> Fault:
    given = _pairs(node, "a fault")
    line = node.start_mark.line
    if "do" not in given:
        raise _Wrong(line, f"a fault says what it does: give `do`, one of {', '.join(Kind)}")
    kind = _one_of(given["do"], "do", {str(kind): kind for kind in Kind})
    allowed = (*_FOR_ALL, *_OWN[kind])
    for key in given:
        if key not in allowed:
            elsewhere = [str(other) for other, words in _OWN.items() if key in words]
            next_step = f"; it belongs to {' and '.join(elsewhere)}" if elsewhere else hint_or_list(key, allowed)
            raise _Wrong(_key_line(node, key), f"the fault {kind} has no {key!r}{next_step}")
    if (needed := _NEEDED.get(kind)) and needed not in given:
        example = {"for": "for: 2s", "code": "code: Unavailable"}[needed]
        raise _Wrong(line, f"the fault {kind} needs `{needed}`, as in `{example}`")
    read: dict[str, Any] = {
        _FIELDS[key]: _READERS[key](one, key) for key, one in given.items() if key not in ("do", "request")
    }
    fault = Fault(kind, f"{name}:{line + 1}", **read)
    if "request" not in given:
        return fault
    return msgspec.structs.replace(fault, request=tuple(_patterns(given["request"], fault.rpcs)))


def _patterns(node: yaml.Node, rpcs: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each path must be one of a request that the fault can be for."""
    requests = [rpc for rpc in RPCS.values() if any(is_for(pattern, rpc.path) for pattern in rpcs)]
    known = {path for rpc in requests for path in paths_in(rpc.request_type.DESCRIPTOR)}
    fields = {path.rstrip("=.") for path in known}
    maps = tuple(path for path in known if path.endswith("."))
    for key, one in _pairs(node, "request").items():
        if key not in fields and not key.startswith(maps):
            raise _Wrong(
                _key_line(node, key), f"no request of {', '.join(rpcs)} has a field {key!r}{hint(key, fields)}"
            )
        if key in fields and f"{key}." in known:
            raise _Wrong(_key_line(node, key), f"{key!r} is a map: give {key}.KEY")
        yield key, _text(one, key)


# -- readers of values


def _pairs(node: yaml.Node, what: str) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise _Wrong(node.start_mark.line, f"{what} must be a map")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Wrong(key.start_mark.line, f"{what} has a name that is no word")
        if key.value in found:
            raise _Wrong(key.start_mark.line, f"{key.value!r} stands twice: take one away")
        found[key.value] = value
    return found


def _key_line(node: yaml.Node, name: str) -> int:
    line: int = next((key.start_mark.line for key, _ in node.value if key.value == name), node.start_mark.line)
    return line


def _items(node: yaml.Node, what: str) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise _Wrong(node.start_mark.line, f"{what} must be a list: begin each with a dash")
    return list(node.value)


def _text(node: yaml.Node, what: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _Wrong(node.start_mark.line, f"{what} must be one word")
    return str(node.value)


def _one_of(node: yaml.Node, what: str, known: Mapping[str, Any]) -> Any:
    text = _text(node, what)
    if text not in known:
        raise _Wrong(node.start_mark.line, f"{what} has no {text!r}{hint_or_list(text, known)}")
    return known[text]


def _whole(node: yaml.Node, what: str, least: int = 1) -> int:
    text = _text(node, what)
    if not text.isdecimal() or int(text) < least:
        raise _Wrong(node.start_mark.line, f"{what} must be a whole number, {least} or more, got {text!r}")
    return int(text)


def _rpcs(node: yaml.Node, what: str) -> tuple[str, ...]:
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for one in nodes:
        pattern = _text(one, what)
        if not pattern.startswith("/") and not any(is_for(pattern, rpc.path) for rpc in RPCS.values()):
            raise _Wrong(one.start_mark.line, f"there is no call {pattern!r} in CSI{hint_or_list(pattern, BY_NAME)}")
    return tuple(one.value for one in nodes)


def _numbers(node: yaml.Node, what: str) -> tuple[int, ...]:
    return tuple(_whole(one, what) for one in (node.value if isinstance(node, yaml.SequenceNode) else [node]))


def _probability(node: yaml.Node, what: str) -> float:
    text = _text(node, what)
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise _Wrong(node.start_mark.line, f"{what} must be more than 0 and 1 at the most, as in 0.5, got {text!r}")
    return share


def _seconds(node: yaml.Node, what: str) -> float:
    text = _text(node, what)
    try:
        seconds = parse_duration_s(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise _Wrong(node.start_mark.line, f"{what} must be a duration with its unit, as in 300ms or 2s, got {text!r}")
    return seconds


_READERS: Final[Mapping[str, Callable[[yaml.Node, str], Any]]] = {
    "rpc": _rpcs,
    "nth": _numbers,
    "every": _whole,
    "times": _whole,
    "probability": _probability,
    "when": lambda node, what: _one_of(node, what, {str(when): when for when in When}),
    "for": _seconds,
    "code": lambda node, what: _one_of(node, what, FAILURES),
    "message": _text,
    "at_once": lambda node, what: _one_of(node, what, {"true": True, "false": False}),
}
_FIELDS: Final = {name: name for name in _READERS} | {"rpc": "rpcs", "for": "seconds"}
