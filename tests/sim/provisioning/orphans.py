"""`mooring orphans` in a life of claims: somebody looks, and deletes, at any time; at rest it tells of all that nobody
else can know.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Final

from mooring.api.pods import PODS
from mooring.base.errors import MooringError
from mooring.cli.orphans import OrphansCommand, OrphansFlags
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.delete_volume import FRESH_S
from mooring.inspect.facts import CannotLook
from mooring.inspect.inventory import Scanner
from mooring.inspect.orphans import OrphansReport, judged
from tests.sim.provisioning.pages import JournalActs
from tests.sim.provisioning.plan import DRIVER

_RPC = csi.ControllerServiceCapability.RPC
_SERVICE = csi.PluginCapability.Service
TIMEOUT_S: Final = 5.0


class Lister:
    """The driver's end of the line for the command. It lists what is there at the moment of the call."""

    def __init__(self, world: Any) -> None:
        self._world = world

    async def probe(self, _request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def get_plugin_info(self, _request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=DRIVER, vendor_version="1")

    async def get_plugin_capabilities(
        self, _request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": _SERVICE.CONTROLLER_SERVICE}}])

    async def controller_get_capabilities(self, _request: Any) -> csi.ControllerGetCapabilitiesResponse:
        found = (_RPC.CREATE_DELETE_VOLUME, _RPC.LIST_VOLUMES)
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": one}} for one in found])

    async def list_volumes(self, _request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        listed = sorted(self._world.backend.volumes)
        return csi.ListVolumesResponse(
            entries=[{"volume": {"volume_id": handle, "capacity_bytes": 1 << 30}} for handle in listed]
        )

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        backend, handle = self._world.backend, request.volume_id
        self._world.story.tell("orphans", f"delete {handle}")
        self._world.laws.orphan_goes(handle, FRESH_S)
        await backend.delete(handle, {"token": backend.owned.get(handle, "")})
        return csi.DeleteVolumeResponse()


class OrphanActs(JournalActs):
    async def look_for_orphans(self) -> None:
        await self._run_orphans(delete=False)

    async def delete_orphans(self) -> None:
        """Runs beside everything else: it takes its time between the looks."""
        older_than_s = self._randomness.uniform(0.0, 8.0)
        work = self._run_orphans(delete=True, older_than_s=older_than_s)
        self._world.group.create_task(work, name=f"sim/orphans/{self._world.clock.now()}")

    async def end_with_orphans(self) -> None:
        """Once all claims have their volumes, nothing that waits spares others: objects are lost once more, and
        somebody cleans up.
        """
        if "delete_orphans" in self._world.plan.acts:
            await self.make_pod()
            await (self.tear_claim if self._randomness.happens(0.5) else self.tear_volume)()
            await self._world.clock.sleep(2.0)
            await self._run_orphans(delete=True, older_than_s=5.0)
            while self._truth.all(PODS):
                await self.drop_pod()

    async def _run_orphans(self, **flags: Any) -> None:
        driver = InProcessDriver(Lister(self._world), clock=self._world.clock)
        out, err = io.StringIO(), io.StringIO()
        given = OrphansFlags(timeout_s=TIMEOUT_S, **flags)
        try:
            code = await OrphansCommand(
                given, self._cluster, driver, self._world.clock, io.StringIO(f"{DRIVER}\n"), out, err
            ).run()
        except MooringError as error:
            self._world.story.tell("orphans", str(error))
            return
        self._world.story.tell("orphans", f"exit code {code}: {err.getvalue().strip()}")


async def report_of(world: Any) -> OrphansReport | None:
    """What one look shows; None where the journal can't be read, for then it shows nothing."""
    driver = InProcessDriver(Lister(world), clock=world.clock)
    try:
        return judged(await Scanner(world.cluster, driver, world.clock, DRIVER, {}, TIMEOUT_S).scan())
    except CannotLook:
        return None


def unreported(world: Any, report: OrphansReport | None, untold: set[str]) -> Iterator[tuple[str, str]]:
    """Volumes that nobody names and the command does not tell of. untold: those that the driver has never told of."""
    if report is None:
        return
    named = {finding.handle for finding in report.findings}
    for handle in sorted((untold & set(world.backend.volumes)) - named - world.laws.handles()):
        yield "unreported", f"{handle} is in the backend, and mooring orphans does not tell of it"
