"""Refusals of the API server, and failures to reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mooring.base.errors import MooringError

LATE_S: Final = 60.0
"""How long a request whose answer was lost may still be carried out: kube-apiserver's --request-timeout, unless
somebody sets another.
"""


class ApiError(MooringError):
    """An answer of the API server that is no success. str() is the Status' message, as Go's client shows it.

    code: HTTP status, 0 when there was no answer. reason: the Status' reason ("NotFound", "Conflict", ...).
    details: the Status' details (name, group, kind, uid, causes), {} when absent. retry_after_s: what the server asked
    for.
    """

    code: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status_code = self.code if code is None else code
        self.details: Mapping[str, Any] = details or {}
        self.retry_after_s = retry_after_s


class BadRequest(ApiError):
    code = 400


class Unauthorized(ApiError):
    code = 401


class Forbidden(ApiError):
    """RBAC or an admission rule refused; a retry helps only after a change of the rule."""

    code = 403


class NotFound(ApiError):
    code = 404


class NotServed(ApiError):
    """The server does not serve the kind, for now. No NotFound, and no proof that an object is gone. Differs from
    client-go.
    """

    code = 404


class MethodNotAllowed(ApiError):
    code = 405


class NotAcceptable(ApiError):
    code = 406


class Conflict(ApiError):
    """The object has changed since it was read: read again."""

    code = 409


class AlreadyExists(ApiError):
    code = 409


class Gone(ApiError):
    """The resource version is older than the server's history: list again."""

    code = 410


class SetBack(Gone):
    """The server's versions lie before one that it gave: it was restored from a backup. Told by the cache, never by a
    server.
    """


class TooLarge(ApiError):
    code = 413


class UnsupportedMediaType(ApiError):
    code = 415


class Invalid(ApiError):
    """The object breaks a rule of its kind, or a JSON patch's test failed."""

    code = 422


class TooManyRequests(ApiError):
    """The server is shedding load; retry_after_s says when to come back."""

    code = 429


class ServerError(ApiError):
    """5xx: the server failed; whether the write took effect is not known."""

    code = 500


class Unreachable(ApiError):
    """No answer: connection refused, reset, cut or timed out. A write may have happened."""

    code = 0


class NoAnswer(Unreachable):
    """Not even the head of an answer came: there was no connection, or it broke first."""


class AnswerTooLarge(Unreachable):
    """An answer came that is larger than this client takes. A read that asks for less gets one."""


_BY_CODE: Mapping[int, type[ApiError]] = {
    c.code: c
    for c in (
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        NotAcceptable,
        Conflict,
        Gone,
        TooLarge,
        UnsupportedMediaType,
        Invalid,
        TooManyRequests,
    )
}


NOT_SERVED: Final = "the server could not find the requested resource"
"""The whole message of a kube-apiserver that has the group of a kind, and not the kind. Refusals that are about an
object name it.
"""

_ETCD_TOO_LARGE: Final = ("etcdserver: request is too large", "trying to send message larger than max")
"""kube-apiserver, when etcd does not take an object: beyond 1.5 MiB, and beyond 2 MiB."""


def from_status(status: Mapping[str, Any], code: int, retry_after_s: float | None = None) -> ApiError:
    """The error of a `Status` object, {} for none. code: of the answer, or an ERROR event. Reason decides before code,
    as in client-go.
    """
    reason = str(status.get("reason") or "")
    message = str(status.get("message") or f"the server answered {code}")
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    if retry_after_s is None and isinstance(details.get("retryAfterSeconds"), int):
        retry_after_s = float(details["retryAfterSeconds"])
    by_code: type[ApiError] = ServerError if code >= 500 else ApiError
    if any(text in message for text in _ETCD_TOO_LARGE):  # as a 500, which would be tried for ever
        by_code = TooLarge
    if code == 404 and message == NOT_SERVED:
        return NotServed(message, reason=reason, details=details, retry_after_s=retry_after_s)
    cls: type[ApiError] = AlreadyExists if reason == "AlreadyExists" else _BY_CODE.get(code, by_code)
    return cls(message, reason=reason, code=code, details=details, retry_after_s=retry_after_s)


def to_status(error: ApiError) -> dict[str, Any]:
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
    }
    if error.reason:
        status["reason"] = error.reason
    details = dict(error.details)
    if error.retry_after_s is not None:
        details["retryAfterSeconds"] = int(error.retry_after_s)
    if details:
        status["details"] = details
    status["code"] = error.status_code
    return status
