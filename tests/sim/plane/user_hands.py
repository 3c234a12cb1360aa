"""The requests of users with habits: objects written by hand, half, twice or again."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import STORAGE_CLASSES
from mooring.base.clock import rfc3339
from mooring.cluster.attachdetach.identity import FORCE_AFTER
from tests.sim.plan import DRIVER
from tests.sim.plane.plan import NAMESPACE, VolumePlan
from tests.sim.plane.stands import Json
from tests.support.builders import a_claim, a_class, a_pv

CLASSES = ("class0", "class1")


class UserHands:
    """A part of `Hands`."""

    _world: Any
    _cluster: Any
    kubelets: Any

    async def do(self, what: str, request: Awaitable[Any]) -> Any:
        raise NotImplementedError

    async def merge(
        self, kind: Kind[Any], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> None:
        raise NotImplementedError

    # -- volumes and claims

    async def make_pv(self, name: str, volume: VolumePlan, handle: str, reference: Json | None) -> None:
        """reference: its claimRef, None for none."""
        source = {"csi": {"driver": DRIVER, "volumeHandle": handle}}
        body = a_pv(name, modes=[volume.mode], source=source, storageClassName=self.class_of(name))
        if reference is not None:
            body["spec"]["claimRef"] = reference
        await self.do(
            f"create PV {name} of {handle} for {reference}", self._cluster.create(PERSISTENT_VOLUMES.whole(), body)
        )

    async def make_claim(self, name: str, volume: VolumePlan, pv: str, namespace: str = NAMESPACE) -> Json | None:
        """For this PersistentVolume. None where it could not be made."""
        claim = a_claim(name, sc=None, modes=[volume.mode], volume=pv)
        made = await self.do(
            f"create claim {name} of {pv}", self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim, namespace)
        )
        return None if made is None else dict(made)

    async def bind_claim(self, name: str, volume: VolumePlan, namespace: str = NAMESPACE) -> None:
        status = {"phase": "Bound", "accessModes": [volume.mode], "capacity": {"storage": "1Gi"}}
        await self.merge(PERSISTENT_VOLUME_CLAIMS, name, {"status": status}, namespace, subresource="status")

    async def make_again(self, kind: Kind[Any], obj: Json) -> None:
        """As a backup has it, status and all."""
        meta = obj["metadata"]
        name, namespace = meta["name"], meta.get("namespace", "")
        made = await self.do(f"restores {kind.name} {name}", self._cluster.create(kind.whole(), obj, namespace))
        if made is not None and obj.get("status"):
            await self.merge(kind, name, {"status": obj["status"]}, namespace, subresource="status")

    # -- classes

    @property
    def classes(self) -> tuple[str, ...]:
        return CLASSES[:1] if self._world.plan.provisions else CLASSES

    def class_of(self, pv: str) -> str | None:
        """Of a PersistentVolume that is made by hand."""
        return CLASSES[sum(map(ord, pv)) % len(CLASSES)] if self._world.plan.manners.classes else None

    async def make_class(self, name: str, word: str) -> None:
        """word: when it lets detaches be forced."""
        body = a_class(name, provisioner=DRIVER, wffc=self._world.plan.placing.waits)
        if word:
            body["metadata"]["annotations"] = {FORCE_AFTER: word}
        await self.do(f"create class {name}: {word}", self._cluster.create(STORAGE_CLASSES.whole(), body))

    # -- nodes

    async def set_ready(self, node: str, status: str) -> None:
        """What the Node says of itself from now on, and since when, where it says that."""
        condition = {"type": "Ready", "status": status}
        if self.kubelets[node].stamps:
            condition["lastTransitionTime"] = rfc3339(self._world.clock.wall_s())
        await self.merge(NODES, node, {"status": {"conditions": [condition]}}, subresource="status")
