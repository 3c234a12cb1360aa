"""Defaults, checks and admission that several kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from mooring.api import names
from mooring.api.quantity import canonical_amount, parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, OtherObjects

DRIVER_NAME_MAX: Final = 63
_TOKEN_LIFE_S_MIN: Final = 600
_TOKEN_LIFE_S_MAX: Final = 2**32
TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def driver_name(value: str, field: str) -> list[FieldCause]:
    """A CSI driver's name: required, at most 63 bytes, a DNS subdomain after lower-casing."""
    if not value:
        return [field_errors.required(field)]
    found = [field_errors.too_long(field, DRIVER_NAME_MAX)] if len(value.encode()) > DRIVER_NAME_MAX else []
    return found + [field_errors.invalid(field, value, reason) for reason in names.dns_subdomain(value.lower())]


def named_once(value: str, field: str, rule: Callable[[str], list[str]]) -> list[FieldCause]:
    """Like `field_errors.named`, with all reasons in one cause."""
    reasons = rule(value)
    return [field_errors.invalid(field, value, ";".join(reasons))] if reasons else []


def one_of(value: Any, field: str, allowed: Sequence[str]) -> list[FieldCause]:
    return [] if value in allowed else [field_errors.not_supported(field, value, allowed)]


def all_of(values: Iterable[Any], field: str, allowed: Sequence[str]) -> list[FieldCause]:
    return [cause for value in values for cause in one_of(value, field, allowed)]


def access_modes(modes: Sequence[str], field: str, detail: str = "") -> Iterator[FieldCause]:
    """At least one, each known, ReadWriteOncePod only alone. detail: what is said when there is none."""
    if not modes:
        yield field_errors.required(field, detail)
        return
    yield from all_of(modes, field, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(ACCESS_MODES).intersection(modes)) > 1:
        yield field_errors.forbidden(field, "may not use ReadWriteOncePod with other access modes")


def at_least(value: int | None, field: str, least: int) -> list[FieldCause]:
    """Nothing to say about None."""
    if value is None or value >= least:
        return []
    return [field_errors.invalid(field, value, f"must be greater than or equal to {least}")]


def not_negative(value: int | None, field: str) -> list[FieldCause]:
    """The same for nought, in other words."""
    return [] if value is None or value >= 0 else [field_errors.invalid(field, value, "must be a non-negative integer")]


def token_life(life_s: int, field: str) -> list[FieldCause]:
    """The life of a service account's token, in seconds."""
    if life_s < _TOKEN_LIFE_S_MIN:
        return [field_errors.invalid(field, life_s, "may not specify a duration less than 10 minutes")]
    if life_s > _TOKEN_LIFE_S_MAX:
        return [field_errors.invalid(field, life_s, "may not specify a duration larger than 2^32 seconds")]
    return []


def each(values: Iterable[Any] | None, field: str) -> Iterator[tuple[str, Any]]:
    """The items of a list, each after its path."""
    return ((f"{field}[{number}]", value) for number, value in enumerate(values or ()))


def repeated(values: Iterable[Any]) -> set[int]:
    """The places of values that stand before, too."""
    first: dict[Any, int] = {}
    return {number for number, value in enumerate(values) if first.setdefault(value, number) != number}


def unchanged(new: Json, old: Json, part: str, field: str) -> list[FieldCause]:
    """part: the member compared; field: how the cause names it."""
    return [] if new.get(part) == old.get(part) else [field_errors.immutable(field, new.get(part))]


def all_unchanged(new: Json, old: Json, parts: Iterable[str], place: str = "") -> list[FieldCause]:
    """place: put before each member's name in its cause."""
    return [cause for part in parts for cause in unchanged(new, old, part, f"{place}{part}")]


_FINEST: Final = -3


def default_amounts(amounts: dict[str, str] | None) -> None:
    """Rounds up to thousandths: nothing finer is stored."""
    for name, text in (amounts or {}).items():
        assert amounts is not None
        amounts[name] = canonical_amount(text, _FINEST)


def is_fractional(text: str) -> bool:
    return not parse_quantity(text).is_whole


def fraction_warnings(resources: dict[str, Any], field: str) -> list[str]:
    """Warnings about storage in parts of a byte."""
    return [
        f'{field}.{part}[storage]: fractional byte value "{resources[part]["storage"]}" is invalid, must be an integer'
        for part in ("requests", "limits")
        if "storage" in (resources.get(part) or {}) and is_fractional(resources[part]["storage"])
    ]


def protected_by(finalizer: str) -> Callable[[Json, OtherObjects], None]:
    """An `admit` that adds this finalizer."""

    def admit(new: Json, _view: OtherObjects) -> None:
        finalizers = new["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)

    return admit
