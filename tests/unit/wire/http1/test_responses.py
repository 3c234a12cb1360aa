"""Answers as bytes: what is an answer, where it ends, and what is refused; the same however the bytes are cut."""

from __future__ import annotations

import contextlib
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.http1.responses import INTERIM_MAX, ResponseReader
from mooring.wire.http1.syntax import HEAD_BYTES_MAX, BrokenOff, Malformed
from tests.support.rows import each_row
from tests.unit.wire.http1.answers import MALFORMED, OK, cut, with_chunks


def read(*parts: bytes, method: str = "GET", end: bool = False) -> ResponseReader:
    reader = ResponseReader(method)
    for part in parts:
        reader.feed(part)
    if end:
        reader.end()
    return reader


# -- heads


def test_a_head_is_a_status_a_reason_and_headers() -> None:
    reader = read(
        OK + b"Content-Type: application/json\r\nwarning: a\r\nX:\t b c \t\r\nWARNING:b\r\nContent-Length: 2\r\n\r\n{}"
    )
    head = reader.head
    assert head is not None
    assert (200, "OK", 2, True) == (head.status, head.reason, head.length, head.is_persistent)
    assert ("application/json", "b c", "a") == tuple(
        head.headers.get(name, "") for name in ("CONTENT-type", "x", "Warning")
    )
    assert (["a", "b"], ("b c",), ("none",)) == (
        list(head.headers.getall("Warning", ())),
        tuple(head.headers.getall("X", ())),
        head.headers.getall("Y", ("none",)),
    )
    assert ("X" in head.headers, "y" in head.headers, 5 in head.headers) == (True, False, False)
    assert (b"{}", True, True) == (reader.take(), reader.is_done, reader.keep_alive)


@each_row(
    ("line", "status", "reason"),
    [
        (b"HTTP/1.1 200", 200, ""),
        (b"HTTP/1.1 404 ", 404, ""),
        (b"HTTP/1.0 503 Service  Unavailable", 503, "Service  Unavailable"),
        (b"HTTP/1.1 503 \t No \t", 503, "No"),
        (b"HTTP/1.1 999 \xe9\tx", 999, "é\tx"),
        (b"HTTP/1.2 299 " + b"r" * 2000, 299, "r" * 2000),
    ],
)
def test_status_lines(line: bytes, status: int, reason: str) -> None:
    head = read(line + b"\r\nContent-Length: 0\r\n\r\n").head
    assert head is not None
    assert (status, reason) == (head.status, head.reason)


@each_row("step", [1, 5, 10**6])
@each_row("how", MALFORMED)
def test_what_is_no_answer_or_could_be_read_in_two_ways_is_refused_however_it_is_cut(how: str, step: int) -> None:
    """At once, without waiting for the end of the connection; and it stays refused."""
    reader = ResponseReader("GET")

    def feed() -> None:
        for part in cut(MALFORMED[how], step):
            reader.feed(part)

    with pytest.raises(Malformed) as first:
        feed()
    assert not reader.is_done
    assert not reader.keep_alive
    for again in (lambda: reader.feed(b"x"), reader.end):
        with pytest.raises(Malformed) as second:
            again()
        assert first.value is second.value


def test_a_head_may_be_as_long_as_its_bound_and_no_longer() -> None:
    for step in (10**6, 1000):
        for more in (0, 1):
            raw = OK + b"X: %b\r\n\r\n" % (b"y" * (HEAD_BYTES_MAX - len(OK) - 7 + more))
            assert HEAD_BYTES_MAX + more == len(raw)
            with pytest.raises(Malformed, match="too long") if more else contextlib.nullcontext():
                assert read(*cut(raw, step)).head is not None
    with pytest.raises(Malformed, match="too long"):
        read(OK + b"X: " + b"y" * (HEAD_BYTES_MAX - len(OK) - 3))  # nobody waits for what can't follow


def test_interim_answers_are_skipped() -> None:
    raw = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        + OK
        + b"Content-Length: 1\r\n\r\na"
    )
    for step in (1, 7, 1000):
        reader = read(*cut(raw, step))
        assert reader.head is not None
        assert (200, "", b"a", True) == (
            reader.head.status,
            reader.head.headers.get("Link"),
            reader.take(),
            reader.keep_alive,
        )
    assert read(b"HTTP/1.1 100 Continue\r\n\r\n" * INTERIM_MAX + OK + b"Content-Length: 0\r\n\r\n").is_done


# -- bodies


