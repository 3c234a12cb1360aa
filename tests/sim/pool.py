"""Work in several processes side by side, with a line now and then that says how far it is."""

from __future__ import annotations

import concurrent.futures
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

SHOWN_EVERY_S: Final = 5.0


class Late(Exception):
    """The work was not done in its time."""


def side_by_side(
    processes: int, jobs: Iterable[T], work: Callable[[T], R], *, seconds_max: float | None = None
) -> Iterator[tuple[T, R]]:
    """Gives each job with its result, in the order in which they are done. Raises Late.

    jobs: a few are drawn ahead, no more. work: a function of a module, as the processes are new ones. Nothing more is
    begun when the caller stops reading.
    """
    ends = None if seconds_max is None else time.monotonic() + seconds_max
    pool = concurrent.futures.ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
    left = iter(jobs)
    try:
        running = {pool.submit(work, job): job for job in itertools.islice(left, 2 * processes)}
        while running:
            wait_s = None if ends is None else max(0.0, ends - time.monotonic())
            over, _ = concurrent.futures.wait(running, wait_s, return_when=concurrent.futures.FIRST_COMPLETED)
            if not over:
                for process in multiprocessing.active_children():
                    process.kill()
                raise Late
            for future in over:
                yield running.pop(future), future.result()
            running |= {pool.submit(work, job): job for job in itertools.islice(left, len(over))}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Progress:
    """count: of all, None where nobody knows. noun: what is counted."""

    def __init__(self, noun: str, count: int | None = None) -> None:
        self._noun, self._count = noun, count
        self._began = self._shown_at = time.monotonic()
        self.done = self.failed = 0

    def add(self, done: int, failed: int) -> None:
        """Says so on standard error, now and then."""
        self.done += done
        self.failed += failed
        if time.monotonic() - self._shown_at > SHOWN_EVERY_S:
            self._shown_at = time.monotonic()
            print(self, file=sys.stderr, flush=True)

    def __str__(self) -> str:
        rate = self.done / max(time.monotonic() - self._began, 1e-9)
        of, left = "", ""
        if self._count is not None:
            of = f"/{self._count}"
            left = f", {(self._count - self.done) / max(rate, 1e-9):.0f} s to go" if self.done < self._count else ""
        return f"{self.done}{of} {self._noun}, {rate:.1f} a second, {self.failed} failed{left}"
