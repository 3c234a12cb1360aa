"""Feature gates: `--feature-gates=A=true,B=false`, as Kubernetes' components read them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Mapping
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import Kind, read_bool


class Stage(enum.Enum):
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


@dataclasses.dataclass(frozen=True, slots=True)
class Gate:
    """One feature. default: without the flag."""

    stage: Stage
    default: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Gates:
    """All gates of a program, decided. warnings: what an operator should hear about the settings."""

    enabled: Mapping[str, bool]
    warnings: tuple[str, ...] = ()


_ALL: Final = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}

NO_EFFECT: Final = frozenset(
    {
        "APIListChunking",
        "APIServerIdentity",
        "APIServerTracing",
        "ConsistentListFromCache",
        "OpenAPIEnums",
        "StorageVersionAPI",
        "WatchList",
    }
)
"""Gates of the generic API-server library. The Go sidecars link it and so accept them; they change nothing in a sidecar."""


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


def _joined(earlier: Mapping[str, bool], later: Mapping[str, bool]) -> Mapping[str, bool]:
    return {**earlier, **later}


GATES: Final[Kind[Mapping[str, bool]]] = Kind(
    "gates", read_gates, "Name=true|false pairs, as in A=true,B=false", lambda _: "", merge=_joined
)


def decide_gates(settings: Mapping[str, bool], known: Mapping[str, Gate], no_effect: Collection[str] = NO_EFFECT) -> Gates:
    """What holds after the settings. AllAlpha and AllBeta move the gates of their stage that are not set themselves.

    Raises ConfigError (exit code 1) that names an unknown gate and lists the known ones.
    """
    for name in settings:
        if name not in known and name not in _ALL and name not in no_effect:
            raise ConfigError(f"feature-gates: unrecognized feature gate: {name}; known are {', '.join(sorted({*known, *_ALL}))}")
    of_stage = {_ALL[name]: value for name, value in settings.items() if name in _ALL}
    enabled = {name: settings.get(name, of_stage.get(gate.stage, gate.default)) for name, gate in known.items()}
    return Gates(enabled, tuple(_warnings(settings, known, no_effect)))


def _warnings(settings: Mapping[str, bool], known: Mapping[str, Gate], no_effect: Collection[str]) -> list[str]:
    ga = [f"Setting GA feature gate {name}={str(value).lower()}. It will be removed in a future release."
          for name, value in settings.items() if name in known and known[name].stage is Stage.GA]  # fmt: skip
    return ga + [f"Feature gate {name} has no effect here." for name in settings if name in no_effect and name not in known]


def gates_help(known: Mapping[str, Gate]) -> str:
    """The flag's text in the usage."""
    rows = {name: Gate(stage, False) for name, stage in _ALL.items()} | dict(known)
    options = [f"{name}=true|false ({gate.stage.value} - default={str(gate.default).lower()})" for name, gate in sorted(rows.items())]
    return "Feature gates, as Name=true|false pairs. Options are:\n" + "\n".join(options)
