"""Looking at a volume from all sides: the API, the driver, its folder on the node and the mount table; and using it as
a pod would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, TypeVar

from mooring.api.core import EVENTS
from mooring.api.meta import Kind
from mooring.base.errors import MooringError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.plane import Plane
from mooring.dev.story import Story
from mooring.driver.hostpath.state import State, Volume
from mooring.driver.hostpath.statefile import read_state
from mooring.kube.cluster import Cluster, EventType, Selection
from mooring.kube.errors import Gone
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.namespace import MountSpace
from mooring.mounts.targets import mount_table
from mooring.node.layout import KubeletLayout

T = TypeVar("T")

Seen = Callable[[T | None], bool]


async def until(cluster: Cluster, kind: Kind[T], name: str, wanted: Seen[T]) -> T | None:
    """The object as soon as it is as wanted; wanted sees None when it isn't there. Waits for ever: put a deadline
    around it.
    """
    selection = Selection(field_selector=f"metadata.name={name}")
    while True:
        page = await cluster.list(kind, selection)
        observed = page.items[0] if page.items else None
        if wanted(observed):
            return observed
        with contextlib.suppress(Gone):  # then the list above is the way back
            async with contextlib.aclosing(
                cluster.watch(kind, selection, resource_version=page.resource_version)
            ) as events:
                async for event in events:
                    if event.type is EventType.BOOKMARK:
                        continue
                    observed = None if event.type is EventType.DELETED else event.object
                    if wanted(observed):
                        return observed


async def until_any(cluster: Cluster, kind: Kind[T], selection: Selection, wanted: Callable[[T], bool]) -> T:
    """The first object that is as wanted. Waits for ever: put a deadline around it."""
    while True:
        page = await cluster.list(kind, selection)
        for one in page.items:
            if wanted(one):
                return one
        with contextlib.suppress(Gone):  # then the list above is the way back
            async with contextlib.aclosing(
                cluster.watch(kind, selection, resource_version=page.resource_version)
            ) as events:
                async for event in events:
                    observed = event.object if event.type in (EventType.ADDED, EventType.MODIFIED) else None
                    if observed is not None and wanted(observed):
                        return observed


_WAIT_S_MAX: Final = 30.0
"""A step takes less than a second on a quiet machine; the bound is for one that has hardly any processor time."""
_CALL: Final = Call(timeout_s=5.0)


class DemoFailed(MooringError):
    """Something was not as the demo claims; str() says what was expected and what was found."""


class Polling:
    """cluster: a client over HTTP; driver: a connection of the demo's own. The story reports each finding."""

    def __init__(self, plane: Plane, cluster: Cluster, driver: Driver, story: Story) -> None:
        assert plane.state_folder is not None, "the reference driver's state is looked at"
        self._state_folder = plane.state_folder
        self._cluster = cluster
        self._driver = driver
        self._story = story

    def expect(self, what: str, expected: object, found: object) -> None:
        if expected != found:
            raise DemoFailed(f"{what}: expected {expected!r}, found {found!r}")

    async def until(self, kind: Kind[T], name: str, wanted: Seen[T], what: str, *, more_s: float = 0.0) -> T | None:
        """The object once it is as wanted. more_s: for what takes its time. Raises DemoFailed, with what its status
        says, in the end.
        """
        try:
            async with asyncio.timeout(_WAIT_S_MAX + more_s):
                return await until(self._cluster, kind, name, wanted)
        except TimeoutError:
            selection = Selection(field_selector=f"metadata.name={name}")
            raise await self._too_late(kind, selection, f"{name} {what}", _WAIT_S_MAX + more_s) from None

    async def until_any(self, kind: Kind[T], selection: Selection, wanted: Callable[[T], bool], what: str) -> T:
        """The first of these that is as wanted. Raises DemoFailed, with what their status says, when that takes too
        long.
        """
        try:
            async with asyncio.timeout(_WAIT_S_MAX):
                return await until_any(self._cluster, kind, selection, wanted)
        except TimeoutError:
            raise await self._too_late(kind, selection, what, _WAIT_S_MAX) from None

    async def _too_late(self, kind: Kind[T], selection: Selection, what: str, wait_s: float) -> DemoFailed:
        whole = (await self._cluster.list(kind.whole(), selection)).items
        observed = "; ".join([f"its status: {json.dumps(one.get('status'))}" for one in whole]) or "it is not there"
        warnings = [await self._warning(one["metadata"]["name"]) for one in whole]
        return DemoFailed(f"{kind.name} {what}: not within {wait_s:g} s; {observed}{''.join(warnings)}")

    async def _warning(self, name: str) -> str:
        """The last warning that users were given about the object."""
        events = (await self._cluster.list(EVENTS.whole())).items
        texts = [one["message"] for one in events if one["type"] == "Warning" and one["involvedObject"]["name"] == name]
        return f"; its last warning: {texts[-1]}" if texts else ""

    async def until_none(self, kind: Kind[T]) -> None:
        """Returns when there is no object of the kind: the last ones may still be on their way out. Raises
        DemoFailed.
        """
        for one in (await self._cluster.list(kind.whole())).items:
            await self.until(kind, one["metadata"]["name"], lambda found: found is None, "is gone")
        left = [one["metadata"]["name"] for one in (await self._cluster.list(kind.whole())).items]
        self.expect(f"objects of kind {kind.name}", [], left)

    async def driver_has(self, handle: str, on: list[str], beside: Collection[str] = ()) -> Volume:
        """Asserts that the driver's word, its state file and its folders agree on the volume being on just these nodes.

        beside: the other volumes that there are.
        """
        answer = await self._driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id=handle), _CALL)
        self.expect("nodes that the driver names", on, list(answer.status.published_node_ids))
        volume = self._state().volumes.get(handle)
        if volume is None:
            raise DemoFailed("the volume is not in the driver's state file")
        self.expect("nodes in the driver's state file", on, [one.node_id for one in volume.published])
        self.expect("folders of the driver's volumes", sorted([handle, *beside]), self._folders())
        self._story.checked(
            f"the driver, its state file and its folder agree: the volume is on {' and '.join(on) or 'no node'}"
        )
        return volume

    def driver_has_snapshot(self, handle: str, *, of: str, size_bytes: int) -> None:
        """Asserts that the driver's state file has this snapshot of that volume alone, and data for it."""
        found = {one.id: (one.source_id, one.size_bytes) for one in self._state().snapshots.values()}
        self.expect("snapshots in the driver's state file", {handle: (of, size_bytes)}, found)
        self.expect("folders of the driver's snapshots", [handle], self._folders("snapshots"))
        self._story.checked(f"the driver has the snapshot {handle} of {of}")

    def driver_has_no_snapshot(self) -> None:
        self.expect("snapshots in the driver's state file", [], sorted(self._state().snapshots))
        self.expect("folders of the driver's snapshots", [], self._folders("snapshots"))
        self._story.checked("the driver has no snapshot any more")

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

    def _folders(self, kind: str = "volumes") -> list[str]:
        return sorted(one.name for one in (self._state_folder / kind).iterdir())


