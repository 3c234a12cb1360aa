"""Kinds of flag values, read as Go's strconv and time packages read them; and feature gates, as Kubernetes' components
read them.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Collection, Mapping
from typing import Final, Generic, TypeVar

from mooring.base.errors import ConfigError
from mooring.base.units import format_duration, parse_duration_s

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class FlagKind(Generic[T]):
    """How a flag's text becomes its value.

    word: stands for the value in the usage, "" for booleans. read: raises ValueError. hint: what is allowed, shown with
    the error. show: the default as the usage shows it, "" to leave it out. bare: the text meant by the flag alone, None
    when it needs a value. merge: joins an earlier value with a later one; None lets the last win. choices: what a shell
    offers; the command checks the value.
    """

    word: str
    read: Callable[[str], T]
    hint: str = ""
    show: Callable[[T], str] = str
    bare: str | None = None
    merge: Callable[[T, T], T] | None = None
    choices: tuple[str, ...] = ()


_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)
_INTEGER: Final = re.compile(r"[+-]?(0[xX]|0[bB]|0[oO]|0)?[0-9a-fA-F_]+", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)


def read_bool(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError("parse error")
    return _BOOLEANS[text]


def read_int(text: str) -> int:
    """Go's base 0: 10, 0x0a, 0o12, 012, 0b1010. 64 bits."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError("parse error")
    try:
        value = int(text, 8 if match[1] == "0" else 0)
    except ValueError:
        raise ValueError("parse error") from None
    if not -(2**63) <= value < 2**63:
        raise ValueError("value out of range")
    return value


def read_uint(text: str) -> int:
    if text[:1] in ("-", "+"):
        raise ValueError("parse error")
    return read_int(text)


def read_float(text: str) -> float:
    if _FLOAT.fullmatch(text) is None:
        raise ValueError("parse error")
    return float(text)


def read_labels(text: str) -> dict[str, str]:
    """`k:v,k2:v2`; each item has exactly one colon."""
    labels = {}
    for item in text.split(","):
        key, *value = item.split(":")
        if len(value) != 1:
            raise ValueError(f'"{item}" is no pair')
        labels[key.strip()] = value[0].strip()
    return labels


def read_pairs(text: str) -> dict[str, str]:
    """name=value pairs; blanks are trimmed, empty items skipped. Raises ValueError."""
    pairs = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise ValueError(f'"{item}" is no pair')
        pairs[name] = value
    return pairs


def _joined(earlier: Mapping[str, T], later: Mapping[str, T]) -> Mapping[str, T]:
    return {**earlier, **later}


STRING: Final[FlagKind[str]] = FlagKind("string", str, show=lambda value: f'"{value}"' if value else "")
NAMESPACE: Final = dataclasses.replace(STRING)
"""The name of a namespace: a shell offers those of the cluster."""
FILE: Final = dataclasses.replace(STRING)
"""The path of a file that is read or written. A shell completes it, and tests/unit/cli/test_border.py makes it fail in
every way; so it does with the three that follow."""
FOLDER: Final = dataclasses.replace(STRING)
"""The path of a folder."""
SOCKET: Final = dataclasses.replace(STRING)
"""The address of a unix socket: a path, or `unix://` and one."""
BOOL: Final[FlagKind[bool]] = FlagKind(
    "", read_bool, "true or false, after =", lambda value: "true" if value else "", bare="true"
)
INT: Final[FlagKind[int]] = FlagKind("int", read_int, "a whole number", lambda value: str(value) if value else "")
UINT: Final[FlagKind[int]] = FlagKind(
    "uint", read_uint, "a whole number, not negative", lambda value: str(value) if value else ""
)
FLOAT: Final[FlagKind[float]] = FlagKind("float", read_float, "a number", lambda value: f"{value:g}" if value else "")
DURATION: Final[FlagKind[float]] = FlagKind(
    "duration", parse_duration_s, "numbers with units, as in 15s, 300ms or 1m30s", format_duration
)
LABELS: Final[FlagKind[Mapping[str, str]]] = FlagKind(
    "labels", read_labels, "key:value pairs, as in team:storage,tier:gold", lambda _: "", merge=_joined
)
PAIRS: Final[FlagKind[Mapping[str, str]]] = FlagKind(
    "mapStringString", read_pairs, "name=value pairs, as in cpu=4,memory=8Gi", lambda _: "", merge=_joined
)
NAMES: Final[FlagKind[tuple[str, ...]]] = FlagKind(
    "name",
    lambda text: tuple(text.split(",")),
    "names, separated by commas",
    lambda _: "",
    merge=lambda one, more: (*one, *more),
)

