"""The meaning of an HTTP response: an object, a refusal of the API server, or the text of a proxy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol

from mooring.base.log import logger
from mooring.kube.client.codec import status_of
from mooring.kube.client.rate_limit import retry_after_s
from mooring.kube.errors import NOT_SERVED, ApiError, NotServed, from_status

_log = logger(__name__)

SNIPPET_LENGTH_MAX: Final = 200
_WARNINGS_KEPT_MAX: Final = 1000
_NOWHERE: Final = b"404 page not found"
"""The page of Go's net/http: a kube-apiserver's for a group that it does not have, and that of proxies written in
Go.
"""
_WARNING: Final = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


class Headers(Protocol):
    """HTTP headers, names in any case."""

    def get(self, name: str, default: str, /) -> str: ...

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]: ...

    def __contains__(self, name: object, /) -> bool: ...


class Response(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: Headers
    body: bytes


def is_json(headers: Headers) -> bool:
    """True when the content type says JSON, whatever its parameters."""
    return headers.get("Content-Type", "").startswith("application/json")


def error_of(response: Response, asked: str, *, about: str = "", may_show: bool = True) -> ApiError:
    """The error of a response that is no success, or not the API server's.

    asked: verb and path, for the message. about: the same in client-go's words, `get pods web-0`. may_show: False where
    the body could hold a secret.
    A 404 without a Status object is no NotFound: it comes from a proxy or a missing API group, and does not prove that
    an object is gone. Differs from client-go, which takes it for one.
    """
    wait_s = retry_after_s(response.headers.get("Retry-After", ""))
    status = status_of(response.body) if response.status >= 300 else None
    if status is not None:
        return from_status(status, response.status, wait_s)
    if response.status == 404 and response.body.strip() == _NOWHERE:
        return NotServed(f"{NOT_SERVED} ({about or asked})", reason="NotFound", retry_after_s=wait_s)
    message = f"the server answered {_status_text(response.status)} to {asked}, {_described(response, may_show)}"
    if 300 <= response.status < 400:
        message += "; redirects are not followed: is the server's address right?"
    if response.status == 404:
        return ApiError(message, code=404, retry_after_s=wait_s)
    return from_status({"message": message}, response.status if response.status >= 300 else 502, wait_s)


def _described(response: Response, may_show: bool) -> str:
    content_type = response.headers.get("Content-Type", "")[:60]
    if not response.body:
        return "with an empty body"
    kind = "not a Status object" if is_json(response.headers) else f"content type {content_type!r}"
    if not may_show:
        return f"{kind}, {len(response.body)} bytes"
    text = " ".join(response.body[: 4 * SNIPPET_LENGTH_MAX].decode(errors="replace").split())
    return f"{kind}: {text[:SNIPPET_LENGTH_MAX]}{'…' if len(text) > SNIPPET_LENGTH_MAX else ''}"


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


class WarningLog:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def note(self, headers: Headers) -> None:
        for header in headers.getall("Warning", ()):
            for text in _WARNING.findall(header):
                self._say(re.sub(r"\\(.)", r"\1", text)[:1000])

    def _say(self, text: str) -> None:
        if text in self._seen or len(self._seen) >= _WARNINGS_KEPT_MAX:
            return
        self._seen.add(text)
        _log.info(1, "The API server warns", warning=text)
