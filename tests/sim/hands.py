"""The requests of everybody but the attacher, told and without faults, and the objects that they make."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUMES, SECRETS
from mooring.api.meta import Kind, finalizers_of
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION
from tests.sim.acting import secret_data
from tests.sim.plan import DRIVER, FINALIZER, VolumePlan
from tests.sim.world import SimWorld
from tests.support.builders import a_csi_node, a_held_pv, a_secret, a_va

HOLDS: Final = ("users.example.com/hold", "users.example.com/second")
PROTECTION: Final = "kubernetes.io/pv-protection"


class Hands:
    """machines: node -> the driver's id of it now."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._cluster, self._truth = world.cluster, world.truth
        self._plans = {volume.name: volume for volume in world.plan.volumes}
        self.machines = {node: f"{node}-id0" for node in world.plan.nodes}

    def tell(self, what: str) -> None:
        self._world.story.tell("actor", what)

    async def do(self, what: str, request: Awaitable[Any]) -> None:
        """Races are part of life: what was refused is tried again by whoever still misses it."""
        self.tell(what)
        with contextlib.suppress(ApiError):
            await request

    async def merge(self, kind: Kind[Any], name: str, body: Mapping[str, Any]) -> None:
        await self.do(
            f"patch {kind.name} {name} {body}", self._cluster.patch(kind.whole(), name, Patch(PatchType.MERGE, body))
        )

    # -- volumes and attachments

    async def create_volume(self, name: str) -> None:
        volume = self._plans[name]
        body = a_held_pv(name, modes=[volume.mode], finalizers=None, source={"csi": self._csi(volume)})
        await self.do(f"create PV {name}", self._cluster.create(PERSISTENT_VOLUMES.whole(), body))

    async def delete_volume(self, name: str) -> None:
        await self.do(f"delete PV {name}", self._cluster.delete(PERSISTENT_VOLUMES, name))

    async def create_attachment(self, name: str, volume: str, node: str, attacher: str = DRIVER) -> None:
        plan = self._plans[volume]
        body = a_va(name, volume, node, attacher=attacher)
        if plan.inline:
            body = a_va(
                name, None, node, attacher=attacher, inline={"csi": self._csi(plan), "accessModes": [plan.mode]}
            )
        await self.do(f"create VA {name}", self._cluster.create(VOLUME_ATTACHMENTS.whole(), body))

    async def add_finalizer(self, name: str, node_id: str) -> None:
        """As an attacher of before did."""
        metadata = {"finalizers": [FINALIZER], "annotations": {NODE_ID_ANNOTATION: node_id}}
        await self.merge(VOLUME_ATTACHMENTS, name, {"metadata": metadata})

    async def delete_attachment(self, name: str) -> None:
        await self.do(f"delete VA {name}", self._cluster.delete(VOLUME_ATTACHMENTS, name))

    def _csi(self, volume: VolumePlan) -> dict[str, Any]:
        source: dict[str, Any] = {"driver": DRIVER, "volumeHandle": volume.handle}
        if volume.secret:
            source["controllerPublishSecretRef"] = {"name": volume.secret_name, "namespace": "default"}
        return source

    # -- finalizers of others

    async def set_finalizers(self, kind: Kind[Any], obj: Any, finalizers: Sequence[str]) -> None:
        meta = {"finalizers": list(finalizers) or None, "resourceVersion": obj.metadata.resource_version}
        await self.merge(kind, obj.metadata.name, {"metadata": meta})

    async def let_go(self, kind: Kind[Any], name: str, finalizer: str) -> None:
        """Takes somebody's finalizer off."""
        obj = self._truth.get(kind, name)
        if obj is not None and finalizer in finalizers_of(obj):
            await self.set_finalizers(kind, obj, [other for other in finalizers_of(obj) if other != finalizer])

    # -- nodes and secrets

    async def register(self, node: str) -> None:
        """The node plugin comes, or comes back."""
        found, machine = self._truth.csi_node(node), self.machines[node]
        body = a_csi_node(node, {DRIVER: machine})
        if found is None:
            await self.do(f"create CSINode {node} as {machine}", self._cluster.create(CSI_NODES.whole(), body))
        elif not found.spec.drivers:
            await self.merge(CSI_NODES, node, {"spec": body["spec"]})

    async def unregister(self, node: str) -> None:
        """The node goes."""
        if self._truth.csi_node(node) is not None:
            await self.do(f"delete CSINode {node}", self._cluster.delete(CSI_NODES, node))

    async def make_secret(self, volume: VolumePlan) -> None:
        """With the token that the backend wants, unless there is one."""
        if self._truth.version(SECRETS, volume.secret_name, "default"):
            return
        token = self._world.backend.secrets.setdefault(volume.handle, "token0")
        body = a_secret(volume.secret_name, secret_data(token))
        await self.do(
            f"create Secret {volume.secret_name}: {token}", self._cluster.create(SECRETS.whole(), body, "default")
        )

    async def drop_secret(self, volume: VolumePlan) -> None:
        if self._truth.version(SECRETS, volume.secret_name, "default"):
            await self.do(
                f"delete Secret {volume.secret_name}", self._cluster.delete(SECRETS, volume.secret_name, "default")
            )
