"""One replay: the controllers of a record's program, made anew, and led through the record."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mooring.base.metrics import Metrics
from mooring.control.flight import entries
from mooring.control.manager import DRAIN_S_MAX, Work
from mooring.control.ordered_work import OrderedWork
from mooring.control.runtime import Runtime
from mooring.csi.driver import Driver
from mooring.inspect.replay.director import Decided, Departure, Director
from mooring.inspect.replay.free import FreeDirector
from mooring.inspect.replay.loop import ReplayLoop
from mooring.inspect.replay.ports import ReplayClock, ReplayCluster, ReplayDriver, ReplayRandom
from mooring.inspect.replay.record import Record

Make = Callable[[Runtime, Driver], Work]
"""Makes the program's work on these ports."""


class Replayed(msgspec.Struct, frozen=True):
    """decisions: in order. departure: where the replay could not go on as the record has it, "" where it came to its end.

    unanswered: requests and calls that wait at the end. same_count: decisions that the record has, too, about each object in this order.
    """

    decisions: tuple[Decided, ...]
    departure: str = ""
    unanswered: tuple[str, ...] = ()
    same_count: int = 0


Look = Callable[[Decided, Director | FreeDirector], None]


class Stopped(Exception):
    """Whoever looks on has seen enough."""


def replayed(record: Record, make: Make, look: Look = lambda decided, director: None) -> Replayed:
    """Runs the record. look: called with each decision; Stopped ends the replay there."""
    loop = ReplayLoop()
    course = _Course(record, make, look, loop)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(course.run())


class _Course:
    def __init__(self, record: Record, make: Make, look: Look, loop: ReplayLoop) -> None:
        self._record, self._make, self._look = record, make, look
        header = record.header
        self._director = Director(loop, self._decided) if header.whole else FreeDirector(loop, header, self._decided)
        self._decisions: list[Decided] = []
        self._ended = ""

    async def run(self) -> Replayed:
        director, header = self._director, self._record.header
        clock, randomness = ReplayClock(director, header.began_s), ReplayRandom(director)
        director.begin(self._record.entries, header.reads)
        runtime = Runtime(ReplayCluster(director), clock, randomness, Metrics())
        work = OrderedWork(lambda: self._make(runtime, ReplayDriver(director)), director)
        departure = ""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._to_its_end(work), name="replay/work")]
            director.returned = work.driver_returned
            director.drained = lambda: tasks.append(group.create_task(self._drained(work), name="replay/drain"))
            director.cancelled = lambda: _void(tasks[0].cancel())
            try:
                await director.run(self._record.entries)
            except Departure as error:
                departure = f"{error}{self._ended}"
            except Stopped:
                pass
            unanswered = tuple(director.unanswered())
            for task in tasks:
                task.cancel()
        return Replayed(tuple(self._decisions), departure, unanswered, _same_count(self._record, self._decisions))

    async def _to_its_end(self, work: OrderedWork) -> None:
        """The work; an end by an error is what a record may be of."""
        try:
            await work.run()
        except Exception as error:  # the top of the work, as in its program
            self._ended = f"\nThe work has ended: {error!r}"
        else:
            self._ended = "\nThe work has ended."

    async def _drained(self, work: OrderedWork) -> None:
        await work.drain(DRAIN_S_MAX)

    def _decided(self, decided: Decided) -> None:
        self._decisions.append(decided)
        self._look(decided, self._director)


def _same_count(record: Record, decisions: Iterable[Decided]) -> int:
    told, made = defaultdict[tuple[str, str], list[str]](list), defaultdict[tuple[str, str], list[str]](list)
    for entry in record.entries:
        if entry.kind == entries.DECIDED:
            told[entry.what, entry.key].append(entry.shown)
    for one in decisions:
        made[one.controller, one.key].append(one.shown)
    return sum(common_length(told[about], texts) for about, texts in made.items())


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Of the longest sequence that both have, with others between. (A bit for each place of the other: Hyyrö, 2004.)"""
    places: dict[str, int] = defaultdict(int)
    for place, text in enumerate(other):
        places[text] |= 1 << place
    whole = (1 << len(other)) - 1
    free = whole
    for text in one:
        met = free & places.get(text, 0)
        free = ((free + met) | (free - met)) & whole
    return len(other) - free.bit_count()


def _void(_: object) -> None:
    """Drops a value."""
