"""A fence between work and the world, which closes when the work may not act any more.

Work under a Lease is cancelled when the Lease is lost. But a process may be stopped (SIGSTOP, a machine out of memory,
a loop that hangs) until long after that. When it goes on, answers to earlier requests lie ready, and the work takes its
next step before anything can cancel it. So each client asks the fence in the last moment before it sends a write to the
API server, or a call to a driver.
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


def current() -> Fence | None:
    """The caller's fence, None for none: for a door that sends later, when the context is another's."""
    return _FENCE.get()


def refusal() -> Fence | None:
    """A function that says why the caller's call may not be sent, at any later time; None for a caller behind no
    fence.
    """
    fence = current()
    if fence is None:
        return None
    return lambda: f"the call was not sent: {why}" if (why := fence()) else ""


def refused() -> str:
    """Why the caller's call may not be sent now; "" where it may. For the last moment before a transport sends it."""
    why = refusal()
    return "" if why is None else why()


def closed() -> str:
    """The reason that who asks may not send anything any more; "" while it may, and for who is behind no fence."""
    fence = current()
    return "" if fence is None else fence()
