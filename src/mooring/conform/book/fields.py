"""Fields of CSI's messages: those that must be set, and how long texts and maps may be. Faults are told as
`field: problem`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import is_map

STRING_BYTES_MAX: Final = 128
NODE_ID_BYTES_MAX: Final = 256
MAP_BYTES_MAX: Final = 4096  # of all keys and values together; the same for mount_flags

MADE_PATHS: Final = frozenset({"target_path", "staging_target_path"})
PATHS: Final = frozenset({"volume_path", *MADE_PATHS})
_NO_LIMIT: Final = frozenset({"message", *PATHS})  # texts for people; paths of the system


def missing(message: Message, required: Mapping[type[Message], tuple[str, ...]]) -> Iterator[str]:
    """The required fields that are not set. required: their paths, as in `volume.volume_id`, by the type of the
    message.
    """
    for path in required.get(type(message), ()):
        owner: Any = message
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        field = owner.DESCRIPTOR.fields_by_name[name]
        present = owner.HasField(name) if field.has_presence else bool(getattr(owner, name))
        if not present:
            yield f"{path} is required"


def sizes(message: Message, path: str = "") -> Iterator[str]:
    """Strings, maps and mount_flags that are longer than CSI allows, at any depth."""
    for field, value in message.ListFields():
        here = f"{path}{field.name}"
        if is_map(field):
            yield from _over(here, sum(len(text.encode()) for pair in value.items() for text in pair), MAP_BYTES_MAX)
        elif field.name == "mount_flags":
            yield from _over(here, sum(len(flag.encode()) for flag in value), MAP_BYTES_MAX)
        elif field.type == FieldDescriptor.TYPE_STRING and field.name not in _NO_LIMIT:
            limit = NODE_ID_BYTES_MAX if "node_id" in field.name else STRING_BYTES_MAX
            for text in value if field.is_repeated else (value,):
                yield from _over(here, len(text.encode()), limit)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for number, part in enumerate(value) if field.is_repeated else ((None, value),):
                yield from sizes(part, f"{here}." if number is None else f"{here}[{number}].")


def _over(path: str, size: int, limit: int) -> Iterator[str]:
    if size > limit:
        yield f"{path}: {size} bytes, {limit} are allowed"


def broken_bound(size: int, wanted: csi.CapacityRange) -> str:
    """`at least 1073741824` or `at most …`, "" for a size within the range."""
    if size < wanted.required_bytes:
        return f"at least {wanted.required_bytes}"
    return f"at most {wanted.limit_bytes}" if 0 < wanted.limit_bytes < size else ""
