"""Media types: what a client can read, and what it has sent. JSON and YAML; of Accept the first clause by weight that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import yaml

from mooring.apiserver import refusals
from mooring.apiserver.duplicates import duplicate_fields
from mooring.apiserver.messages import JSON
from mooring.kube.cluster import PatchType
from mooring.kube.errors import NotAcceptable, UnsupportedMediaType

YAML: Final = "application/yaml"

_SERVED: Final = (JSON, YAML)
_PATCHES: Final = {kind.value: kind for kind in PatchType}
_NODES_MAX: Final = 1_000_000


def answer_type(accept: str) -> str:
    """The media type to answer with. Raises NotAcceptable when nothing fits."""
    for clause, parameters in _by_weight(accept or "*/*"):
        if "as" in parameters:
            continue  # (tables and metadata alone are not made here)
        if clause == "*/*":
            return JSON
        if clause in _SERVED:
            return clause
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(_SERVED)}", reason="NotAcceptable")


def parse_body(content_type: str, body: bytes) -> tuple[Any, list[str]]:
    """The JSON value of a body, and what is said twice in it. Raises BadRequest, UnsupportedMediaType."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    if media_type not in _SERVED:
        raise _unsupported(_SERVED)
    if not body.strip():
        raise refusals.bad_request("the request has no body")
    return _parsed(_parse_yaml if media_type == YAML else _parse_json, body)


def parse_patch(content_type: str, body: bytes) -> tuple[PatchType, Any]:
    """The kind and the JSON value of a patch. Raises BadRequest, UnsupportedMediaType."""
    kind = _PATCHES.get(content_type.partition(";")[0].strip().lower())
    if kind is None:
        raise _unsupported(tuple(_PATCHES))
    return kind, _parsed(_parse_json, body)[0]


def as_yaml(body: bytes) -> bytes:
    """A JSON answer in YAML."""
    return yaml.safe_dump(msgspec.json.decode(body), allow_unicode=True, sort_keys=True).encode()


def _by_weight(accept: str) -> list[tuple[str, Mapping[str, str]]]:
    clauses = []
    for part in accept.split(","):
        clause, *rest = (piece.strip() for piece in part.split(";"))
        parameters = {name.strip().lower(): value.strip() for name, _, value in (piece.partition("=") for piece in rest)}
        clauses.append((clause.lower(), parameters))
    return sorted(clauses, key=lambda found: -_weight(found[1]))  # (a stable sort: equals stay in the client's order)


def _weight(parameters: Mapping[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def _parsed(parse: Callable[[bytes], tuple[Any, list[str]]], body: bytes) -> tuple[Any, list[str]]:
    try:
        return parse(body)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise refusals.bad_request(f"the body can't be read: {str(error) or type(error).__name__}") from error


def _parse_json(body: bytes) -> tuple[Any, list[str]]:
    return msgspec.json.decode(body), duplicate_fields(body)


def _parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    value = yaml.load(body, Loader=_JsonLikeLoader)
    _count_nodes(value, _NODES_MAX)
    return msgspec.json.decode(msgspec.json.encode(value)), []


class _JsonLikeLoader(yaml.SafeLoader):
    """YAML whose scalars are those of JSON: what looks like a date stays text."""


_JsonLikeLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _count_nodes(value: Any, left: int) -> int:
    """Aliases can make a small text a huge object. Raises ValueError for one of too many nodes."""
    if left <= 0:
        raise ValueError("too many values")
    left -= 1
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        left = _count_nodes(inner, left)
    return left


def _unsupported(accepted: tuple[str, ...]) -> UnsupportedMediaType:
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return UnsupportedMediaType(text, reason="UnsupportedMediaType")
