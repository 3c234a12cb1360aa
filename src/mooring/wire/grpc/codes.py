"""gRPC status codes under Go's names."""

from __future__ import annotations

import enum
from typing import Final


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


CODES: Final = {name: code for code, name in _GO_NAMES.items()}
"""By Go's spelling, `NotFound`."""


def go_name(code: int) -> str:
    """`NotFound`; `Code(77)` for a number outside the list."""
    try:
        return _GO_NAMES[Code(code)]
    except ValueError:
        return f"Code({code})"
