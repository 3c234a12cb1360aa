"""The names of CSI's calls and of their fields, and the right one for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from mooring.base.errors import ConfigError
from mooring.csi.driver import RPCS, Rpc
from mooring.csi.redact import is_map, is_secret

BY_NAME: Final[Mapping[str, Rpc[Any, Any]]] = {rpc.name: rpc for rpc in RPCS.values()}
"""Every call of the port by CSI's name, as in `CreateVolume`."""

_SHORT: Final = {"size": "capacity_range.required_bytes"}
"""Words that people type first."""


def wrong(text: str) -> ConfigError:
    """For a command line or a file that can't be read: exit code 2."""
    return ConfigError(text, exit_code=2)


def rpc_named(text: str) -> Rpc[Any, Any]:
    """Raises ConfigError."""
    if text in BY_NAME:
        return BY_NAME[text]
    raise wrong(f"there is no call {text!r} in CSI{hint_or_list(text, BY_NAME)}")


def hint(text: str, names: Iterable[str]) -> str:
    """` (did you mean CreateVolume?)`, or nothing."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(text.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""


def hint_or_list(text: str, names: Iterable[str]) -> str:
    """The nearest name, or all of them where none is near."""
    known = tuple(names)
    return hint(text, known) or f"; there are {', '.join(known)}"


def field_of(message: Any, name: str, where: str) -> FieldDescriptor:
    """message: a descriptor. name: in CSI's declarations, or in JSON. where: the path so far. Raises ConfigError."""
    found: FieldDescriptor | None = None
    if name.isascii():  # protobuf fails on half a pair
        found = message.fields_by_name.get(name) or message.fields_by_camelcase_name.get(name)
    if found is not None:
        return found
    place = f"{where}: " if where else ""
    if not message.fields:
        raise wrong(f"{place}{message.name} has no fields, and none {name!r}")
    raise wrong(f"{place}{message.name} has no field {name!r}{_nearest(message, name)}")


def _nearest(message: Descriptor, name: str) -> str:
    paths = [path.rstrip("=.") for path in paths_in(message)]
    if _SHORT.get(name) in paths:
        return f" (did you mean {_SHORT[name]}?)"
    deeper = next((path for path in paths if path.rpartition(".")[2] == name), "")
    return f" (did you mean {deeper}?)" if deeper else hint_or_list(name, message.fields_by_name)


def paths_in(message: Descriptor, where: str = "") -> Iterator[str]:
    """What may be typed: "name=", "volume_capability.mount.fs_type=", and "parameters." for a map. Without secrets."""
    for field in message.fields:
        path = f"{where}{field.name}"
        if is_secret(field):
            continue
        if is_map(field):
            yield f"{path}."
        elif field.message_type is None or not is_ours(field.message_type) or not field.message_type.fields:
            yield f"{path}="
        else:
            yield from paths_in(field.message_type, f"{path}.")


def enums_in(message: Descriptor, where: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """The paths of fields that take one of a few names, with these."""
    for field in message.fields:
        if is_map(field) or is_secret(field):
            continue
        if field.enum_type is not None:
            yield f"{where}{field.name}", tuple(value.name for value in field.enum_type.values)
        elif field.message_type is not None and is_ours(field.message_type):
            yield from enums_in(field.message_type, f"{where}{field.name}.")


def is_ours(message: Descriptor) -> bool:
    """False for the wrappers and timestamps of protobuf, which have one value."""
    return not message.full_name.startswith("google.protobuf.")
