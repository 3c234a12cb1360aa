"""Bodies that the server packed: gzip, unpacked as it comes, within a bound."""

from __future__ import annotations


class TooLarge(ValueError):
    """A body holds more than its bound."""


class Gunzip:
    """Unpacks one body."""

    __slots__ = ()

    def feed(self, data: bytes, bytes_max: int) -> bytes:
        """What data holds, unpacked. Raises TooLarge for more than bytes_max, Malformed for what is no gzip or goes on behind its end."""
        raise NotImplementedError

    def end(self) -> None:
        """The body has ended. Raises Malformed where the gzip has not."""
        raise NotImplementedError


def decoder_of(content_encoding: str) -> Gunzip | None:
    """A decoder for an answer's `Content-Encoding`, None where none is needed. Raises Malformed for one that is not known."""
    raise NotImplementedError
