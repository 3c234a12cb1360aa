"""The limit of the work for one request. Code whose work may grow without bound counts it as it goes.

Differs from kube-apiserver, which has many threads and bounds bytes, operations and the cost of CEL: here one loop
serves everybody.
"""

from __future__ import annotations

import contextvars
from typing import Final

STEPS_MAX: Final = 3_000_000
_STEPS_IN_LOOP: Final = 60_000
"""A step is about a third of a microsecond of one processor."""


class TooMuch(Exception):
    """The request is more work than one may be."""


class NeedsThread(Exception):
    """The request is more work than the loop has time for; it begins anew in a thread."""


class Effort:
    """The budget that is left for one request, in steps. over: raised when it is used up."""

    __slots__ = ("_over", "left")

    def __init__(self, steps: int = STEPS_MAX, over: type[TooMuch | NeedsThread] = TooMuch) -> None:
        self.left, self._over = steps, over

    def spend(self, steps: int) -> None:
        """Raises TooMuch, or NeedsThread."""
        self.left -= steps
        if self.left < 0:
            raise self._over("the request takes too much work")


def in_the_loop() -> Effort:
    """A request's share of the loop; what is more raises Elsewhere."""
    return Effort(_STEPS_IN_LOOP, NeedsThread)


_current: contextvars.ContextVar[Effort | None] = contextvars.ContextVar("effort", default=None)


def current() -> Effort:
    """That of the request that is being answered; a whole one where none is."""
    return _current.get() or Effort()


class of_request:
    """Work done within it is work of this request; with None, of none."""

    __slots__ = ("_effort", "_token")

    def __init__(self, effort: Effort | None) -> None:
        self._effort = effort

    def __enter__(self) -> None:
        self._token = _current.set(self._effort)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
