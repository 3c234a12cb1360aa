"""Looks in the driver's list for what an earlier request may have made: of a content that goes, and whose request the driver refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.sidecars.snapshotter.decide_after import After, after_looked_for, after_unlisted
from mooring.sidecars.snapshotter.kinds import Content
from mooring.sidecars.snapshotter.requests import CreateOrder, list_of_volume_request
from mooring.sidecars.snapshotter.view import View
from mooring.wire.grpc.codes import Code

PAGES_MAX: Final = 1000
"""For the list of one volume's snapshots."""


async def look_for(content: Content, order: CreateOrder, view: View, driver: Driver, call: Call, secrets: Mapping[str, str]) -> After:
    """For the one volume of this order."""
    try:
        listed = await _listed(order.volumes[0], driver, call, secrets)
    except DriverError as error:
        return after_unlisted(content, order, error)
    return after_looked_for(content, order, [handle for handle in listed if not view.is_named(handle)])


async def _listed(volume_handle: str, driver: Driver, call: Call, secrets: Mapping[str, str]) -> list[str]:
    """The handles of all snapshots of the volume. Raises DriverError."""
    found, token = list[str](), ""
    for _ in range(PAGES_MAX):
        answer = await driver.list_snapshots(list_of_volume_request(volume_handle, token, secrets), call)
        found += [entry.snapshot.snapshot_id for entry in answer.entries]
        token = answer.next_token
        if not token:
            return found
    raise DriverError(Code.UNKNOWN, f"the list does not end: {PAGES_MAX} pages")
