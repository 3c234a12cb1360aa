"""HTTP/1.1 as bytes: parses requests, writes answers. Pure, and stricter than necessary.

Ambiguous requests are refused: both a length and chunks, a length twice, a folded line, a space before a colon, a bare line feed. A
proxy in front of this server could read them otherwise, and a request could be smuggled. Too large a body is read and dropped.
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
    unique, length = list(dict.fromkeys(warnings)), 0
    if sum(map(len, unique)) <= _WARNINGS_MAX:
        return unique
    cut = [text[:_WARNING_MAX] for text in unique]
    for number, text in enumerate(cut):
        length += len(text)
        if length > _WARNINGS_MAX:
            return cut[:number]
    return cut


def _quoted(text: str) -> str:
    """Text as a quoted string in a header, on one line."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


BODY_BYTES_MAX: Final = 3 * 1024 * 1024
DRAINED_BYTES_MAX: Final = 4 * BODY_BYTES_MAX
"""Read on and thrown away, so that the client gets to read its refusal; what is larger is cut."""

_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\r\n]*)?")
_CHUNK_LINE_MAX: Final = 256
_TRAILER_BYTES_MAX: Final = 8 * 1024


class Body:
    """A body that is being read. length: None for one in chunks. is_kept: False for one that is dropped."""

    __slots__ = ("_chunks", "_left", "_parts", "_size", "is_kept", "is_whole")

    def __init__(self, length: int | None, *, is_kept: bool = True) -> None:
        self._chunks = Chunks() if length is None else None
        self._left, self._size = length or 0, 0
        self._parts: list[bytes] = []
        self.is_kept, self.is_whole = is_kept, length == 0

    @property
    def is_too_large(self) -> bool:
        return self._size > BODY_BYTES_MAX

    def feed(self, data: bytearray) -> None:
        """Takes its part off the front of data. Raises Malformed."""
        if self._chunks is not None:
            part = self._chunks.feed(data)
            self.is_whole = self._chunks.is_whole
        else:
            part = bytes(data[: self._left])
            del data[: self._left]
            self._left -= len(part)
            self.is_whole = self._left == 0
        self._size += len(part)
        if self._size > DRAINED_BYTES_MAX:
            raise Malformed("the body is far too large", 413)
        if self.is_too_large:
            self._parts.clear()
        elif self.is_kept and part:
            self._parts.append(part)

    def content(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Chunks:
    """A body in chunks, decoded as it comes."""

    __slots__ = ("_in_trailer", "_left", "_trailer", "is_whole")

    def __init__(self) -> None:
        self._left = 0  # of the chunk that is being read, its line end included
        self._in_trailer, self._trailer = False, 0
        self.is_whole = False

    def feed(self, data: bytearray) -> bytes:
        """Takes what it can from the front of data, and gives the content in it. Raises Malformed."""
        found = []
        while not self.is_whole:
            if self._left:
                part = bytes(data[: self._left])
                if self._left <= 2 or not part:
                    if not self._end_of_chunk(data):
                        break
                    continue
                content = part[: self._left - 2]
                del data[: len(content)]
                self._left -= len(content)
                found.append(content)
                continue
            if not self._line(data):
                break
        return b"".join(found)

    def _end_of_chunk(self, data: bytearray) -> bool:
        if len(data) < 2:
            return False
        if data[:2] != b"\r\n":
            raise Malformed("a chunk is longer than it says")
        del data[:2]
        self._left = 0
        return True

    def _line(self, data: bytearray) -> bool:
        """Reads the size of the next chunk, or a line of the trailer; False while it is not all there."""
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > _CHUNK_LINE_MAX:
                raise Malformed("the line of a chunk is too long")
            return False
        line = bytes(data[:end])
        if end > _CHUNK_LINE_MAX:
            raise Malformed("the line of a chunk is too long")
        del data[: end + 2]
        if self._in_trailer:
            self._trailer += end + 2
            if self._trailer > _TRAILER_BYTES_MAX:
                raise Malformed("the trailer is too long", 431)
            self.is_whole = not line
            return True
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise Malformed("the size of a chunk is no number")
        size = int(match[1], 16)
        self._in_trailer, self._left = size == 0, size + 2 if size else 0
        return True
