"""The causes for which an object is invalid, as the API server words them, and the 422 that carries them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from mooring.kube.errors import Invalid

_SHOWN_MAX = 120
_CHOICES_MAX: Final = 100
_TEXT_MAX: Final = 1000
_CAUSES_LETTERS_MAX: Final = 256 * 1024


class FieldCause(msgspec.Struct, frozen=True):
    """One wrong field. reason: FieldValueInvalid, FieldValueRequired, ..."""

    reason: str
    field: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> FieldCause:
    return FieldCause("FieldValueRequired", field, _joined("Required value", detail))


def invalid(field: str, value: Any, detail: str) -> FieldCause:
    return FieldCause("FieldValueInvalid", field, _joined(f"Invalid value: {shown(value)}", detail))


def named(value: str, field: str, rule: Callable[[str], list[str]]) -> list[FieldCause]:
    """A cause for each reason that the rule of such names gives."""
    return [invalid(field, value, reason) for reason in rule(value)]


def required_name(value: str, field: str, rule: Callable[[str], list[str]]) -> list[FieldCause]:
    """The same for a name that may not be left out."""
    return named(value, field, rule) if value else [required(field)]


def forbidden(field: str, detail: str) -> FieldCause:
    return FieldCause("FieldValueForbidden", field, _joined("Forbidden", detail))


def duplicate(field: str, value: Any, detail: str = "") -> FieldCause:
    return FieldCause("FieldValueDuplicate", field, _joined(f"Duplicate value: {shown(value)}", detail))


def not_found(field: str, value: Any) -> FieldCause:
    return FieldCause("FieldValueNotFound", field, f"Not found: {shown(value)}")


def not_supported(field: str, value: Any, supported: Sequence[Any]) -> FieldCause:
    """supported: texts, or values that are shown as JSON; the first hundred of them are told."""
    choices = ", ".join(
        f'"{shortened(choice) if isinstance(choice, str) else shown(choice)}"' for choice in supported[:_CHOICES_MAX]
    )
    if len(supported) > _CHOICES_MAX:
        choices += f", and {len(supported) - _CHOICES_MAX} more"
    return FieldCause(
        "FieldValueNotSupported", field, f"Unsupported value: {shown(value)}: supported values: {choices}"
    )


def too_long(field: str, bytes_max: int) -> FieldCause:
    return FieldCause("FieldValueTooLong", field, f"Too long: may not be more than {bytes_max} bytes")


def too_many(field: str, count_max: int) -> FieldCause:
    return FieldCause("FieldValueTooLong", field, f"Too long: may not be more than {count_max} bytes")


def too_many_items(field: str, count: int, count_max: int) -> FieldCause:
    return FieldCause("FieldValueTooMany", field, f"Too many: {count}: must have at most {count_max} items")


def immutable(field: str, value: Any) -> FieldCause:
    return invalid(field, value, "field is immutable")


_ESCAPED: Final = re.compile(r"\\(?:u00([0-9a-f]{2})|.)")
_GO_ESCAPES: Final = {"07": "\\a", "0b": "\\v"}
"""Control characters of a text, as Go quotes them."""


def shown(value: Any) -> str:
    """A value for people: JSON, cut. Differs from kube-apiserver, which dumps Go structs and pointers."""
    text = msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
    if isinstance(value, str):
        text = _ESCAPED.sub(lambda found: _GO_ESCAPES.get(found[1], f"\\x{found[1]}") if found[1] else found[0], text)
    return cut(text, _SHOWN_MAX)


def shortened(text: str) -> str:
    """A text of the kind's author, whole unless it is as long as nobody reads."""
    return cut(text, _TEXT_MAX)


def cut(text: str, letters_max: int) -> str:
    return text if len(text) <= letters_max else text[: letters_max - 1] + "…"


def invalid_object(kind: str, group: str, name: str, causes: Iterable[FieldCause]) -> Invalid:
    """Differs from kube-apiserver: of very many causes, or very long ones, the first are told and the others
    counted.
    """
    unique = _told(tuple(dict.fromkeys(causes)))
    assert unique, "an invalid object has a cause"
    text = str(unique[0]) if len(unique) == 1 else f"[{', '.join(map(str, unique))}]"
    qualified = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {
        "name": name,
        "group": group,
        "kind": kind,
        "causes": [cause.to_json() for cause in unique],
    }
    if not group:
        del details["group"]
    if not name:
        del details["name"]
    return Invalid(f'{qualified} "{name}" is invalid: {text}', reason="Invalid", details=details)


def _told(causes: tuple[FieldCause, ...]) -> tuple[FieldCause, ...]:
    """The first, how many more there are, and the last, which may say why nothing came after it."""
    letters = 0
    for number, cause in enumerate(causes):
        letters += len(cause.field) + len(cause.message)
        if letters > _CAUSES_LETTERS_MAX and 0 < number < len(causes) - 1:
            more = FieldCause(
                "FieldValueInvalid",
                cause.field,
                f"Invalid value: this one and {len(causes) - number - 2} more are not told",
            )
            return (*causes[:number], more, causes[-1])
    return causes


def _joined(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
