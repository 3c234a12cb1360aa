"""A fence between work and the world, which closes when the work may not act any more.

Work under a Lease is cancelled when that is lost. But a process may be stopped (SIGSTOP, a machine out of memory, a loop that hangs) until
long after. When it goes on, the answers of before lie ready, and the work takes its next step before anything could cancel it. So each
door to the world asks here in the last moment before it sends what acts: a write to the API server, a call to a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

Fence: TypeAlias = Callable[[], str]
"""The reason that nothing may be sent any more, "" while it may."""

_FENCE: Final[ContextVar[Fence | None]] = ContextVar("mooring.fence", default=None)


@contextmanager
def behind(fence: Fence) -> Iterator[None]:
    """The block, and every task that it starts, acts only while the fence is open."""
    token = _FENCE.set(fence)
    try:
        yield
    finally:
        _FENCE.reset(token)


def closed() -> str:
    """The reason that who asks may not send anything any more; "" while it may, and for who is behind no fence."""
    return of_caller()()


def of_caller() -> Fence:
    """The fence that who asks is behind: for what is handed over now, and sent by somebody else later."""
    return _FENCE.get() or _open


def _open() -> str:
    return ""
