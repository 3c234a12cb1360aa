"""The headers and trailers of answers: the fields that gRPC reads."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.wire.grpc.header_decoder import Fields, HeaderDecoder, by_name, is_grpc

_PSEUDO: Final = frozenset({b":status"})


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerHeaders:
    """The fields that gRPC reads of one header block; None where there is none. wrong: why HTTP/2 forbids this block,
    or "".
    """

    http_status: bytes | None = None
    content_type: bytes | None = None
    encoding: bytes = b""
    grpc_status: bytes | None = None
    grpc_message: bytes = b""
    wrong: str = ""

    @property
    def is_grpc(self) -> bool:
        """True when the content-type is gRPC's, with whatever subtype."""
        return is_grpc(self.content_type)


class AnswerHeadersDecoder(HeaderDecoder[AnswerHeaders]):
    """Reads the header blocks of a server. bytes_max: as in HeaderDecoder."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max, _read)


def _read(fields: Fields) -> AnswerHeaders:
    said, wrong = by_name(fields, _PSEUDO)
    return AnswerHeaders(
        http_status=said.get(b":status"),
        content_type=said.get(b"content-type"),
        encoding=said.get(b"grpc-encoding", b""),
        grpc_status=said.get(b"grpc-status"),
        grpc_message=said.get(b"grpc-message", b""),
        wrong=wrong,
    )
