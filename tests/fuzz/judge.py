"""The judge: the server's answer, the dearest turn of its loop, and the peak of the process's memory."""

from __future__ import annotations

import contextlib
import gc
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.differential.compare import touched_by
from tests.differential.servers import Target, embedded_alone
from tests.differential.steps import Step
from tests.support.stalls import StallMeter

TURN_S_MAX: Final = 0.12
"""The rule is 0.1 s; the meter is up to a beat of 0.02 s too large."""
MEMORY_FACTOR: Final = 20
MEMORY_BASE_BYTES: Final = 64 * 1024 * 1024
"""What a request may take: so many times its size, and a base. The client of the test is in the same process."""


class Judge:
    def __init__(self, target: Target, meter: StallMeter) -> None:
        self.target, self._meter = target, meter
        self.requests = 0

    def finding(self, steps: tuple[Step, ...]) -> str:
        """What a sequence shows; "" for nothing."""
        self.target.begin()
        try:
            return next(filter(None, map(self._judged, steps)), "")
        finally:
            self.target.clean(touched_by(steps))

    def _judged(self, step: Step) -> str:
        self._meter.worst_s, before = 0.0, _peak_bytes()
        answer = self.target.receive(step, self.target.send(step))
        self.requests += 1
        size = len(str((step.body, step.path, step.query, step.headers)))
        grown = _peak_bytes() - before
        if answer.status == 0 or "Internal error occurred" in str(answer.value):
            why = "no answer, or an error of the server's own"
        elif self._meter.worst_s > TURN_S_MAX:
            why = f"a turn of {self._meter.worst_s:.2f} s"
        elif grown > MEMORY_FACTOR * size + MEMORY_BASE_BYTES:
            why = f"{grown / 2**20:.0f} MiB for a request of {size} bytes"
        else:
            return ""
        return f"{why}: {str(step)[:3000]}\n{str(answer)[:500]}"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def judging(folder: Path) -> Iterator[Judge]:
    """A server of its own, in a thread of this process, with a meter in its loop."""
    meter = StallMeter()
    with embedded_alone(folder, meter) as target:
        gc.collect()
        gc.freeze()  # what the test has loaded is no work of the server's
        try:
            yield Judge(target, meter)
        finally:
            gc.unfreeze()
