"""Processes of the claims' part that are stopped, and claims that come back under the name of a former one."""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from tests.sim.keeper import Keeper
from tests.sim.provisioning.copies import CopyActs
from tests.sim.provisioning.plan import CLAIMS_MAX
from tests.sim.provisioning.world import ClaimWorld


class StillActs(CopyActs):
    """provisioners: one, or several behind a Lease."""

    def __init__(self, world: ClaimWorld, provisioners: list[Keeper], binder: Keeper) -> None:
        super().__init__(world, provisioners[0], binder)
        self._provisioners = provisioners

    async def disturb(self) -> None:
        """Whatever befalls the provisioner befalls any of them."""
        if len(self._provisioners) > 1:
            self._provisioner = self._one_of(self._provisioners)
        await super().disturb()

    async def stop_provisioner(self) -> None:
        """SIGSTOP, or a machine that swaps, and SIGCONT after so long."""
        self._provisioner.freeze(self._still_s())

    async def stop_binder(self) -> None:
        self._binder.freeze(self._still_s())

    async def claim_again(self) -> None:
        """As a StatefulSet does: a claim is made under the name of one that is gone."""
        there = {claim.metadata.name for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS)}
        gone = [name for name in (f"c{number}" for number in range(1, self._count + 1)) if name not in there]
        if gone and len(self._claims()) < CLAIMS_MAX:
            await self._create_claim(self._one_of(gone))

    # -- the API server

    async def back_up(self) -> None:
        if self._world.habits.set_back:
            self._world.server.back_up()

    async def set_back(self) -> None:
        """To the backup. What its objects can't say, the laws ask for no longer."""
        laws, backend = self._world.laws, self._world.backend
        before = {intent.volume_name for intent in laws.intents()}
        if self._world.server.set_back():
            unnamed = {name for handle, name in backend.volumes.items() if handle not in laws.handles()}
            asked = before - {intent.volume_name for intent in laws.intents()}
            laws.were_undone(unnamed | asked, asked)

    def _still_s(self) -> float:
        return self._randomness.uniform(0.0, self._world.stops.still_s)
