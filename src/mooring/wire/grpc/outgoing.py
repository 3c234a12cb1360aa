"""The sending side of one stream: a message, as far as the windows go, and after it maybe trailers."""

from __future__ import annotations


class Outgoing:
    """unsent: of the message, with gRPC's prefix. credit: bytes that the peer takes beyond its settings' window, below
    0 for what was sent.

    trailers: frames that end the stream after the message, a server's; b"" for a stream that ends with its message, a
    client's.
    """

    __slots__ = ("credit", "id", "trailers", "unsent")

    def __init__(self, stream_id: int, unsent: bytes | memoryview, trailers: bytes = b"") -> None:
        self.id, self.credit, self.unsent, self.trailers = stream_id, 0, unsent, trailers
