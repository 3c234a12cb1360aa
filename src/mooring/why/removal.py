"""Deleting leaked volumes: looked for twice, some time apart, and once more before each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.why.orphans import Finding, Report, still

AGAIN_AFTER: int = 50
"""Deletions until the cluster is looked at anew."""


async def removed(
    driver: Driver,
    findings: Sequence[Finding],
    first: Report,
    look: Callable[[], Awaitable[Report]],
    secrets: Mapping[str, str],
    timeout_s: float,
) -> AsyncIterator[tuple[Finding, str]]:
    """Each volume with what kept it from being deleted, "" when it is gone. findings: by handle, those that somebody wants gone."""
    wanted = [finding.handle for finding in findings]
    for start in range(0, len(wanted), AGAIN_AFTER):
        confirmed = {finding.handle: finding for finding in still(first, await look())}
        for handle in wanted[start : start + AGAIN_AFTER]:
            if handle not in confirmed:
                yield next(finding for finding in findings if finding.handle == handle), "it is not leaked any more"
                continue
            yield confirmed[handle], await _delete(driver, handle, secrets, timeout_s)


async def _delete(driver: Driver, handle: str, secrets: Mapping[str, str], timeout_s: float) -> str:
    try:
        await driver.delete_volume(csi.DeleteVolumeRequest(volume_id=handle, secrets=secrets), Call(timeout_s))
    except DriverError as error:
        return "" if error.code == Code.NOT_FOUND else str(error)
    return ""
