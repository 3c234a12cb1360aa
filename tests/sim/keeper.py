"""A controller's lives, one after the other: each starts with an empty memory on the world as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from tests.sim.line import Line
from tests.sim.mortal import Mortal
from tests.sim.world import SimWorld


class Works(Protocol):
    async def run(self) -> None: ...
    async def drain(self, timeout_s: float) -> bool: ...


Made = tuple[Works, Line]


class Keeper:
    """Starts one kind of process, and another one whenever it has ended."""

    def __init__(self, world: SimWorld, who: str, make: Callable[[Any, Mortal], Made]) -> None:
        self._world, self._who, self._make = world, who, make
        self._randomness = world.randomness["life"]
        self._mortal: Mortal | None = None
        self._made: Works | None = None
        self._line: Line | None = None
        self.started_count = 0

    async def run(self) -> None:
        while True:
            self.started_count += 1
            await self._live(Mortal(self._world, self.started_count, self._who))
            away_s = self._randomness.uniform(0.0, self._world.plan.restart_s) if self._world.faulty else 0.0
            await self._world.clock.sleep(away_s)

    def unsettled(self) -> list[str]:
        """What it still has under way, or has not been shown yet."""
        return [] if self._line is None else self._line.unsettled()

    def kill(self) -> None:
        """At any moment, also between two steps."""
        if self._mortal is not None:
            self._mortal.kill("at some moment")

    async def roll(self) -> None:
        """As a rollout does: the old one ends what it has begun, within its time."""
        mortal, made = self._mortal, self._made
        if mortal is None or made is None or not mortal.alive:
            return
        drained = await made.drain(self._randomness.uniform(0.0, 2 * self._world.plan.timeout_s))
        mortal.kill("after its work" if drained else "in the middle of its work")

    async def _live(self, mortal: Mortal) -> None:
        self._world.story.tell(mortal.who, "starts")
        made, line = self._make(self._world, mortal)
        mortal.task = asyncio.get_running_loop().create_task(made.run(), name=mortal.who)
        self._mortal, self._made, self._line = mortal, made, line
        try:
            await asyncio.wait([mortal.task])
        finally:
            mortal.task.cancel()
        error = mortal.task.exception() if mortal.alive and not mortal.task.cancelled() else None
        if error is not None:  # it may return only after it was drained
            self._world.fail("unexpected-error", f"{mortal.who} ended with {_shown(error)}")
        mortal.kill("by its own end")


def _shown(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_shown(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
