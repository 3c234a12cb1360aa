"""Checks a definition beside its schemas: names, versions, columns, paths, and updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from mooring.api import names as rules
from mooring.apiserver import effort, field_errors
from mooring.apiserver.custom import lifecycle
from mooring.apiserver.custom.columns_and_scale import wrong_columns, wrong_scale, wrong_selectable
from mooring.apiserver.custom.schema_validation import unknown_formats, wrong_schema
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json

_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_MIXED_CASE: Final = "may have mixed case, but should otherwise match: "
_OTHERS: Final = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
_WARNING_BYTES_MAX: Final = 256
_VERSIONS_MAX: Final = 100
"""Differs from kube-apiserver, which has no bound: each version is a kind of its own, in discovery and OpenAPI, too."""
_RULES_BYTES_MAX: Final = 128 * 1024
_RULE_STEPS: Final = 8
"""For work to read and compile a byte of rules."""
_RULE_BYTES: Final = 128
"""Bytes that a rule counts for at least. Differs from kube-apiserver, which estimates the cost of rules."""


def validate(new: Json) -> list[FieldCause]:
    spec = new["spec"]
    if len(spec["versions"] or ()) > _VERSIONS_MAX:
        return [field_errors.too_many_items("spec.versions", len(spec["versions"]), _VERSIONS_MAX)]
    rules_bytes = _rules_bytes(spec)
    if rules_bytes > _RULES_BYTES_MAX:
        return [
            field_errors.invalid(
                "spec.versions",
                len(spec["versions"]),
                f"rules of more than {_RULES_BYTES_MAX} letters take long to read",
            )
        ]
    effort.current().spend(rules_bytes * _RULE_STEPS)
    return [
        *_names(new),
        *_group(new),
        *_versions(new),
        *_conversion(spec.get("conversion") or {}),
        *_each_version(spec),
    ]


def validate_create(new: Json) -> list[FieldCause]:
    spec, name = new["spec"], new["metadata"].get("name", "")
    is_named = name == f"{spec['names']['plural']}.{spec['group']}"
    found = (
        [] if is_named else [field_errors.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]
    )
    return [*found, *_stored_versions(new)]


def validate_update(new: Json, old: Json) -> list[FieldCause]:
    """Names and scope stay once they have been accepted."""
    found, spec, before = [], new["spec"], old["spec"]
    known = [version["name"] for version in spec["versions"] or []]
    for number, version in enumerate(new["status"].get("storedVersions") or ()):
        if version not in known:
            found.append(field_errors.invalid(f"status.storedVersions[{number}]", version, _left_behind(version)))
    if spec["group"] != before["group"]:
        found.append(field_errors.immutable("spec.group", spec["group"]))
    if spec["names"]["plural"] != before["names"]["plural"]:
        found.append(field_errors.immutable("spec.names.plural", spec["names"]["plural"]))
    if lifecycle.has_condition(old, "Established"):
        if spec["scope"] != before["scope"]:
            found.append(field_errors.immutable("spec.scope", spec["scope"]))
        if spec["names"]["kind"] != before["names"]["kind"]:
            found.append(field_errors.immutable("spec.names.kind", spec["names"]["kind"]))
    return found


def warnings(new: Json, old: Json | None) -> list[str]:
    """Warnings about unchecked formats."""
    if old is not None and new["spec"] == old["spec"]:
        return []
    schemas = ((version.get("schema") or {}).get("openAPIV3Schema") for version in new["spec"]["versions"] or ())
    return [f'unrecognized format "{name}"' for schema in schemas if schema for name in unknown_formats(schema)]


def _rules_bytes(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_rules_bytes, value))
    if not isinstance(value, dict):
        return 0
    given = value.get("x-kubernetes-validations")
    rules = [rule for rule in given if isinstance(rule, dict)] if isinstance(given, list) else []
    own = sum(_RULE_BYTES + len(str(rule.get(part, ""))) for rule in rules for part in ("rule", "messageExpression"))
    return own + sum(map(_rules_bytes, value.values()))


def _names(new: Json) -> Iterator[FieldCause]:
    given = new["spec"]["names"]
    for part in ("plural", "singular", "kind", "listKind"):
        mixed = part in ("kind", "listKind")
        if not given.get(part):
            yield field_errors.required(f"spec.names.{part}")
            continue
        for reason in rules.dns_1035_label(given[part].lower() if mixed else given[part]):
            yield field_errors.invalid(f"spec.names.{part}", given[part], f"{_MIXED_CASE}{reason}" if mixed else reason)
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield field_errors.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")
    for part in ("shortNames", "categories"):
        for number, text in enumerate(given.get(part) or ()):
            yield from field_errors.named(text, f"spec.names.{part}[{number}]", rules.dns_1035_label)


def _group(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    group, scope = spec["group"], spec["scope"]
    if not group:
        yield field_errors.required("spec.group")
    elif wrong := field_errors.named(group, "spec.group", rules.dns_subdomain):
        yield from wrong
    elif "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield field_errors.required("spec.scope")
    elif scope not in _SCOPES:
        yield field_errors.not_supported("spec.scope", scope, _SCOPES)
    if lifecycle.is_protected(group):
        yield from _approval((new["metadata"].get("annotations") or {}).get(lifecycle.APPROVED, ""))


def _approval(given: str) -> Iterator[FieldCause]:
    field, text = (
        f"metadata.annotations[{lifecycle.APPROVED}]",
        f'protected groups must have approval annotation "{lifecycle.APPROVED}"',
    )
    if not given:
        yield field_errors.required(field, f"{text}, {_SEE}")
    elif not given.startswith("unapproved") and not _is_url(given):
        yield field_errors.invalid(
            field, given, f'{text} with either a URL or a reason starting with "unapproved", {_SEE}'
        )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def _versions(new: Json) -> Iterator[FieldCause]:
    versions = new["spec"]["versions"] or []
    version_names = [version["name"] for version in versions]
    if len(set(version_names)) < len(version_names):
        yield field_errors.invalid("spec.versions", version_names, "must contain unique version names")
    for number, version in enumerate(versions):
        yield from field_errors.named(version["name"], f"spec.versions[{number}].name", rules.dns_1035_label)
        yield from _deprecation(version, f"spec.versions[{number}].deprecationWarning")
    if sum(version["storage"] for version in versions) != 1:
        yield field_errors.invalid(
            "spec.versions", version_names, "must have exactly one version marked as storage version"
        )
    if new["spec"].get("preserveUnknownFields"):
        yield field_errors.invalid("spec.preserveUnknownFields", True, f"cannot set to true, {_OTHERS}")


def _deprecation(version: Json, field: str) -> Iterator[FieldCause]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield field_errors.invalid(field, text, "can only be set for deprecated versions")
    if not text:
        yield field_errors.invalid(field, text, "must not be an empty string")
    odd = next((number for number, sign in enumerate(text) if not sign.isprintable()), None)
    if len(text.encode()) > _WARNING_BYTES_MAX:
        yield field_errors.invalid(field, text, f"must be <= {_WARNING_BYTES_MAX} bytes")
    if odd is not None:
        yield field_errors.invalid(
            field, text, f"must only contain printable UTF-8 characters; non-printable character found at index {odd}"
        )


def _left_behind(version: str) -> str:
    return (
        f"missing from spec.versions; {version} was previously a storage version, and must remain in "
        "spec.versions until a storage "
        f"migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
    )


def _stored_versions(new: Json) -> Iterator[FieldCause]:
    """They name the versions that objects may be stored in."""
    stored, field = new["status"].get("storedVersions") or [], "status.storedVersions"
    if not stored:
        yield field_errors.invalid(field, stored, "must have at least one stored version")
        return
    current = lifecycle.storage_version(new)
    if current and current not in stored:
        yield field_errors.invalid(field, stored, f"must have the storage version {current}")


def _conversion(conversion: Json) -> Iterator[FieldCause]:
    """Differs from kube-apiserver: conversion by a webhook is refused."""
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    if not strategy:
        yield field_errors.required("spec.conversion.strategy")
    elif strategy not in _STRATEGIES:
        yield field_errors.not_supported("spec.conversion.strategy", strategy, _STRATEGIES)
    if strategy == "Webhook":
        yield field_errors.forbidden(
            "spec.conversion.strategy", "this server calls no webhooks: take None, or a real cluster"
        )
    elif webhook is not None:
        yield field_errors.forbidden(
            "spec.conversion.conversionReviewVersions", "should not be set when strategy is not set to Webhook"
        )


def _each_version(spec: Json) -> Iterator[FieldCause]:
    """Where all versions say the same, the causes name one place for all, as the API server's do."""
    versions = spec["versions"] or []
    for part, inner, wrong in _PARTS:
        distinct: list[Any] = []
        same = all(version.get(part) == versions[0].get(part) for version in versions)
        for number, version in enumerate(versions):
            own, common = f"spec.versions[{number}].{part}", f"spec.{inner}"
            if version.get(part) not in distinct:
                distinct.append(version.get(part))
                yield from wrong(version, common if same else own)
        for number, version in enumerate(versions):
            if part == "schema" and (version.get("schema") or {}).get("openAPIV3Schema") is None:
                yield field_errors.required(f"spec.versions[{number}].schema.openAPIV3Schema")


def _schema(version: Json, path: str) -> list[FieldCause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    return [] if schema is None else wrong_schema(schema, f"{path}.openAPIV3Schema")


_PARTS: Final[tuple[tuple[str, str, Callable[[Json, str], Any]], ...]] = (
    ("schema", "validation", _schema),
    ("subresources", "subresources", wrong_scale),
    ("additionalPrinterColumns", "additionalPrinterColumns", wrong_columns),
    ("selectableFields", "selectableFields", wrong_selectable),
)
"""Parts of a version, what one for all is called, and what is wrong with it."""
