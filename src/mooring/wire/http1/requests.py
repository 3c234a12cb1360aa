"""Requests as bytes: the client writes them, the server reads them. Pure, and stricter than necessary.

Ambiguous requests are refused: both a length and chunks, a length twice, and what `syntax.py` names. Too large a body
is read and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote

from mooring.wire.http1.syntax import NAME, TOKEN, Malformed, Unsendable, content_length, header_fields, stays

_REQUEST_LINE: Final = re.compile(rb"(%b{1,32}) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9])\.([0-9])" % TOKEN.encode())
_ENCODED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AUTHORITY: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class _Headers:
    """What a request's headers say. lines: as they came. version: the second digit of HTTP's. Raises Malformed."""

    __slots__ = ("expects_continue", "length", "lines", "stays", "values", "version")

    def __init__(self, lines: bytes, version: int) -> None:
        self.lines, self.version, self.values = lines, version, _values(lines)
        if "host" not in self.values and version != 0:
            raise Malformed("missing required Host header")
        self.stays = stays(self.values.get("connection", ""), version)
        self.length = _length(self.values, version)
        self.expects_continue = version >= 1 and self.values.get("expect", "").lower() == "100-continue"


class RequestHead:
    """A request without its body. headers: names in lower case. length: None for a body in chunks."""

    __slots__ = ("expects_continue", "headers", "is_chunkable", "is_persistent", "length", "method", "said", "target")

    def __init__(self, method: str, target: str, said: _Headers) -> None:
        self.method, self.target, self.said, self.headers = method, target, said, said.values
        self.is_chunkable, self.is_persistent = said.version >= 1, said.stays
        self.length, self.expects_continue = said.length, said.expects_continue

    @property
    def headers_bytes(self) -> int:
        return len(self.said.lines)

    def path(self) -> tuple[str, ...]:
        """Split at its slashes once it is decoded, as the real server does: `%2F` is a slash."""
        path = self.target.partition("?")[0]
        if "%" in path:
            path = unquote(path)
        return tuple(path.removeprefix("/").removesuffix("/").split("/"))

    def query(self) -> dict[str, str]:
        """The first value of each parameter."""
        text = self.target.partition("?")[2]
        return dict(reversed(parse_qsl(text, keep_blank_values=True))) if text else {}


def parse_head(raw: bytes, before: RequestHead | None = None) -> RequestHead:
    """raw: from the request line to the last header, without the empty line. Raises Malformed.

    before: another request of the same client, which mostly has the very same headers.
    """
    line, _, rest = raw.partition(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise Malformed("the request line is malformed")
    method, target, major, minor = match.groups()
    if major != b"1":
        raise Malformed("only HTTP/1.0 and HTTP/1.1 are spoken here", 505)
    version = int(minor)
    same = before is not None and before.said.version == version and before.said.lines == rest
    said = before.said if before is not None and same else _Headers(rest, version)
    return RequestHead(method.decode("ascii"), _target(target), said)


def _values(raw: bytes) -> dict[str, str]:
    headers, repeated = header_fields(raw)
    for name, values in repeated.items():
        if name in _ONCE:
            raise Malformed(f"the header {name} is there twice")
        headers[name] = ", ".join(values)
    return headers


_ONCE: Final = ("host", "content-length", "transfer-encoding", "content-type", "authorization")


def _target(raw: bytes) -> str:
    target = raw.decode("utf-8", "replace")
    if not target.startswith("/"):
        match = _AUTHORITY.match(target)
        if match is None and target != "*":
            raise Malformed("the request names no path")
        target = target[match.end() :] if match is not None else target
        if not target.startswith(("/", "*")):
            target = f"/{target}"
    path = target.partition("?")[0]
    if "%" in path and _ENCODED.search(path):
        raise Malformed("the path holds a percent sign without two hexadecimal digits")
    return target


def _length(headers: Mapping[str, str], version: int) -> int | None:
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None:
            raise Malformed("both a Content-Length and a Transfer-Encoding")
        if version < 1 or coding.lower() != "chunked":
            raise Malformed(f"unsupported transfer encoding: {coding[:32]!r}", 501)
        return None
    return 0 if length is None else content_length(length)


# -- the client's half

_METHOD: Final = re.compile(f"{TOKEN}{{1,32}}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_FRAMING: Final = ("content-length", "transfer-encoding")
_WITH_BODY: Final = ("PATCH", "POST", "PUT")


def header_lines(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Headers as they are sent, each with its line end: made once, for many requests. Raises Unsendable.

    No Content-Length and no Transfer-Encoding may be among them: `request_bytes` says the length.
    """
    lines = []
    for name, value in pairs:
        if NAME.fullmatch(name) is None:
            raise Unsendable(f"{name[:64]!r} is no name of a header")
        if name.lower() in _FRAMING:
            raise Unsendable(f"the header {name} can't be chosen")
        if _CONTROL.search(value):
            raise Unsendable(f"the header {name} holds a line break, or another control character")
        lines.append(f"{name}: {value}\r\n")
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        raise Unsendable("a header has a value that is no text") from None


def request_bytes(method: str, target: str, lines: bytes, body: bytes | None = None) -> bytes:
    """A whole request in one piece. Raises Unsendable.

    target: escaped already; a path with its query, or what a proxy is asked (`http://host/path`, `host:443`).
    lines: of `header_lines`, `Host` among them. body: None for none; then PATCH, POST and PUT say that its length is 0.
    """
    if _METHOD.fullmatch(method) is None:
        raise Unsendable(f"{method[:64]!r} is no method")
    if not (target.isascii() and target.isprintable()) or " " in target or not target:
        raise Unsendable("the path is not escaped")
    line = f"{method} {target} HTTP/1.1\r\n".encode("ascii")
    if body is not None:
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (line, lines, len(body), body)
    return b"%b%b%b\r\n" % (line, lines, b"Content-Length: 0\r\n" if method in _WITH_BODY else b"")
