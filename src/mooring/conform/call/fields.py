"""A request from words, as in `capacity_range.required_bytes=1Gi`, and from a document. Secrets come from a file of
their own.

A path leads through messages with dots between their fields. Of a map the rest of the path is the key, dots and all. Of
a list the path means the last element; where that has the field already, the next element begins.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mooring.api.quantity import parse_quantity
from mooring.base.flagkinds import read_bool
from mooring.base.json_text import TooDeep
from mooring.base.yaml_text import from_yaml, line_of
from mooring.conform.call.names import field_of, hint_or_list, is_ours, wrong
from mooring.csi.redact import TOKENS_KEY, is_map, is_secret
from mooring.csi.scrub import STRIPPED

_INTEGERS: Final = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_SECRETS_FIELD: Final = "secrets"


def fill_from_words(message: Message, words: Sequence[str]) -> None:
    """words: each `path=value`. Raises ConfigError."""
    for word in words:
        _read_text(word, ascii(word))
        path, equals, text = word.partition("=")
        if not equals:
            raise wrong(
                f"{word!r} is no field of the request: give path=value, as in name=data or "
                "capacity_range.required_bytes=1Gi"
            )
        _assign(message, path, text, "")


def fill(message: Message, document: Any, where: str = "") -> None:
    """document: as YAML or JSON gives it; secrets that were stripped from it are left out. Raises ConfigError."""
    if not isinstance(document, Mapping):
        raise wrong(
            f"{where or 'the request'}: must be a map of the fields of {message.DESCRIPTOR.name}, got {document!r}"
        )
    for name, value in document.items():
        field = field_of(message.DESCRIPTOR, str(name), where)
        _fill_field(message, field, _without_stripped(field, value), _joined(where, field.name))


def _without_stripped(field: FieldDescriptor, value: Any) -> Any:
    """A request that --dry-run has printed names its secrets without their values, which come from --secrets-file."""
    if is_map(field) and value == STRIPPED:
        return {}
    if not is_map(field) or not isinstance(value, Mapping):
        return value
    return {key: one for key, one in value.items() if one != STRIPPED}


def fill_secrets(message: Message, values: Mapping[str, str]) -> None:
    """Raises ConfigError for a call that takes no secrets."""
    if not values:
        return
    if _SECRETS_FIELD not in message.DESCRIPTOR.fields_by_name:
        raise wrong(f"{message.DESCRIPTOR.name} takes no secrets: drop --secrets-file")
    for name, value in values.items():
        getattr(message, _SECRETS_FIELD)[_read_text(name, "a secret's name")] = _read_text(value, "a secret")


def document_in(text: str, name: str) -> Any:
    """name: the file's. Raises ConfigError."""
    try:
        return from_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise wrong(f"{name}: is no YAML: {error}") from None


