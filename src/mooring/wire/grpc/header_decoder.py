"""Header blocks in the order in which they came: HPACK by the library of that name, with what it lacks in bounds, and
remembered blocks.

A peer's second block has the bytes of its first, since both sides have indexed its fields by then. A block that changes
no table means the same until another block changes one, so most blocks need no call of the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import hpack

from mooring.wire.grpc.frames import BrokenConnection, ErrorCode

_KEPT_MAX = 256
_KEPT_BYTES_MAX: Final = 256
_SPLIT_FROM_BYTES: Final = 4096
_INTEGER_BYTES_MAX: Final = 5
_FIELDS_MAX: Final = 8_000
"""For one block: each takes some five microseconds."""
_TABLE_BYTES: Final = 4096
_NAME: Final = re.compile(rb":?[!#$%&'*+\-.^_`|~0-9a-z]+\Z")
_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*\Z")
_OF_CONNECTIONS: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)

F = TypeVar("F")

Fields = Sequence[tuple[bytes, bytes]]


class HeaderDecoder(Generic[F]):
    """Reads one peer's header blocks. bytes_max: of one block's fields, as HPACK counts, 32 more for each. read: what
    they say.
    """

    def __init__(self, bytes_max: int, read: Callable[[Fields], F]) -> None:
        self._bytes_max, self._fields_max, self._read = bytes_max, min(bytes_max // 32 + 2, _FIELDS_MAX), read
        self._decoder = hpack.Decoder(max_header_list_size=bytes_max)
        self._kept: dict[bytes, F] = {}

    def decode(self, block: bytes) -> F:
        """The fields of one block. Raises BrokenConnection for what is no HPACK and for too much: the table is unknown
        from then on.
        """
        found = self._kept.get(block)
        if found is not None:
            return found
        starts, changes_table = _starts(block, self._fields_max)
        if len(starts) > self._fields_max:
            raise self._too_much(
                f"{_FIELDS_MAX} fields" if self._fields_max == _FIELDS_MAX else f"{self._bytes_max} bytes"
            )
        if changes_table:
            self._kept.clear()
        try:
            found = self._read(self._fields(block, starts))
        except hpack.OversizedHeaderListError:
            raise self._too_much(f"{self._bytes_max} bytes") from None
        except hpack.HPACKError as error:
            raise BrokenConnection(
                ErrorCode.COMPRESSION_ERROR, f"a header block can't be read: {str(error)[:200]}"
            ) from None
        if not changes_table and len(block) <= _KEPT_BYTES_MAX:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[block] = found
        return found

    def _fields(self, block: bytes, starts: list[int]) -> list[tuple[bytes, bytes]]:
        if len(block) < _SPLIT_FROM_BYTES:
            return list(self._decoder.decode(block, raw=True))
        # The library's table keeps the whole of what a field was read from: here no more than the field.
        fields: list[tuple[bytes, bytes]] = []
        size = 0
        for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
            for name, value in self._decoder.decode(block[start:end], raw=True):
                size += len(name) + len(value) + 32
                if size > self._bytes_max:
                    raise self._too_much(f"{self._bytes_max} bytes")
                fields.append((name, value))
        return fields

    def _too_much(self, most: str) -> BrokenConnection:
        return BrokenConnection(ErrorCode.ENHANCE_YOUR_CALM, f"a header block has more than {most} of headers")


def by_name(fields: Fields, pseudo: frozenset[bytes]) -> tuple[dict[bytes, bytes], str]:
    """The fields by their names, and why HTTP/2 forbids the block, or "". pseudo: those of its names with a colon that
    may be there.
    """
    said: dict[bytes, bytes] = {}
    wrong, only_pseudo = "", True
    for name, value in fields:
        if name[:1] == b":":
            if name not in pseudo or name in said or not only_pseudo:
                wrong = f"the field {name[:100]!r} must not be there"
        else:
            only_pseudo = False
        if not _NAME.match(name) or not _VALUE.match(value) or name in _OF_CONNECTIONS:
            wrong = f"the field {name[:100]!r} must not be there, or not so"
        said[name] = value
    return said, wrong


def is_grpc(content_type: bytes | None) -> bool:
    """True for gRPC's, with whatever subtype."""
    kind = content_type
    return kind is not None and (
        kind == b"application/grpc" or kind.startswith((b"application/grpc+", b"application/grpc;"))
    )


def _starts(block: bytes, fields_max: int) -> tuple[list[int], bool]:
    """Where each field begins, and whether any changes the dynamic table. Raises BrokenConnection where one goes beyond
    the block.

    Also refuses what the library would take: numbers of any length, whose reading takes the square of their length in
    time, and a change of the table's size after the first field or, twice over, a third one before it.
    """
    at, starts, changes_table, sizes = 0, [], False, 0
    while at < len(block):
        first = block[at]
        starts.append(at)
        if len(starts) > fields_max:
            return starts, True
        if first & 0x80:
            _, at = _integer(block, at, 7)
        elif first & 0xE0 == 0x20:
            size, at = _integer(block, at, 5)
            sizes += 1
            changes_table = True
            if sizes != len(starts) or sizes > 2 or size > _TABLE_BYTES:
                raise _malformed()
        else:
            changes_table = changes_table or bool(first & 0x40)
            index, at = _integer(block, at, 6 if first & 0x40 else 4)
            for _ in range(1 if index else 2):
                length, at = _integer(block, at, 7)
                at += length
    if at > len(block):
        raise _malformed()
    return starts, changes_table


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number and the place after it (RFC 7541, section 5.1)."""
    limit = (1 << bits) - 1
    if at >= len(block):
        raise _malformed()
    number = block[at] & limit
    if number < limit:
        return number, at + 1
    for place in range(_INTEGER_BYTES_MAX):
        if at + 1 + place >= len(block):
            raise _malformed()
        byte = block[at + 1 + place]
        number += (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + 2 + place
    raise _malformed()


def _malformed() -> BrokenConnection:
    return BrokenConnection(
        ErrorCode.COMPRESSION_ERROR, "a header block can't be read: it is cut off, or has a number that is too long"
    )
