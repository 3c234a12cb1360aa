"""Long answers, packed for those who can unpack them."""

from __future__ import annotations

import gzip

from mooring.apiserver.web.messages import PACKED_BYTES_MAX, PACKED_BYTES_MIN, HttpReply, packed
from tests.support.rows import each_row


@each_row("accept", ["gzip", "br, GZIP;q=0.5", "deflate,gzip"])
def test_a_long_answer_is_packed(accept: str) -> None:
    body = b"a long answer " * PACKED_BYTES_MIN
    reply = packed(HttpReply(200, body[: PACKED_BYTES_MIN + 1]), accept)
    assert ("Content-Encoding", "gzip") in reply.headers
    assert body[: PACKED_BYTES_MIN + 1] == gzip.decompress(reply.body)


@each_row(
    ("size", "accept"),
    [
        (PACKED_BYTES_MIN, "gzip"),
        (PACKED_BYTES_MAX + 1, "gzip"),
        (PACKED_BYTES_MAX, ""),
        (PACKED_BYTES_MAX, "identity, br"),
    ],
)
def test_other_answers_are_sent_as_they_are(size: int, accept: str) -> None:
    reply = HttpReply(200, b"x" * size)
    assert reply is packed(reply, accept)
