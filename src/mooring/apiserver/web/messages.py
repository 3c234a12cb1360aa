"""HTTP without HTTP: what the service is asked and what it answers. `connection.py` carries both over sockets."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.listing import ContinueExpired, Scope, WatchOptions
from mooring.apiserver.resource import Resource
from mooring.apiserver.users import OWNER, User
from mooring.apiserver.web.rendering import WHOLE, Rendering
from mooring.kube.errors import NOT_SERVED, ApiError, to_status

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

_BARE_TEXTS: Final = ("406: Not Acceptable", "415: Unsupported Media Type", NOT_SERVED)
"""Refusals that are made before the kind is known have details, with nothing in them."""


@dataclasses.dataclass(slots=True)
class Request:
    """path: decoded and split at its slashes. query: the first value of each parameter. headers: names in lower case.

    body: empty until it has been read. user: who asks. is_known: by a certificate, so that no token need be shown.
    """

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    user: User = OWNER
    is_known: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """headers: further ones, as on the wire."""

    status: int
    body: bytes
    content_type: str = JSON
    warnings: tuple[str, ...] = ()
    retry_after_s: int | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class WatchReply:
    """A watch that may begin: its options have been checked."""

    resource: Resource
    scope: Scope
    options: WatchOptions
    rendering: Rendering = WHOLE


def json_reply(value: Any, status: int = 200) -> Reply:
    return Reply(status, msgspec.json.encode(value))


def error_reply(error: ApiError) -> Reply:
    wait_s = None if error.retry_after_s is None else int(error.retry_after_s)
    return Reply(error.status_code, msgspec.json.encode(status_of(error)), retry_after_s=wait_s)


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


def packed(reply: Reply, accept_encoding: str) -> Reply:
    """The reply, packed if it is worth it. accept_encoding: the request's header."""
    takes_gzip = any(clause.partition(";")[0].strip().lower() == "gzip" for clause in accept_encoding.split(","))
    if not PACKED_BYTES_MIN < len(reply.body) <= PACKED_BYTES_MAX or not takes_gzip:
        return reply
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return dataclasses.replace(reply, body=packer.compress(reply.body) + packer.flush(), headers=(*reply.headers, *_HEADERS))
