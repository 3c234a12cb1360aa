"""Asks the driver for what it has made: a snapshot or a group by its handle, or what an earlier request may have made of a volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.base.errors import MooringError
from mooring.csi.capabilities import rpcs
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter import decision as d
from mooring.sidecars.snapshotter.decide_after import (
    After,
    after_asked,
    after_believed,
    after_looked_for,
    after_unasked,
    after_unlisted,
    stranger,
)
from mooring.sidecars.snapshotter.decide_after_group import after_group
from mooring.sidecars.snapshotter.kinds import Content
from mooring.sidecars.snapshotter.requests import CreateOrder, Made, list_of_volume_request
from mooring.sidecars.snapshotter.view import View
from mooring.wire.grpc.codes import Code

PAGES_MAX: Final = 1000
"""For the list of one volume's snapshots."""

_RPC: Final = csi.ControllerServiceCapability.RPC


class Unasked(MooringError):
    """The driver does not say how far a snapshot is that it makes: the request is sent again, as csi-snapshotter always does."""


class Questions:
    """To one driver."""

    def __init__(self, driver: Driver, call: Call, view: View) -> None:
        self._driver, self._call, self._view = driver, call, view

    async def ask(self, ask: d.Ask, secrets: Mapping[str, str], content: Any, now_ns: int) -> After:
        """Only a request by its name says how far a snapshot is that need not be known yet, or whose it is: then Unasked is raised."""
        try:
            way = await self._way(ask)
            if way is d.Way.NONE:
                return after_believed(content, ask.made.handle, now_ns)
            if way is d.Way.GET_GROUP:
                group = await self._driver.get_volume_group_snapshot(ask.made.get_group_request(secrets), self._call)
                after = after_group(self._view, content, group.group_snapshot, now_ns)
                if after.nothing_made:
                    raise Unasked("the driver told of another group")
                return after
            found = await self._found(way, ask.made, secrets)
        except DriverError as error:
            if not ask.learn:
                raise Unasked(str(error)) from error
            return after_unasked(content, error)
        other = "" if found is None else stranger(self._view, content, found)
        if (found is None or other) and not ask.learn:
            raise Unasked(ask.made.handle)
        return after_asked(content, ask.made.handle, found, now_ns, other)

    async def _way(self, ask: d.Ask) -> d.Way:
        """Raises DriverError."""
        if not ask.learn or ask.way is d.Way.GET_GROUP:
            return ask.way
        able = rpcs(await self._driver.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest(), self._call))
        return d.Way.LIST if _RPC.LIST_SNAPSHOTS in able else d.Way.GET if _RPC.GET_SNAPSHOT in able else d.Way.NONE

    async def _found(self, way: d.Way, made: Made, secrets: Mapping[str, str]) -> csi.Snapshot | None:
        """Raises DriverError. Differs from csi-snapshotter: an entry about another snapshot is none."""
        if way is d.Way.LIST:
            answer = await self._driver.list_snapshots(made.list_request(secrets), self._call)
            return next((entry.snapshot for entry in answer.entries if entry.snapshot.snapshot_id == made.handle), None)
        try:
            got = await self._driver.get_snapshot(made.get_request(secrets), self._call)
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return None
            raise
        return got.snapshot if got.snapshot.snapshot_id == made.handle else None

    # -- of a content that goes, and whose request the driver refuses

    async def look_for(self, content: Content, order: CreateOrder, secrets: Mapping[str, str]) -> After:
        """For the one volume of this order."""
        try:
            listed = await self._listed(order.volumes[0], secrets)
        except DriverError as error:
            return after_unlisted(content, order, error)
        return after_looked_for(content, order, [handle for handle in listed if not self._view.is_named(handle)])

    async def _listed(self, volume_handle: str, secrets: Mapping[str, str]) -> list[str]:
        """The handles of all snapshots of the volume. Raises DriverError."""
        found, token = list[str](), ""
        for _ in range(PAGES_MAX):
            answer = await self._driver.list_snapshots(
                list_of_volume_request(volume_handle, token, secrets), self._call
            )
            found += [entry.snapshot.snapshot_id for entry in answer.entries]
            token = answer.next_token
            if not token:
                return found
        raise DriverError(Code.UNKNOWN, f"the list does not end: {PAGES_MAX} pages")
