"""The controllers beside the attacher, as it sees them: attach/detach, pv-protection, kubelets.

`wanted` is who shall have which volume; `tend` brings the attachments there as the attach/detach controller does. What
users and administrators do to it is in `acts.py`.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Kind, finalizers_of, is_deleting
from mooring.api.storage import VOLUME_ATTACHMENTS
from tests.sim.hands import HOLDS, PROTECTION, Hands
from tests.sim.plan import AGAIN, FINALIZER, TWIN
from tests.sim.world import SimWorld


class Actor:
    """wanted: (volume, node). present: volumes that shall exist. twins: second attachments, by name, that shall
    exist.
    """

    def __init__(self, world: SimWorld, hands: Hands) -> None:
        self._world, self._hands = world, hands
        self._randomness, self._truth = world.randomness["actor"], world.truth
        self._plans = {volume.name: volume for volume in world.plan.volumes}
        self.wanted: set[tuple[str, str]] = set()
        self.present = set(self._plans)
        self.twins: set[str] = set()

    @property
    def machines(self) -> dict[str, str]:
        """Node -> the driver's id of it now."""
        return self._hands.machines

    async def prepare(self) -> None:
        """The world before anything goes wrong."""
        await self._restore()
        await self._tend_volumes()

    async def inherit(self) -> None:
        """Left by an attacher that publishes side by side: a single-node volume with finalizers on two nodes, on one
        being deleted.
        """
        singles = [volume for volume in self._plans.values() if volume.single_node and not volume.inline]
        if not singles:
            return
        volume, nodes = singles[0], list(self.machines)
        pv = self._truth.volume(volume.name)
        assert pv is not None, "prepared a moment ago"
        await self._hands.set_finalizers(PERSISTENT_VOLUMES, pv, [*finalizers_of(pv), FINALIZER])
        leaving, staying = nodes[:2] if self._randomness.happens(0.5) else nodes[1::-1]
        for node in (leaving, staying):
            await self._hands.create_attachment(f"va-{volume.name}-{node}", volume.name, node)
            await self._hands.add_finalizer(f"va-{volume.name}-{node}", self.machines[node])
        await self._hands.delete_attachment(f"va-{volume.name}-{leaving}")
        self.wanted.add((volume.name, staying))
        self._world.backend.published[volume.handle].add(self.machines[leaving])

    async def make_peace(self) -> None:
        """Nodes and secrets are back, nobody wants what is being deleted, twins go; then only `tend` goes on."""
        self.twins.clear()
        for volume in self._plans:
            if volume.endswith(AGAIN):  # one volume of two names may be wanted on two nodes
                self.want_nowhere(volume)
        for attachment in self._truth.foreign_attachments():
            await self._hands.delete_attachment(attachment.name)
        await self._restore()
        can_have = {name for name in self.present if self._plans[name].inline or self._truth.volume_is_there(name)}
        self.wanted = {(volume, node) for volume, node in self.wanted if volume in can_have}

    async def tend(self) -> None:
        """One round of the controllers."""
        await self._tend_volumes()
        await self._tend_attachments()
        await self._tend_former()
        if not self._world.faulty:
            for kind, name in self.objects():
                for finalizer in HOLDS:
                    await self._hands.let_go(kind, name, finalizer)
            self._clean_up()
            if self._world.server.set_back_count:
                await self._let_go_of_lost()

    def objects(self, *more: Kind[Any]) -> list[tuple[Kind[Any], str]]:
        """All attachments and volumes, and all of more kinds."""
        kinds: tuple[Kind[Any], ...] = (VOLUME_ATTACHMENTS, PERSISTENT_VOLUMES, *more)
        return [(kind, obj.metadata.name) for kind in kinds for obj in self._truth.all(kind)]

    def want_nowhere(self, volume: str) -> None:
        self.wanted = {(name, node) for name, node in self.wanted if name != volume}

    async def _restore(self) -> None:
        for volume in self._plans.values():
            if volume.secret:
                await self._hands.make_secret(volume)
        for node in self.machines:
            await self._hands.register(node)

    def _clean_up(self) -> None:
        """Administrators who tore an attachment away look after its volume where no attacher can know of it."""
        claimed = {found.pair for found in self._truth.attachments()}
        for handle, node_id in sorted(self._world.laws.tears.left_to_hands() - claimed):
            self._world.backend.take_away(handle, node_id)

    async def _let_go_of_lost(self) -> None:
        """Attachments that a backup brought back, and whose volume is gone meanwhile: they say so, and only a hand can
        help.
        """
        for found in self._truth.attachments():
            if (
                found.deleting
                and found.held
                and not self._plans[found.volume].inline
                and self._truth.volume(found.volume) is None
            ):
                self._world.laws.tears.left_behind(found.pair)
                await self._hands.merge(VOLUME_ATTACHMENTS, found.name, {"metadata": {"finalizers": None}})

    async def _tend_volumes(self) -> None:
        """Volumes that shall be there are made; deleted ones lose their protection."""
        for name, volume in self._plans.items():
            pv = self._truth.volume(name)
            if pv is None and name in self.present and not volume.inline:
                await self._hands.create_volume(name)
            elif pv is not None and is_deleting(pv) and not (self._world.faulty and self._randomness.happens(0.5)):
                await self._hands.let_go(PERSISTENT_VOLUMES, name, PROTECTION)

    async def _tend_attachments(self) -> None:
        """What is not wanted is deleted, then what is wanted is made."""
        for attachment in self._truth.attachments():
            wanted = (attachment.volume, attachment.node) in self.wanted
            if attachment.name.startswith(TWIN):
                wanted = attachment.name in self.twins
            if not wanted and not attachment.deleting:
                await self._hands.delete_attachment(attachment.name)
        names = {attachment.name for attachment in self._truth.attachments()}
        for volume, node in sorted(self.wanted):
            name = f"va-{volume}-{node}"
            if name not in names and self._may_attach(volume):
                await self._hands.create_attachment(name, volume, node)

    async def _tend_former(self) -> None:
        """Attached to the machine that had the node's name before, by an attacher that had not heard of the new one
        yet: its pod can't use it there. Where the driver does not list what is published, nothing but the pod's end
        shows that to the attacher.
        """
        if self._world.plan.lists_published:
            return
        for attachment in self._truth.attachments():
            is_former = attachment.attached and attachment.node_id != self.machines[attachment.node]
            if is_former and not attachment.deleting:
                await self._hands.delete_attachment(attachment.name)

    def _may_attach(self, volume: str) -> bool:
        """The attach/detach controller waits for a volume, and for the end of a single-node volume's attachment
        elsewhere; mostly.
        """
        if self._world.faulty and self._randomness.happens(self._world.plan.hasty):
            return True
        if not self._plans[volume].inline and not self._truth.volume_is_there(volume):
            return False
        taken = any(attachment.handle == self._plans[volume].handle for attachment in self._truth.attachments())
        return not (taken and self._plans[volume].single_node)
