"""Another version of a driver is rolled out, node by node: it comes back with other capabilities, mostly without its
registrar.

A driver goes on to stage as long as something of its is staged, for nobody else could take that back.
"""

from __future__ import annotations

from typing import Final

from mooring.base.randomness import Random
from tests.sim.node.driver import NodeService
from tests.sim.node.world import NodeWorld

_OWN: Final = 1 << 44
AWAY_S_MAX: Final = 2.0
ROLLOUTS_MAX: Final = 3
WITH_REGISTRAR: Final = 0.2


class Upgrades:
    def __init__(self, world: NodeWorld) -> None:
        self._world, self._randomness = world, Random(_OWN + world.plan.seed)

    async def run(self) -> None:
        """Until the faults end."""
        services = [item for item in self._world.backend.services.items() if item[1].own.habits.is_upgraded]
        if not services:
            return
        pause_s = self._world.plan.chaos_s / len(services) / (1 + self._randomness.below(ROLLOUTS_MAX))
        while True:
            for (node, driver), service in services:
                await self._world.clock.sleep(pause_s)
                if not self._world.faulty:
                    return
                self._upgrade(service)
                if self._randomness.happens(WITH_REGISTRAR):
                    self._world.backend.machines[node].make_socket(driver)

    def _upgrade(self, service: NodeService) -> None:
        stages, stats = self._randomness.happens(0.5), self._randomness.happens(0.5)
        service.restart(self._randomness.uniform(0.0, AWAY_S_MAX))
        service.become(
            stages=stages or service.has_staged, stats=stats
        )  # a call that the restart ends may have staged something
