"""The end of a stream as a gRPC status, by the tables of grpc-go: the other sidecars' client."""

from __future__ import annotations

import http
from typing import Final
from urllib.parse import unquote_to_bytes

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.frames import ErrorCode, error_name

_BY_ERROR_CODE: Final = {
    ErrorCode.NO_ERROR: Code.INTERNAL,
    ErrorCode.PROTOCOL_ERROR: Code.INTERNAL,
    ErrorCode.INTERNAL_ERROR: Code.INTERNAL,
    ErrorCode.FLOW_CONTROL_ERROR: Code.RESOURCE_EXHAUSTED,
    ErrorCode.SETTINGS_TIMEOUT: Code.INTERNAL,
    ErrorCode.STREAM_CLOSED: Code.INTERNAL,
    ErrorCode.FRAME_SIZE_ERROR: Code.INTERNAL,
    ErrorCode.REFUSED_STREAM: Code.UNAVAILABLE,
    ErrorCode.CANCEL: Code.CANCELED,
    ErrorCode.COMPRESSION_ERROR: Code.INTERNAL,
    ErrorCode.CONNECT_ERROR: Code.INTERNAL,
    ErrorCode.ENHANCE_YOUR_CALM: Code.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: Code.PERMISSION_DENIED,
    ErrorCode.HTTP_1_1_REQUIRED: Code.INTERNAL,
}

_BY_HTTP_STATUS: Final = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    429: Code.UNAVAILABLE,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
}


def code_of_reset(error_code: int) -> Code:
    """The gRPC code of a stream that the server ended by RST_STREAM. error_code: also one of no list."""
    return _BY_ERROR_CODE.get(error_code, Code.UNKNOWN)  # type: ignore[call-overload, no-any-return]


def text_of_reset(error_code: int) -> str:
    """In grpc-go's words, which people search for."""
    return f"stream terminated by RST_STREAM with error code: {error_name(error_code)}"


def code_of_http(status: int) -> Code:
    """The gRPC code of an answer that is none of gRPC's. status: HTTP's."""
    return _BY_HTTP_STATUS.get(status, Code.UNKNOWN)


def text_of_http(status: int, content_type: bytes | None) -> str:
    """Says what came in place of gRPC's answer, in grpc-go's words."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    what = "missing" if content_type is None else f"not gRPC's: {decoded(content_type[:200])!r}"
    return f"unexpected HTTP status code received from server: {status} ({phrase}); its content-type is {what}"


def decoded(message: bytes) -> str:
    """The text of a grpc-message, percent-encoded UTF-8; a text in no UTF-8 is read as Latin-1, and a % without digits
    is one.
    """
    if b"%" in message:
        message = unquote_to_bytes(message)
    try:
        return message.decode()
    except UnicodeDecodeError:
        return message.decode("latin-1")
