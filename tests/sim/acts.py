"""What users, administrators and accidents do to the world while it is faulty: each act is a method, drawn by its
weight in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.api.meta import Kind, finalizers_of, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from tests.sim.acting import Acting
from tests.sim.actor import Actor
from tests.sim.hands import HOLDS, Hands
from tests.sim.keeper import Keeper
from tests.sim.plan import FINALIZER, TWIN, VolumePlan
from tests.sim.truth import Attachment
from tests.sim.world import SimWorld


class Acts(Acting):
    def __init__(self, world: SimWorld, actor: Actor, hands: Hands, attachers: Sequence[Keeper]) -> None:
        self._world, self._actor, self._hands, self._attachers = world, actor, hands, attachers
        self._randomness, self._truth = world.randomness["actor"], world.truth
        self._plans = {volume.name: volume for volume in world.plan.volumes}
        self._nodes = world.plan.nodes
        self._count = 0

    # -- what is wanted

    async def move(self) -> None:
        """A volume is wanted on one node, and nowhere else."""
        volume, node = self._one_of(sorted(self._actor.present)), self._one_of(self._nodes)
        self._actor.want_nowhere(volume)
        self._actor.wanted.add((volume, node))
        self._hands.tell(f"wants {volume} on {node} only")

    async def share(self) -> None:
        """A volume is wanted on a node more, if it can be shared; if nobody has it, anyway."""
        volume, node = self._one_of(sorted(self._actor.present)), self._one_of(self._nodes)
        if not self._plans[volume].single_node or not any(name == volume for name, _ in self._actor.wanted):
            self._actor.wanted.add((volume, node))
            self._hands.tell(f"wants {volume} on {node}")

    async def unwant(self) -> None:
        volume = self._one_of(sorted(self._plans))
        self._actor.want_nowhere(volume)
        self._hands.tell(f"wants {volume} nowhere")

    async def recreate_attachment(self) -> None:
        """Deleted, and made again under the same name as soon as its controller can."""
        if found := self._truth.attachments():
            await self._hands.delete_attachment(self._one_of(found).name)

    async def make_twin(self) -> None:
        """A second attachment of one volume to one node, under a name that no controller would give it; or its end."""
        twins = self._actor.twins
        if twins and self._randomness.happens(0.5):
            twins.clear()
        elif self._actor.wanted:
            volume, node = self._one_of(sorted(self._actor.wanted))
            name = f"{TWIN}{volume}-{node}"
            twins.clear()
            twins.add(name)
            await self._hands.create_attachment(name, volume, node)

    async def make_foreign(self) -> None:
        """An attachment of another driver's attacher: nobody's business, but it uses the volume; or its end."""
        if found := self._truth.foreign_attachments():
            await self._hands.delete_attachment(found[0].name)
        else:
            volume, node = self._one_of(sorted(self._plans)), self._one_of(self._nodes)
            await self._hands.create_attachment(f"foreign-{volume}-{node}", volume, node, "other.example.com")

    async def tear_away(self) -> None:
        """An impatient administrator deletes an attachment with its finalizers."""
        if held := [found for found in self._truth.attachments() if found.held]:
            await self._tear(self._one_of(held))

    async def tear_in_mid_call(self) -> None:
        """The same, while a call for its volume is at work; rather one that does not say yet that it is attached."""
        locks = self._world.backend.locks
        held = [found for found in self._truth.attachments() if found.held and found.handle in locks]
        if held:
            await self._tear(self._one_of([found for found in held if not found.attached] or held))

    async def tear_settled(self) -> None:
        """The same, of one that has been attached for long: pods use it."""
        tears = self._world.laws.tears
        settled = [found for found in self._truth.attachments() if tears.was_shown(found) and not found.deleting]
        if settled:
            found = self._one_of(settled)
            tears.settled(found)
            await self._hands.merge(VOLUME_ATTACHMENTS, found.name, {"metadata": {"finalizers": None}})
            await self._tear(found)

    async def _tear(self, found: Attachment) -> None:
        """What is attached is detached by hand, unless another attachment has it there; the rest is the attacher's
        business.
        """
        self._hands.tell(f"tears {found.name} away")
        await self._hands.delete_attachment(found.name)
        await self._hands.merge(VOLUME_ATTACHMENTS, found.name, {"metadata": {"finalizers": None}})
        self._world.laws.tears.torn(found)
        if found.attached and not any(found.pair == other.pair and other.held for other in self._truth.attachments()):
            self._world.backend.take_away(found.handle, found.node_id)

    async def drop_volume(self) -> None:
        """Mostly after its users are gone, sometimes under them."""
        volume = self._one_of(sorted(self._plans))
        if self._plans[volume].inline:
            return
        self._actor.present.discard(volume)
        if not self._actor.present:  # something has to be left to be wanted
            self._actor.present.add(volume)
        if self._randomness.happens(0.7):
            self._actor.want_nowhere(volume)
        if self._truth.volume_is_there(volume):
            await self._hands.delete_volume(volume)

    async def want_volume_back(self) -> None:
        self._actor.present.add(self._one_of(sorted(self._plans)))

    # -- nodes

    async def unregister(self) -> None:
        """The node plugin goes away: without its CSINode, or with one that does not know the driver."""
        node = self._one_of(self._nodes)
        if self._randomness.happens(0.5):
            await self._hands.unregister(node)
        elif self._truth.csi_node(node) is not None:
            await self._hands.merge(CSI_NODES, node, {"spec": {"drivers": []}})

    async def register(self) -> None:
        await self._hands.register(self._one_of(self._nodes))

    async def replace_machine(self) -> None:
        """Another machine under the same name: the driver gives it another id, and nothing is published on the old one
        any more.

        Only a driver that lists what is published shows this to the attacher; else the node's attachments must be
        deleted.
        """
        await self._replace(is_dead=True)

    async def swap_machine(self) -> None:
        """The same, and the old machine lives on: what is published there stays until somebody unpublishes it."""
        await self._replace(is_dead=False)

    async def _replace(self, *, is_dead: bool) -> None:
        node, machines = self._one_of(self._nodes), self._hands.machines
        self._count += 1
        old, machines[node] = machines[node], f"{node}-id{self._count}"
        self._hands.tell(f"replaces the machine of {node}: {old} is now {machines[node]}")
        if is_dead:
            self._world.backend.bury(old)
        else:
            self._world.backend.former.add(old)
        await self._hands.unregister(node)
        if not self._world.plan.lists_published or self._randomness.happens(0.5):
            self._actor.wanted = {(volume, other) for volume, other in self._actor.wanted if other != node}
            for attachment in self._truth.attachments():
                if attachment.node == node and not attachment.deleting:
                    await self._hands.delete_attachment(attachment.name)
        if self._randomness.happens(0.7):
            await self._hands.register(node)

    # -- metadata

    async def touch(self) -> None:
        """A label or an annotation that is nobody's business."""
        if objects := self._actor.objects(CSI_NODES):
            kind, name = self._one_of(objects)
            self._count += 1
            where = self._one_of(("labels", "annotations"))
            await self._hands.merge(kind, name, {"metadata": {where: {"users.example.com/count": str(self._count)}}})

    async def hold(self) -> None:
        """A finalizer of somebody else, or two, each at either end of the list."""
        if objects := self._actor.objects():
            kind, name = self._one_of(objects)
            for hold in HOLDS if self._randomness.happens(0.5) else [self._one_of(HOLDS)]:
                await self._hold(kind, name, hold)

    async def _hold(self, kind: Kind[Any], name: str, hold: str) -> None:
        obj = self._truth.get(kind, name)
        others = finalizers_of(obj) if obj is not None else ()
        if obj is not None and hold not in others:
            await self._hands.set_finalizers(
                kind, obj, [hold, *others] if self._randomness.happens(0.5) else [*others, hold]
            )

    async def let_go(self) -> None:
        if objects := self._actor.objects():
            await self._hands.let_go(*self._one_of(objects), self._one_of(HOLDS))

    async def meddle(self, kind: Kind[Any], name: str) -> None:
        """Others move their finalizers on this object, while a write to it is on its way: off it when it is being
        deleted.
        """
        obj = self._truth.get(kind, name)
        others = [finalizer for finalizer in finalizers_of(obj) if finalizer != FINALIZER] if obj is not None else []
        leaving = obj is not None and is_deleting(obj)
        if others and leaving:
            await self._hands.let_go(kind, name, others[0])
        elif not leaving:
            await self._hold(kind, name, self._one_of(HOLDS))

    # -- secrets

    async def change_secret(self) -> None:
        """The backend takes the new token from now on, and the old one no more."""
        if volume := self._secret_volume():
            await self._hands.drop_secret(volume)
            self._count += 1
            self._world.backend.secrets[volume.handle] = f"token{self._count}"
            await self._hands.make_secret(volume)

    async def drop_secret(self) -> None:
        if volume := self._secret_volume():
            await self._hands.drop_secret(volume)

    async def restore_secret(self) -> None:
        if volume := self._secret_volume():
            await self._hands.make_secret(volume)

    def _secret_volume(self) -> VolumePlan | None:
        with_secret = [volume for volume in self._plans.values() if volume.secret]
        return self._one_of(with_secret) if with_secret else None

    # -- processes and the backend

    async def restart_driver(self) -> None:
        away_s = self._randomness.uniform(0.0, 2.0)
        self._hands.tell(f"restarts the driver, away for {away_s:.3f} s")
        self._world.backend.restart(away_s)
        if self._world.plan.array.forgets and self._world.plan.lists_published:  # else no attacher could know
            for handle, nodes in self._world.backend.published.items():
                for node_id in sorted(nodes):
                    self._world.backend.take_away(handle, node_id)

    async def take_away(self) -> None:
        """Unpublished behind the attacher's back; only where a report can show it."""
        pairs = [
            (handle, node_id) for handle, nodes in self._world.backend.published.items() for node_id in sorted(nodes)
        ]
        if pairs and self._world.plan.lists_published:
            handle, node_id = self._one_of(pairs)
            self._hands.tell(f"takes {handle} away from {node_id}")
            self._world.backend.take_away(handle, node_id)

    async def kill_attacher(self) -> None:
        self._one_attacher().kill()

    async def roll_attacher(self) -> None:
        self._hands.tell("rolls the attacher")
        await self._one_attacher().roll()

    def _one_attacher(self) -> Keeper:
        """The one that works, mostly."""
        if len(self._attachers) == 1:
            return self._attachers[0]
        working = [keeper for keeper in self._attachers if keeper.leads and self._randomness.happens(0.7)]
        return self._one_of(working or self._attachers)
