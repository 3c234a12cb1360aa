"""Requests and limits of containers and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_WHOLE: Final = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"),
    *("services.nodeports", "services.loadbalancers"),
)
_KNOWN: Final = (
    *_STANDARD,
    *(f"{part}.{name}" for part in ("requests", "limits") for name in _STANDARD),
    *_WHOLE,
    *("storage", "requests.storage"),
)
_HUGE: Final = "hugepages-"
_COUNTED: Final = ("cpu", "memory")


def validate(resources: Json, field: str, spec: Json) -> Iterator[FieldCause]:
    """For a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    yield from _validate_amounts(limits, f"{field}.limits")
    yield from _validate_amounts(requests, f"{field}.requests")
    yield from _validate_order(limits, requests, field)
    if any(name.startswith(_HUGE) for name in (*limits, *requests)) and not any(name in (*limits, *requests) for name in _COUNTED):
        yield field_errors.forbidden(field, "HugePages require cpu or memory")
    known = [claim["name"] for claim in spec.get("resourceClaims") or []]
    yield from _validate_claims(resources.get("claims") or [], f"{field}.claims", known)


def validate_pod(spec: Json) -> Iterator[FieldCause]:
    """For the pod as a whole."""
    yield from _validate_amounts(spec.get("overhead") or {}, "spec.overhead.limits")
    resources = spec.get("resources") or {}
    for part in ("limits", "requests"):
        yield from _validate_amounts(resources.get(part) or {}, f"spec.resources.{part}", _validate_pods_name)
    if resources.get("claims"):
        yield field_errors.forbidden("spec.resources.claims", "claims may not be set for Resources at pod-level")
    known = [claim["name"] for claim in spec.get("resourceClaims") or []]
    yield from _validate_claims(resources.get("claims") or [], "spec.resources.claims", known)
    yield from _validate_order(resources.get("limits") or {}, resources.get("requests") or {}, "spec.resources")
    for name, text in (resources.get("requests") or {}).items():
        asked = sum(amounts_of(spec.get("containers") or [], "requests", name))
        if parse_quantity(text).value < asked:
            wrong = f"must be greater than or equal to aggregate container requests of {asked}"
            yield field_errors.invalid(f"spec.resources.requests[{name}]", text, wrong)


def validate_resize_policy(policies: Sequence[Json], field: str) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for number, policy in enumerate(policies):
        name = policy["resourceName"]
        if name in seen:
            yield field_errors.duplicate(f"{field}[{number}]", name)
        seen.add(name)
        yield from checks.one_of(name, field, _COUNTED)
        yield from checks.one_of(policy["restartPolicy"], field, ("NotRequired", "RestartContainer"))


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
    wrong = checks.named(name, at, names.qualified_name)
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
            yield field_errors.invalid(f"{field}.requests", text, f"must be less than or equal to {name} limit of {limits[name]}")


def _validate_claims(claims: Sequence[Json], field: str, known: Sequence[str]) -> list[FieldCause]:
    shown = "which is empty" if not known else f"[{', '.join(known)}]"
    text = f"must be one of the names in pod.spec.resourceClaims {shown}"
    unknown = [(number, claim["name"]) for number, claim in enumerate(claims) if claim["name"] not in known]
    return [
        FieldCause("FieldValueNotFound", f"{field}[{number}]", f"Not found: {field_errors.shown(name)}: {text}") for number, name in unknown
    ]
