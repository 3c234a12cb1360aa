"""Rows on disk. Each has a checksum; missing or old rows show in the sum over all objects and in the log's chain of
versions.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import msgspec

from mooring.apiserver.resource import Resource
from mooring.base.errors import ConfigError, MooringError


class DiskRow(msgspec.Struct, frozen=True, array_like=True):
    """An object as of one version. kind: `group/plural`. at: when it was written (epoch seconds). body: JSON, None when
    it was removed.
    """

    kind: str
    namespace: str
    name: str
    version: int
    at: float
    body: bytes | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name


class Totals(msgspec.Struct, frozen=True):
    """The row that checks all objects: their version, their number, and the sum of their checksums.

    careless: the file was written without waiting for the disk, and has not been closed since.
    """

    version: int
    count: int
    digest: int
    careless: bool = False

    @property
    def checksum(self) -> int:
        return zlib.crc32(struct.pack("<qqq?", self.version, self.count, self.digest, self.careless))


class Saved(msgspec.Struct, frozen=True):
    """The content of a file. objects: all, as of totals.version. log: the commits since, oldest first."""

    totals: Totals
    objects: tuple[DiskRow, ...]
    log: tuple[DiskRow, ...]

    @property
    def version(self) -> int:
        """The newest that was committed."""
        return self.log[-1].version if self.log else self.totals.version


class StorageFailed(MooringError):
    """The disk refused a commit, or what it gives back is not what it was given. The process must end; a restart shows
    what is there.
    """


class Damaged(ConfigError):
    """A file that can't be served. The operator must act."""


def object_checksum(entry: DiskRow) -> int:
    assert entry.body is not None
    head = "\0".join((*entry.key, str(entry.version), repr(entry.at))).encode()
    return zlib.crc32(entry.body, zlib.crc32(head))


def log_checksum(first: int, version: int, changes: bytes) -> int:
    return zlib.crc32(changes, zlib.crc32(struct.pack("<qq", first, version)))


_decoder = msgspec.msgpack.Decoder(list[DiskRow])


def packed(entries: Sequence[DiskRow]) -> bytes:
    return msgspec.msgpack.encode(entries)


def unpacked(first: int, version: int, changes: bytes, checksum: int) -> list[DiskRow]:
    """The changes of a log row. Raises ValueError for a row that is not as it was written."""
    if log_checksum(first, version, changes) != checksum:
        raise ValueError(f"the checksum of the log's row {version} is wrong")
    entries = _decoder.decode(changes)
    if [entry.version for entry in entries] != list(range(first, version + 1)):
        raise ValueError(f"the log's row {version} has other versions than it says")
    return entries


def kind_of(resource: Resource) -> str:
    """The file's name for the place of a kind's objects. It has no version: that may change from one Mooring to the
    next.
    """
    group, _, plural = resource.storage
    return f"{group}/{plural}"
