"""Header blocks and trailers of answers. Nothing is indexed, so the same bytes serve every client."""

from __future__ import annotations

import re
from typing import Final

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.literals import STATUS_200, literal, named

_CONTENT_TYPE, _STATUS = 31, 8  # in HPACK's static table
_ESCAPED: Final = re.compile(rb"[^\x20-\x24\x26-\x7e]")
_GRPC: Final = named(_CONTENT_TYPE, b"application/grpc")
_READS: Final = literal(b"grpc-accept-encoding", b"identity")  # to whom this is news: who has sent something compressed

HEADERS: Final = STATUS_200 + _GRPC
"""Before the message of an answer that is one."""

TRAILERS_OK: Final = literal(b"grpc-status", b"0")


def error_headers(code: int, text: str, http_status: int = 200) -> bytes:
    """The whole of an answer without a message: headers and trailers in one, with an error's code and text."""
    status = STATUS_200 if http_status == 200 else named(_STATUS, str(http_status).encode())
    block = status + _GRPC + literal(b"grpc-status", str(code).encode()) + literal(b"grpc-message", percent_encoded(text))
    return block + _READS if code == Code.UNIMPLEMENTED else block


def percent_encoded(text: str) -> bytes:
    """A text as grpc-message has it: UTF-8, with the printable ASCII as it is, but for the sign itself."""
    return _ESCAPED.sub(lambda byte: b"%%%02X" % byte[0][0], text.encode(errors="replace"))
