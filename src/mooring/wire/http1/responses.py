"""Answers as bytes: the client's half, which reads them. Pure, and as strict as the server is with requests.

Fed bytes go first into a head (again and again while it is 1xx), then into the body: none, so many bytes, chunks, or
everything until the connection ends.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final

from mooring.wire.http1.bodies import Chunks
from mooring.wire.http1.syntax import HEAD_BYTES_MAX, BrokenOff, Malformed, content_length, header_fields, stays

INTERIM_MAX: Final = 16
"""Answers 1xx before the one that counts."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: ([^\x00-\x08\x0a-\x1f\x7f]*))?")
_BEGINNING: Final = b"HTTP/1."
_ONCE: Final = ("content-length", "transfer-encoding", "content-type", "content-encoding")
_NO_HTTP: Final = "it does not begin as an HTTP answer does"
_PART_SMALL: Final = 512
_UNTIL_CLOSE: Final = -1


class ResponseHeaders:
    """Headers of an answer; names in any case."""

    __slots__ = ("_first", "_repeated")

    def __init__(self, first: Mapping[str, str], repeated: Mapping[str, list[str]]) -> None:
        """first, repeated: as `header_fields` gives them."""
        self._first, self._repeated = first, repeated

    def get(self, name: str, default: str = "", /) -> str:
        """The first value of that name."""
        return self._first.get(name.lower(), default)

    def getall(self, name: str, default: Sequence[str] = (), /) -> Sequence[str]:
        """All values of that name in their order."""
        name = name.lower()
        found = self._repeated.get(name)
        if found is not None:
            return found
        value = self._first.get(name)
        return default if value is None else (value,)

    def __contains__(self, name: object, /) -> bool:
        return isinstance(name, str) and name.lower() in self._first


class ResponseHead:
    """An answer without its body.

    status: 200 to 999, 1xx are skipped. reason: as the server spells it, often "". length: of the body as it is sent,
    None where the head does not tell. is_persistent: as far as the head goes, the connection may serve another request
    after this answer.
    """

    __slots__ = ("headers", "is_persistent", "length", "reason", "status")

    def __init__(
        self, status: int, reason: str, headers: ResponseHeaders, length: int | None, *, is_persistent: bool
    ) -> None:
        self.status, self.reason, self.headers, self.length = status, reason, headers, length
        self.is_persistent = is_persistent


