"""Takes the secrets out of what is kept: the values of Secrets, tokens, what may repeat a whole manifest."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from mooring.csi.scrub import STRIPPED
from mooring.kube.cluster import Request

_VALUE: Final = base64.b64encode(STRIPPED.encode()).decode()
_SECRET_FIELDS: Final = ("data", "stringData")
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that repeats a manifest, with what its fields here leave out."""


def stripped_answer(request: Request, answer: Any) -> Any:
    """The answer to a request as it may be kept: Secrets keep the names of their values, tokens nothing."""
    if holds_secrets(request):
        return _without_values(msgspec.to_builtins(answer))
    if gives_token(request):
        return _without_token(msgspec.to_builtins(answer))
    return answer


def holds_secrets(request: Request) -> bool:
    """True for a request about Secrets."""
    return request.kind.plural == "secrets" and not request.kind.group


def gives_token(request: Request) -> bool:
    """True for a request whose answer holds a token of a service account."""
    return request.subresource == "token" or request.kind.name == "TokenRequest"


def _without_values(found: Any) -> Any:
    if isinstance(found, dict) and isinstance(found.get("items"), list | tuple):
        return {**found, "items": [_without_values(one) for one in found["items"]]}
    if not isinstance(found, dict):
        return found
    kept = {name: value for name, value in found.items() if name not in _SECRET_FIELDS}
    kept["metadata"] = {name: value for name, value in (found.get("metadata") or {}).items() if name != "annotations"}
    for field in _SECRET_FIELDS:
        if isinstance(found.get(field), dict):
            kept[field] = dict.fromkeys(found[field], _VALUE)
    return kept


def _without_token(found: Any) -> Any:
    if isinstance(found, dict) and isinstance(found.get("status"), dict):
        return {**found, "status": {**found["status"], "token": STRIPPED}}
    return found


def stripped_text(text: bytes) -> bytes:
    """An object's JSON, whose annotation of kubectl says nothing. For the moment when a file is written."""
    if LAST_APPLIED.encode() not in text:
        return text
    return msgspec.json.encode(_without_manifest(msgspec.json.decode(text)))


def _without_manifest(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: STRIPPED if name == LAST_APPLIED else _without_manifest(one) for name, one in value.items()}
    return [_without_manifest(one) for one in value] if isinstance(value, list) else value
