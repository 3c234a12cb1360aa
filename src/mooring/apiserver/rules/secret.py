"""core/v1 Secret and ConfigMap."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks
from mooring.base.json_text import ANY_JSON

MESSAGES: Final = META_MESSAGES.extended("""
Secret: 1 metadata ObjectMeta!, 5 immutable b?, 2 data {y}, 4 stringData {s}, 3 type s
ConfigMap: 1 metadata ObjectMeta!, 4 immutable b?, 2 data {s}, 3 binaryData {y}
""")

_BYTES_MAX: Final = 1024 * 1024
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', "
    f"regex used for validation is '{_KEY.pattern}')"
)
_FROZEN: Final = "field is immutable when `immutable` is set"
_REQUIRED_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS: Final = (".dockercfg", ".dockerconfigjson")
_BASIC_AUTH: Final = ("username", "password")
_ACCOUNT: Final = "kubernetes.io/service-account.name"


def _default(new: Json) -> None:
    """stringData is written over data, and is never read back."""
    for key, text in (new.pop("stringData", None) or {}).items():
        new.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
    new.setdefault("type", "Opaque")


def _validate(new: Json) -> Iterator[FieldCause]:
    data = new.get("data") or {}
    for key in data:
        yield from field_errors.named(key, f"data[{key}]", key_reasons)
    if sum(len(base64.b64decode(value)) for value in data.values()) > _BYTES_MAX:
        yield field_errors.too_long("data", _BYTES_MAX)
    yield from _validate_type(new, data)


def _validate_type(new: Json, data: Json) -> Iterator[FieldCause]:
    """The rules of well-known types."""
    kind = new["type"]
    filled = {key for key, value in data.items() if value or kind != "kubernetes.io/ssh-auth"}
    yield from (field_errors.required(f"data[{key}]") for key in _REQUIRED_KEYS.get(kind, ()) if key not in filled)
    if kind == "kubernetes.io/basic-auth" and not any(key in data for key in _BASIC_AUTH):
        yield from (field_errors.required(f"data[{key}]") for key in _BASIC_AUTH)
    if kind == "kubernetes.io/service-account-token" and not (new["metadata"].get("annotations") or {}).get(_ACCOUNT):
        yield field_errors.required(f"metadata.annotations[{_ACCOUNT}]")
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key in _JSON_KEYS and key in data and not _is_json(data[key]):
            yield field_errors.invalid(f"data[{key}]", "<secret contents redacted>", "not JSON")


def _is_json(encoded: str) -> bool:
    """True for an object, and for null."""
    try:
        return isinstance(ANY_JSON.decode(base64.b64decode(encoded)), dict | None)
    except ValueError:
        return False


def key_reasons(key: str) -> list[str]:
    found = ["must be no more than 253 characters"] if len(key.encode()) > 253 else []
    if not _KEY.fullmatch(key):
        found.append(_KEY_TEXT)
    if key in (".", ".."):
        return [*found, f"must not be '{key}'"]
    return [*found, "must not start with '..'"] if key.startswith("..") else found


def _validate_update(new: Json, old: Json) -> Iterator[FieldCause]:
    yield from checks.unchanged(new, old, "type", "type")
    if old.get("immutable"):
        if not new.get("immutable"):
            yield field_errors.forbidden("immutable", _FROZEN)
        if new.get("data") != old.get("data"):
            yield field_errors.forbidden("data", _FROZEN)


SECRETS: Final = Resource(
    group="",
    kind="Secret",
    plural="secrets",
    namespaced=True,
    beginnings=("",),
    message=MESSAGES["Secret"],
    delete_answers_object=False,
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    field_names=frozenset({"type"}),
    fields=lambda secret: {"type": secret["type"]},
)


def _validate_map(new: Json) -> list[FieldCause]:
    texts, binaries = new.get("data") or {}, new.get("binaryData") or {}
    found = [cause for key in texts for cause in field_errors.named(key, f"data[{key}]", key_reasons)]
    for key in binaries:
        found += field_errors.named(key, f"binaryData[{key}]", key_reasons)
    found += [
        field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in texts
        if key in binaries
    ]
    size = sum(len(text.encode()) for text in texts.values()) + sum(
        len(base64.b64decode(text)) for text in binaries.values()
    )
    return found + ([field_errors.too_long("", _BYTES_MAX)] if size > _BYTES_MAX else [])


def _validate_map_update(new: Json, old: Json) -> list[FieldCause]:
    if not old.get("immutable"):
        return []
    found = [] if new.get("immutable") else [field_errors.forbidden("immutable", _FROZEN)]
    return found + [
        field_errors.forbidden(part, _FROZEN) for part in ("data", "binaryData") if new.get(part) != old.get(part)
    ]


CONFIG_MAPS: Final = Resource(
    group="",
    kind="ConfigMap",
    plural="configmaps",
    namespaced=True,
    short_names=("cm",),
    beginnings=("",),
    message=MESSAGES["ConfigMap"],
    delete_answers_object=False,
    validate=_validate_map,
    validate_update=_validate_map_update,
)
