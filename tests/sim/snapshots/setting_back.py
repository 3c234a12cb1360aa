"""An API server that is set back to a backup, in lives of snapshots; and what its administrator does then, as objects
can't say it.

Snapshots that were made after the backup are named by nobody: they may go or stay. Contents whose snapshot went since
are back, and name what is not there. What was given away, torn away or kept by a policy since is as it was. Claims
whose volumes are gone are removed by hand, and so are the volumes of claims that are gone.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.base.randomness import Random
from tests.sim.snapshots.hands import Hands
from tests.sim.snapshots.objects import CLAIMS
from tests.sim.snapshots.world import SnapshotWorld

SHARE: Final = 0.15
"""Of the moments between two acts, in a life whose server is set back once: a backup, or its use."""


class SettingBack:
    def __init__(self, world: SnapshotWorld, hands: Hands) -> None:
        self._world, self._hands, self._backend = world, hands, world.backend
        self._randomness = Random(world.plan.seed * 1_000_003 + 47)
        self._kinds_changed = 0

    async def disturb(self, kinds_changed: int) -> None:
        """A backup, now and then, and once its use. kinds_changed: how often kinds went or came: a backup from before
        such
        a change is of no use, as nobody sets back a cluster to kinds that it does not serve.
        """
        if not self._world.habits.set_back or not self._randomness.happens(SHARE):
            return
        if self._randomness.happens(0.5):
            self._world.server.back_up()
            self._kinds_changed = kinds_changed
        elif kinds_changed == self._kinds_changed and self._world.server.set_back():
            await self._look_after()

    async def _look_after(self) -> None:
        claims = self._world.laws.tables.objects[CLAIMS]
        volumes = {f"h-{claim['spec'].get('volumeName', '')}" for claim in claims.values()}
        for volume in sorted(self._backend.volumes - volumes):
            self._hands.tell(f"remove {volume} from the storage: no claim is left of it")
            self._backend.volumes.discard(volume)
        for claim in list(claims.values()):
            if (
                "dataSource" not in claim["spec"]
                and f"h-{claim['spec'].get('volumeName', '')}" not in self._backend.volumes
            ):
                await self._hands.remove(PERSISTENT_VOLUME_CLAIMS, claim)
                await self._hands.merge(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": None}})
                await self._hands.delete(PERSISTENT_VOLUMES, claim["spec"].get("volumeName", ""))
