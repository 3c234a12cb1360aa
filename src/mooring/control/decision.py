"""The one shape of a decision, of an action's failure, and of the way from one to the other.

    controller = Controller(runtime, "claims", Deciding(decide, perform, show), workers=4)

`Controller` decides, explains, performs, and turns a failure into a `Retry`; no room writes that loop.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from mooring.base.errors import MooringError
from mooring.control.result import Because, Problem, Result
from mooring.control.topics import Topic

A = TypeVar("A")
K = TypeVar("K", bound=Hashable)

PATIENCE: Final = 3
"""Failures in a row until users hear of one that mostly passes by itself."""

TELL_S: Final = 1800.0
"""How often a room tells again what no status shows. The API server keeps Events for an hour."""


class Changing(abc.ABC):
    """An action that holds what changes after the decision."""

    __slots__ = ()

    @abc.abstractmethod
    def kept(self) -> Changing:
        """Return the action without what changes, or with that as it is now."""


class Destroys:
    """An action that nothing brings back: a volume, a snapshot, a pod that may run. The kit performs none unless its
    room named what to read before it (`Deciding.reads`). A deletion that names the version which was judged, and
    depends on no other object, needs no read: it is refused where that has changed.
    """

    __slots__ = ()

    @property
    def destroys(self) -> bool:
        """False for one that takes away what had ended anyway."""
        return True


class Decision(msgspec.Struct, Generic[A], frozen=True):
    """The next work for one object. A room's own facts stand in its actions."""

    #: The reason, for people alone: it is shown, logged and printed, and steers nothing.
    because: Because
    #: Carried out in order; the first failure ends them.
    actions: tuple[A, ...] = ()
    #: What keeps the work from being done, after the actions; users hear of it.
    problem: Problem | None = None
    #: After the actions there is more to decide at once.
    again: bool = False
    #: Topics, one of which has to be told before the next look.
    waits_for: frozenset[Topic] = frozenset()
    #: Seconds until that look, None for none.
    after_s: float | None = None
    #: One line for the log once the actions are done; "" for the reason's own words.
    done: str = ""
    #: The uid of the object that was decided on; the actions are about no other object of its name.
    uid: str = ""

    @property
    def destroys(self) -> bool:
        return any(isinstance(action, Destroys) and action.destroys for action in self.actions)

    @property
    def asks_nothing(self) -> bool:
        """True where there is nothing to do, to tell or to wait for: a look at the key would come to nothing."""
        return not (self.actions or self.again or self.waits_for) and self.problem is None and self.after_s is None

    def kept(self) -> Decision[Any]:
        """Return the decision as it may be kept: what changes later is not in its actions."""
        if not any(isinstance(action, Changing) for action in self.actions):
            return self
        actions: tuple[Any, ...] = tuple(
            action.kept() if isinstance(action, Changing) else action for action in self.actions
        )
        return msgspec.structs.replace(self, actions=actions)


def rests(decide: Callable[[K], Decision[Any]]) -> Callable[[K], Because | None]:
    """Gives the reason of a decision that asks for nothing, None for another one."""

    def because(key: K) -> Because | None:
        decision = decide(key)
        return decision.because if decision.asks_nothing else None

    return because


class Failed(MooringError):
    """An action failed. str() is the text for users.

    code: the gRPC code of the driver's answer, None for another failure.
    heals: topics that may end the failure; the key is tried again when one of them is told.
    is_shown: users have seen it already, or it is not their business.
    patience: users hear of it from so many failures in a row on.
    is_unanswered: a write to the API server was not answered; it may have been done, or be done later.
    problem: the reason, where the decision itself found the failure; or a room's own record of the text for users.
    """

    def __init__(
        self,
        text: str,
        *,
        code: int | None = None,
        heals: Iterable[Topic] = (),
        is_shown: bool = False,
        patience: int = 1,
        is_unanswered: bool = False,
        problem: Problem | None = None,
    ) -> None:
        super().__init__(text)
        self.code, self.heals, self.is_shown, self.patience = code, frozenset(heals), is_shown, patience
        self.is_unanswered, self.problem = is_unanswered, problem


Read: TypeAlias = Callable[[], Awaitable[object]]
"""A read from the API server whose answer enters a cache."""


class Deciding(msgspec.Struct, Generic[K, A], frozen=True):
    """How a controller comes from a key to its result; it goes there in `Controller`.

    A problem that waits for a topic or a time is shown, and waits; it is looked at again while it lasts. Any other one
    is a failure.
    """

    #: Pure; nothing is awaited between it and the first action.
    decide: Callable[[K], Decision[A]]
    #: Carries out the actions; it raises Failed, Stale, ApiError, and returns another result than the decision's own,
    #: or None. It is called without actions, too.
    perform: Callable[[K, Decision[A]], Awaitable[Result | None]]
    #: Shows a failure, or a problem, to users; None where the log alone has it.
    show: Callable[[K, Decision[A], Failed], Awaitable[None]] | None = None
    #: A verb, for the log: "failed to …".
    work: Callable[[K, Decision[A]], str] | str = ""
    #: Called with the key at the end, whatever happened.
    ended: Callable[[K], None] | None = None
    #: The reads before a decision that destroys something. They put into the caches whatever asks for it and whatever
    #: would forbid it, as far as that may go back: a reclaim policy, a claimRef, a taint. (A deletionTimestamp that was
    #: seen once needs none.) The decision is made again on what was read, and only the same one is carried out. A
    #: decision that destroys something without a read is a bug, and is not carried out.
    reads: Callable[[K, Decision[A]], Sequence[Read]] | None = None
