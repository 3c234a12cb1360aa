"""The lives of provisioner and binder, one after the other: each starts with an empty memory on the world as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from mooring.base.chance import Chance
from mooring.base.metrics import Metrics
from mooring.binding import options as binding
from mooring.binding.controller import Binder
from mooring.binding.options import BinderOptions
from mooring.csi.in_process import InProcessDriver
from mooring.kube.events import EventRecorder
from mooring.provisioner.controller import Provisioner
from mooring.provisioner.journal import Journal
from mooring.provisioner.options import ProvisionerOptions
from mooring.provisioner.pages import Place
from tests.sim.life import _shown
from tests.sim.mortal import Mortal
from tests.sim.provisioning.backend import Endpoint, info_of
from tests.sim.provisioning.line import QuietLine, WritingLine
from tests.sim.provisioning.plan import DRIVER, NAMESPACE
from tests.sim.provisioning.world import ClaimWorld

PARTS = frozenset({binding.BINDER, binding.CLAIM_PROTECTION, binding.VOLUME_PROTECTION})


class Works(Protocol):
    async def run(self) -> None: ...
    async def drain(self, timeout_s: float) -> bool: ...


Made = tuple[Works, WritingLine]


def provisioner(world: Any, mortal: Mortal) -> Made:
    plan, clock, chance = world.plan, world.clock, Chance(world.plan.seed * 1000 + mortal.number)
    line = WritingLine(world, mortal)
    world.laws.shown = lambda process, plural: line.shown(plural) if process == mortal.number else 0
    driver = InProcessDriver(Endpoint(world, mortal), clock=clock)
    options = ProvisionerOptions(
        timeout_s=plan.timeout_s,
        worker_threads=plan.worker_threads,
        retry_interval_start_s=plan.retry_start_s,
        retry_interval_max_s=plan.retry_max_s,
    )
    intents = Journal(line, Place(NAMESPACE, DRIVER), mortal.who, clock)
    events = EventRecorder(line, mortal.who, clock=clock, chance=chance)
    made = Provisioner(line, driver, info_of(plan), options, clock, chance, Metrics(), events, intents=intents)
    return made, line


def binder(world: Any, mortal: Mortal) -> Made:
    line = (WritingLine if world.plan.binder_faults else QuietLine)(world, mortal)
    return Binder(line, BinderOptions(parts=PARTS, workers=2), world.clock, Chance(world.plan.seed * 2000 + mortal.number)), line


class Keeper:
    """Starts one kind of process, and another one whenever it has ended."""

    def __init__(self, world: ClaimWorld, who: str, make: Callable[[Any, Mortal], Made]) -> None:
        self._world, self._who, self._make = world, who, make
        self._chance = world.chances["life"]
        self._mortal: Mortal | None = None
        self._made: Works | None = None
        self._line: WritingLine | None = None
        self.started_count = 0

    async def run(self) -> None:
        while True:
            self.started_count += 1
            await self._live(Mortal(self._world, self.started_count, self._who))
            away_s = self._chance.uniform(0.0, self._world.plan.restart_s) if self._world.faulty else 0.0
            await self._world.clock.sleep(away_s)

    def unsettled(self) -> list[str]:
        return [] if self._line is None else self._line.unsettled()

    def kill(self) -> None:
        if self._mortal is not None:
            self._mortal.kill("at some moment")

    async def roll(self) -> None:
        mortal, made = self._mortal, self._made
        if mortal is None or made is None or not mortal.alive:
            return
        drained = await made.drain(self._chance.uniform(0.0, 2 * self._world.plan.timeout_s))
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
        if mortal.alive and not mortal.task.cancelled() and mortal.task.exception() is not None:
            self._world.fail("unexpected-error", f"{mortal.who} ended with {_shown(mortal.task.exception())}")
        mortal.kill("by its own end")
