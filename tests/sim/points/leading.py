"""Scripts of two attachers behind one Lease: at each point the one that leads dies, or stands still until the other one
leads.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.attacher.controller import Attacher
from tests.sim.actor import Actor
from tests.sim.endpoint import Endpoint, info_of
from tests.sim.habits import Stops
from tests.sim.hands import Hands
from tests.sim.keeper import Keeper, Made
from tests.sim.leading import Leases, behind_lease
from tests.sim.life import options_of
from tests.sim.line import Line
from tests.sim.mortal import Mortal
from tests.sim.points import attaching
from tests.sim.points.director import Director, led
from tests.sim.points.script import Script, Stage, world_of
from tests.sim.standing import outside
from tests.sim.tears import PLURAL
from tests.sim.world import SimWorld

REPLICAS: Final = 2
PLAN: Final = dataclasses.replace(attaching.PLAN, stops=Stops(replicas=REPLICAS))


class Sending:
    """The driver's end, where each call is a thing that the process sends."""

    def __init__(self, world: SimWorld, mortal: Mortal) -> None:
        self._endpoint, self._world, self._mortal = Endpoint(world, mortal), world, mortal

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._endpoint, name)

        async def send(request: Any) -> Any:
            await self._mortal.pause()
            self._mortal.sends(name)
            return await self._world.group.apart(lambda: call(request), name)

        return send


def attacher(world: SimWorld, mortal: Mortal) -> Made:
    line = Line(world, mortal)
    tears, number = world.laws.tears, mortal.number
    line.on_shown = lambda plural, version: tears.shown(plural, version) if tears.living == number else None
    mortal.at_begin(lambda: tears.begins(number, line.shown(PLURAL)))
    runtime = Runtime(outside(line), mortal.clock, Random(world.plan.seed * 1000 + mortal.number), world.metrics)
    driver = InProcessDriver(Sending(world, mortal), clock=mortal.clock)
    return Attacher(runtime, driver, info_of(world.plan), options_of(world.plan)), line


class Leading(attaching.Attaching):
    def __init__(self, world: SimWorld, director: Director) -> None:
        Stage.__init__(self, world, director)
        self.hands = Hands(world)
        self.actor = Actor(world, self.hands)
        leases, numbers = Leases(world), itertools.count(1)
        make = behind_lease(leases, "attacher", led(attacher, director), numbers)
        self.keepers = [Keeper(world, "attacher", make, numbers) for _ in range(REPLICAS)]

    def fingerprint(self) -> object:
        """Without the Lease, which is renewed for ever."""
        counts = self.world.laws.counts
        return self.world.truth.newest("volumeattachments"), self.world.truth.newest("persistentvolumes"), dict(counts)


_world = world_of(SimWorld, PLAN)


SCRIPTS: Final = (
    Script(
        "lead-attach", "a volume is attached by one of two attachers", _world, Leading, (attaching.attach,), stops=True
    ),
    Script(
        "lead-move",
        "it goes to another node, with two attachers",
        _world,
        Leading,
        (attaching.attach, attaching.move),
        stops=True,
    ),
)
