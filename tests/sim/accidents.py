"""What befalls processes and the API server while the world is faulty, beside what users do (`acts.py`)."""

from __future__ import annotations

from mooring.api.storage import CSI_NODES
from tests.sim.acts import Acts
from tests.sim.plan import DRIVER


class Accidents(Acts):
    async def stop_attacher(self) -> None:
        """SIGSTOP, or a machine that swaps, and SIGCONT after so long."""
        self._one_attacher().freeze(self._randomness.uniform(0.0, self._world.stops.still_s))

    # -- the API server

    async def back_up(self) -> None:
        self._world.server.back_up()

    async def set_back(self) -> None:
        """To the backup. Who does that looks after what the restored objects can't say: nodes and secrets, what
        attachments left behind that are not in the backup as holders, and those which say that they are attached and
        are not.
        """
        world, published = self._world, self._world.backend.published
        before = {found.uid: found for found in self._truth.attachments()}
        if not world.server.set_back():
            return
        holding = {found.uid for found in self._truth.attachments() if found.held}
        for uid, found in before.items():
            if found.held and uid not in holding:
                world.laws.tears.left_behind(found.pair)
        for found in self._truth.attachments():
            if found.attached and found.node_id not in published[found.handle] and not found.deleting:
                await self._hands.delete_attachment(found.name)
        for volume in self._plans.values():
            if volume.secret:
                await self._hands.drop_secret(volume)
                await self._hands.make_secret(volume)
        for node, machine in self._hands.machines.items():
            if (found_node := self._truth.csi_node(node)) is not None:
                driver = next((one for one in found_node.spec.drivers or () if one.name == DRIVER), None)
                if driver is not None and driver.node_id != machine:
                    await self._hands.merge(CSI_NODES, node, {"spec": {"drivers": []}})
                    await self._hands.register(node)
