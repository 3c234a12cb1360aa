"""What one stream sends: a message, as far as the windows go, and after it maybe trailers."""

from __future__ import annotations


class Outgoing:
    """window: bytes that the peer takes on this stream now, below 0 when it took its word back. unsent: of the message, with gRPC's prefix.

    trailers: frames that end the stream after the message, a server's; b"" for a stream that ends with its message, a client's.
    """

    __slots__ = ("id", "trailers", "unsent", "window")

    def __init__(self, stream_id: int, window: int, unsent: bytes | memoryview, trailers: bytes = b"") -> None:
        self.id, self.window, self.unsent, self.trailers = stream_id, window, unsent, trailers
