"""A controller's lives, one after the other: each starts with an empty memory on the world as it is."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mooring.control.lease.elector import WorkOutlivesLease
from tests.sim.mortal import Mortal
from tests.sim.standing import PROCESS
from tests.sim.world import SimWorld


class Works(Protocol):
    async def run(self) -> None: ...
    async def drain(self, timeout_s: float) -> bool: ...


class Knows(Protocol):
    def unsettled(self) -> list[str]:
        """What is still on its way to or from it."""
        ...


Made = tuple[Works, Knows]


class Keeper:
    """Starts one kind of process, and another one whenever it has ended.

    numbers: of its incarnations, shared by the keepers of several replicas.
    """

    def __init__(
        self, world: SimWorld, who: str, make: Callable[[Any, Mortal], Made], numbers: Iterator[int] | None = None
    ) -> None:
        self._world, self._who, self._make = world, who, make
        self._randomness = world.randomness["life"]
        self._mortal: Mortal | None = None
        self._made: Works | None = None
        self._knows: Knows | None = None
        self._numbers = itertools.count(1) if numbers is None else numbers
        self.started_count = 0

    async def run(self) -> None:
        while True:
            self.started_count += 1
            await self._live(Mortal(self._world, next(self._numbers), self._who))
            away_s = self._randomness.uniform(0.0, self._world.plan.restart_s) if self._world.faulty else 0.0
            await self._world.clock.sleep(away_s)

    def unsettled(self) -> list[str]:
        """What it still has under way, or has not been shown yet."""
        still = [f"{self._who} stands still"] if self._mortal is not None and self._mortal.is_still else []
        return still + ([] if self._knows is None else self._knows.unsettled())

    @property
    def leads(self) -> bool:
        """True for a process that works: it holds the Lease, or stands for none."""
        return self._mortal is not None and self._mortal.alive and bool(getattr(self._made, "leads", True))

    def kill(self) -> None:
        """At any moment, also between two steps."""
        if self._mortal is not None:
            self._mortal.kill("at some moment")

    def freeze(self, seconds: float) -> None:
        """At any moment: SIGSTOP, and SIGCONT after so long."""
        if self._mortal is not None:
            self._mortal.freeze(seconds)

    async def roll(self) -> None:
        """As a rollout does: the old one ends what it has begun, within its time."""
        mortal, made = self._mortal, self._made
        if mortal is None or made is None or not mortal.alive:
            return
        drained = await made.drain(self._randomness.uniform(0.0, 2 * self._world.plan.timeout_s))
        mortal.kill("after its work" if drained else "in the middle of its work")

    async def _live(self, mortal: Mortal) -> None:
        self._world.story.tell(mortal.who, "starts")
        made, knows = self._make(self._world, mortal)
        context = contextvars.copy_context()
        context.run(PROCESS.set, mortal)
        mortal.task = asyncio.get_running_loop().create_task(made.run(), name=mortal.who, context=context)
        self._mortal, self._made, self._knows = mortal, made, knows
        try:
            await asyncio.wait([mortal.task])
        finally:
            mortal.task.cancel()
        error = None if mortal.task.cancelled() else mortal.task.exception()
        if not mortal.alive:
            return
        if isinstance(error, WorkOutlivesLease):
            self._world.story.tell(mortal.who, f"ends: {error}")
        elif error is not None:  # it may return only after it was drained
            self._world.fail("unexpected-error", f"{mortal.who} ended with {_shown(error)}")
        mortal.kill("by its own end")


def _shown(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_shown(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
