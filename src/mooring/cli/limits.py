"""Limits of flags' values: a value beyond them can be parsed, but not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from mooring.base.errors import ConfigError
from mooring.base.units import format_duration

WORKERS_MAX: Final = 10_000


class CallTimes(Protocol):
    """Flags of a sidecar."""

    @property
    def timeout_s(self) -> float: ...

    @property
    def retry_interval_start_s(self) -> float: ...

    @property
    def retry_interval_max_s(self) -> float: ...


def check_workers(counts: Mapping[str, int], most: int = WORKERS_MAX) -> None:
    """By the flag's name: how many are worked on at once. Raises ConfigError."""
    for name, count in counts.items():
        if not 0 < count <= most:
            raise ConfigError(f"{name}: must be between 1 and {most}, got {count}")


def check_positive(times_s: Mapping[str, float], example: str) -> None:
    """By the flag's name. example: a duration as one could give it. Raises ConfigError."""
    for name, seconds in times_s.items():
        if seconds <= 0:
            raise ConfigError(f"{name}: must be greater than zero, as in {example}; got {format_duration(seconds)}")


def check_call_times(flags: CallTimes, **others_s: float) -> None:
    """others_s: further times of this kind, by the flag's name with _ for -. Raises ConfigError."""
    times_s = {
        "timeout": flags.timeout_s,
        "retry-interval-start": flags.retry_interval_start_s,
        "retry-interval-max": flags.retry_interval_max_s,
    }
    check_positive(times_s | {name.replace("_", "-"): seconds for name, seconds in others_s.items()}, "15s")


def check_not_negative(times_s: Mapping[str, float], note: str = ",") -> None:
    """By the flag's name. note: the end of the rule, with its punctuation. Raises ConfigError."""
    for name, seconds in times_s.items():
        if seconds < 0:
            raise ConfigError(f"{name}: must not be negative{note} got {format_duration(seconds)}")


def check_resync(name: str, seconds: float) -> None:
    """Checks the flag of a resync period. Raises ConfigError."""
    check_not_negative({name: seconds}, ", 0 turns it off;")
