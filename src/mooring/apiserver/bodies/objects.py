"""Bodies into objects: bounded JSON values, decoded by the kind's shape. Unknown fields are dropped, reported or
refused.

The bounds keep one request from blocking the server. kube-apiserver bounds bytes, patch operations and what they copy,
and takes a depth of 10,000; it has many threads, this server one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.codecs.jsonbody import DEPTH_MAX, TOLD_MAX
from mooring.apiserver.codecs.scalars import WrongType, refuse_huge
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.server_side_apply.managed import is_cleared

VALUES_MAX: Final = 50_000
"""Four times what the largest definition in use has."""
PATHS_LETTERS_MAX: Final = 16 * 1024 * 1024
"""In the paths of all values together: what many values below a long key would cost whoever names them."""
_SMALL_BYTES: Final = 4096
assert _SMALL_BYTES <= VALUES_MAX
assert _SMALL_BYTES**2 <= PATHS_LETTERS_MAX
TOO_DEEP: Final = f"exceeded max depth: the body is nested deeper than {DEPTH_MAX} levels"


def check_bounds(value: Any, size: int | None = None) -> None:
    """Raises BadRequest for a JSON value that is nested too deeply, TooLarge for one with too many values in it, or too
    long paths.

    size: of its text, where that is known.
    """
    level, count = [value], 0
    for _ in range(DEPTH_MAX + 1):
        count += len(level)
        if count > VALUES_MAX:
            raise api_errors.too_large(f"more than {VALUES_MAX} values")
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            break
    else:
        raise api_errors.bad_request(TOO_DEEP)
    size = len(msgspec.json.encode(value, enc_hook=str)) if size is None else size
    if count * size > PATHS_LETTERS_MAX and _letters_of_paths(value) > PATHS_LETTERS_MAX:
        raise api_errors.too_large(
            f"the paths of the values have more than {PATHS_LETTERS_MAX} letters: many values below a long key"
        )


def is_within_bounds(body: bytes) -> bool:
    """True for a parsed JSON text that is too small to be over any of them."""
    return len(body) <= _SMALL_BYTES


def _letters_of_paths(value: Any) -> int:
    found, level = 0, [(value, 0)]
    while level:
        found += sum(length for _, length in level)
        level = [
            (inner, length + (len(key) if isinstance(key, str) else 1))
            for outer, length in level
            if isinstance(outer, dict | list)
            for key, inner in (outer.items() if isinstance(outer, dict) else enumerate(outer))
        ]
    return found


def count_of(value: Any) -> int:
    return 1 + sum(map(count_of, _inside(value)))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class FieldValidation(enum.Enum):
    """The treatment of unknown fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class UnknownFields(ValueError):
    """A strictly validated body has fields that its kind does not have, or one twice."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(f"strict decoding error: {', '.join(problems)}")
        self.problems = problems


def decode_object(
    resource: Resource, value: Any, validation: FieldValidation, problems: list[str]
) -> tuple[Json, tuple[str, ...]]:
    """The object and its warnings. problems: the parser's (duplicate fields). Raises BadRequest (kind, version, types),
    UnknownFields.
    """
    if value is None and resource.custom is None:
        value = {}
    if not isinstance(value, dict):
        raise unusable(resource, "json: cannot unmarshal the body into an object")
    _check_kind(resource, value)
    content = {name: field for name, field in value.items() if name not in ("apiVersion", "kind")}
    unknown: list[str] = []
    try:
        refuse_huge(content if resource.decode is not None else None)
        obj = (
            decode(resource.message, content, unknown) if resource.decode is None else resource.decode(content, unknown)
        )
    except ValueError as error:
        raise unusable(resource, str(error)) from error
    is_other = (
        resource.custom is not None and value["kind"] != resource.kind
    )  # (the schema is not of what it says it is)
    strange = dict.fromkeys(
        f'unknown field "{path}"' for path in unknown if not is_other or path.startswith("metadata.")
    )
    twice = dict.fromkeys(problem for problem in problems if problem.replace("duplicate", "unknown", 1) not in strange)
    warnings = [] if validation is FieldValidation.IGNORE else [*twice, *strange][:TOLD_MAX]
    if warnings and validation is FieldValidation.STRICT:
        raise UnknownFields(warnings)
    if is_cleared(_record_in(content)):
        obj["metadata"]["managedFields"] = [{}]  # (an empty list says the same, and would be dropped like any other)
    kind = resource.kind if resource.custom is None else value["kind"]  # (another one is for the validation)
    return {"apiVersion": resource.api_version, "kind": kind, **obj}, tuple(warnings)


def _record_in(content: Json) -> Any:
    metadata = content.get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def unusable(resource: Resource, why: str) -> Exception:
    """The 400 of a body that can't be read as the kind."""
    return api_errors.bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
    )


def _check_kind(resource: Resource, value: Json) -> None:
    if resource.custom is not None:
        _check_custom_kind(resource, value)
        return
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str | None):
            wrong = WrongType("string", value[name], f".{name}")
            raise api_errors.bad_request(f"couldn't get version/kind; json parse error: {wrong}") from wrong
    api_version, kind = value.get("apiVersion") or resource.api_version, value.get("kind") or resource.kind
    if api_version != resource.api_version:
        raise _other_version(resource, str(api_version))
    if kind != resource.kind:
        raise api_errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): found {kind}"
        )


def _check_custom_kind(resource: Resource, value: Json) -> None:
    """Custom objects name their kind themselves."""
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if not kind or not isinstance(kind, str):
        why = f"Object 'Kind' is missing in '{field_errors.shown(value)}'"
        raise api_errors.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {why}")
    if api_version != resource.api_version:
        raise _other_version(resource, str(api_version or ""))


def _other_version(resource: Resource, given: str) -> Exception:
    return api_errors.bad_request(
        f"the API version in the data ({given}) does not match the expected API version ({resource.api_version})"
    )
