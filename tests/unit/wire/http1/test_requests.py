"""Requests as bytes: what the client writes is what the server reads, and what would be another request is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.http1.requests import header_lines, parse_head, request_bytes
from mooring.wire.http1.syntax import Unsendable
from tests.support.rows import each_row

HOST = header_lines([("Host", "a:1")])


def test_a_request_is_one_piece() -> None:
    lines = header_lines([("Host", "a:1"), ("X", "")])
    assert b"GET /a?b=%20 HTTP/1.1\r\nHost: a:1\r\nX: \r\n\r\n" == request_bytes("GET", "/a?b=%20", lines)
    assert b"PATCH / HTTP/1.1\r\nHost: a:1\r\nX: \r\nContent-Length: 2\r\n\r\n{}" == request_bytes(
        "PATCH", "/", lines, b"{}"
    )
    assert b"CONNECT a:443 HTTP/1.1\r\nHost: a:1\r\n\r\n" == request_bytes("CONNECT", "a:443", HOST)


@each_row(("method", "told"), [("PUT", True), ("POST", True), ("PATCH", True), ("GET", False), ("DELETE", False)])
def test_a_method_that_has_a_body_says_when_there_is_none(method: str, told: bool) -> None:
    assert told == (b"\r\nContent-Length: 0\r\n" in request_bytes(method, "/", HOST))
    assert request_bytes(method, "/", HOST, b"").endswith(b"\r\nContent-Length: 0\r\n\r\n"), "an empty body is a body"


@each_row("target", ["", " ", "/a b", "/a\r\nHost: b", "/a\n", "/a\0", "/\x7f", "/ä", "/\u2028", "/a\tb"])
def test_a_path_that_is_not_escaped_is_not_sent(target: str) -> None:
    with pytest.raises(Unsendable, match="the path is not escaped"):
        request_bytes("GET", target, HOST)


@each_row("method", ["", "GE T", "GET\r\n", "GÄT", "G" * 33])
def test_a_method_is_a_word(method: str) -> None:
    with pytest.raises(Unsendable, match="is no method"):
        request_bytes(method, "/", HOST)


@each_row("letter", ["\r", "\n", "\r\n", "\0", "\x1f", "\x7f", "\x0b", "\ud800"])
def test_a_header_with_a_line_break_is_not_sent_and_not_shown(letter: str) -> None:
    with pytest.raises(Unsendable) as error:
        header_lines([("Authorization", f"Bearer geheim{letter}X: y")])
    assert "geheim" not in str(error.value)
    with pytest.raises(Unsendable):
        header_lines([(f"A{letter}B", "x")])


@each_row("name", ["", "A B", "A:", "Ä", " A"])
def test_a_header_s_name_is_a_word(name: str) -> None:
    with pytest.raises(Unsendable, match="is no name of a header"):
        header_lines([(name, "x")])


@each_row("name", ["Content-Length", "transfer-encoding"])
def test_the_length_is_nobody_s_to_choose(name: str) -> None:
    with pytest.raises(Unsendable, match="can't be chosen"):
        header_lines([(name, "1")])


def test_a_header_may_hold_any_text() -> None:
    assert "Impersonate-User: größe\t✓\r\n".encode() == header_lines([("Impersonate-User", "größe\t✓")])


@given(
    st.from_regex(r"[A-Z]{1,10}", fullmatch=True),
    st.from_regex(r"/[!-~]{0,30}", fullmatch=True).filter(lambda text: "%" not in text),
    st.lists(
        st.tuples(st.from_regex(r"X-[a-z]{1,5}", fullmatch=True), st.text(max_size=10)),
        max_size=4,
        unique_by=lambda pair: pair[0].lower(),
    ),
    st.none() | st.binary(max_size=30),
)
def test_the_server_reads_what_the_client_writes(
    method: str, target: str, pairs: list[tuple[str, str]], body: bytes | None
) -> None:
    try:
        raw = request_bytes(method, target, header_lines([("Host", "a"), *pairs]), body)
    except Unsendable:
        return
    head_bytes, _, rest = raw.partition(b"\r\n\r\n")
    head = parse_head(head_bytes)
    assert (method, target, len(body or b""), body or b"") == (head.method, head.target, head.length, rest)
    told = {name.lower(): value.encode().decode("latin-1").strip(" \t") for name, value in pairs}
    assert {"host": "a", **told} == {name: value for name, value in head.headers.items() if name != "content-length"}
