"""The headers of a request: the fields that gRPC reads."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from mooring.wire.grpc.header_decoder import Fields, by_name, is_grpc

_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


@dataclasses.dataclass(frozen=True, slots=True)
class CallHeaders:
    """The fields of one header block; None where there is none. wrong: why HTTP/2 forbids this block, or ""."""

    method: bytes | None = None
    path: bytes | None = None
    content_type: bytes | None = None
    encoding: bytes = b""
    timeout: bytes | None = None
    length: bytes | None = None
    wrong: str = ""

    @property
    def is_grpc(self) -> bool:
        """True when the content-type is gRPC's, with whatever subtype."""
        return is_grpc(self.content_type)


def read_call_headers(fields: Fields) -> CallHeaders:
    """Reads a whole block: a request's headers, or the trailers that HTTP/2 allows after its message."""
    said, wrong = by_name(fields, _PSEUDO)
    if said.get(b"te", b"trailers") != b"trailers":
        wrong = "the field te must not be there, or not so"
    return CallHeaders(
        method=said.get(b":method"),
        path=said.get(b":path") if b":scheme" in said else None,
        content_type=said.get(b"content-type"),
        encoding=said.get(b"grpc-encoding", b""),
        timeout=said.get(b"grpc-timeout"),
        length=said.get(b"content-length"),
        wrong=wrong,
    )


def timeout_s(field: bytes) -> float | None:
    """The seconds of a grpc-timeout, None for what is none."""
    found = _TIMEOUT.fullmatch(field)
    return int(found[1]) * _UNITS_S[found[2]] if found else None
