"""Keeps gRPC's core from writing to stderr, where every line has to be in the form of our log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_VARIABLE: Final = "GRPC_VERBOSITY"


@contextmanager
def quiet_core() -> Iterator[None]:
    """Around the import of grpc, which is when the core reads its verbosity. What the user has set counts.

    The variable does not stay: programs that are started later have a choice of their own.
    """
    if _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = "NONE"
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
