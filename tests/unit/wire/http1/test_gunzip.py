"""What the server packed is unpacked within its bound, or refused."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.http1.gunzip import Gunzip, TooLarge, decoder_of
from mooring.wire.http1.syntax import Malformed
from tests.support.rows import each_row

LARGE = 10**6
PACKED = gzip.compress(b"x", mtime=0)


def unpacked(raw: bytes, step: int = LARGE, bytes_max: int = LARGE) -> bytes:
    gunzip = Gunzip()
    found = b"".join([gunzip.feed(raw[at : at + step], bytes_max) for at in range(0, len(raw), step)])
    gunzip.end()
    return found


@given(st.lists(st.binary(max_size=2000), max_size=4), st.integers(1, 3000))
def test_members_of_any_number_are_one_body_however_they_are_cut(contents: list[bytes], step: int) -> None:
    assert b"".join(contents) == unpacked(b"".join(map(gzip.compress, contents)), step)


@given(
    st.lists(st.binary(max_size=2000) | st.just(bytes(5000)), max_size=4),
    st.integers(1, 3000),
    st.integers(1, 300),
    st.booleans(),
)
def test_it_comes_in_pieces_and_all_that_was_put_comes_at_once(
    contents: list[bytes], step: int, piece: int, flushed: bool
) -> None:
    """A line of a watch is there when its last byte was put, also where the gzip goes on."""
    gunzip, found, packers = Gunzip(), b"", []
    for content in contents:
        packer = zlib.compressobj(wbits=31)
        packers.append(packer.compress(content) + packer.flush(zlib.Z_SYNC_FLUSH if flushed else zlib.Z_FINISH))
        if flushed:
            packers.append(packer.flush())
    for count, raw in enumerate(packers, start=1):
        for at in range(0, len(raw), step):
            gunzip.put(raw[at : at + step])
            while part := gunzip.some(piece):
                assert len(part) <= piece
                found += part
        assert b"".join(contents[: (count + 1) // 2 if flushed else count]) == found
    gunzip.end()


@given(st.binary(max_size=500), st.integers(0, 520), st.binary(max_size=3), st.integers(0, 3), st.integers(1, 50))
def test_changed_bytes_are_refused_or_harmless(content: bytes, at: int, new: bytes, dropped: int, step: int) -> None:
    raw = gzip.compress(content)
    raw = raw[:at] + new + raw[at + dropped :]
    results = []
    for length in (LARGE, step):
        try:
            results.append(unpacked(raw, length))
        except Malformed:
            results.append(b"malformed")
    assert results[0] == results[1]
    assert results[0] in (content, b"malformed", b""), "the checksum holds"


@each_row("length", range(1, 29))
def test_what_breaks_off_is_refused(length: int) -> None:
    raw = gzip.compress(b"some text")
    assert length < len(raw)
    with pytest.raises(Malformed, match="breaks off"):
        unpacked(raw[:length])
    with pytest.raises(Malformed):
        unpacked(raw + raw[:length])


@each_row(
    "raw",
    [
        b"not!",
        b"{}",
        zlib.compress(b"x"),
        PACKED[:-8] + bytes(8),
        *(PACKED + rest for rest in (b"x", b"\0", b"{}")),
    ],
)
@each_row("step", [1, LARGE])
def test_what_is_no_gzip_and_what_goes_on_behind_it_is_refused(raw: bytes, step: int) -> None:
    with pytest.raises(Malformed):
        unpacked(raw, step)


def test_an_empty_body_is_empty() -> None:
    assert b"" == unpacked(b"")


def test_the_bound_is_exact() -> None:
    raw = gzip.compress(bytes(600)) + gzip.compress(bytes(400))
    assert bytes(1000) == unpacked(raw, bytes_max=1000)
    for step in (LARGE, len(raw)):
        with pytest.raises(TooLarge):
            unpacked(raw, step, bytes_max=999)


@pytest.mark.slow
def test_a_bomb_takes_no_more_memory_than_its_bound() -> None:
    raw = gzip.compress(bytes(200 * 2**20))
    assert len(raw) < 2**20
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            Gunzip().feed(raw, 2**20)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


@each_row(("name", "packed"), [("", False), ("identity", False), ("gzip", True), ("GZIP", True), ("x-gzip", True)])
def test_encodings_that_are_known(name: str, packed: bool) -> None:
    assert packed == (decoder_of(name) is not None)


@each_row("name", ["deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "x" * 1000])
def test_another_encoding_is_refused_by_name(name: str) -> None:
    with pytest.raises(Malformed, match="unsupported content encoding: ") as error:
        decoder_of(name)
    assert len(str(error.value)) < 100
