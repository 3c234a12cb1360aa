"""CSI messages as text without secrets: for logs, and for the texts that come back from drivers.

The option `csi_secret` of a field marks secrets, whatever the field's name and depth; one key is added, which carries
tokens in maps that are not marked. How a field is shown depends on its descriptor alone and is worked out once for
each. The form is that of csi-lib-utils' protosanitizer (Go's JSON of the message's fields).
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from mooring.base.json_text import from_json
from mooring.csi.proto import csi_pb2
from mooring.csi.scrub import STRIPPED, without

M = TypeVar("M", bound=Message)

TOKENS_KEY: Final = "csi.storage.k8s.io/serviceAccount.tokens"
"""The key in volume_context of the tokens of the pod's service account. The option does not cover it."""

_GO_ESCAPES: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def shown(message: Message) -> dict[str, Any]:
    """What `redacted` writes, as values: with every secret as "***stripped***"."""
    return _shown(message)


def redacted(message: Message | None) -> str:
    """One line of JSON with every secret as "***stripped***"; null for None.

    Only fields that are set, by the names in the .proto, sorted; 64-bit integers as numbers, enums by name (numbers
    that have none as they are), bytes as base64. Unknown fields are left out. Differs from the peer: the tokens under
    TOKENS_KEY are stripped.
    """
    text = json.dumps(
        None if message is None else _shown(message), ensure_ascii=False, separators=(",", ":"), sort_keys=True
    )
    return text.translate(_GO_ESCAPES)  # these characters occur inside strings only


def scrubbed(text: str, request: Message) -> str:
    """The text with every secret value of the request replaced by STRIPPED; the text itself, the same object, if there
    is none.

    For what a driver says about a request: some put the command line or the URL that failed into their message. Values
    under four characters stay, they can't be told from other text. A long text is cut.
    """
    return without(text, secret_values(request))


def without_secrets(message: M) -> M:
    """The message with every secret value as "***stripped***"; the same object if there is none. What can't be text is
    left out.
    """
    secrets, maps = _places(message.DESCRIPTOR)
    if not any(getattr(message, name) for name in secrets) and not any(
        TOKENS_KEY in getattr(message, name) for name in maps
    ):
        return message
    copy = type(message)()
    copy.CopyFrom(message)
    _strip(copy)
    return copy


@functools.cache
def _places(message: Descriptor) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that are secret, and the maps that may carry tokens. In CSI both stand in the message itself, as a
    test holds.
    """
    fields = message.fields
    secrets = tuple(field.name for field in fields if is_secret(field))
    return secrets, tuple(field.name for field in fields if is_map(field) and field.name not in secrets)


def _strip(message: Message) -> None:
    for field, value in message.ListFields():
        if is_map(field):
            for key in list(value):
                if is_secret(field) or key == TOKENS_KEY:
                    value[key] = STRIPPED
                elif isinstance(value[key], Message):
                    _strip(value[key])
        elif is_secret(field):
            message.ClearField(field.name)
        elif field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                _strip(part)


def _shown(message: Message) -> dict[str, Any]:
    return {field.name: _form(field)(value) for field, value in message.ListFields()}


@functools.cache  # bounded by the fields that there are
def _form(field: FieldDescriptor) -> Callable[[Any], Any]:
    """How the field's value becomes JSON data."""
    if is_secret(field):
        return lambda _value: STRIPPED
    if is_map(field):
        return _map_form(field)
    one = _value_form(field)
    return (lambda values: [one(value) for value in values]) if field.is_repeated else one


def _map_form(field: FieldDescriptor) -> Callable[[Any], Any]:
    assert field.message_type is not None
    one = _value_form(field.message_type.fields_by_name["value"])
    return lambda entries: {_key(key): STRIPPED if key == TOKENS_KEY else one(value) for key, value in entries.items()}


def _key(key: Any) -> str:
    """A map's key as JSON has it: text."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _value_form(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _shown
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda value: base64.b64encode(value).decode()
    return lambda value: value


@functools.cache
def is_secret(field: FieldDescriptor) -> bool:
    """True for a field marked csi_secret."""
    options: Any = field.GetOptions()  # the stubs type an extension without what it extends
    return bool(options.Extensions[csi_pb2.csi_secret])


@functools.cache
def is_map(field: FieldDescriptor) -> bool:
    """True for a map field, which is a list of entries to the descriptors."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def secret_values(message: Message) -> Iterator[str]:
    """Every text in secret fields, at any depth, and the tokens under TOKENS_KEY: whole, and each by itself."""
    for field, value in message.ListFields():
        if is_secret(field):
            yield from _texts(field, value)
        elif is_map(field):
            yield from (text for key, content in value.items() if key == TOKENS_KEY for text in _tokens(content))
        elif field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from secret_values(part)


def _texts(field: FieldDescriptor, value: Any) -> Iterator[str]:
    """The texts in a secret field's value; map keys are no secret, they name it."""
    parts = value.values() if is_map(field) else value if field.is_repeated else (value,)
    for part in parts:
        if isinstance(part, Message):
            for inner, content in part.ListFields():
                yield from _texts(inner, content)
        elif isinstance(part, bytes):
            yield part.decode(errors="replace")
        elif not isinstance(part, bool):
            yield str(part)


def _tokens(value: str) -> Iterator[str]:
    """The JSON `{"audience": {"token": "..."}}`, and each token in it."""
    yield value
    try:
        audiences = from_json(value)
    except ValueError:
        return
    entries = audiences.values() if isinstance(audiences, dict) else ()
    yield from (str(entry["token"]) for entry in entries if isinstance(entry, dict) and "token" in entry)
