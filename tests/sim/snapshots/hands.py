"""The requests with which acts change the world, told and without faults."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.meta import Kind
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError
from tests.sim.snapshots.objects import CONTENTS, GROUP_CONTENTS, GROUPS, SNAPSHOTS, Json
from tests.sim.snapshots.world import SnapshotWorld

HOLDS: Final = ("users.example.com/first", "users.example.com/last")
"""Finalizers of others."""
KINDS: Final[dict[str, Kind[Any]]] = {
    CONTENTS: VOLUME_SNAPSHOT_CONTENTS,
    SNAPSHOTS: VOLUME_SNAPSHOTS,
    GROUP_CONTENTS: GROUP_SNAPSHOT_CONTENTS,
    GROUPS: GROUP_SNAPSHOTS,
}


class Hands:
    def __init__(self, world: SnapshotWorld) -> None:
        self._world, self._cluster = world, world.cluster

    def tell(self, what: str) -> None:
        self._world.story.tell("actor", what)

    async def create(self, kind: Kind[Any], body: Json, namespace: str = "") -> Json | None:
        """None where that was refused."""
        body = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        made: Json | None = await self._do(
            f"create {kind.name} {body}", self._cluster.create(kind.whole(), body, namespace)
        )
        return made

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        await self._do(f"delete {kind.name} {name}", self._cluster.delete(kind, name, namespace))

    async def remove(self, kind: Kind[Any], obj: Json) -> None:
        await self.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))

    async def merge(self, kind: Kind[Any], obj: Json, body: Json, subresource: str = "") -> None:
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        request = self._cluster.patch(
            kind.whole(), name, Patch(PatchType.MERGE, body), namespace, subresource=subresource
        )
        await self._do(f"patch {kind.name} {name} {body}", request)

    async def hold(self, kind: Kind[Any], obj: Json, finalizers: Sequence[str]) -> None:
        """Other finalizers, unless somebody was quicker."""
        meta = {"finalizers": list(finalizers) or None, "resourceVersion": obj["metadata"]["resourceVersion"]}
        await self.merge(kind, obj, {"metadata": meta})

    async def bind(self, claim: Json) -> None:
        status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
        await self.merge(PERSISTENT_VOLUME_CLAIMS, claim, {"status": status}, "status")

    async def _do(self, what: str, request: Awaitable[Any]) -> Any:
        try:
            answer = await request
        except ApiError as error:
            self.tell(f"{what}: {error}")
            return None
        self.tell(what)
        return answer
