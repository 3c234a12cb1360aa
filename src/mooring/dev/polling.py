"""Looking at a volume from all sides: what the API says, what the driver says, and what it has on disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Final, TypeVar

from mooring.api.core import EVENTS
from mooring.api.meta import Kind
from mooring.base.errors import MooringError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.plane import Plane
from mooring.dev.story import Story
from mooring.driver.state import State, Volume
from mooring.driver.statefile import read_state
from mooring.kube.cluster import Cluster, EventType, Selection
from mooring.kube.errors import Gone

T = TypeVar("T")

Seen = Callable[[T | None], bool]


async def until(cluster: Cluster, kind: Kind[T], name: str, wanted: Seen[T]) -> T | None:
    """The object as soon as it is as wanted; wanted sees None when it isn't there. Waits for ever: put a deadline around it."""
    selection = Selection(field_selector=f"metadata.name={name}")
    while True:
        page = await cluster.list(kind, selection)
        observed = page.items[0] if page.items else None
        if wanted(observed):
            return observed
        with contextlib.suppress(Gone):  # then the list above is the way back
            async with contextlib.aclosing(cluster.watch(kind, selection, resource_version=page.resource_version)) as events:
                async for event in events:
                    if event.type is EventType.BOOKMARK:
                        continue
                    observed = None if event.type is EventType.DELETED else event.object
                    if wanted(observed):
                        return observed


_WAIT_S_MAX: Final = 4.0
_CALL: Final = Call(timeout_s=5.0)


class DemoFailed(MooringError):
    """Something was not as the demo claims; str() says what was expected and what was found."""


class Polling:
    """cluster: a client over HTTP; driver: a connection of the demo's own. What is found is told in the story."""

    def __init__(self, plane: Plane, cluster: Cluster, driver: Driver, story: Story) -> None:
        assert plane.state_folder is not None, "the reference driver's state is looked at"
        self._state_folder = plane.state_folder
        self._cluster = cluster
        self._driver = driver
        self._story = story

    def expect(self, what: str, expected: object, found: object) -> None:
        if expected != found:
            raise DemoFailed(f"{what}: expected {expected!r}, found {found!r}")

    async def until(self, kind: Kind[T], name: str, wanted: Seen[T], what: str) -> T | None:
        """The object once it is as wanted. Raises DemoFailed, with what its status says, when that takes too long."""
        try:
            async with asyncio.timeout(_WAIT_S_MAX):
                return await until(self._cluster, kind, name, wanted)
        except TimeoutError:
            whole = [one for one in (await self._cluster.list(kind.whole())).items if one["metadata"]["name"] == name]
            observed = f"its status: {json.dumps(whole[0].get('status'))}" if whole else "it is not there"
            raise DemoFailed(f"{kind.name} {name} {what}: not within {_WAIT_S_MAX:g} s; {observed}{await self._warning(name)}") from None

    async def _warning(self, name: str) -> str:
        """The last warning that users were given about the object."""
        events = (await self._cluster.list(EVENTS.whole())).items
        texts = [one["message"] for one in events if one["type"] == "Warning" and one["involvedObject"]["name"] == name]
        return f"; its last warning: {texts[-1]}" if texts else ""

    async def driver_has(self, handle: str, on: list[str]) -> Volume:
        """Asserts that the driver's word, its state file and its folders agree on the volume being on just these nodes."""
        answer = await self._driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id=handle), _CALL)
        self.expect("nodes that the driver names", on, list(answer.status.published_node_ids))
        volume = self._state().volumes.get(handle)
        if volume is None:
            raise DemoFailed("the volume is not in the driver's state file")
        self.expect("nodes in the driver's state file", on, [one.node_id for one in volume.published])
        self.expect("folders of the driver's volumes", [handle], self._folders())
        self._story.checked(f"the driver, its state file and its folder agree: the volume is on {' and '.join(on) or 'no node'}")
        return volume

    async def driver_has_nothing(self) -> None:
        """Asserts that all three agree on there being no volume."""
        listed = await self._driver.list_volumes(csi.ListVolumesRequest(), _CALL)
        self.expect("volumes that the driver lists", [], [one.volume.volume_id for one in listed.entries])
        state = self._state()
        self.expect("volumes in the driver's state file", [], sorted({*state.volumes, *state.snapshots}))
        self.expect("folders of the driver's volumes", [], self._folders())
        self._story.checked("the driver, its state file and its folders agree: there is no volume")

    def _state(self) -> State:
        return read_state(self._state_folder)

    def _folders(self) -> list[str]:
        return sorted(one.name for one in (self._state_folder / "volumes").iterdir())
