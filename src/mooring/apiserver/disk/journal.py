"""Damage in the middle of SQLite's journal (https://sqlite.org/fileformat2.html#walformat).

SQLite reads a journal up to the first frame that is not as it was written, and takes the rest for an unfinished write.
That is so only for the frames of one transaction: each commit waits for the disk, so whatever follows a commit was
written after that had been acknowledged. Its index is described in https://sqlite.org/walformat.html.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

_HEADER: Final = 32
_FRAME: Final = 24
_INDEX: Final = 100
_COUNT: Final = slice(16, 20)
_SAVED: Final = slice(96, 100)
"""Places in the journal's index: how many frames it names, and how many of them are in the database."""
_BIG_ENDIAN: Final = bytes.fromhex("377f0683")


def first_lost(journal: bytes, page_bytes: int) -> int | None:
    """The number of the frame (from 1; 0 is the header) at which SQLite ends, although commits follow; else None."""
    if len(journal) < _HEADER:
        return None
    order = ">" if journal.startswith(_BIG_ENDIAN) else "<"
    salts, sums = journal[16:24], struct.unpack(">2I", journal[24:_HEADER])
    is_whole = _checksum(journal[:24], order) == sums
    bad = None if is_whole else 0
    was_commit = False
    size = _FRAME + page_bytes
    for number, start in enumerate(range(_HEADER, len(journal) - size + 1, size), start=1):
        _, commit, own_salts, *own_sums = struct.unpack(">2I8s2I", journal[start : start + _FRAME])
        # Frames of an earlier round have other salts. Without a header, those of the frame before have to do.
        if own_salts == salts:
            content = journal[start : start + 8] + journal[start + _FRAME : start + size]
            follows = _checksum(content, order, *sums) == tuple(own_sums)
        else:
            follows = False
        if bad is None:
            bad = None if follows else number
        elif follows and was_commit:
            return bad
        if not is_whole:
            salts = own_salts
        sums, was_commit = tuple(own_sums), commit != 0 and own_salts == salts
    return None


def has_unsaved(index: Path) -> bool:
    """True where the journal's index, a file that a kill leaves there, names frames that are not in the database."""
    try:
        content = index.read_bytes()[:_INDEX]
    except FileNotFoundError:
        return False
    return len(content) == _INDEX and content[_COUNT] != content[_SAVED]


def _checksum(data: bytes, order: str, first: int = 0, second: int = 0) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