def secrets_in(text: str, name: str) -> dict[str, str]:
    """The values of a file: a map of texts, or a Secret as kubectl prints it. name: the file's. Raises ConfigError
    without any value.
    """
    try:
        document = from_yaml(text)
    except TooDeep as error:
        raise wrong(f"{name}: {error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise wrong(f"{name}: is no YAML{line_of(error)}") from None
    if isinstance(document, Mapping) and document.get("kind") == "Secret":
        return _of_secret(document, name)
    if not isinstance(document, Mapping) or not all(
        isinstance(part, str) for pair in document.items() for part in pair
    ):
        raise wrong(f"{name}: must be a map of names to texts, or a Secret; put a number or a word like yes in quotes")
    return dict(document)


def _of_secret(document: Mapping[str, Any], name: str) -> dict[str, str]:
    try:
        data = {
            key: base64.b64decode(value, validate=True).decode() for key, value in (document.get("data") or {}).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise wrong(f"{name}: the Secret's data must be base64 of UTF-8") from None
    return data | {key: str(value) for key, value in (document.get("stringData") or {}).items()}


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _refuse_secret(field: FieldDescriptor, key: str, path: str) -> None:
    if is_secret(field) or key == TOKENS_KEY:
        raise wrong(
            f"{path}: a secret stands neither on a command line, which others can read, nor in a request: "
            "put it into a file of its own, and give --secrets-file=FILE"
        )


# -- words


def _assign(message: Message, path: str, text: str, where: str) -> None:
    name, _, below = path.partition(".")
    field = field_of(message.DESCRIPTOR, name, where)
    here = _joined(where, field.name)
    _refuse_secret(field, below if is_map(field) else "", here)
    if is_map(field):
        if not below:
            raise wrong(f"{here}: it is a map: give {here}.KEY=value")
        _fill_entry(message, field, below, text, f"{here}.{below}", is_text=True)
        return
    _check_exclusive(message, field, here)
    if not _is_message(field):
        if below:
            raise wrong(f"{here}: it has no fields, and none {below!r}")
        _fill_field(message, field, [text] if field.is_repeated else text, here, is_text=True)
    elif below:
        owner = _last(message, field, below) if field.is_repeated else getattr(message, field.name)
        owner.SetInParent()
        _assign(owner, below, text, here)
    else:
        _fill_field(message, field, _inline(text, here), here, is_text=True)


def _is_message(field: FieldDescriptor) -> bool:
    """True for a field with fields of its own."""
    return field.message_type is not None and is_ours(field.message_type)


def _inline(text: str, path: str) -> Any:
    """A whole message as one word, as in `volume_capability.block={}`."""
    try:
        return from_yaml(text) if text else {}
    except TooDeep as error:
        raise wrong(f"{path}: {error}") from None
    except (yaml.YAMLError, ValueError):
        raise wrong(
            f"{path}: {text!r} is no YAML: give its fields one by one, as in {path}.FIELD=value, or as {{field: value}}"
        ) from None


def _last(message: Message, field: FieldDescriptor, below: str) -> Message:
    """The element that a word is about."""
    elements = getattr(message, field.name)
    if not elements or _is_taken(elements[-1], below):
        elements.add()
    found: Message = elements[-1]
    return found


def _is_taken(message: Message, path: str) -> bool:
    """True where the field has a value already, or one that excludes it has."""
    name, _, below = path.partition(".")
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return False
    if _excluding(message, field):
        return True
    if is_map(field):
        return below in getattr(message, name)
    if field.is_repeated:
        return False
    if below and field.message_type is not None:
        return bool(message.HasField(name)) and _is_taken(getattr(message, name), below)
    return bool(message.HasField(name)) if field.has_presence else bool(getattr(message, name))


def _excluding(message: Message, field: Any) -> str:
    """The other field of a oneof that is set."""
    if field.containing_oneof is None:
        return ""
    other = message.WhichOneof(field.containing_oneof.name)
    return other if other is not None and other != field.name else ""


def _check_exclusive(message: Message, field: FieldDescriptor, path: str) -> None:
    if other := _excluding(message, field):
        raise wrong(f"{path}: {field.name} and {other} exclude each other: give one of the two")


# -- values


def _fill_field(message: Message, field: FieldDescriptor, value: Any, path: str, *, is_text: bool = False) -> None:
    """is_text: the value was typed, or its parts were."""
    if is_map(field) and value == {}:
        return  # nothing is set, no secret either
    _refuse_secret(field, "", path)
    if is_map(field):
        if not isinstance(value, Mapping):
            raise wrong(f"{path}: must be a map, got {value!r}")
        for key, one in value.items():
            _fill_entry(message, field, key, one, f"{path}.{key}", is_text=False)
        return
    _check_exclusive(message, field, path)
    if field.is_repeated:
        _fill_list(message, field, value, path, is_text=is_text)
    elif _is_message(field):
        part = getattr(message, field.name)
        part.SetInParent()
        fill(part, value, path)
    elif field.message_type is not None:
        _fill_wrapped(getattr(message, field.name), value, path, is_text=is_text)
    else:
        setattr(message, field.name, _read(field, value, path, is_text=is_text))


def _fill_list(message: Message, field: FieldDescriptor, value: Any, path: str, *, is_text: bool) -> None:
    elements = getattr(message, field.name)
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list):
        raise wrong(f"{path}: must be a list, got {value!r}")
    for number, one in enumerate(value, len(elements)):
        if _is_message(field):
            fill(elements.add(), one, f"{path}[{number}]")
        else:
            elements.append(_read(field, one, f"{path}[{number}]", is_text=is_text))


def _fill_entry(message: Message, field: FieldDescriptor, key: Any, value: Any, path: str, *, is_text: bool) -> None:
    assert field.message_type is not None
    _refuse_secret(field, str(key), path)
    names, values = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    getattr(message, field.name)[_read(names, key, path, is_text=is_text)] = _read(values, value, path, is_text=is_text)


def _fill_wrapped(part: Any, value: Any, path: str, *, is_text: bool) -> None:
    """One of protobuf's own messages: a time in RFC 3339, or a number or boolean that may be absent."""
    part.SetInParent()
    fields = part.DESCRIPTOR.fields_by_name
    if isinstance(value, Mapping):  # as an answer shows it
        for name, one in value.items():
            setattr(part, name, _read(field_of(part.DESCRIPTOR, str(name), path), one, path, is_text=False))
    elif "value" in fields:
        part.value = _read(fields["value"], value, path, is_text=is_text)
    else:
        try:
            part.FromJsonString(str(value))
        except (ValueError, AttributeError):
            raise wrong(f"{path}: must be a time, as in 2024-01-02T03:04:05Z, got {value!r}") from None


def _read(field: FieldDescriptor, value: Any, path: str, *, is_text: bool) -> Any:
    if field.enum_type is not None:
        return _read_enum(field, value, path)
    if field.type in _INTEGERS:
        return _read_number(*_INTEGERS[field.type], value, path)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _read_bool(value, path)
    if not isinstance(value, str):
        raise wrong(f"{path}: must be a text, got {value!r}: put it in quotes")
    if field.type == FieldDescriptor.TYPE_STRING:
        return _read_text(value, path)
    raise wrong(f"{path}: fields of this kind can't be given")


def _read_text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes of a command line that are none, or half a pair in JSON
        raise wrong(f"{path}: is no UTF-8") from None
    return value


def _read_enum(field: FieldDescriptor, value: Any, path: str) -> int:
    assert field.enum_type is not None
    by_name = {name: one.number for name, one in field.enum_type.values_by_name.items()}
    if value in by_name:
        return by_name[value]
    if not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, str) and value.isdecimal())):
        return _read_number(*_INTEGERS[FieldDescriptor.TYPE_INT32], value, path)  # of a newer CSI
    raise wrong(f"{path}: {field.enum_type.name} has no {value!r}{hint_or_list(str(value), by_name)}")


def _read_number(low: int, high: int, value: Any, path: str) -> int:
    """A whole number, or a quantity as Kubernetes writes it."""
    try:
        amount = parse_quantity(str(value))
        if isinstance(value, bool) or not amount.is_whole:
            raise ValueError
    except ValueError:
        raise wrong(f"{path}: must be a whole number or a quantity, as in 1073741824 or 1Gi, got {value!r}") from None
    number = int(amount.value)
    if not low <= number <= high:
        raise wrong(f"{path}: must be between {low} and {high}, got {value!r}")
    return number


def _read_bool(value: Any, path: str) -> bool:
    try:
        return value if isinstance(value, bool) else read_bool(str(value))
    except ValueError:
        raise wrong(f"{path}: must be true or false, got {value!r}") from None
