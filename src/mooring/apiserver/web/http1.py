"""HTTP/1.1 as bytes: heads of requests read, heads of answers written. Pure, and stricter than it must be.

Whatever two programs could read in two ways is refused: both a length and chunks, a length twice, a line that goes on in the next, a
space before a colon, a bare line feed. There is no proxy in front of this server, and none is to be able to smuggle a request past it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote

from mooring.apiserver.web.messages import Reply

HEAD_BYTES_MAX: Final = 64 * 1024
"""Request line and headers. Differs from kube-apiserver (1 MiB)."""

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9])\.([0-9])")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_ENCODED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AUTHORITY: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_LENGTH: Final = re.compile(r"[0-9]{1,15}")


class Malformed(ValueError):
    """Nothing that could be answered as a request to a resource. status: what HTTP says to it."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Head:
    """A request without its body. headers: names in lower case. length: None for a body in chunks."""

    __slots__ = ("expects_continue", "headers", "is_chunkable", "is_persistent", "length", "method", "target")

    def __init__(self, method: str, target: str, headers: Mapping[str, str], version: int) -> None:
        self.method, self.target, self.headers = method, target, headers
        self.is_chunkable = version >= 1
        words = headers.get("connection", "").lower()
        self.is_persistent = "close" not in words if version >= 1 else "keep-alive" in words
        self.length = _length(headers, version)
        self.expects_continue = version >= 1 and headers.get("expect", "").lower() == "100-continue"

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


def parse_head(raw: bytes) -> Head:
    """raw: from the request line to the last header, without the empty line. Raises Malformed."""
    line, *rest = raw.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise Malformed("the request line is malformed")
    method, target, major, minor = match.groups()
    if major != b"1":
        raise Malformed("only HTTP/1.0 and HTTP/1.1 are spoken here", 505)
    headers = _headers(rest)
    if "host" not in headers and minor != b"0":
        raise Malformed("missing required Host header")
    return Head(method.decode("ascii"), _target(target), headers, int(minor))


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise Malformed("a header line is malformed")
        name, value = match[1].decode("ascii").lower(), match[2].decode("latin-1").rstrip(" \t")
        if name not in headers:
            headers[name] = value
        elif name in _ONCE:
            raise Malformed(f"the header {name} is there twice")
        else:
            headers[name] = f"{headers[name]}, {value}"
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
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise Malformed("the Content-Length is no number")
    return int(length)


@functools.lru_cache(maxsize=256)
def status_line(status: int, content_type: str) -> str:
    """The part of an answer's head that is always the same."""
    phrase = HTTPStatus(status).phrase if status in _STATUSES else ""
    return f"HTTP/1.1 {status} {phrase}\r\nCache-Control: no-cache, private\r\nContent-Type: {content_type}\r\n"


_WARNINGS_MAX: Final = 4096
_WARNING_MAX: Final = 256
"""Letters of all warnings together, and of each where that is too much."""
_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_STATUSES: Final = frozenset(int(status) for status in HTTPStatus)


def rendered(reply: Reply, date: str, *, is_last: bool, with_body: bool = True) -> bytes:
    """A whole answer. date: the Date header with its line end. is_last: the connection ends after it. with_body: False for HEAD."""
    head = f"{status_line(reply.status, reply.content_type)}{date}"
    if reply.status not in _WITHOUT_BODY:
        head += f"Content-Length: {len(reply.body)}\r\n"
    for name, value in reply.headers:
        head += f"{name}: {value}\r\n"
    for text in _bounded(reply.warnings):
        head += f'Warning: 299 - "{_quoted(text)}"\r\n'
    if reply.retry_after_s is not None:
        head += f"Retry-After: {reply.retry_after_s}\r\n"
    if is_last:
        head += "Connection: close\r\n"
    return b"%b\r\n%b" % (head.encode("utf-8", "replace"), reply.body if with_body else b"")


def _bounded(warnings: tuple[str, ...]) -> list[str]:
    """Each once; where they are long together, the first letters of the first ones, as far as they go."""
    told, length = list(dict.fromkeys(warnings)), 0
    if sum(map(len, told)) <= _WARNINGS_MAX:
        return told
    cut = [text[:_WARNING_MAX] for text in told]
    for number, text in enumerate(cut):
        length += len(text)
        if length > _WARNINGS_MAX:
            return cut[:number]
    return cut


def _quoted(text: str) -> str:
    """Text as a quoted string in a header, on one line."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