class ResponseReader:
    """Reads the answer to one request: `feed` it what comes, then look at `head`, `take` the body, until `is_done`.

    head: None until it is whole. unread: bytes of the body that have come and were not taken; the bound is the
    caller's. is_done: the answer's last byte has come. has_begun: any byte has come: a request without that may be sent
    again if it is a read. After an error each further call raises it again.
    """

    __slots__ = (
        "_chunks",
        "_failure",
        "_interims",
        "_is_checked",
        "_is_overrun",
        "_left",
        "_method",
        "_parts",
        "_raw",
        "_rest",
        "has_begun",
        "head",
        "is_done",
        "unread",
    )

    def __init__(self, method: str) -> None:
        """method: of the request. An answer to HEAD has no body, nor has an agreement (2xx) to CONNECT."""
        self._method = method
        self._raw: bytearray | None = None  # a head that came in pieces
        self._rest = b""  # a line of chunks that came in part
        self._parts: list[bytes] = []
        self._left = 0  # of a body with a length, or _UNTIL_CLOSE
        self._chunks: Chunks | None = None
        self._interims = 0
        self._is_checked = self._is_overrun = False
        self._failure: Malformed | None = None
        self.head: ResponseHead | None = None
        self.unread = 0
        self.is_done = self.has_begun = False

    @property
    def keep_alive(self) -> bool:
        """True when the connection may serve another request: the answer is done, nothing came behind it, and its head
        agrees.
        """
        return self.is_done and not self._is_overrun and self.head is not None and self.head.is_persistent

    def feed(self, data: bytes) -> None:
        """Takes bytes from the connection; what comes behind the end is dropped, and `keep_alive` is False. Raises
        Malformed.
        """
        if self._failure is not None:
            raise self._failure
        if data:
            self.has_begun = True
            try:
                self._advance(data)
            except Malformed as error:
                self._failure = error
                raise

    def end(self) -> None:
        """The connection has ended: so has a body without a length. Raises Malformed, and BrokenOff for an answer that
        is not whole.
        """
        if self._failure is not None:
            raise self._failure
        self._is_overrun = True
        if self.is_done:
            return
        if self.head is None or self._left != _UNTIL_CLOSE:
            raise BrokenOff(has_begun=self.has_begun, has_head=self.head is not None)
        self.is_done = True

    def take(self) -> bytes:
        """The body's bytes that came since the last call, unchunked, as the server encoded them; b"" for none."""
        parts, self._parts, self.unread = self._parts, [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # the head

    def _advance(self, data: bytes) -> None:
        while self.head is None:
            after = self._read_head(data)
            if after < 0:
                return
            data = data[after:]
        if self.is_done:
            self._is_overrun = self._is_overrun or bool(data)
        elif self._chunks is not None:
            self._read_chunks(data)
        elif data:
            self._read_part(data)

    def _read_head(self, data: bytes) -> int:
        """Where in data the bytes after the head begin, -1 while it is not whole."""
        raw = self._raw
        if raw is None:
            end = data.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
            if end >= 0:
                self._begin(data[:end])
                return end + 4
            raw = self._raw = bytearray()
        before = len(raw)
        raw += data
        end = raw.find(b"\r\n\r\n", max(0, before - 3), HEAD_BYTES_MAX)
        if end < 0:
            self._check_beginning(raw, before)
            return -1
        self._raw = None
        self._begin(bytes(raw[:end]))
        return end + 4 - before

    def _check_beginning(self, raw: bytearray, before: int) -> None:
        """Refuses what can't become a head, so that nobody waits for its end. before: bytes that have been looked
        at.
        """
        if not self._is_checked:
            if not (raw.startswith(_BEGINNING) or _BEGINNING.startswith(raw)):
                raise Malformed(_NO_HTTP)
            end = raw.find(b"\n", before)
            if end >= 0:
                _status_line(bytes(raw[: end - 1] if raw[:end].endswith(b"\r") else raw[: end + 1]))
                self._is_checked = True
        if len(raw) >= HEAD_BYTES_MAX:
            raise Malformed("its head is too long")

    def _begin(self, raw: bytes) -> None:
        """raw: a head, without the empty line."""
        line, _, rest = raw.partition(b"\r\n")
        version, status, reason = _status_line(line)
        first, repeated = header_fields(rest)
        self._is_checked = False
        if status < 200:
            self._skip(status)
            return
        length: int | None = 0
        if self._method == "CONNECT" and status < 300:  # a tunnel begins, whatever its headers say of a body
            self.is_done = True
        else:
            for name in repeated:
                if name in _ONCE:
                    raise Malformed(f"the header {name} is there twice")
            length = self._framed(first, version, status)
        words = ",".join(repeated.get("connection") or [first.get("connection", "")])
        is_persistent = stays(words, version) and self._left != _UNTIL_CLOSE
        self.head = ResponseHead(status, reason, ResponseHeaders(first, repeated), length, is_persistent=is_persistent)

    def _skip(self, status: int) -> None:
        if status == 101:
            raise Malformed("it switches to another protocol (101), which nobody asked for")
        self._interims += 1
        if self._interims > INTERIM_MAX:
            raise Malformed("there are too many interim answers (1xx)")

    def _framed(self, headers: Mapping[str, str], version: int, status: int) -> int | None:
        """Prepares for the body; gives its length, None where the head does not tell."""
        coding, text = headers.get("transfer-encoding"), headers.get("content-length")
        length = None if text is None else content_length(text)
        if coding is not None:
            if length is not None:
                raise Malformed("both a Content-Length and a Transfer-Encoding")
            if version < 1 or coding.lower() != "chunked":
                raise Malformed(f"unsupported transfer encoding: {coding[:32]!r}")
        if self._method == "HEAD" or status in (204, 304):
            self.is_done = True
            return 0
        if coding is not None:
            self._chunks = Chunks()
        else:
            self._left = _UNTIL_CLOSE if length is None else length
            self.is_done = length == 0
        return length

    # the body

    def _read_part(self, data: bytes) -> None:
        if self._left != _UNTIL_CLOSE:
            if len(data) > self._left:
                data, self._is_overrun = data[: self._left], True
            self._left -= len(data)
            self.is_done = self._left == 0
        self._keep(data)

    def _read_chunks(self, data: bytes) -> None:
        assert self._chunks is not None
        if self._rest:
            data = self._rest + data
        count, content = self._chunks.feed(data)
        self.is_done = self._chunks.is_whole
        self._rest = b"" if self.is_done else data[count:]
        self._is_overrun = self.is_done and count < len(data)
        if content:
            self._keep(content)

    def _keep(self, data: bytes) -> None:
        """Small parts are joined: a body that comes byte by byte takes no more memory than its size."""
        self.unread += len(data)
        if self._parts and len(data) < _PART_SMALL and len(self._parts[-1]) < _PART_SMALL:
            self._parts[-1] += data
        else:
            self._parts.append(data)


@functools.lru_cache(maxsize=64)
def _usual_status_line(line: bytes) -> tuple[int, int, str]:
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise Malformed(_NO_HTTP)
    return int(match[1]), int(match[2]), (match[3] or b"").decode("latin-1").strip(" \t")


def _status_line(line: bytes) -> tuple[int, int, str]:
    """Minor version, status, reason. Raises Malformed."""
    return _usual_status_line(line) if len(line) < _PART_SMALL else _usual_status_line.__wrapped__(line)
