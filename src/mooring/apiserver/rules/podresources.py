"""Requests and limits of containers and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from mooring.api import names
from mooring.api.quantity import Quantity, parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_WHOLE: Final = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
_KNOWN: Final = (
    *_STANDARD,
    *(f"{part}.{name}" for part in ("requests", "limits") for name in _STANDARD),
    *_WHOLE,
    "storage",
    "requests.storage",
)
_HUGE: Final = "hugepages-"
_COUNTED: Final = ("cpu", "memory")


def validate(
    resources: Json, field: str, spec: Json, validate_name: Callable[[str, str], Iterable[FieldCause]] | None = None
) -> Iterator[FieldCause]:
    """validate_name: without it, as for a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    yield from _validate_amounts(limits, f"{field}.limits", validate_name)
    yield from _validate_amounts(requests, f"{field}.requests", validate_name)
    yield from _validate_order(limits, requests, field)


def validate_pod(spec: Json) -> Iterator[FieldCause]:
    """For the pod as a whole."""
    yield from validate({"limits": spec.get("overhead")}, "spec.overhead", spec)
    resources = spec.get("resources")
    if resources is None:
        return
    yield from validate(resources, "spec.resources", spec, _validate_pods_name)
    yield from _validate_sums(resources, spec)


def _validate_sums(resources: Json, spec: Json) -> Iterator[FieldCause]:
    """The pod as a whole asks for what its containers ask for, and none of them has a higher limit."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in aggregated(spec).items():
        if name in requests and amount.value > parse_quantity(requests[name]).value:
            wrong = f"must be greater than or equal to aggregate container requests of {amount}"
            yield field_errors.invalid(f"spec.resources.requests[{name}]", requests[name], wrong)
    for field, container in checks.each(spec.get("containers"), "spec.resources.containers"):
        for name, text in (container["resources"].get("limits") or {}).items():
            if name in limits and parse_quantity(text).value > parse_quantity(limits[name]).value:
                wrong = f"must be less than or equal to pod limits of {limits[name]}"
                yield field_errors.invalid(f"{field}[{name}].limits", text, wrong)


def aggregated(spec: Json) -> dict[str, Quantity]:
    """What the containers ask for at once.

    An init container runs before the others, beside those that were started before it and go on.
    """
    total, lasting, at_start = dict[str, Quantity](), dict[str, Quantity](), dict[str, Quantity]()
    for container in spec.get("containers") or []:
        _add(total, container)
    for container in spec.get("initContainers") or []:
        goes_on = container.get("restartPolicy") == "Always"
        now = (
            lasting
            if goes_on
            else {name: lasting[name] for name in container["resources"].get("requests") or () if name in lasting}
        )
        _add(now, container)
        _raise_to(at_start, {name: now[name] for name in container["resources"].get("requests") or ()})
        if goes_on:
            _add(total, container)
    _raise_to(total, at_start)
    return total


def _add(sums: dict[str, Quantity], container: Json) -> None:
    for name, text in (container["resources"].get("requests") or {}).items():
        more, before = parse_quantity(text), sums.get(name)
        sums[name] = more if before is None or not before.value else Quantity(before.value + more.value, before.style)


def _raise_to(most: dict[str, Quantity], other: dict[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in most or amount.value > most[name].value:
            most[name] = amount


def amounts_of(containers: Iterable[Json], part: str, name: str) -> list[Any]:
    given = [(container["resources"].get(part) or {}).get(name) for container in containers]
    return [parse_quantity(text).value for text in given if text is not None]


def quality(spec: Json) -> str:
    whole = spec.get("resources") or {}
    if whole.get("limits") or whole.get("requests"):
        asking = [{"resources": whole}]
    else:
        asking = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    sums = {(part, name): sum(amounts_of(asking, part, name)) for part in ("requests", "limits") for name in _COUNTED}
    if not any(sums.values()):
        return "BestEffort"
    limited = all(all(sum(amounts_of([one], "limits", name)) > 0 for name in _COUNTED) for one in asking)
    equal = all(sums["requests", name] == sums["limits", name] for name in _COUNTED)
    return "Guaranteed" if limited and equal else "Burstable"


def _validate_amounts(
    amounts: Json, field: str, validate_name: Callable[[str, str], Iterable[FieldCause]] | None = None
) -> Iterator[FieldCause]:
    """validate_name: without it, as for a container."""
    for name, text in amounts.items():
        at = f"{field}[{name}]"
        yield from (validate_name or _validate_name)(name, at)
        amount = parse_quantity(text)
        if amount.value < 0:
            yield field_errors.invalid(at, text, "must be greater than or equal to 0")
        if (name in _WHOLE or _is_extended(name)) and not amount.is_whole:
            yield field_errors.invalid(at, text, "must be an integer")


def _validate_pods_name(name: str, at: str) -> list[FieldCause]:
    """For a pod as a whole."""
    wrong = _wrong_names(name, at)
    is_counted = name in _COUNTED or name.startswith(_HUGE)
    return wrong or ([] if is_counted else [field_errors.not_supported(at, name, sorted((*_COUNTED, _HUGE)))])


def _wrong_names(name: str, at: str) -> list[FieldCause]:
    wrong = field_errors.named(name, at, names.qualified_name)
    if "/" not in name and not wrong and name not in _KNOWN and not name.startswith((_HUGE, f"requests.{_HUGE}")):
        wrong.append(field_errors.invalid(at, name, "must be a standard resource type or fully qualified"))
    return wrong


def _validate_name(name: str, at: str) -> Iterator[FieldCause]:
    yield from _wrong_names(name, at)
    bare = "/" not in name
    if bare and name not in _STANDARD and not name.startswith(_HUGE):
        yield field_errors.invalid(at, name, "must be a standard resource for containers")
    if not _is_native(name) and not _is_extended(name):
        yield field_errors.invalid(at, name, "doesn't follow extended resource name standard")


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Some driver's own, that also a quota can name."""
    return not _is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def _validate_order(limits: Json, requests: Json, field: str) -> Iterator[FieldCause]:
    """Nobody asks for more than the limit; of what can't be shared, for just as much."""
    for name, text in requests.items():
        strict = not _is_native(name) or name.startswith(_HUGE)
        if name not in limits:
            if strict:
                yield field_errors.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
            continue
        asked, most = parse_quantity(text).value, parse_quantity(limits[name]).value
        if strict and asked != most:
            yield field_errors.invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limits[name]}")
        elif asked > most:
            yield field_errors.invalid(
                f"{field}.requests", text, f"must be less than or equal to {name} limit of {limits[name]}"
            )
