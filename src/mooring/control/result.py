"""The three ends of a reconcile: a `Result`, a `Retry`, or `Stale`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from mooring.base.errors import MooringError
from mooring.control.reasons import reason
from mooring.control.topics import Topic


class Because(Protocol):
    """A reason, as a frozen record with its facts. str() is a sentence for people."""

    def __str__(self) -> str: ...


class Problem(Because, Protocol):
    """A reason that keeps work from being done until something changes. error: the text for users."""

    @property
    def error(self) -> str: ...


@reason("{text}; next try in {in_s:.0f} s")
class TriesAgain:
    """text: the failure's."""

    text: str
    in_s: float


@reason("failed: {error}")
class Failing:
    """The reason of a work that has failed, and decides nothing: it has no other one."""

    error: str


class Result(msgspec.Struct, frozen=True):
    """The end of a reconcile that did not fail."""

    #: The reason, for people alone: it is shown, logged and printed by `mooring why`; no code depends on its class.
    because: Because
    #: One line, logged at level 2 with the reason where something was written, or a driver called; "" for none.
    done: str = ""
    #: Reconcile once more at once, as long as STEPS_MAX allows.
    again: bool = False
    #: The key waits until one of these topics is told. The topics of an earlier result are void.
    waits_for: frozenset[Topic] = frozenset()
    #: Seconds until the key is reconciled again, whatever happens meanwhile; None leaves that to events.
    after_s: float | None = None
    #: The failures before this result still count: the key only waits.
    keeps_backoff: bool = False


class Retry(MooringError):
    """The reconcile failed: the key comes again after its back-off, or at once when one of `heals` is told.

    str() is logged at error level, with the seconds until the next try. because: the reason, where the decision itself
    found the failure.
    """

    def __init__(self, text: str, *, heals: Iterable[Topic] = (), because: Because | None = None) -> None:
        super().__init__(text)
        self.heals = frozenset(heals)
        self.because = because


class Stale(MooringError):
    """The cache was behind, or the object changed during the work: the key is reconciled anew, without a word to users
    unless it stays so.

    str() says what has changed; the log shows it from the second back-off on.
    """


class Vanished(Stale):
    """The object is no more, or another one has its name."""
