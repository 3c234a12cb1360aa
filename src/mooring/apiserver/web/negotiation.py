"""Media types of requests and answers. Answers are JSON or YAML: of the clauses of Accept that fit, the one of the
largest weight counts.

Bodies may also be protobuf: Go clients send nothing else for built-in kinds, and do not retry in JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.bodies.objects import TOO_DEEP, check_bounds, is_within_bounds
from mooring.apiserver.bodies.yamlbody import BYTES_MAX, NoYaml, dump_yaml, duplicate_keys, parse_yaml
from mooring.apiserver.codecs.jsonbody import duplicate_fields, hugest, parse_json
from mooring.apiserver.codecs.protobody import PROTOBUF, parse_protobuf
from mooring.apiserver.codecs.schema import Message
from mooring.apiserver.custom.pruning import whole_numbers
from mooring.apiserver.web.messages import JSON
from mooring.apiserver.web.rendering import WHOLE, Metadata, Rendering, TableRendering
from mooring.base.json_text import TooDeep
from mooring.kube.cluster import PatchType
from mooring.kube.errors import NotAcceptable, UnsupportedMediaType

YAML: Final = "application/yaml"
APPLY: Final = "application/apply-patch+yaml"

_SERVED: Final = (JSON, YAML)
_VERSIONS: Final = ("meta.k8s.io/v1", "meta.k8s.io/v1beta1")
_INCLUDED: Final = ("Metadata", "Object", "None")
_TRANSFORMED: Final = frozenset(("as", "g", "v"))
_PATCHES: Final = {kind.value: kind for kind in PatchType}


class AnswerForm(msgspec.Struct, frozen=True):
    """The form of an answer."""

    media_type: str
    rendering: Rendering


@functools.lru_cache(maxsize=256)
def wanted(accept: str, include: str = "", *, watch: bool = False) -> AnswerForm:
    """The first by weight of Accept. include: includeObject, for tables. Raises NotAcceptable, and BadRequest for an
    unknown include.
    """
    known = False
    for clause, parameters in _by_weight(accept.strip() or "*/*"):
        media_type = JSON if clause == "*/*" else clause
        if media_type not in _SERVED:
            continue
        known = True
        rendering = _rendering(parameters, include)
        if rendering is not None and not (watch and media_type != JSON):
            return AnswerForm(media_type, rendering)
    served = ", ".join(_SERVED)
    message = (
        "only the following media types are accepted:" if known else "406: Not Acceptable\n\nAvailable representations:"
    )
    raise NotAcceptable(f"{message} {served}", reason="NotAcceptable")


def _rendering(parameters: Mapping[str, str], include: str) -> Rendering | None:
    """The rendering that the parameters of a media type ask for; None if it is not supported."""
    if parameters.get("stream", "watch") != "watch":
        return None
    if not _TRANSFORMED.intersection(parameters):
        return WHOLE
    version = f"{parameters.get('g')}/{parameters.get('v')}"
    if version not in _VERSIONS:
        return None
    match parameters.get("as"):
        case "Table":
            if include not in ("", *_INCLUDED):
                why = "must be 'Metadata', 'Object', 'None', or empty"
                shown = field_errors.shown(include)
                raise api_errors.bad_request(
                    f"Unable to convert to Table as requested: includeObject: Invalid value: {shown}: {why}"
                )
            return TableRendering(version, include or "Metadata")
        case "PartialObjectMetadata":
            return Metadata(version, is_list=False)
        case "PartialObjectMetadataList":
            return Metadata(version, is_list=True)
    return None


def parse_body(content_type: str, body: bytes, message: Message | None) -> tuple[Any, list[str]]:
    """The JSON value of a body, and its duplicate fields. message: of a protobuf body, or None. Raises BadRequest,
    UnsupportedMediaType.
    """
    media_type = _media_type(content_type) or JSON
    parse = _PARSERS.get(media_type)
    if parse is None and media_type == PROTOBUF and message is not None:
        parse = functools.partial(_parse_protobuf, message)
    if parse is None:
        raise _unsupported((*_PARSERS, PROTOBUF) if message is not None else tuple(_PARSERS))
    if not body.strip():
        raise api_errors.bad_request("the request has no body")
    return _parsed(parse, body)


def patch_type(content_type: str, *, custom: bool) -> PatchType:
    """custom: the patch is for a custom kind, which has no strategic merge. Raises UnsupportedMediaType."""
    kind = _PATCHES.get(_media_type(content_type))
    if custom and kind in (None, PatchType.STRATEGIC):
        raise _unsupported((PatchType.JSON.value, PatchType.MERGE.value, APPLY))
    if kind is None:
        raise UnsupportedMediaType("415: Unsupported Media Type", reason="UnsupportedMediaType")
    return kind


def parse_patch(body: bytes) -> tuple[Any, list[str]]:
    """The JSON value of a patch, and what is said twice in it. Raises BadRequest."""
    return _parsed(_parse_json, body)


def is_apply(content_type: str) -> bool:
    return _media_type(content_type) == APPLY


def parse_apply(body: bytes) -> tuple[dict[str, Any], list[str]]:
    """An apply's config, and its duplicate keys. JSON is YAML, too. Raises BadRequest."""
    try:
        value, twice = _parse_json(body) if body.lstrip()[:1] == b"{" else (None, [])
        is_yaml = value is None or hugest(value) is not None
    except ValueError:
        is_yaml = True
    if is_yaml:
        value, _ = _parsed_apply(body)
    if not isinstance(value, dict | None):
        kind = next(name for kinds, name in _GO_KINDS if isinstance(value, kinds))
        what = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise api_errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {what}")
    return whole_numbers(value or {}), duplicate_keys(body) if is_yaml or twice else []


