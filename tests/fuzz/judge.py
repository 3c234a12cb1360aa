"""The judge: the server's answer, the dearest turn of its loop, and the peak of the process's memory.

A dear turn counts when the sequence has one each time that it is lived: a machine with much else to do makes one dear
now and then.
"""

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
LIVES: Final = 3
"""Of a sequence with a dear turn."""
MEMORY_FACTOR: Final = 20
MEMORY_BASE_BYTES: Final = 64 * 1024 * 1024
"""What a request may take: so many times its size, and a base. The client of the test is in the same process."""


class Judge:
    """dearest_s, most_bytes: of a turn, and of what one request took, among all so far."""

    def __init__(self, target: Target, meter: StallMeter) -> None:
        self.target, self._meter = target, meter
        self.requests, self.most_bytes, self.dearest_s = 0, 0, 0.0

    def __str__(self) -> str:
        return (
            f"{self.requests} requests, dearest turn {self.dearest_s:.3f} s, most memory of one "
            f"{self.most_bytes / 2**20:.0f} MiB"
        )

    def finding(self, steps: tuple[Step, ...]) -> str:
        """What a sequence shows; "" for nothing."""
        turns = []
        for _ in range(LIVES):
            self.target.begin()
            try:
                for step in steps:
                    self._judge(step)
                return ""
            except _Dear as dear:
                turns.append(str(dear))
            except AssertionError as found:
                return str(found)
            finally:
                self.target.clean(touched_by(steps))
        return "\n".join(turns)

    def _judge(self, step: Step) -> None:
        """Raises AssertionError for a finding, _Dear for one that may be the machine's."""
        self._meter.worst_s, before = 0.0, _peak_bytes()
        answer = self.target.receive(step, self.target.send(step))
        self.requests += 1
        size = len(str((step.body, step.path, step.query, step.headers)))
        grown, shown = _peak_bytes() - before, f"{str(step)[:3000]}\n{str(answer)[:500]}"
        self.dearest_s, self.most_bytes = max(self.dearest_s, self._meter.worst_s), max(self.most_bytes, grown)
        assert answer.status, f"no answer: {shown}"
        assert "Internal error occurred" not in str(answer.value), f"an error of the server's own: {shown}"
        assert grown <= MEMORY_FACTOR * size + MEMORY_BASE_BYTES, (
            f"{grown / 2**20:.0f} MiB for a request of {size} bytes: {shown}"
        )
        if self._meter.worst_s > TURN_S_MAX:
            raise _Dear(f"a turn of {self._meter.worst_s:.2f} s: {shown}")


class _Dear(Exception):
    """A turn was."""


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
