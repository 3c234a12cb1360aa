"""Answers that stay the same when a call comes twice: ids from names, sizes, what exists compared with what is wanted,
pages.

volume_id = id_of(request.name)
size = size_for(request.capacity_range, default=GIB)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Final

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

_DIGITS: Final = 32
_BYTES_MAX: Final = 2**63 - 1


def id_of(name: str, prefix: str = "vol") -> str:
    """The id of what has this name: always the same one, fit for a path, and none that a caller could choose."""
    return f"{prefix}-{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


def is_id(text: str, prefix: str = "vol") -> bool:
    """True for texts of the form that `id_of` gives. Ask before an id from a request becomes part of a path."""
    return re.fullmatch(rf"{re.escape(prefix)}-[0-9a-f]{{{_DIGITS}}}", text) is not None


def size_for(
    wanted: csi.CapacityRange, *, default: int, least: int = 0, most: int = _BYTES_MAX, multiple: int = 1
) -> int:
    """The smallest size in bytes that fits, rounded up to a multiple; the default where the request leaves it open,
    or the largest below its limit.

    default, least, most: of this driver. Raises OutOfRange.
    """
    limit = min(wanted.limit_bytes or _BYTES_MAX, most)
    smallest = _rounded_up(max(wanted.required_bytes, least), multiple)
    if smallest > limit:
        raise DriverError(
            Code.OUT_OF_RANGE, f"capacity_range: {smallest} bytes would be needed, and {limit} are the most"
        )
    if wanted.required_bytes:
        return smallest
    return max(smallest, min(_rounded_up(default, multiple), limit // multiple * multiple))


def _rounded_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def check_size(name: str, size: int, wanted: csi.CapacityRange) -> None:
    """For a volume that exists: raises AlreadyExists where its size is not in the range that is wanted."""
    if size < wanted.required_bytes or 0 < wanted.limit_bytes < size:
        asked = f"{wanted.required_bytes} to {wanted.limit_bytes or 'any number of'}"
        raise DriverError(Code.ALREADY_EXISTS, f"volume {name!r} exists with {size} bytes, and {asked} are asked for")


def check_same(name: str, **pairs: tuple[Any, Any]) -> None:
    """For what exists by this name: raises AlreadyExists for the first pair of what it has and what is wanted that
    differ.

    `check_same(request.name, source=(record.source, request.source_volume_id))`. No value is shown: it may be long, or
    not for everybody.
    """
    for field, (existing, wanted) in pairs.items():
        if existing != wanted:
            raise DriverError(Code.ALREADY_EXISTS, f"{name!r} exists with another {field}")


def page(
    ids: Iterable[str], request: csi.ListVolumesRequest | csi.ListSnapshotsRequest, *, prefix: str = "vol"
) -> tuple[list[str], str]:
    """The ids of one page, sorted, and the token of the next, "" after the last.

    A token is the last id of its page: what comes and goes between pages moves nothing. Raises Aborted for a token of
    another's.
    """
    if request.starting_token and not is_id(request.starting_token, prefix):
        raise DriverError(
            Code.ABORTED,
            f"starting_token {request.starting_token!r} is none of this driver's: start from the beginning",
        )
    rest = sorted(one for one in ids if one > request.starting_token)
    shown = rest[: request.max_entries or None]
    return shown, shown[-1] if len(shown) < len(rest) else ""
