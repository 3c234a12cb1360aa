"""The policies of a Job: which failures count, and which successes are enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_RULES_MAX: Final = 20
_CODES_MAX: Final = 255
_MANAGER_MAX: Final = 63
INDEXES_MAX: Final = 100_000
"""That may run at a time, or fail; above it, completions need a bound on those that fail."""
OF_MANY_MAX: Final = 10_000
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_INDEXED: Final = "requires indexed completion mode"
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def validate(spec: Json) -> Iterator[FieldCause]:
    """All of them, and the limits that need a completion mode."""
    is_indexed = spec["completionMode"] == "Indexed"
    for part in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if part in spec and spec["completionMode"] == "NonIndexed":
            yield field_errors.invalid(f"spec.{part}", spec[part], _INDEXED)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield field_errors.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if is_indexed:
        yield from _validate_indexes(spec)
    if "podFailurePolicy" in spec:
        yield from _validate_failures(spec)
    if "successPolicy" in spec:
        yield from _validate_successes(spec, "spec.successPolicy", is_indexed=is_indexed)
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    yield from checks.one_of(spec["podReplacementPolicy"], "spec.podReplacementPolicy", allowed)
    if "managedBy" in spec:
        yield from _validate_manager(spec["managedBy"], "spec.managedBy")


def _validate_indexes(spec: Json) -> Iterator[FieldCause]:
    """How many may fail, and how many pods of very many run at a time."""
    completions, failed, field = spec.get("completions", 0), spec.get("maxFailedIndexes"), "spec.maxFailedIndexes"
    if failed is not None and "completions" in spec and failed > completions:
        yield field_errors.invalid(field, failed, "must be less than or equal to completions")
    if failed is not None and failed > INDEXES_MAX:
        yield field_errors.invalid(field, failed, f"must be less than or equal to {INDEXES_MAX}")
    if completions <= INDEXES_MAX or "backoffLimitPerIndex" not in spec:
        return
    if failed is None:
        yield field_errors.required(field, f"must be specified when completions is above {INDEXES_MAX}")
    of_many = f"when completions are above {INDEXES_MAX} and used with backoff limit per index"
    for part in ("parallelism", "maxFailedIndexes"):
        if spec.get(part, 0) > OF_MANY_MAX:
            yield field_errors.invalid(
                f"spec.{part}", spec[part], f"must be less than or equal to {OF_MANY_MAX} {of_many}"
            )


def _validate_manager(manager: str, field: str) -> Iterator[FieldCause]:
    prefix, slash, path = manager.partition("/")
    if not manager:
        yield field_errors.required(field)
    elif not (slash and prefix and path):
        yield field_errors.invalid(field, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from field_errors.named(prefix, field, names.dns_subdomain)
        if not _PATH.fullmatch(path):
            yield field_errors.invalid(field, path, f"Invalid path (regex used for validation is '{_PATH.pattern}')")
    if len(manager.encode()) > _MANAGER_MAX:
        yield field_errors.too_long(field, _MANAGER_MAX)


def _validate_failures(spec: Json) -> Iterator[FieldCause]:
    field = "spec.podFailurePolicy.rules"
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _RULES_MAX:
        yield field_errors.too_many_items(field, len(rules), _RULES_MAX)
    for number, rule in enumerate(rules):
        yield from _validate_failure(rule, spec, f"{field}[{number}]")


def _validate_failure(rule: Json, spec: Json, field: str) -> Iterator[FieldCause]:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    yield from _chosen(rule["action"], f"{field}.action", _ACTIONS)
    if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield field_errors.invalid(f"{field}.action", rule["action"], "requires the backoffLimitPerIndex to be set")
    if codes is not None:
        yield from _validate_codes(codes, spec["template"]["spec"], f"{field}.onExitCodes")
    if len(conditions) > _RULES_MAX:
        yield field_errors.too_many_items(f"{field}.onPodConditions", len(conditions), _RULES_MAX)
    for number, pattern in enumerate(conditions):
        at = f"{field}.onPodConditions[{number}]"
        yield from field_errors.named(pattern["type"], f"{at}.type", names.qualified_name)
        yield from _chosen(pattern["status"], f"{at}.status", _STATUSES)
    if (codes is None) == (not conditions):
        text = (
            "one of OnExitCodes and OnPodConditions is required"
            if codes is None
            else "both OnExitCodes and OnPodConditions is not supported"
        )
        yield FieldCause("FieldValueInvalid", field, f"Invalid value: specifying {text}")


def _validate_codes(codes: Json, pod: Json, field: str) -> Iterator[FieldCause]:
    values: list[int] = codes.get("values") or []
    yield from _chosen(codes["operator"], f"{field}.operator", _OPERATORS)
    known = {container["name"] for part in ("containers", "initContainers") for container in pod.get(part) or ()}
    if "containerName" in codes and codes["containerName"] not in known:
        text = "must be one of the container or initContainer names in the pod template"
        yield field_errors.invalid(f"{field}.containerName", codes["containerName"], text)
    if not values:
        yield field_errors.invalid(f"{field}.values", values, "at least one value is required")
    if len(values) > _CODES_MAX:
        yield field_errors.too_many_items(f"{field}.values", len(values), _CODES_MAX)
    twice = checks.repeated(values)
    for number, value in enumerate(values):
        if codes["operator"] == "In" and value == 0:
            yield field_errors.invalid(f"{field}.values[{number}]", value, "must not be 0 for the In operator")
        if number in twice:
            yield field_errors.duplicate(f"{field}.values[{number}]", value)
    if values != sorted(values):
        yield field_errors.invalid(f"{field}.values", values, "must be ordered")


def _validate_successes(spec: Json, field: str, *, is_indexed: bool) -> Iterator[FieldCause]:
    """Differs from kube-apiserver: the text of succeededIndexes is taken as it is."""
    policy = spec["successPolicy"]
    if not is_indexed:
        yield field_errors.invalid(field, policy, _INDEXED)
        return
    rules = policy.get("rules") or []
    if not rules:
        yield field_errors.required(
            f"{field}.rules", "at least one rules must be specified when the successPolicy is specified"
        )
    if len(rules) > _RULES_MAX:
        yield field_errors.too_many_items(f"{field}.rules", len(rules), _RULES_MAX)
    for number, rule in enumerate(rules):
        at, count = f"{field}.rules[{number}]", rule.get("succeededCount")
        if count is None and rule.get("succeededIndexes") is None:
            yield field_errors.required(at, "at least one of succeededCount or succeededIndexes must be specified")
        yield from checks.at_least(count, f"{at}.succeededCount", 0)
        if count is not None and count > spec.get("completions", count):
            text = f"must be less than or equal to {spec['completions']} (the number of specified completions)"
            yield field_errors.invalid(f"{at}.succeededCount", count, text)


def _chosen(value: Any, field: str, allowed: tuple[str, ...]) -> list[FieldCause]:
    if not value:
        choices = " ".join(f'"{one}"' for one in allowed)
        return [field_errors.required(field, f"valid values: [{choices}]")]
    return checks.one_of(value, field, allowed)