_GO_KINDS: Final = ((list, "array"), (bool, "bool"), (str, "string"), ((int, float), "number"))


def _parsed_apply(body: bytes) -> tuple[Any, list[str]]:
    try:
        return _parse_yaml(body)
    except ValueError as error:
        why = error.why if isinstance(error, NoYaml) else str(error) or type(error).__name__
        raise api_errors.bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {why}") from error


def as_yaml(body: bytes) -> bytes:
    """A JSON answer in YAML. Raises NotAcceptable for a large one, which would take long."""
    if len(body) > BYTES_MAX:
        raise NotAcceptable(
            f"the answer has more than {BYTES_MAX} bytes, too much for YAML; ask for JSON", reason="NotAcceptable"
        )
    return dump_yaml(msgspec.json.decode(body))


def _by_weight(accept: str) -> list[tuple[str, Mapping[str, str]]]:
    clauses = []
    for part in accept.split(","):
        clause, *rest = (piece.strip() for piece in part.split(";"))
        parameters = {
            name.strip().lower(): value.strip() for name, _, value in (piece.partition("=") for piece in rest)
        }
        clauses.append((clause.lower(), parameters))
    return sorted(clauses, key=lambda found: -_weight(found[1]))  # (a stable sort: equals stay in the client's order)


def _weight(parameters: Mapping[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 1.0


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _parsed(parse: Callable[[bytes], tuple[Any, list[str]]], body: bytes) -> tuple[Any, list[str]]:
    try:
        return parse(body)
    except TooDeep as error:
        raise api_errors.bad_request(TOO_DEEP) from error
    except ValueError as error:
        raise api_errors.bad_request(f"the body can't be read: {error}") from error


def _parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    value = parse_yaml(body)
    check_bounds(value, len(body))
    return value, []


def _parse_json(body: bytes) -> tuple[Any, list[str]]:
    value = parse_json(body)
    if not is_within_bounds(body):
        check_bounds(value, len(body))
    return value, duplicate_fields(body, value)


def _parse_protobuf(message: Message, body: bytes) -> tuple[Any, list[str]]:
    value = parse_protobuf(body, message)
    check_bounds(value, len(body))
    return value, []


_PARSERS: Final[Mapping[str, Callable[[bytes], tuple[Any, list[str]]]]] = {JSON: _parse_json, YAML: _parse_yaml}


def _unsupported(accepted: tuple[str, ...]) -> UnsupportedMediaType:
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return UnsupportedMediaType(text, reason="UnsupportedMediaType")
