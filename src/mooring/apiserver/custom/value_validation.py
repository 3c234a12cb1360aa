"""Validates a value by a schema, in the API server's words; unchanged parts are not checked: a schema may be stricter
than old objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.apiserver import effort, field_errors
from mooring.apiserver.codecs.scalars import equal_json, type_of
from mooring.apiserver.custom.formats import fits, is_known
from mooring.apiserver.custom.list_types import counterparts
from mooring.apiserver.custom.structural_schema import NOTHING
from mooring.apiserver.effort import Effort, TooMuch
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.regexp.programs import go_regexp
from mooring.apiserver.resource import Json

_EACH: Final = 15
"""Steps for one value at one place of the schema; and for what is found out about its letters:"""
_PATTERN: Final = 60
_LETTERS_A_STEP: Final = 3
_CAUSE: Final = 30
_WIDEST: Final = {"int32": 2**31 - 1, "int64": 2**63 - 1, "float": (2 - 2**-24) * 2.0**127}
"""The largest value of a number's format; the smallest is as far below zero, one further for a whole number."""
_NUMBERS: Final = ("integer", "number")
_FORMATS: Final = {"integer": "int64", "number": "float64"}
_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "not")


def check(value: Any, schema: Json, path: str = "", old: Any = NOTHING) -> list[FieldCause]:
    """old: the stored value or NOTHING. Differs from kube-apiserver: a value that is too much work for its schema is
    refused.
    """
    try:
        return _check(value, schema, path, old, effort.current())
    except TooMuch:
        return [
            FieldCause(
                "FieldValueInvalid",
                path or "<nil>",
                f"Invalid value: {type_of(value)}: too many values for such a schema",
            )
        ]


def _check(value: Any, schema: Json, path: str, old: Any, work: Effort) -> list[FieldCause]:
    work.spend(_EACH)
    if old is not NOTHING and equal_json(old, value):
        return []
    wrong = _type(value, schema, path)
    if value is None:
        return wrong
    own = [*wrong, *_enum(value, schema, path, work)]
    if wrong:
        is_fraction = schema.get("type") == "integer" and isinstance(value, float)
        return [*own, *(_bounds(value, schema, path) if is_fraction else ())]
    return [*own, *_own(value, schema, path, old, work), *_joined(value, schema, path, old, work)]


def _type(value: Any, schema: Json, path: str) -> list[FieldCause]:
    """As kube-apiserver: of a value with a format other than a number's, lists pass; others are told the format, also
    that of the value.
    """
    found, wanted, form = type_of(value), schema.get("type", ""), _known_format(schema)
    if schema.get("x-kubernetes-int-or-string"):
        fine, wanted = found in ("integer", "string"), "integer,string"
    else:
        fine = not wanted or found == wanted or (found == "integer" and wanted == "number")
        fine = fine or (found == "array" and form != "" and wanted not in _NUMBERS)
    if fine or (value is None and schema.get("nullable")):
        return []
    by_format = form and found not in ("string", "array", "null")
    wrong = [_wrong_type(path, _FORMATS.get(found, ""), form) if by_format else _wrong_type(path, found, wanted)]
    if found == "number" and wanted == "integer" and "format" not in schema:
        text = f'Invalid value: "": Checked value must be of type integer (default format) in {path}'
        wrong.append(FieldCause("FieldValueInvalid", "<nil>", text))
    return wrong


def _known_format(schema: Json) -> str:
    form: str = schema.get("format", "")
    return form if is_known(form, schema.get("type", "")) else ""


def _wrong_type(path: str, found: str, wanted: str) -> FieldCause:
    text = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return FieldCause("FieldValueTypeInvalid", path, text)


def _enum(value: Any, schema: Json, path: str, work: Effort) -> list[FieldCause]:
    allowed = schema.get("enum")
    work.spend(len(allowed or ()))
    if not allowed or any(equal_json(value, choice) for choice in allowed):
        return []
    cause = field_errors.not_supported(path, value, allowed)
    work.spend(_CAUSE + len(cause.message))
    return [cause]


def _own(value: Any, schema: Json, path: str, old: Any, work: Effort) -> Iterator[FieldCause]:
    match value:
        case bool():
            return
        case int() | float():
            yield from _number(value, schema, path)
        case str():
            yield from _string(value, schema, path, work)
        case list():
            yield from _list(value, schema, path, old, work)
        case dict():
            yield from _object(value, schema, path, old, work)


def _number(value: float, schema: Json, path: str) -> Iterator[FieldCause]:
    yield from _bounds(value, schema, path)
    form, kind = _known_format(schema), schema.get("type", "")
    most = _WIDEST.get(form)
    if most is not None and not -most - (kind == "integer") <= value <= most:
        yield field_errors.invalid(path, value, f"Checked value must be of type {kind} with format {form} in {path}")


