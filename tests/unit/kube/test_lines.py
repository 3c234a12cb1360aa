"""Lines are the same however the bytes were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.client.rest import WATCH_LINE_BYTES_MAX, LineSplitter, LineTooLong
from tests.support.rows import each_row


@given(st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"x")), max_size=8), st.data())
def test_lines_do_not_depend_on_how_the_stream_was_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    splitter = LineSplitter(100)
    found = [line for chunk in chunks if chunk for line in splitter.feed(chunk)]
    assert [line for line in lines if line.strip()] == found
    assert not splitter.pending


def test_a_line_that_has_only_begun_is_pending() -> None:
    splitter = LineSplitter(100)
    assert [b"one"] == splitter.feed(b"one\ntw")
    assert splitter.pending
    assert [b"two"] == splitter.feed(b"o\n")
    assert not splitter.pending


@each_row(
    "chunks",
    [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 11 + b"\n"], [b"x" * 6, b"x" * 5 + b"\n"], [b"ok\n" + b"x" * 11]],
)
def test_a_line_beyond_the_bound_is_refused(chunks: list[bytes]) -> None:
    splitter = LineSplitter(10)
    with pytest.raises(LineTooLong):
        list(map(splitter.feed, chunks))


def test_a_line_of_a_watch_is_no_longer_than_ten_objects() -> None:
    splitter, mebibyte = LineSplitter(WATCH_LINE_BYTES_MAX), b"x" * 2**20
    for _ in range(16):
        assert [] == splitter.feed(mebibyte)
    with pytest.raises(LineTooLong):
        splitter.feed(b"x")


def test_a_line_as_long_as_the_bound_is_fine() -> None:
    assert [b"x" * 10] == LineSplitter(10).feed(b"x" * 10 + b"\n")


def test_a_long_line_of_small_chunks_is_not_copied_again_and_again() -> None:
    """16 MiB in chunks of 64 bytes would take minutes if each chunk copied what came before."""
    splitter = LineSplitter(64 * 2**20)
    chunk = b"x" * 64
    for _ in range(2**18):
        splitter.feed(chunk)
    (line,) = splitter.feed(b"\n")
    assert 2**24 == len(line)
