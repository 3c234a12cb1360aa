"""Deleting leaked volumes: looked for twice, some time apart, and once more before each, unless the last look is
fresh.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from mooring.base.clock import Clock, Instant
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.orphans import Finding, OrphansReport

FRESH_S: Final = 3.0
"""How long a look is trusted: a volume may find its object at any time, and one deletion may take a minute."""


class Removal(msgspec.Struct, frozen=True):
    """look: gives a new report. named: as for Report.deletable. secrets: for DeleteVolume."""

    driver: Driver
    clock: Clock
    look: Callable[[], Awaitable[OrphansReport]]
    named: Collection[str]
    secrets: Mapping[str, str]
    timeout_s: float

    async def run(self, findings: Sequence[Finding]) -> AsyncIterator[tuple[Finding, str]]:
        """Each volume with what kept it from being deleted, "" when it is gone. findings: of the first look. Raises
        what looking raises.
        """
        report: OrphansReport | None = None
        looked_at: Instant = 0.0
        for finding in findings:
            if report is None or self.clock.now() - looked_at > FRESH_S:
                report = await self.look()
                looked_at = self.clock.now()
                deletable = {found.handle for found in report.deletable(self.named)}
            if finding.handle in deletable:
                yield finding, await self._delete(finding.handle)
            else:
                yield finding, f"not deleted: {report.why_kept(finding.handle)}"

    async def _delete(self, handle: str) -> str:
        try:
            await self.driver.delete_volume(
                csi.DeleteVolumeRequest(volume_id=handle, secrets=self.secrets), Call(self.timeout_s)
            )
        except DriverError as error:
            return str(error)
        return ""
