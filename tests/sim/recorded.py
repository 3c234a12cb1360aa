"""Lives with a flight recorder beside each controller, and the replay of what it recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from mooring.control.flight.ports import RecordedDriver
from mooring.control.flight.recorder import Recorder
from mooring.control.flight.work import OrderedWork, recorded
from mooring.control.flight.writing import frozen
from mooring.control.manager import Work
from mooring.control.runtime import Runtime
from mooring.csi.driver import Driver
from mooring.inspect.replay.course import Replayed, replayed
from mooring.inspect.replay.record import Record, parsed
from tests.sim.mortal import Mortal

RING_BYTES = 2**28
"""Nothing of a life is left out."""

Make = Callable[[Runtime, Driver], Work]


@dataclasses.dataclass
class Recording:
    """One incarnation's. make: makes its work again. file: once it is dead."""

    who: str
    recorder: Recorder
    make: Make
    file: bytes = b""

    def end(self) -> None:
        """It is dead, or the life is over: what comes from now on is the end of the world."""
        if not self.file:
            self.recorder.stop()
            self.file = frozen(self.recorder, self.who, "the end of a life", options={}, driver={})()

    @property
    def record(self) -> Record:
        return parsed(self.file)

    def again(self) -> Replayed:
        return replayed(self.record, self.make)


class Recordings:
    """All of one life."""

    def __init__(self) -> None:
        self.found: list[Recording] = []

    def beside(self, mortal: Mortal, runtime: Runtime, driver: Driver, make: Make) -> OrderedWork:
        """The work, with its recorder."""
        recorder = Recorder(mortal.clock, RING_BYTES)
        recording = Recording(mortal.who, recorder, make)
        self.found.append(recording)
        before = mortal.killed

        def killed() -> None:
            before()
            recording.end()

        mortal.killed = killed
        return OrderedWork(make(recorded(runtime, recorder), RecordedDriver(driver, recorder)), recorder)

    def ended(self) -> Iterator[Recording]:
        """All of them, once the life is over."""
        return (one for one in self.found if one.file)


def decisions_of(record: Record) -> list[tuple[Any, ...]]:
    return [(one.what, one.key, one.shown) for one in record.entries if one.kind == "decided"]