@given(
    st.lists(st.binary(min_size=1, max_size=600), max_size=6),
    st.integers(1, 900),
    st.sampled_from(["length", "chunks", "close"]),
)
def test_an_answer_is_the_same_however_it_is_cut(chunks: list[bytes], step: int, framing: str) -> None:
    content = b"".join(chunks)
    if framing == "chunks":
        raw = with_chunks(*chunks, trailer=b"A: b\r\n")
    elif framing == "length":
        raw = OK + b"Content-Length: %d\r\n\r\n" % len(content) + content
    else:
        raw = OK + b"\r\n" + content
    reader = read(*cut(raw, step))
    assert len(content) == reader.unread
    assert (framing != "close") == reader.is_done == reader.keep_alive
    reader.end()
    assert (content, 0, True, False) == (reader.take(), reader.unread, reader.is_done, reader.keep_alive)
    assert b"" == reader.take()


def test_a_body_may_be_taken_while_it_comes() -> None:
    reader, taken = ResponseReader("GET"), []
    for part in cut(with_chunks(b"abc", b"d" * 1000), 90):
        reader.feed(part)
        taken.append(reader.take())
    assert b"abc" + b"d" * 1000 == b"".join(taken)
    assert len(taken) > 5
    assert reader.is_done


@each_row(
    "wire",
    [
        b'3;a="b"\r\nabc\r\n0 ; x\r\nTrailer: y\r\nB:\r\n\r\n',
        b"0003\r\nabc\r\n000\r\n\r\n",
        b"3 \t;\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_extensions_and_trailers_are_read_and_dropped(wire: bytes) -> None:
    for step in (1, 3, 1000):
        reader = read(*cut(OK + b"Transfer-Encoding: CHUNKED\r\n\r\n" + wire, step))
        assert reader.head is not None
        assert (b"abc", True, None, "") == (
            reader.take(),
            reader.keep_alive,
            reader.head.length,
            reader.head.headers.get("Trailer"),
        )


def test_a_large_body_is_not_copied() -> None:
    part = bytes(100_000)
    reader = read(OK + b"Content-Length: 100000\r\n\r\n", part)
    assert reader.take() is part


@each_row(
    ("method", "line"),
    [
        ("HEAD", b"HTTP/1.1 200 OK"),
        ("GET", b"HTTP/1.1 204 No Content"),
        ("GET", b"HTTP/1.1 304 Not Modified"),
        ("CONNECT", b"HTTP/1.1 200 OK"),
    ],
)
@each_row("framing", [b"", b"Content-Length: 100\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_what_has_no_body_ends_with_its_head(method: str, line: bytes, framing: bytes) -> None:
    reader = read(line + b"\r\n" + framing + b"\r\n", method=method)
    assert (True, True, b"") == (reader.is_done, reader.keep_alive, reader.take())


@each_row("lines", [b"Transfer-Encoding: chunked", b"Content-Length: 5", b"Content-Length: 1\r\nContent-Length: 2"])
@each_row("version", [b"HTTP/1.0", b"HTTP/1.1"])
def test_what_a_proxy_says_of_a_body_before_a_tunnel_does_not_count(version: bytes, lines: bytes) -> None:
    """RFC 9110, 9.3.6."""
    reader = read(version + b" 200 OK\r\n" + lines + b"\r\n\r\n", method="CONNECT")
    assert reader.is_done
    assert 200 == (reader.head and reader.head.status)


def test_a_refusal_of_connect_has_a_body() -> None:
    reader = read(b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\n", method="CONNECT")
    assert not reader.is_done


# -- ends


@each_row(
    ("head", "stays"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: a\r\nconnection: CLOSE\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: close-notify, not-close\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: not-keep-alive\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive, close\r\n", False),
    ],
)
def test_connections_stay_as_each_version_says(head: bytes, stays: bool) -> None:
    assert stays == read(head + b"Content-Length: 1\r\n\r\na").keep_alive
    assert not read(head + b"Content-Length: 1\r\n\r\n").keep_alive, "the body is not there yet"
    until_close = read(head + b"\r\n", end=True)
    assert until_close.head is not None
    assert (False, False) == (until_close.keep_alive, until_close.head.is_persistent), (
        "the end of the connection was the body's"
    )


@each_row(
    "raw",
    [
        OK + b"Content-Length: 1\r\n\r\na",
        OK + b"Content-Length: 0\r\n\r\n",
        with_chunks(b"a"),
        b"HTTP/1.1 204 x\r\n\r\n",
    ],
)
def test_a_connection_with_bytes_behind_the_answer_is_not_used_again(raw: bytes) -> None:
    assert read(raw).keep_alive
    for behind in (b"H", b"\r\n", OK):
        assert not read(raw + behind).keep_alive
        assert not read(raw, behind).keep_alive
        assert read(raw + behind).take() == read(raw).take(), "what comes behind is no part of the body"
    assert not read(raw, end=True).keep_alive


@each_row(
    "raw",
    [
        OK + b"Content-Length: 3\r\n\r\nabc",
        with_chunks(b"abc", trailer=b"A: b\r\n"),
        b"HTTP/1.1 100 x\r\n\r\n" + OK + b"\r\nabc",
    ],
)
def test_an_end_before_the_answer_s_end_says_how_far_it_came(raw: bytes) -> None:
    for length in range(len(raw)):
        reader = read(raw[:length])
        head_ends = raw.index(b"\r\n\r\n", raw.index(b"200")) + 4
        if length >= head_ends and b"Length" not in raw and b"chunked" not in raw:
            reader.end()
            assert reader.is_done
            continue
        with pytest.raises(BrokenOff) as error:
            reader.end()
        assert (length > 0, length >= head_ends) == (error.value.has_begun, error.value.has_head)
        assert reader.has_begun == (length > 0)


# -- hostile bytes

WHOLE = [
    OK + b"Content-Type: application/json\r\nContent-Length: 5\r\nConnection: close\r\n\r\n[1,2]",
    with_chunks(b'{"a":', b"1}", trailer=b"T: x\r\n"),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\nKeep: a\r\n\r\nnothing here",
]


def outcome(raw: bytes, step: int, method: str = "GET") -> object:
    """What reading comes to: an answer, or the class of its error."""
    reader = ResponseReader(method)
    try:
        for part in cut(raw, step):
            reader.feed(part)
        keeps = reader.keep_alive
        reader.end()
    except (Malformed, BrokenOff) as error:
        return type(error)
    assert reader.head is not None
    return reader.head.status, reader.head.reason, reader.head.length, reader.take(), keeps


@given(
    st.sampled_from(WHOLE),
    st.lists(st.tuples(st.integers(0, 150), st.binary(max_size=4), st.integers(0, 4)), max_size=3),
    st.integers(1, 40),
)
def test_changed_bytes_give_an_answer_or_an_error_and_the_same_one_however_they_are_cut(
    raw: bytes, changes: list[tuple[int, bytes, int]], step: int
) -> None:
    for at, new, dropped in changes:
        raw = raw[:at] + new + raw[at + dropped :]
    assert outcome(raw, 10**6) == outcome(raw, step) == outcome(raw, 1)


@given(st.binary(max_size=300), st.integers(1, 40))
def test_no_bytes_do_more_than_be_refused(raw: bytes, step: int) -> None:
    for data in (raw, OK + raw, OK + b"\r\n" + raw, OK + b"Transfer-Encoding: chunked\r\n\r\n" + raw):
        for method in ("GET", "HEAD", "CONNECT"):
            assert outcome(data, 10**6, method) == outcome(data, step, method)


def held(raw: bytes, step: int) -> int:
    """Bytes of memory at most while raw is read, its input apart."""
    view, reader = memoryview(raw), ResponseReader("GET")
    tracemalloc.start()
    try:
        for at in range(0, len(raw), step):
            with contextlib.suppress(Malformed):
                reader.feed(bytes(view[at : at + step]))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@each_row("step", [1, 1000])
@each_row("size", [1, 2, 100])
def test_a_body_takes_little_more_memory_than_its_size(size: int, step: int) -> None:
    count = 40_000 // (size + 5)
    assert held(with_chunks(*[b"x" * size] * count), step) < 3 * count * size + 64 * 1024


@pytest.mark.slow
@each_row(
    "raw",
    [
        MALFORMED["a head without end"],
        b"HTTP/1.1 100 Continue\r\nA: %b\r\n\r\n" % (b"x" * 60_000) * 16,
        with_chunks(trailer=b"A: b\r\n" * 1000),
    ],
)
def test_heads_and_trailers_are_held_once_at_most(raw: bytes) -> None:
    assert held(raw, 100) < 8 * HEAD_BYTES_MAX


def steps_of(raw: bytes, step: int) -> int:
    """How many lines of Python reading takes: a measure without a clock."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += 1
        return trace

    reader = ResponseReader("GET")
    parts = cut(raw, step)
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        for part in parts:
            reader.feed(part)
    finally:
        sys.settrace(None)
    return count


@pytest.mark.slow
@each_row("step", [1, 50, 10**6])
def test_the_work_grows_with_the_length_alone(step: int) -> None:
    """Whatever is small many times: chunks, headers, trailers. (What C does for a line is bounded by the bytes of that
    call.)
    """
    small, large = (
        with_chunks(*[b"x"] * 500, trailer=b"A: b\r\n" * 100),
        with_chunks(*[b"x"] * 1000, trailer=b"A: b\r\n" * 200),
    )
    assert steps_of(large, step) < 2.1 * steps_of(small, step)
