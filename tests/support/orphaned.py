"""A cluster and a driver that lists its volumes, for `mooring orphans` on the in-process ports."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api.coordination import LEASES
from mooring.cli.orphans import OrphansCommand, OrphansFlags
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.wire.grpc.codes import Code
from tests.support.builders import DRIVER, a_claim, a_held_pv
from tests.support.cluster_world import ClusterWorld
from tests.support.intents import an_entry
from tests.support.scripted_driver import RPC
from tests.support.volume_driver import VolumeDriver

PLACE = JournalLocation("default", DRIVER)


@dataclasses.dataclass(frozen=True)
class Found:
    """One orphan as the command's JSON has it. kept: why it is not deleted. object: kind and name of a content of
    snapshots.
    """

    kind: str
    handle: str
    why: str
    kept: str
    object: str = ""


class Listing(VolumeDriver):
    """Lists two volumes a page. broken: deleting these fails. words, published: by handle. lists: how often it was
    asked for page 1.
    """

    def __init__(
        self,
        *handles: str,
        lists: bool = True,
        name: str = DRIVER,
        delete_s: float = 0.0,
        place: Mapping[str, str] | None = None,
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
        return csi.ListVolumesResponse(
            entries=[self._entry(handle) for handle in handles[start : start + 2]], next_token=token
        )

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


class OrphansWorld(ClusterWorld):
    def __init__(self, driver: Listing) -> None:
        super().__init__()
        self.driver = driver
        self.out, self.err = io.StringIO(), io.StringIO()

    async def run(self, typed: str = "", **flags: Any) -> int:
        port = InProcessDriver(self.driver, clock=self.clock)
        return await OrphansCommand(
            OrphansFlags(**flags), self.cluster, port, self.clock, io.StringIO(typed), self.out, self.err
        ).run()

    async def found(self) -> list[Found]:
        """What one look shows."""
        self.out = io.StringIO()
        await self.run(output="json")
        entries = json.loads(self.out.getvalue())["orphans"]
        return [
            Found(entry["kind"], entry["volumeHandle"], entry["why"], entry.get("spared", ""), entry.get("object", ""))
            for entry in entries
        ]

    async def own(self, name: str, handle: str, **more: Any) -> None:
        """A PersistentVolume. more: as for `a_held_pv`."""
        source = more.pop(
            "source", {"csi": {"driver": self.driver.name, "volumeHandle": handle, **more.pop("csi", {})}}
        )
        await self.create(a_held_pv(name, source=source, **more))

    async def claim(
        self,
        name: str = "c1",
        *,
        provisioner: str | None = DRIVER,
        notes: Mapping[str, str] | None = None,
        phase: str = "",
        **spec: Any,
    ) -> str:
        """Gives its uid. provisioner: of the annotation, None for none. notes: further annotations."""
        noted = {} if provisioner is None else {"volume.kubernetes.io/storage-provisioner": provisioner}
        status = {"phase": phase} if phase else None
        claim = await self.create(a_claim(name, sc=None, annotations={**noted, **(notes or {})}, status=status, **spec))
        return str(claim["metadata"]["uid"])

    async def begin(self, volume_name: str, uid: str = "u1", written_ago_s: float = 0.0, page: int = 0) -> None:
        """An open intent, alone on its page."""
        entry = an_entry(Intent(uid, "ns", "c1", volume_name, "{}", "{}"))
        body = lease_codec.page_body(
            PLACE, page, None, "somebody", [lease_codec.encoded(entry)], self.clock.wall_s() - written_ago_s
        )
        await self.users.create(LEASES.whole(), body, "default")

    async def damage(self) -> None:
        """A page that nobody can read."""
        body = lease_codec.page_body(PLACE, 0, None, "somebody", [], 0.0)
        body["metadata"]["annotations"][lease_codec.INTENTS] = "9:later"
        await self.users.create(LEASES.whole(), body, "default")
