"""gRPC status codes under Go's names, and their meaning to a container orchestrator."""

from __future__ import annotations

import enum
from typing import Final

from mooring.base.errors import MooringError


class Code(enum.IntEnum):
    """gRPC codes. `name` is Go's spelling through `go_name`, which metrics and messages use."""

    OK = 0
    CANCELED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_GO_NAMES: Final = {code: "OK" if code is Code.OK else code.name.title().replace("_", "") for code in Code}


def go_name(code: int) -> str:
    """`NotFound`; `Code(77)` for a number outside the list."""
    try:
        return _GO_NAMES[Code(code)]
    except ValueError:
        return f"Code({code})"


NON_FINAL: Final = frozenset({Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED})
"""After these the operation may still be going on in the backend; external-attacher 4.12 holds these same codes for not final."""


class DriverError(MooringError):
    """A CSI call that did not succeed. str() is Go's form: `rpc error: code = NotFound desc = no such volume`.

    code: the gRPC code (an int, so that numbers of newer drivers pass). message: the driver's text. answered: the driver said OK, with an
    answer that can't be read: the request may have been carried out. unsent: there was nobody to send the request to.
    """

    def __init__(self, code: int, message: str, *, answered: bool = False, unsent: bool = False) -> None:
        super().__init__(f"rpc error: code = {go_name(code)} desc = {message}")
        self.code = code
        self.message = message
        self.answered = answered
        self.unsent = unsent

    @property
    def final(self) -> bool:
        """True when the operation is for sure not in progress."""
        return self.code not in NON_FINAL
