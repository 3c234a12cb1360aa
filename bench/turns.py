"""Rounds in turns, and only while the machine has nothing else to do: what others keep busy is measured with every round."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from bench.contender import Contender, Strangers

TRIES_MAX = 3
CALM_S = 2.0
CALM_S_MAX = 20.0


class Run(Protocol):
    """What a round gives. strangers: how many processors others kept busy in it."""

    strangers: float


R = TypeVar("R", bound=Run)


class Turns:
    """quiet: processors that others may keep busy; a round with more is measured again, and the quietest of all tries counts."""

    def __init__(self, contenders: list[Contender], rounds: int, quiet: float) -> None:
        self._contenders, self._rounds, self._quiet = contenders, rounds, quiet

    async def take(self, what: str, job: Callable[[Contender], Awaitable[R]], rounds: int = 0) -> dict[str, list[R]]:
        """The job for each contender in each round; every other round begins with the other one. rounds: 0 for the usual number."""
        found: dict[str, list[R]] = {contender.name: [] for contender in self._contenders}
        for number in range(rounds or self._rounds):
            for contender in self._contenders if number % 2 == 0 else reversed(self._contenders):
                found[contender.name].append(await self._once(f"{what}, round {number + 1}", contender, job))
        return found

    async def _once(self, what: str, contender: Contender, job: Callable[[Contender], Awaitable[R]]) -> R:
        tries: list[R] = []
        while not tries or (len(tries) < TRIES_MAX and tries[-1].strangers > self._quiet):
            await self._calm()
            tries.append(await job(contender))
            print(f"{what}, {contender.name}: {tries[-1]}", file=sys.stderr, flush=True)
        return min(tries, key=lambda run: run.strangers)

    async def _calm(self) -> None:
        """Returns when others do little, or have not stopped for long."""
        began, busy = time.monotonic(), self._quiet + 1
        while busy > self._quiet and time.monotonic() - began < CALM_S_MAX:
            strangers = Strangers([])
            await asyncio.sleep(CALM_S)
            busy = strangers.busy()
