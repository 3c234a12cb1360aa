"""The error of a call, and Go's texts for those errors that a client makes itself: people and programs search for
them.
"""

from __future__ import annotations

from typing import Final

from mooring.base.errors import MooringError
from mooring.wire.grpc.codes import go_name

DEADLINE_TEXT: Final = "context deadline exceeded"
"""For a deadline of the caller's own."""

LOST_TEXT: Final = "error reading from server: EOF"
"""For a call whose connection broke."""


class RpcError(MooringError):
    """A call that did not succeed. str() is Go's form: `rpc error: code = NotFound desc = no such volume`.

    code: the gRPC code (an int, so that numbers of newer peers pass). message: the server's text.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"rpc error: code = {go_name(code)} desc = {message}")
        self.code = code
        self.message = message


class ConnectionCut(MooringError):
    """Raised by a served method: its caller gets no answer, and its connection is broken off, as when a server dies."""

    def __init__(self) -> None:
        super().__init__("the connection is cut")


def dial_text(path: str, why: str) -> str:
    """For a connection that did not come about. why: the system's words, `connection refused`."""
    return f'connection error: desc = "transport: Error while dialing: dial unix {path}: connect: {why.lower()}"'


def preface_text(why: str) -> str:
    """For a peer that accepts a connection and does not speak HTTP/2 on it."""
    return f'connection error: desc = "error reading server preface: {why}"'
