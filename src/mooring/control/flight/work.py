"""A program's work with its recorder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from mooring.control.flight.ports import RecordedClock, RecordedCluster, RecordedRandom
from mooring.control.flight.recorder import Recorder
from mooring.control.manager import Work
from mooring.control.ordered_work import OrderedWork
from mooring.control.runtime import Runtime


def recorded(runtime: Runtime, recorder: Recorder) -> Runtime:
    """The same ports, with the recorder beside them."""
    return dataclasses.replace(
        runtime,
        cluster=RecordedCluster(runtime.cluster, recorder),
        clock=RecordedClock(runtime.clock, recorder),
        randomness=RecordedRandom(runtime.randomness, recorder),
    )


class RecordedWork(OrderedWork):
    """recorder: also hears of the work's end, and of the driver's return."""

    def __init__(self, make: Callable[[], Work], recorder: Recorder) -> None:
        super().__init__(make, recorder)
        self._recorder = recorder

    async def drain(self, timeout_s: float) -> bool:
        self._recorder.drained()
        return await super().drain(timeout_s)

    def driver_returned(self) -> None:
        self._recorder.returned()
        super().driver_returned()
