"""HTTP as bytes: what is a request, what is refused before anybody looks at it, and what goes out."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.web.messages import HttpReply, rendered
from mooring.wire.http1.bodies import BODY_BYTES_MAX, DRAINED_BYTES_MAX, Body
from mooring.wire.http1.requests import parse_head
from mooring.wire.http1.syntax import Malformed
from tests.support.rows import each_row


def a_head(line: str = "GET / HTTP/1.1", *headers: str, host: bool = True) -> bytes:
    return "\r\n".join([line, *(["Host: x"] if host else []), *headers]).encode("latin-1")


def test_a_head_is_method_target_and_headers() -> None:
    head = parse_head(
        a_head("PATCH /api/v1/nodes/a?x=1&x=2&y=%20 HTTP/1.1", "Content-Length: 12", "X-A:  b c \t", "x-a: d")
    )
    assert ("PATCH", ("api", "v1", "nodes", "a"), {"x": "1", "y": " "}) == (head.method, head.path(), head.query())
    assert (12, True, "b c, d") == (head.length, head.is_persistent, head.headers["x-a"])


def test_a_client_that_sends_the_same_headers_is_read_by_its_last_request() -> None:
    """Whatever the request line says; one other byte is read anew."""
    before = parse_head(a_head("GET /a HTTP/1.1", "Authorization: Bearer one", "Connection: close"))
    same = parse_head(a_head("DELETE /b HTTP/1.1", "Authorization: Bearer one", "Connection: close"), before)
    assert same.headers is before.headers
    assert ("DELETE", "/b", False) == (same.method, same.target, same.is_persistent)
    other = parse_head(a_head("GET /a HTTP/1.1", "Authorization: Bearer two", "Connection: close"), before)
    assert "Bearer two" == other.headers["authorization"]


@each_row(
    ("target", "path"),
    [
        ("/api/v1/nodes/", ("api", "v1", "nodes")),
        ("/api/v1/nodes/a%2Fstatus", ("api", "v1", "nodes", "a", "status")),
        ("/a%00b", ("a\0b",)),
        ("/a/../b/.", ("a", "..", "b", ".")),
        ("/%ff", ("\ufffd",)),
        ("https://elsewhere:1/api/v1?x", ("api", "v1")),
        ("HTTP://elsewhere", ("",)),
        ("*", ("*",)),
        ("//a", ("", "a")),
    ],
)
def test_targets(target: str, path: tuple[str, ...]) -> None:
    assert path == parse_head(a_head(f"GET {target} HTTP/1.1")).path()


@each_row(
    "raw",
    [
        b"",
        b"GET",
        b"GET /",
        b"GET  / HTTP/1.1\r\nHost: x",
        b"GET / HTTP/1.1 \r\nHost: x",
        b"GET /a b HTTP/1.1\r\nHost: x",
        b"G\0T / HTTP/1.1\r\nHost: x",
        b"GET /\x01 HTTP/1.1\r\nHost: x",
        b"GET / HTTP/1.1\nHost: x",
        b"GET / http/1.1\r\nHost: x",
        b"GET a HTTP/1.1\r\nHost: x",
        b"GET /%zz HTTP/1.1\r\nHost: x",
        b"GET /% HTTP/1.1\r\nHost: x",
        a_head(host=False),
        a_head("GET / HTTP/1.1", "Host: y"),
        a_head("GET / HTTP/1.1", "A : b"),
        a_head("GET / HTTP/1.1", " folded"),
        a_head("GET / HTTP/1.1", "A: b\rc"),
        a_head("GET / HTTP/1.1", "A: b\0c"),
        a_head("GET / HTTP/1.1", ": b"),
        a_head("GET / HTTP/1.1", "no colon"),
        a_head("POST / HTTP/1.1", "Content-Length: 1", "Content-Length: 1"),
        a_head("POST / HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"),
        a_head("POST / HTTP/1.1", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        a_head("POST / HTTP/1.1", "Authorization: a", "Authorization: b"),
        *(
            a_head("POST / HTTP/1.1", f"Content-Length: {text}")
            for text in ("", "-1", "+1", "0x1", "1 1", "1,1", "\xb2", "9" * 16)
        ),
    ],
)
def test_what_could_be_read_in_two_ways_is_400(raw: bytes) -> None:
    with pytest.raises(Malformed) as error:
        parse_head(raw)
    assert 400 == error.value.status


@each_row("coding", ["gzip", "gzip, chunked", "chunked, chunked", "identity", "xchunked", '"chunked"'])
def test_an_encoding_that_is_not_known_is_501(coding: str) -> None:
    with pytest.raises(Malformed) as error:
        parse_head(a_head("POST / HTTP/1.1", f"Transfer-Encoding: {coding}"))
    assert 501 == error.value.status


def test_chunks_need_http_1_1_and_other_versions_are_505() -> None:
    for line, status in (("POST / HTTP/1.0", 501), ("PRI * HTTP/2.0", 505), ("GET / HTTP/0.9", 505)):
        with pytest.raises(Malformed) as error:
            parse_head(a_head(line, "Transfer-Encoding: chunked"))
        assert status == error.value.status


@each_row(
    ("version", "connection", "stays"),
    [
        ("1.1", "", True),
        ("1.1", "close", False),
        ("1.1", "Keep-Alive, CLOSE", False),
        ("1.0", "", False),
        ("1.0", "Keep-Alive", True),
        ("1.1", "close-notify, x-close", True),
        ("1.0", "x-keep-alive", False),
        ("1.1", "\tclose ,x", False),
    ],
)
def test_connections_stay_as_each_version_says(version: str, connection: str, stays: bool) -> None:
    assert stays == parse_head(a_head(f"GET / HTTP/{version}", f"Connection: {connection}")).is_persistent


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_bytes_do_more_than_be_malformed(raw: bytes, line: bytes) -> None:
    for data in (raw, b"GET / HTTP/1.1\r\nHost: x\r\n" + raw, b"POST " + line + b" HTTP/1.1\r\nHost: x"):
        with contextlib.suppress(Malformed):
            head = parse_head(data)
            assert all(isinstance(part, str) for part in head.path())
            head.query()


# -- bodies


def fed(body: Body, *parts: bytes) -> bytes:
    """What is left over when the parts have come one by one."""
    data = bytearray()
    for part in parts:
        data += part
        if not body.is_whole:
            body.feed(data)
    return bytes(data)


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=5), st.integers(1, 40), st.booleans())
def test_a_body_is_the_same_however_it_is_cut(chunks: list[bytes], step: int, in_chunks: bool) -> None:
    content = b"".join(chunks)
    wire = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n" if in_chunks else content
    wire += b"NEXT"
    body = Body(None if in_chunks else len(content))
    left = fed(body, *(wire[at : at + step] for at in range(0, len(wire), step)))
    assert (True, content, b"NEXT") == (body.is_whole, body.content(), left)


def test_extensions_and_trailers_are_read_and_dropped() -> None:
    body = Body(None)
    assert b"" == fed(body, b'3;a="b"\r\nabc\r\n0 ; x\r\nTrailer: y\r\n\r\n')
    assert (True, b"abc") == (body.is_whole, body.content())


@each_row(
    "wire",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b"1\r\nab\r\n",
        b"1\r\na\n\r",
        b"123456789\r\n",
        b" 1\r\n",
        b"1 1\r\n",
        b"1;" + b"x" * 300,
        b"x" * 300,
    ],
)
def test_bad_chunks_are_malformed(wire: bytes) -> None:
    with pytest.raises(Malformed):
        fed(Body(None), wire)


def test_a_trailer_has_an_end() -> None:
    with pytest.raises(Malformed):
        fed(Body(None), b"0\r\n", *(b"A: " + b"x" * 200 + b"\r\n" for _ in range(100)))


def test_a_body_that_is_too_large_is_not_kept_and_one_without_end_is_cut() -> None:
    body = Body(None)
    piece = b"%x\r\n%b\r\n" % (2**20, b"x" * 2**20)
    for _ in range(BODY_BYTES_MAX // 2**20 + 1):
        fed(body, piece)
    assert (True, b"") == (body.is_too_large, body.content())
    with pytest.raises(Malformed):
        fed(body, *[piece] * (DRAINED_BYTES_MAX // 2**20))


# -- answers


def test_an_answer_is_one_piece_and_its_warnings_stay_in_their_line() -> None:
    reply = HttpReply(200, b"{}", warnings=('say "a"\r\nX: y\\',), retry_after_s=1, headers=(("ETag", '"x"'),))
    head, _, body = rendered(reply, "Date: now\r\n", is_last=True).partition(b"\r\n\r\n")
    assert b"{}" == body
    lines = head.decode().split("\r\n")
    assert "HTTP/1.1 200 OK" == lines[0]
    assert {"Date: now", "Content-Length: 2", "Retry-After: 1", "Connection: close", 'ETag: "x"'} < set(lines)
    assert 'Warning: 299 - "say \\"a\\"  X: y\\\\"' in lines


def test_what_has_no_body_sends_none() -> None:
    assert rendered(HttpReply(200, b"{}"), "", is_last=False, with_body=False).endswith(b"Content-Length: 2\r\n\r\n")
    assert b"Content-Length" not in rendered(HttpReply(304, b""), "", is_last=False)
