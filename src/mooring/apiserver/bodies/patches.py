"""Applying patches: JSON patch and merge patch here, strategic merge in `strategic.py`; what comes out is decoded like
any body.

JSON patch follows RFC 6902 with the API server's ways: `test` for null holds where nothing is, `replace` of a map's
missing key adds it. A patch that can't be applied is one 422 without details; one that is no patch at all is a 400. Its
operations are counted, and so are the bytes that they copy: a short patch could double an object again and again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.bodies.objects import FieldValidation, UnknownFields, check_bounds, decode_object
from mooring.apiserver.bodies.strategic import merge_strategic
from mooring.apiserver.codecs.jsonbody import TOLD_MAX, Huge
from mooring.apiserver.codecs.scalars import WrongType, equally_written, refuse_huge
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.server_side_apply.apply import kind_of, place_of
from mooring.kube.cluster import PatchType
from mooring.kube.errors import ApiError, BadRequest, Invalid, ServerError

OPERATIONS_MAX: Final = 10_000
COPIED_BYTES_MAX: Final = 3 * 1024 * 1024
"""For all `copy` operations of one patch together."""

_INDEX: Final = re.compile(r"[-+]?[0-9]{1,9}")
_NOTHING: Final = object()


class PatchFailed(ValueError):
    """A JSON patch does not fit the document: a test failed or a path leads nowhere."""


def change_of(
    resource: Resource, kind: PatchType, patch: Any, validation: FieldValidation, warnings: list[str] | None = None
) -> Callable[[Json], Json]:
    """The patch as a function from the stored object to the new, decoded one.

    patch: the body's JSON value, or a function that gives it, with its duplicate fields, once there is an object to
    patch. warnings: receives texts for the Warning header.
    The function raises BadRequest for a malformed patch, Invalid for one that can't be applied or that makes the object
    unreadable.
    """

    def change(stored: Json) -> Json:
        value, twice = patch() if callable(patch) else (patch, [])
        is_typed = kind is PatchType.STRATEGIC or validation is not FieldValidation.IGNORE
        problems = _read_typed(kind, value, twice) if is_typed else []
        try:
            patched = _apply(resource, kind, stored, value)
        except PatchFailed as error:
            raise Invalid("the server rejected our request due to an error in our request", reason="Invalid") from error
        return _decoded(resource, patched, validation, warnings, problems)

    return change


def applied_change(
    resource: Resource,
    applied: Callable[[Json], Json],
    config: Json,
    twice: list[str],
    validation: FieldValidation,
    warnings: list[str],
) -> Callable[[Json], Json]:
    """An apply as such a function. applied: what it makes of the live object, which is {} where there is none. twice:
    said in the config.

    The function raises ServerError (500), as kube-apiserver answers, for what can't be decoded, but Invalid for numbers
    that are too large; for custom kinds what patches raise. It reports duplicates once the change has been carried out:
    it raises BadRequest for them, too.
    """

    def change(stored: Json) -> Json:
        merged = applied(stored)
        if resource.custom is not None:
            changed = _decoded(resource, _without_unreadable_metadata(merged), FieldValidation.IGNORE, None)
        else:
            changed = _decoded_applied(resource, merged, config)
        if validation is FieldValidation.STRICT and twice:
            lines = "".join(f"\n  {text}" for text in twice)
            raise api_errors.bad_request(
                f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}"
            )
        if validation is FieldValidation.WARN:
            warnings.extend(twice)
        return changed

    return change


def _without_unreadable_metadata(merged: Json) -> Json:
    """Without the metadata that can't be read: numbers that are none of the field's, and other values where a time
    belongs.
    """
    metadata = merged.get("metadata")
    if not isinstance(metadata, dict):
        return merged
    return {**merged, "metadata": {name: value for name, value in metadata.items() if _is_readable({name: value})}}


def _is_readable(metadata: Json) -> bool:
    try:
        decode(META_MESSAGES["ObjectMeta"], metadata, [])
    except ValueError:
        return False
    return True


def _decoded_applied(resource: Resource, merged: Json, config: Json) -> Json:
    check_bounds(merged)
    try:
        return decode_object(resource, merged, FieldValidation.IGNORE, [])[0]
    except BadRequest as error:
        if (
            isinstance(error.__cause__, WrongType)
            and error.__cause__.wanted.startswith("int")
            and _is_whole(error.__cause__.found)
        ):
            raise _unusable(str(error)) from error  # (kube-apiserver takes the lowest bits of what is too large)
        what = (
            f"failed to convert new object ({place_of(config)}) to proper version: unable to convert unstructured "
            "object"
        )
        raise ServerError(f"{what} to {kind_of(config)}: {error.__cause__ or error}", code=500) from error


def _is_whole(value: Any) -> bool:
    return isinstance(value, Huge) or (
        isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    )


def apply_json(document: Any, patch: list[Any]) -> Any:
    """The document after a JSON patch; the given one is left alone. Raises PatchFailed, BadRequest."""
    if len(patch) > OPERATIONS_MAX:
        raise api_errors.too_large(
            f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {len(patch)}"
        )
    patched, copied_bytes = _fresh(document), 0
    for operation in patch:
        if operation is None:
            raise PatchFailed("operation null")
        if not isinstance(operation, Mapping):
            raise api_errors.bad_request(
                f"json: cannot unmarshal {field_errors.shown(operation)} into a JSON patch operation"
            )
        if operation.get("path") == "" and operation.get("op") in ("replace", "test"):
            patched = _whole(patched, operation["op"], operation.get("value"))
            continue
        copied_bytes += _operate(patched, operation)
        if copied_bytes > COPIED_BYTES_MAX:
            raise PatchFailed(f"copies of {copied_bytes} bytes, exceeding the limit {COPIED_BYTES_MAX}")
    return patched


def apply_merge(document: Any, patch: Any) -> Any:
    """The document after a merge patch; the given one is left alone.

    As RFC 7386 has it, but for maps within lists: like kube-apiserver it also takes their nulls, unless a map was in
    the list's place.
    """
    if not isinstance(patch, Mapping):
        return _fresh(patch) if isinstance(document, Mapping) else _without_nulls(patch)
    merged = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge(merged.get(name), value)
    return merged


def _read_typed(kind: PatchType, patch: Any, twice: list[str]) -> list[str]:
    """Gives what is there twice, and members that no operation has. Raises BadRequest for a patch that Go's types have
    no room for.

    kube-apiserver looks at this before it applies the patch, unless fields are not validated.
    """
    try:
        if kind is PatchType.JSON:
            return [f"json patch {text}" for text in (*twice, *_unknown_members(patch))]
        if not isinstance(patch, dict | None):
            raise WrongType("map[string]interface {}", patch, "")
        refuse_huge(patch)
    except WrongType as error:
        raise api_errors.bad_request(
            f"{'' if kind is PatchType.STRATEGIC else 'error decoding patch: '}{error}"
        ) from None
    return twice


def _unknown_members(operations: Any) -> Iterator[str]:
    """Raises WrongType for what is no list of operations."""
    if not isinstance(operations, list | None):
        raise WrongType("[]handlers.jsonPatchOp", operations, "")
    for index, operation in enumerate(operations or ()):
        if not isinstance(operation, dict | None):
            raise WrongType("handlers.jsonPatchOp", operation, "")
        for name, value in (operation or {}).items():
            if name == "value":
                refuse_huge(value, "jsonPatchOp.value")
            elif name not in ("op", "path", "from"):
                yield f'unknown field "[{index}].{name}"'
            elif not isinstance(value, str | None):
                raise WrongType("string", value, f"jsonPatchOp.{name}")


def _apply(resource: Resource, kind: PatchType, stored: Json, patch: Any) -> Any:
    if patch is None and kind is not PatchType.MERGE:
        return stored  # (no operations, and no changes)
    if kind is PatchType.JSON and isinstance(patch, list):
        return apply_json(stored, patch)
    if kind is PatchType.MERGE and isinstance(patch, dict):
        return apply_merge(stored, patch)
    if kind is PatchType.STRATEGIC and isinstance(patch, dict):
        return merge_strategic(resource.message, stored, patch)
    raise api_errors.bad_request(
        f"json: cannot unmarshal {field_errors.shown(patch)} into a patch of type {kind.value}"
    )


def _decoded(
    resource: Resource,
    patched: Any,
    validation: FieldValidation,
    warnings: list[str] | None,
    problems: Sequence[str] = (),
) -> Json:
    """problems: of the patch itself, which count as those of the object do."""
    check_bounds(patched)
    try:
        decoded, found = decode_object(resource, patched, validation, [])
        if problems and validation is FieldValidation.STRICT:
            raise UnknownFields([])
    except UnknownFields as error:
        raise _unusable(str(UnknownFields([*problems, *error.problems][:TOLD_MAX]))) from error
    except BadRequest as error:
        raise _unusable(str(error)) from error
    if warnings is not None and validation is not FieldValidation.IGNORE:
        warnings.extend((*problems, *found))
    return decoded


def _unusable(why: str) -> ApiError:
    """Names no object, like the real one. Differs from it: that one shows the patched object with all that is secret in
    it.
    """
    cause = field_errors.invalid("patch", "", why)
    return Invalid(f' "" is invalid: {cause}', reason="Invalid", details={"causes": [cause.to_json()]})


def _operate(root: Any, operation: Mapping[str, Any]) -> int:
    """Carries it out. Gives the bytes that it has copied."""
    path = _path(operation, "path")
    match operation.get("op"):
        case "add":
            _put(root, path, _fresh(operation.get("value")), insert=True)
        case "remove":
            _take(root, path)
        case "replace":
            _put(root, path, _fresh(operation.get("value")), insert=False)
        case "move":
            _put(root, path, _take(root, _path(operation, "from")), insert=True)
        case "copy":
            copied = _copied(root, _path(operation, "from"))
            size = len(msgspec.json.encode(copied, enc_hook=str))
            if size <= COPIED_BYTES_MAX:
                _put(root, path, _fresh(copied), insert=True)
            return size
        case "test":
            _test(root, path, operation.get("value"))
        case other:
            raise PatchFailed(f"unexpected kind: {other}")
    return 0


def _whole(document: Any, operation: str, value: Any) -> Any:
    """The document after an operation on all of it."""
    if operation == "replace" and isinstance(value, dict | list):
        return _fresh(value)
    if operation == "test" and equally_written(document, value):
        return document
    raise PatchFailed(f"{operation} of the whole document")


def _fresh(value: Any) -> Any:
    """A copy that shares nothing that could be written to."""
    if isinstance(value, dict):
        return {name: _fresh(inner) for name, inner in value.items()}
    return [_fresh(item) for item in value] if isinstance(value, list) else value


def _without_nulls(value: Any) -> Any:
    """The same, without what is null in maps."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _path(operation: Mapping[str, Any], member: str) -> list[str]:
    """The JSON pointer as a list of keys. One to the whole document is refused: most operations know none."""
    text = operation.get(member)
    if not isinstance(text, str) or not text.startswith("/"):
        raise PatchFailed(f"{member} {text!r} does not begin with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]


def _parent(root: Any, path: list[str]) -> Any:
    place = root
    for step in path[:-1]:
        place = _member(place, step)
        if place is _NOTHING:
            raise PatchFailed(f"missing value at {step!r}")
    return place


def _member(place: Any, step: str) -> Any:
    """The value one step down; _NOTHING when there is none."""
    if isinstance(place, dict):
        return place.get(step, _NOTHING)
    index = _index(step, len(place)) if isinstance(place, list) else None
    return _NOTHING if index is None else place[index]


def _index(step: str, length: int) -> int | None:
    """A place in a list of that length; -1 is the last. None for what is none."""
    if not _INDEX.fullmatch(step):
        return None
    index = int(step) + (length if step.startswith("-") else 0)
    return index if 0 <= index < length else None


def _found(root: Any, path: list[str]) -> Any:
    value = _member(_parent(root, path), path[-1])
    if value is _NOTHING:
        raise PatchFailed(f"nothing at {path[-1]!r}")
    return value


def _take(root: Any, path: list[str]) -> Any:
    place, value = _parent(root, path), _found(root, path)
    if isinstance(place, list):
        place.pop(_index(path[-1], len(place)) or 0)
    else:
        del place[path[-1]]
    return value


def _copied(root: Any, path: list[str]) -> Any:
    """The value that `copy` takes: null for a map's missing key."""
    place = _parent(root, path)
    return place.get(path[-1]) if isinstance(place, dict) else _found(root, path)


def _put(root: Any, path: list[str], value: Any, *, insert: bool) -> None:
    place, step = _parent(root, path), path[-1]
    if isinstance(place, dict):
        place[step] = value
    elif not isinstance(place, list):
        raise PatchFailed(f"no map or list above {step!r}")
    elif insert and step == "-":
        place.append(value)
    else:
        index = _index(step, len(place) + insert)
        if index is None:
            raise PatchFailed(f"no index {step!r}")
        place[index : index + (not insert)] = [value]


def _test(root: Any, path: list[str], wanted: Any) -> None:
    place = _parent(root, path)
    found = _member(place, path[-1])
    if found is _NOTHING:
        if not isinstance(place, dict):
            raise PatchFailed(f"no index {path[-1]!r}")
        found = None
    if not equally_written(found, wanted):  # (kube-apiserver compares the text)
        raise PatchFailed(f"test failed at {path[-1]!r}")
