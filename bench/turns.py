"""Rounds in turns, and only while the machine has nothing else to do: what others keep busy is measured with every
round.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from bench.contender import Strangers

TRIES_MAX = 3
CALM_S = 2.0
CALM_S_MAX = 20.0


class Run(Protocol):
    """What a round gives. strangers: how many processors others kept busy in it."""

    strangers: float


class Named(Protocol):
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=Run)
C = TypeVar("C", bound=Named)


class Turns(Generic[C]):
    """quiet: processors that others may keep busy; a round with more is measured again, and the quietest of all tries
    counts. bound_s: a contender that takes longer for one round has no more of that kind, and unfinished says so;
    without it a round takes as long as it does.
    """

    def __init__(self, contenders: list[C], rounds: int, quiet: float, bound_s: float | None = None) -> None:
        self._contenders, self._rounds, self._quiet, self._bound_s = contenders, rounds, quiet, bound_s
        self.unfinished: list[str] = []

    async def take(self, what: str, job: Callable[[C], Awaitable[R]], rounds: int = 0) -> dict[str, list[R]]:
        """The job for each contender in each round; every other round begins with the other one. rounds: 0 for the
        usual number.
        """
        found: dict[str, list[R]] = {contender.name: [] for contender in self._contenders}
        left = list(self._contenders)
        for number in range(rounds or self._rounds):
            for contender in tuple(left) if number % 2 == 0 else tuple(reversed(left)):
                run = await self._once(f"{what}, round {number + 1}", contender, job)
                if run is None:
                    left.remove(contender)
                else:
                    found[contender.name].append(run)
        return found

    async def _once(self, what: str, contender: C, job: Callable[[C], Awaitable[R]]) -> R | None:
        tries: list[R] = []
        while not tries or (len(tries) < TRIES_MAX and tries[-1].strangers > self._quiet):
            await self._calm()
            run = await self._bounded(f"{what}, {contender.name}", job(contender))
            if run is None:
                break
            tries.append(run)
        return min(tries, key=lambda run: run.strangers, default=None)

    async def _bounded(self, what: str, job: Awaitable[R]) -> R | None:
        """None for one that was not done in time."""
        run: R | None = None
        try:
            async with asyncio.timeout(self._bound_s):
                run = await job
        except* TimeoutError:
            if self._bound_s is None:
                raise
            self.unfinished.append(f"{what}: NOT DONE within {self._bound_s:g} s")
        print(self.unfinished[-1] if run is None else f"{what}: {run}", file=sys.stderr, flush=True)
        return run

    async def _calm(self) -> None:
        """Returns when others do little, or have not stopped for long."""
        began, busy = time.monotonic(), self._quiet + 1
        while busy > self._quiet and time.monotonic() - began < CALM_S_MAX:
            strangers = Strangers([])
            await asyncio.sleep(CALM_S)
            busy = strangers.busy()
