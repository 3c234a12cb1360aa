"""A cluster and a driver that lists its volumes, for `mooring orphans` on the in-process ports."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.randomness import Chance
from mooring.cli.orphans import Orphans, OrphansFlags
from mooring.controllers.provisioner.intents import lease_codec
from mooring.controllers.provisioner.intents.intent import Intent
from mooring.controllers.provisioner.intents.lease_codec import JournalLocation
from mooring.csi.codes import Code, DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Patch, PatchType
from tests.support.builders import DRIVER, a_held_pv
from tests.support.scripted_driver import RPC
from tests.support.volume_driver import VolumeDriver

PLACE = JournalLocation("default", DRIVER)
STARTED_WALL_S = 1_780_000_000.0


@dataclasses.dataclass(frozen=True)
class Found:
    """One orphan as the command's JSON has it. kept: why it is not deleted."""

    kind: str
    handle: str
    why: str
    kept: str


class Listing(VolumeDriver):
    """Lists two volumes a page. broken: deleting these fails. words, published: by handle. lists: how often it was asked for page 1."""

    def __init__(
        self, *handles: str, lists: bool = True, name: str = DRIVER, delete_s: float = 0.0, place: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name, controller=(RPC.LIST_VOLUMES,) if lists else (), topology=place)
        self.volumes = dict.fromkeys(handles, 1 << 30)
        self.broken: set[str] = set()
        self.words: dict[str, str] = {}
        self.published_on: dict[str, Sequence[str]] = {}
        self.delete_s, self.list_count = delete_s, 0

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        self.list_count += not request.starting_token
        start, handles = int(request.starting_token or 0), sorted(self.volumes)
        token = str(start + 2) if start + 2 < len(handles) else ""
        return csi.ListVolumesResponse(entries=[self._entry(handle) for handle in handles[start : start + 2]], next_token=token)

    def _entry(self, handle: str) -> dict[str, Any]:
        context = {"name": self.words[handle]} if handle in self.words else {}
        volume = {"volume_id": handle, "capacity_bytes": 1 << 30, "volume_context": context}
        return {"volume": volume, "status": {"published_node_ids": self.published_on.get(handle, ())}}

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        if self.delete_s:
            await asyncio.sleep(self.delete_s)
        if request.volume_id in self.broken:
            raise DriverError(Code.INTERNAL, "stuck")
        return await super().delete_volume(request)


class World:
    def __init__(self, driver: Listing) -> None:
        self.clock, self.driver = LoopClock(STARTED_WALL_S), driver
        self.cluster = LocalCluster(new_store(Chance(1), STARTED_WALL_S), clock=self.clock, chance=Chance(1))
        self.out, self.err = io.StringIO(), io.StringIO()

    async def run(self, typed: str = "", **flags: Any) -> int:
        port = InProcessDriver(self.driver, clock=self.clock)
        return await Orphans(OrphansFlags(**flags), self.cluster, port, self.clock, io.StringIO(typed), self.out, self.err).run()

    async def found(self) -> list[Found]:
        """What one look shows."""
        self.out = io.StringIO()
        await self.run(output="json")
        entries = json.loads(self.out.getvalue())["orphans"]
        return [Found(entry["kind"], entry["volumeHandle"], entry["why"], entry.get("spared", "")) for entry in entries]

    async def store(self, kind: Kind[Any], body: Mapping[str, Any], namespace: str = "") -> None:
        await self.cluster.create(kind.whole(), body, namespace)

    async def own(self, name: str, handle: str, **more: Any) -> None:
        """A PersistentVolume. more: as for a_pv."""
        source = more.pop("source", {"csi": {"driver": self.driver.name, "volumeHandle": handle, **more.pop("csi", {})}})
        await self.store(PERSISTENT_VOLUMES, a_held_pv(name, source=source, **more))

    async def claim(
        self, name: str = "c1", *, provisioner: str | None = DRIVER, notes: Mapping[str, str] | None = None, phase: str = "", **spec: Any
    ) -> str:
        """Gives its uid. provisioner: of the annotation, None for none. notes: further annotations."""
        said = {} if provisioner is None else {"volume.kubernetes.io/storage-provisioner": provisioner}
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default", "annotations": {**said, **(notes or {})}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
        }
        kind = PERSISTENT_VOLUME_CLAIMS.whole()
        claim = await self.cluster.create(kind, body, "default")
        if phase:
            await self.cluster.patch(kind, name, Patch(PatchType.MERGE, {"status": {"phase": phase}}), "default", subresource="status")
        return str(claim["metadata"]["uid"])

    async def storage_class(self, name: str, provisioner: str = DRIVER, mode: str = "Immediate") -> None:
        await self.store(STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})

    async def attach(self, body: Mapping[str, Any]) -> None:
        await self.store(VOLUME_ATTACHMENTS, body)

    async def pod(self, name: str, volumes: Sequence[Mapping[str, Any]]) -> str:
        """Gives its uid."""
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": list(volumes)},
        }
        pod = await self.cluster.create(PODS.whole(), {"apiVersion": "v1", "kind": "Pod", **body}, "default")
        return str(pod["metadata"]["uid"])

    async def begin(self, volume_name: str, uid: str = "u1", written_ago_s: float = 0.0, page: int = 0) -> None:
        """An open intent, alone on its page."""
        intent = Intent(uid, "ns", "c1", volume_name, "{}", "{}")
        body = lease_codec.page_body(PLACE, page, None, "somebody", [lease_codec.encoded(intent)], self.clock.wall_s() - written_ago_s)
        await self.store(LEASES, body, "default")
