"""What can go wrong at a point, and the trials that a recorded run gives."""

from __future__ import annotations

import bisect
import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final


class Way(enum.StrEnum):
    """How a run is disturbed at its point."""

    KILL_BEFORE = "kill-before"
    KILL_AFTER = "kill-after"
    KILL_IN = "kill-in"
    STALE = "stale"
    UNSEEN = "unseen"
    LOST = "lost"
    LATE = "late"
    DOUBT = "doubt"
    NEXT = "next"
    NEXT_LOST = "next-lost"
    NEXT_LATE = "next-late"
    STOP = "stop"
    STOP_AFTER = "stop-after"


class Kind(enum.StrEnum):
    WRITE = "write"
    CALL = "call"
    STEP = "step"


AT_TOUCHES: Final = (Way.KILL_BEFORE, Way.KILL_AFTER, Way.KILL_IN, Way.LOST, Way.LATE)
"""At every write and at every call."""


EARLY: Final = (Way.NEXT, Way.NEXT_LOST, Way.NEXT_LATE)
"""At those of the act before the last one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """One write of a program, one call of its driver, or one step on its disk. number: from 1, in the order of the run.
    version: of the store when it began.
    """

    number: int
    who: str
    what: str
    kind: Kind
    version: int
    at_s: float

    def __str__(self) -> str:
        return f"{self.number:4}  {self.at_s:9.3f}  {self.who:<22} {self.what}"


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """One event of a watch. number: from 1, apart from the touches."""

    number: int
    who: str
    what: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.number:4}  {self.at_s:9.3f}  {self.who:<22} is shown {self.what}"


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """One run of a script with one thing that goes wrong. version: of the view that a process is started again on, 0
    for the newest.
    """

    script: str
    way: Way
    number: int
    version: int = 0

    def __str__(self) -> str:
        return f"{self.script}:{self.way}:{self.number}{f'@{self.version}' if self.version else ''}"


def trial_of(text: str) -> Trial:
    """As a trial is printed: `attach:lost:3`, `attach:stale:3@17`. Raises ValueError."""
    script, way, point = text.split(":")
    number, _, version = point.partition("@")
    trial = Trial(script, Way(way), int(number), int(version or 0))
    if bool(trial.version) != (trial.way is Way.STALE):
        raise ValueError(f"{text}: only a stale view has a version")
    return trial


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Of a run. acts: how many touches and events there were before each act began. changes: versions and kinds.
    followed: by program, the kinds that it has watched.
    """

    touches: Sequence[Touch]
    shown: Sequence[Shown]
    acts: Sequence[tuple[int, int]]
    changes: Sequence[tuple[int, str]]
    followed: Mapping[str, AbstractSet[str]]

    def views(self, touch: Touch) -> list[int]:
        """The versions of earlier points at which the program of the touch would be shown something else each time."""
        kinds = self.followed.get(touch.who.partition("#")[0], frozenset[str]())
        of_program = [version for version, plural in self.changes if plural in kinds]
        points = sorted({before.version for before in self.touches[: touch.number]})
        return list({bisect.bisect_right(of_program, version): version for version in points}.values())


def trials_of(script: str, record: Record, *, stops: bool) -> Iterator[Trial]:
    """All trials of a script, from the record of its undisturbed run. stops: processes can stand still.

    What belongs to an earlier act than the last one is a point of a shorter script; but there the last act may come too
    early. A view may be of any act.
    """
    first_touch, first_event = record.acts[-1]
    for touch in record.touches[first_touch:]:
        for way in _ways_of(touch, stops=stops):
            yield Trial(script, way, touch.number)
        if touch.kind is not Kind.STEP:
            for version in record.views(touch):
                yield Trial(script, Way.STALE, touch.number, version)
    for event in record.shown[first_event:]:
        yield Trial(script, Way.UNSEEN, event.number)
    for touch in record.touches[record.acts[-2][0] : first_touch] if len(record.acts) > 1 else ():
        if touch.kind is not Kind.STEP:
            yield from (Trial(script, way, touch.number) for way in EARLY)


def _ways_of(touch: Touch, *, stops: bool) -> Iterator[Way]:
    if touch.kind is Kind.STEP:
        yield Way.KILL_BEFORE
        return
    yield from AT_TOUCHES
    if touch.kind is Kind.CALL:
        yield Way.DOUBT
    if stops:
        yield from (Way.STOP, Way.STOP_AFTER)
