"""A record's file, read."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.errors import ConfigError
from mooring.control.flight.entries import FORMAT, Entry, Header

FILE_BYTES_MAX: Final = 512 * 2**20
"""Of a record, unpacked: a file from somebody else may be made to fill the memory."""

_CALLS: Final = b'{"what": "calls of a CSI driver"'
"""How a record of `mooring proxy` begins, which a driver alone can replay."""


class Record(msgspec.Struct, frozen=True):
    header: Header
    entries: tuple[Entry, ...]


def read(path: Path) -> Record:
    """Raises ConfigError for a file that is none of ours, or of a format that this version does not know."""
    try:
        with path.open("rb") as file:
            return parsed(file.read(FILE_BYTES_MAX))
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}", exit_code=2) from None


def parsed(data: bytes) -> Record:
    """Raises ConfigError."""
    if data.startswith(_CALLS):
        raise ConfigError(
            "these are calls of a CSI driver: give the driver to ask, as in --driver=unix:///csi/csi.sock", exit_code=2
        )
    try:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = unpacker.decompress(data, FILE_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise ConfigError(f"the record is larger than {FILE_BYTES_MAX >> 20} MiB", exit_code=2)
        first, *rest = text.splitlines() or [b""]
        header = msgspec.json.decode(first, type=Header)
        if header.format != FORMAT:
            raise ConfigError(
                f"the record has format {header.format}; this version of mooring reads format {FORMAT}", exit_code=2
            )
        decoder = msgspec.json.Decoder(Entry)
        return Record(header, tuple(decoder.decode(line) for line in rest))
    except (zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        raise ConfigError(f"this is no record of mooring's flight recorder: {error}", exit_code=2) from None