def _bounds(value: float, schema: Json, path: str) -> Iterator[FieldCause]:
    """Differs from kube-apiserver, which cuts the decimals off a bound that a whole number is held against."""
    step, least, most = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    if step and value % step:
        yield _says(path, value, f"should be a multiple of {_shown(step)}")
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        yield _says(
            path, value, f"should be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{_shown(most)}"
        )
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        yield _says(
            path,
            value,
            f"should be greater than {'' if schema.get('exclusiveMinimum') else 'or equal to '}{_shown(least)}",
        )


def _string(value: str, schema: Json, path: str, work: Effort) -> Iterator[FieldCause]:
    most, least, pattern = (schema.get(part) for part in ("maxLength", "minLength", "pattern"))
    form = _known_format(schema)
    if most is not None and len(value) > most:
        yield field_errors.too_long(path, most)
    if least is not None and len(value) < least:
        yield _says(path, value, f"should be at least {least} chars long")
    if pattern or form:
        work.spend(_PATTERN + (len(value) // _LETTERS_A_STEP if form else 0))  # (a search counts its letters itself)
    if pattern and not go_regexp(pattern).search(value):
        work.spend(_CAUSE + len(pattern))
        yield _says(path, value, f"should match '{field_errors.shortened(pattern)}'")
    if form and not fits(value, form):
        shown = field_errors.shown(value)
        yield FieldCause(
            "FieldValueTypeInvalid", path, f"Invalid value: {shown}: {path} in body must be of type {form}: {shown}"
        )


def _list(value: list[Any], schema: Json, path: str, old: Any, work: Effort) -> Iterator[FieldCause]:
    most, least, items = schema.get("maxItems"), schema.get("minItems"), schema.get("items")
    if most is not None and len(value) > most:
        yield field_errors.too_many_items(path, len(value), most)
    if least is not None and len(value) < least:
        yield _says(path, len(value), f"should have at least {least} items")
    if isinstance(items, dict):
        for number, (item, before) in enumerate(counterparts(value, old, schema)):
            yield from _check(item, items, f"{path}[{number}]", before, work)


def _object(value: Json, schema: Json, path: str, old: Any, work: Effort) -> Iterator[FieldCause]:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        yield field_errors.too_many_items(path, len(value), most)
    if least is not None and len(value) < least:
        yield _says(path, len(value), f"should have at least {least} properties")
    work.spend(len(schema.get("required") or ()))
    for name in schema.get("required") or ():
        if name not in value:
            work.spend(_CAUSE)
            yield field_errors.required(_member(path, name))
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for name, member in value.items():
        inner = properties.get(name, others)
        if isinstance(inner, dict):
            yield from _check(member, inner, _member(path, name), before.get(name, NOTHING), work)
    if schema.get("x-kubernetes-embedded-resource"):
        yield from (
            field_errors.required(_member(path, name)) for name in ("apiVersion", "kind") if not value.get(name)
        )


def _joined(value: Any, schema: Json, path: str, old: Any, work: Effort) -> Iterator[FieldCause]:
    """allOf, anyOf, oneOf, not."""
    if not any(part in schema for part in _SCHEMAS):
        return
    every = [_check(value, inner, path, old, work) for inner in schema.get("allOf") or ()]
    if any(every):
        yield from (cause for wrong in every for cause in wrong)
        yield _whole(path, f"must validate all the schemas (allOf){'. None validated' if all(every) else ''}")
    some = [_check(value, inner, path, old, work) for inner in schema.get("anyOf") or ()]
    if some and all(some):
        yield _whole(path, "must validate at least one schema (anyOf)")
        yield from min(some, key=len)
    single = [_check(value, inner, path, old, work) for inner in schema.get("oneOf") or ()]
    right = sum(not wrong for wrong in single)
    if single and right != 1:
        found = f"Found {right} valid alternatives" if right else "Found none valid"
        yield _whole(path, f"must validate one and only one schema (oneOf). {found}")
        yield from min(single, key=len) if not right else ()
    if schema.get("not") and not _check(value, schema["not"], path, old, work):
        yield _whole(path, "must not validate the schema (not)")


def _whole(path: str, text: str) -> FieldCause:
    """Differs from kube-apiserver, which names the place in the text alone."""
    return FieldCause("FieldValueInvalid", path, f'Invalid value: "": "{path}" {text}')


def _says(path: str, value: Any, text: str) -> FieldCause:
    return field_errors.invalid(path, value, f"{path} in body {text}")


def _shown(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