FILES: Final = dataclasses.replace(NAMES)
"""Paths of files or folders, separated by commas."""


def word_of(*choices: str) -> FlagKind[str]:
    """The kind of a flag whose value is one of these words."""
    return dataclasses.replace(STRING, choices=choices)


class GateStage(enum.Enum):
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


@dataclasses.dataclass(frozen=True, slots=True)
class Gate:
    """One feature. default: without the flag."""

    stage: GateStage
    default: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Gates:
    """All gates of a program, decided. warnings: what an operator should hear about the settings."""

    enabled: Mapping[str, bool]
    warnings: tuple[str, ...] = ()


_ALL: Final = {"AllAlpha": GateStage.ALPHA, "AllBeta": GateStage.BETA}

NO_EFFECT: Final = frozenset(
    {
        "HonorPVReclaimPolicy",
        "APIListChunking",
        "APIServerIdentity",
        "APIServerTracing",
        "ConsistentListFromCache",
        "OpenAPIEnums",
        "StorageVersionAPI",
        "WatchList",
    }
)
"""First a gate of former provisioners, which is always on by now; then those of the generic API-server library. The Go
sidecars link it and so accept them; they change nothing in a sidecar.
"""


def read_gates(text: str) -> dict[str, bool]:
    """Blanks are trimmed, empty items skipped. Raises ValueError for an item that is no pair with a boolean."""
    settings = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals):
            raise ValueError(f"missing bool value for {name or item}")
        try:
            settings[name] = read_bool(value)
        except ValueError:
            raise ValueError(f"invalid value of {name}={value}") from None
    return settings


GATES: Final[FlagKind[Mapping[str, bool]]] = FlagKind(
    "gates", read_gates, "Name=true|false pairs, as in A=true,B=false", lambda _: "", merge=_joined
)


def decide_gates(
    settings: Mapping[str, bool], known: Mapping[str, Gate], no_effect: Collection[str] = NO_EFFECT
) -> Gates:
    """The gates after the settings; AllAlpha and AllBeta set those that are not set themselves. Raises ConfigError
    (exit code 1).
    """
    for name in settings:
        if name not in known and name not in _ALL and name not in no_effect:
            raise ConfigError(
                f"feature-gates: unrecognized feature gate: {name}; known are {', '.join(sorted({*known, *_ALL}))}"
            )
    of_stage = {_ALL[name]: value for name, value in settings.items() if name in _ALL}
    enabled = {name: settings.get(name, of_stage.get(gate.stage, gate.default)) for name, gate in known.items()}
    return Gates(enabled, tuple(_warnings(settings, known, no_effect)))


def _warnings(settings: Mapping[str, bool], known: Mapping[str, Gate], no_effect: Collection[str]) -> list[str]:
    ga = [f"Setting GA feature gate {name}={str(value).lower()}. It will be removed in a future release."
          for name, value in settings.items() if name in known and known[name].stage is GateStage.GA]  # fmt: skip
    return ga + [
        f"Feature gate {name} has no effect here." for name in settings if name in no_effect and name not in known
    ]


def gates_help(known: Mapping[str, Gate]) -> str:
    """The flag's text in the usage."""
    rows = {name: Gate(stage, False) for name, stage in _ALL.items()} | dict(known)
    options = [
        f"{name}=true|false ({gate.stage.value} - default={str(gate.default).lower()})"
        for name, gate in sorted(rows.items())
    ]
    return "Feature gates, as Name=true|false pairs. Options are:\n" + "\n".join(options)
