"""core/v1 ConfigMap."""

from __future__ import annotations

import base64
from typing import Final

from mooring.apiserver import field_errors, objectmeta
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks
from mooring.apiserver.rules.secret import FROZEN, key_reasons

MESSAGES: Final = objectmeta.MESSAGES.extended("ConfigMap: 1 metadata ObjectMeta!, 4 immutable b?, 2 data {s}, 3 binaryData {y}")

_BYTES_MAX: Final = 1024 * 1024


def _validate(new: Json) -> list[Cause]:
    texts, binaries = new.get("data") or {}, new.get("binaryData") or {}
    found = [cause for key in texts for cause in checks.named(key, f"data[{key}]", key_reasons)]
    for key in binaries:
        found += checks.named(key, f"binaryData[{key}]", key_reasons)
    found += [field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in texts if key in binaries]
    size = sum(len(text.encode()) for text in texts.values()) + sum(len(base64.b64decode(text)) for text in binaries.values())
    return found + ([field_errors.too_long("", _BYTES_MAX)] if size > _BYTES_MAX else [])


def _validate_update(new: Json, old: Json) -> list[Cause]:
    if not old.get("immutable"):
        return []
    found = [] if new.get("immutable") else [field_errors.forbidden("immutable", FROZEN)]
    return found + [field_errors.forbidden(part, FROZEN) for part in ("data", "binaryData") if new.get(part) != old.get(part)]


CONFIG_MAPS: Final = Resource(
    group="",
    kind="ConfigMap",
    plural="configmaps",
    namespaced=True,
    short_names=("cm",),
    message=MESSAGES["ConfigMap"],
    delete_answers_object=False,
    validate=_validate,
    validate_update=_validate_update,
)
