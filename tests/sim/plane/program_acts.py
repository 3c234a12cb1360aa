"""What happens to the programs, their clock and the driver: acts, as in `acts.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.base.randomness import Random
from tests.sim.acting import Acting
from tests.sim.keeper import Keeper
from tests.sim.plane.line import ATTACHDETACH, ATTACHER, BINDER, HEALTH, PROVISIONER

JUMP_S: Final = 7200.0


class ProgramActs(Acting):
    """A part of `Acts`."""

    _world: Any
    _hands: Any
    _keepers: Mapping[str, Sequence[Keeper]]
    _randomness: Random

    async def jump_clock(self) -> None:
        offset_s = self._world.program_clock.offset_s = self._randomness.uniform(-JUMP_S, JUMP_S)
        self._hands.tell(f"sets the wall clock of the programs {offset_s:.3f} s off")

    async def restart_driver(self) -> None:
        away_s = self._randomness.uniform(0.0, 2.0)
        self._hands.tell(f"restarts the driver, away for {away_s:.3f} s")
        self._world.backend.restart(away_s)

    async def kill_attachdetach(self) -> None:
        self._one_of(self._keepers[ATTACHDETACH]).kill()

    async def roll_attachdetach(self) -> None:
        self._hands.tell("rolls an attach/detach controller")
        await self._one_of(self._keepers[ATTACHDETACH]).roll()

    async def kill_attacher(self) -> None:
        self._one_of(self._keepers[ATTACHER]).kill()

    async def roll_attacher(self) -> None:
        self._hands.tell("rolls an attacher")
        await self._one_of(self._keepers[ATTACHER]).roll()

    async def kill_other(self) -> None:
        if others := [keeper for who in (HEALTH, PROVISIONER, BINDER) for keeper in self._keepers[who]]:
            self._one_of(others).kill()
