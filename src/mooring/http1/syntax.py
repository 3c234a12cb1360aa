"""What requests and answers have in common: the errors, the bounds, and the lines of headers."""

from __future__ import annotations

from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
"""First line and headers. Differs from kube-apiserver (1 MiB)."""


class Malformed(ValueError):
    """Bytes that are no HTTP, or that could be read in two ways. status: what a server answers to such a request."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class BrokenOff(ValueError):
    """The connection ended before the answer did. has_begun: at least one byte of the answer had come. has_head: its head, too."""

    def __init__(self, *, has_begun: bool, has_head: bool) -> None:
        super().__init__("the connection ended in the middle of the answer" if has_begun else "the connection ended before an answer")
        self.has_begun, self.has_head = has_begun, has_head


class Unsendable(ValueError):
    """A request that would be no HTTP, or another one than was meant. Shows no values: they may be secret."""