_FILE: Final = "greeting.txt"


class MountsAtFirst:
    """The machine's whole mount table, before the first volume comes and after the last one is gone."""

    def __init__(self, polling: Polling, story: Story) -> None:
        self._points = _points(mount_table())
        self._polling, self._story = polling, story

    def check(self) -> None:
        self._polling.expect("mounts that were not there at first", [], sorted(_points(mount_table()) - self._points))
        self._story.checked("/proc/self/mountinfo is as it was before the first pod")


class PodFolder:
    """A node's. root: of its agent. The story gets the findings; a wrong one raises DemoFailed."""

    def __init__(self, root: Path, space: MountSpace, polling: Polling, story: Story) -> None:
        self._layout = KubeletLayout(root)
        self._space, self._polling, self._story = space, polling, story

    def check_there(self, uid: str, pv_name: str, driver: str, handle: str) -> None:
        """The volume is staged and published, and both are the same folder of the driver's."""
        staging, target = self._layout.staging(driver, handle), self._layout.target(uid, pv_name)
        if not self._space.can_mount:
            self._polling.expect("a link at the pod's path", True, target.is_symlink())
            self._story.checked(f"the pod's path leads to the volume: {target}")
            return
        table = mount_table()
        staged, published = table.at(str(staging)), table.at(str(target))
        if staged is None or published is None:
            raise DemoFailed(f"/proc/self/mountinfo: no mount at {staging if staged is None else target}")
        self._polling.expect("what is published", (staged.device, staged.root), (published.device, published.root))
        self._story.checked(f"/proc/self/mountinfo: staged at {staging}")
        self._story.checked(f"/proc/self/mountinfo: published to the pod at {target}")

    def path(self, uid: str, pv_name: str) -> Path:
        """Where a pod sees a volume."""
        return self._layout.target(uid, pv_name)

    def size_bytes(self, path: Path) -> int:
        """The size of the file system that a pod sees there."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def empty(self, path: Path) -> None:
        """All files there are deleted, as the pod would; what the file system itself has there stays."""
        files = [one for one in path.iterdir() if one.is_file()]
        for one in files:
            one.unlink()
        self._polling.expect("files that are left", [], [one.name for one in path.iterdir() if one.is_file()])
        self._story.checked(f"{' and '.join(sorted(one.name for one in files))} are deleted through the pod's path")

    def write(self, uid: str, pv_name: str, text: str) -> None:
        """As the pod would."""
        path = self._layout.target(uid, pv_name) / _FILE
        path.write_text(text, encoding="utf-8")
        self._story.checked(f"{_FILE} is written through the pod's path")

    def read(self, uid: str, pv_name: str, text: str) -> None:
        path = self._layout.target(uid, pv_name) / _FILE
        try:
            found = path.read_text(encoding="utf-8")
        except OSError as error:
            raise DemoFailed(f"{_FILE} of the first pod can't be read by another: {error}") from None
        self._polling.expect(f"content of {_FILE}", text, found)
        self._story.checked(f'{_FILE} says "{found}"')

    def check_unmounted(self) -> None:
        """Nothing is mounted below the agent's folder."""
        self._polling.expect(
            "mounts below the agent's folder",
            [],
            [one.point for one in mount_table().below(str(self._layout.root))],
        )

    def check_empty(self, node: str) -> None:
        """That, and neither a pod's nor a volume's folder is left. node: whose agent it is."""
        self.check_unmounted()
        left = [str(path) for folder in (self._layout.pods, *_folders(self._layout.csi)) for path in _folders(folder)]
        self._polling.expect("folders of pods and volumes", [], left)
        self._story.checked(
            f"nothing is mounted below the folder of {node}'s agent, and no folder of a pod or a volume is left in it"
        )


def _points(table: MountTable) -> frozenset[str]:
    return frozenset(mount.point for mount in table)


def _folders(folder: Path) -> list[Path]:
    return [Path(entry.path) for entry in os.scandir(folder)] if folder.is_dir() else []
