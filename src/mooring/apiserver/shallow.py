"""Objects of which little is read or changed: deeper values stay the bytes that they are, however large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.resource import Json

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_value: Final = msgspec.json.Decoder()
_RECORD: Final = "managedFields"


def members(body: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of an object, each as its bytes."""
    return _members.decode(body)


def items(body: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The items of a list, each as its bytes."""
    return _items.decode(body)


def value(body: bytes | msgspec.Raw) -> Any:
    return _value.decode(body)


def values(found: Mapping[str, msgspec.Raw], *names: str) -> Json:
    """Those members that are there, decoded."""
    return {name: value(found[name]) for name in names if name in found}


def shallow(body: bytes) -> Json:
    """An object whose metadata is decoded, but for the record of its managers. The rest is bytes; it can be encoded as
    any object can.
    """
    obj: Json = dict(members(body))
    metadata = members(obj["metadata"])
    obj["metadata"] = {name: raw if name == _RECORD else value(raw) for name, raw in metadata.items()}
    return obj
