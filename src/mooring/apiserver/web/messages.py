"""Requests and answers as the service sees them. `connection.py` carries both over sockets."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from mooring.apiserver.listing import ContinueExpired, ListScope, WatchOptions
from mooring.apiserver.resource import WARNINGS_MAX, Resource
from mooring.apiserver.users import OWNER, RequestUser
from mooring.apiserver.web.rendering import WHOLE, Rendering
from mooring.kube.errors import NOT_SERVED, ApiError, to_status

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

_BARE_TEXTS: Final = ("406: Not Acceptable", "415: Unsupported Media Type", NOT_SERVED)
"""Refusals that are made before the kind is known have details, with nothing in them."""


class HttpRequest(msgspec.Struct):
    """path: decoded and split at its slashes. query: the first value of each parameter. headers: names in lower case.

    body: empty until it has been read. user: who asks. is_known: by a certificate, so that no token need be shown.
    """

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    user: RequestUser = OWNER
    is_known: bool = False


class HttpReply(msgspec.Struct, frozen=True):
    """headers: further ones, as on the wire."""

    status: int
    body: bytes
    content_type: str = JSON
    warnings: tuple[str, ...] = ()
    retry_after_s: int | None = None
    headers: tuple[tuple[str, str], ...] = ()


class WatchReply(msgspec.Struct, frozen=True):
    """A watch that may begin: its options have been checked."""

    resource: Resource
    scope: ListScope
    options: WatchOptions
    rendering: Rendering = WHOLE


def json_reply(value: Any, status: int = 200) -> HttpReply:
    return HttpReply(status, msgspec.json.encode(value))


def error_reply(error: ApiError) -> HttpReply:
    wait_s = None if error.retry_after_s is None else int(error.retry_after_s)
    return HttpReply(error.status_code, msgspec.json.encode(status_of(error)), retry_after_s=wait_s)


def status_of(error: ApiError) -> dict[str, Any]:
    status = to_status(error)
    if error.reason == "MethodNotAllowed" or str(error).partition("\n")[0] in _BARE_TEXTS:
        status.setdefault("details", {})
    if isinstance(error, ContinueExpired):
        status["metadata"] = {"continue": error.continue_token}
    return status


PACKED_BYTES_MIN: Final = 128 * 1024
PACKED_BYTES_MAX: Final = 2 * 1024 * 1024
_LEVEL: Final = 1
_GZIP: Final = 31
_HEADERS: Final = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))


def packed(reply: HttpReply, accept_encoding: str) -> HttpReply:
    """The reply, packed if it is worth it. accept_encoding: the request's header."""
    if not PACKED_BYTES_MIN < len(reply.body) <= PACKED_BYTES_MAX:
        return reply
    if not any(clause.partition(";")[0].strip().lower() == "gzip" for clause in accept_encoding.split(",")):
        return reply
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return msgspec.structs.replace(
        reply, body=packer.compress(reply.body) + packer.flush(), headers=(*reply.headers, *_HEADERS)
    )


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


def rendered(reply: HttpReply, date: str, *, is_last: bool, with_body: bool = True) -> bytes:
    """A whole answer. date: the Date header with its line end. is_last: the connection ends after it. with_body: False
    for HEAD.
    """
    head = f"{status_line(reply.status, reply.content_type)}{date}"
    if reply.status not in _WITHOUT_BODY:
        head += f"Content-Length: {len(reply.body)}\r\n"
    for name, value in reply.headers:
        head += f"{name}: {value}\r\n"
    for text in _bounded(reply.warnings) if reply.warnings else ():
        head += f'Warning: 299 - "{_quoted(text)}"\r\n'
    if reply.retry_after_s is not None:
        head += f"Retry-After: {reply.retry_after_s}\r\n"
    if is_last:
        head += "Connection: close\r\n"
    return b"%b\r\n%b" % (head.encode("utf-8", "replace"), reply.body if with_body else b"")


def _bounded(warnings: tuple[str, ...]) -> list[str]:
    """Each once; where they are long together, the first letters of the first ones, as far as they go."""
    unique, length = list(dict.fromkeys(warnings))[:WARNINGS_MAX], 0
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
