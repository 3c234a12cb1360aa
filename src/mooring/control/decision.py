"""The one shape of a decision, and of an action's failure. A `decide` returns the first; whoever carries it out raises the second."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Generic, TypeVar

from mooring.base.errors import MooringError
from mooring.control.result import Because, Problem
from mooring.control.topics import Topic

A = TypeVar("A")


@dataclasses.dataclass(frozen=True, slots=True)
class Decision(Generic[A]):
    """The next work for one object. A room's own facts stand in its actions.

    because: the reason, for people alone: it is shown, logged and printed, and steers nothing.
    actions: carried out in order; the first failure ends them.
    problem: keeps the work from being done, after the actions; users hear of it.
    again: after the actions there is more to decide at once.
    waits_for: topics, one of which has to be told before the next look. after_s: seconds until that look, None for none.
    done: one line for the log once the actions are done; "" for the reason's own words.
    uid: of the object that was decided on; the actions are about no other object of its name.
    """

    because: Because
    actions: tuple[A, ...] = ()
    problem: Problem | None = None
    again: bool = False
    waits_for: frozenset[Topic] = frozenset()
    after_s: float | None = None
    done: str = ""
    uid: str = ""


class Failed(MooringError):
    """An action failed. str() is the text for users.

    code: the gRPC code of the driver's answer, None for another failure.
    heals: topics that may end the failure; the key is tried again when one of them is told.
    is_told: users need not be told: they were, or it is not their business.
    """

    def __init__(self, text: str, *, code: int | None = None, heals: Iterable[Topic] = (), is_told: bool = False) -> None:
        super().__init__(text)
        self.code, self.heals, self.is_told = code, frozenset(heals), is_told
