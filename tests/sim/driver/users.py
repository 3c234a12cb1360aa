"""What users ask of the driver, and what they must find: each takes one volume through its life."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts.mountinfo import Mount
from mooring.wire.grpc.codes import Code
from tests.sim.driver.kernel import MADE, MADE_AT
from tests.sim.driver.plan import KINDS
from tests.sim.driver.world import World
from tests.support.groups import a_group

SIZE: Final = 2 << 20
GID: Final = a_group()
TRIES_MAX: Final = 60
LATER: Final = (Code.UNAVAILABLE, Code.ABORTED, Code.INTERNAL, Code.RESOURCE_EXHAUSTED, Code.FAILED_PRECONDITION)
_Mode = csi.VolumeCapability.AccessMode


class User:
    """One volume, and what is made of it. randomness: None for the world's."""

    def __init__(self, world: World, number: int, *, prefix: str = "pvc", randomness: Random | None = None) -> None:
        self._world, self._kernel, self._randomness = world, world.kernel, randomness or world.randomness
        self._odd = Random(world.plan.seed * 16 + 3 + number)
        self._name = f"{prefix}-{number}"
        kind = KINDS[self._randomness.below(len(KINDS))]
        self._is_block = kind == "block"
        self._is_image = not self._is_block and world.plan.images
        shape: dict[str, Any] = {"block": {}} if self._is_block else {"mount": {"fs_type": "ext4"}}
        self._capability = csi.VolumeCapability(access_mode={"mode": _Mode.MULTI_NODE_MULTI_WRITER}, **shape)
        self._written = 0

    async def live(self) -> None:
        plan, volume = self._world.plan, await self._made(self._name)
        for node in self._world.nodes:
            await self._brought(volume, node, readonly=node != self._world.nodes[0] and self._happens(plan.readonly))
        if self._is_block:
            await self._measured(volume)
        self._write(volume)
        snapshots = await self._copied_twice(volume)
        if not self._is_image and not self._is_block and self._happens(plan.meddled):
            self._meddle(volume)
        self._check_written(volume)
        self._world.disk.is_full = self._happens(plan.full)
        for node in self._world.nodes:
            await self._taken_back(volume, node)
        self._world.disk.is_full = False
        restored = await self._made(f"{self._name}-restored", snapshots[0])
        await self._staged_first(restored)
        await self._taken_back(restored, self._world.nodes[0])
        for snapshot in snapshots:
            await self._ask(
                f"delete {snapshot}",
                lambda driver, one=snapshot: driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=one)),
            )
        self._world.disk.is_full = self._happens(plan.full)
        await self._deleted(restored)
        await self._deleted(volume)
        self._world.disk.is_full = False

    # -- there and back

    async def _made(self, name: str, snapshot: str = "") -> str:
        parameters = {"colour": "blue"} if not snapshot and self._happens(self._world.plan.unknown) else {}
        source = csi.VolumeContentSource(snapshot={"snapshot_id": snapshot}) if snapshot else None
        request = csi.CreateVolumeRequest(
            name=name,
            capacity_range={"required_bytes": SIZE},
            volume_capabilities=[self._capability],
            parameters=parameters,
        )
        if self._odd.happens(self._world.plan.odd.exact):
            request.capacity_range.limit_bytes = SIZE
        if source is not None:
            request.volume_content_source.CopyFrom(source)
        answer = await self._ask(f"create {name}", lambda driver: driver.create_volume(request))
        return str(answer.volume.volume_id)

    async def _brought(self, volume: str, node: str, *, readonly: bool = False, staged_only: bool = False) -> None:
        attachment = csi.ControllerPublishVolumeRequest(
            volume_id=volume, node_id=node, volume_capability=self._capability
        )
        await self._ask(f"attach {volume} {node}", lambda driver: driver.controller_publish_volume(attachment))
        staging, target = self._paths(volume, node)
        staging.mkdir(exist_ok=True)
        staged = csi.NodeStageVolumeRequest(
            volume_id=volume, staging_target_path=str(staging), volume_capability=self._capability
        )
        await self._ask(f"stage {volume} {node}", lambda driver: driver.node(node).node_stage_volume(staged))
        if staged_only:
            return
        published = csi.NodePublishVolumeRequest(
            volume_id=volume,
            staging_target_path=str(staging),
            target_path=str(target),
            volume_capability=self._capability,
            readonly=readonly,
        )
        if self._world.plan.odd.gid and not self._is_block:
            published.volume_capability.mount.volume_mount_group = str(GID)
        await self._ask(f"publish {volume} {node}", lambda driver: driver.node(node).node_publish_volume(published))
        mount = next((one for one in reversed(self._kernel.mounts) if one.point == str(target)), None)
        if readonly and not self._is_block and (mount is None or "ro" not in mount.options.split(",")):
            self._world.fail("readonly-written", f"{volume} is published to be read at {node}: {mount}")
        if published.volume_capability.mount.volume_mount_group and not readonly:
            self._check_group(target)

    def _check_group(self, target: Path) -> None:
        """The target is the group's, and so is what is made in it later."""
        status = target.stat()
        if status.st_gid != GID or not status.st_mode & stat.S_ISGID:
            self._world.fail(
                "group-lost", f"{self._world.short(target)} is of group {status.st_gid}, with mode {status.st_mode:o}"
            )

    async def _taken_back(self, volume: str, node: str) -> None:
        staging, target = self._paths(volume, node)
        unpublished = csi.NodeUnpublishVolumeRequest(volume_id=volume, target_path=str(target))
        await self._ask(
            f"unpublish {volume} {node}", lambda driver: driver.node(node).node_unpublish_volume(unpublished)
        )
        unstaged = csi.NodeUnstageVolumeRequest(volume_id=volume, staging_target_path=str(staging))
        await self._ask(f"unstage {volume} {node}", lambda driver: driver.node(node).node_unstage_volume(unstaged))
        detached = csi.ControllerUnpublishVolumeRequest(volume_id=volume, node_id=node)
        await self._ask(f"detach {volume} {node}", lambda driver: driver.controller_unpublish_volume(detached))

    async def _deleted(self, volume: str) -> None:
        request = csi.DeleteVolumeRequest(volume_id=volume)
        points = [point for point in self._kernel.foreign if point.startswith(f"{self._world.data(volume)}/")]
        if points:
            await self._refused(f"delete {volume}", lambda driver: driver.delete_volume(request))
            self._kernel.mounts = [mount for mount in self._kernel.mounts if mount.point not in points]
            self._kernel.foreign.difference_update(points)
        await self._ask(f"delete {volume}", lambda driver: driver.delete_volume(request))

    def _paths(self, volume: str, node: str) -> tuple[Path, Path]:
        folder = self._world.root / "nodes"
        return folder / f"staging-{volume}-{node}", folder / f"target-{volume}-{node}"

    # -- what is in volumes

    def _write(self, volume: str) -> None:
        """A pod writes, unless its file system is frozen: then it waits."""
        file = str(self._world.data(volume))
        if self._is_image and self._kernel.is_writable(file) and not self._kernel.is_frozen(file):
            self._written += 1
            self._kernel.write(file, self._written)

    def _check_written(self, volume: str) -> None:
        if self._is_image and (found := self._kernel.written(str(self._world.data(volume)))) != (
            self._written,
            self._written,
        ):
            self._world.fail("lost", f"{volume} has {found}, {self._written} was written")

    async def _copied_twice(self, volume: str) -> tuple[str, ...]:
        """Two snapshots at once, while a pod goes on writing."""
        writing = asyncio.get_running_loop().create_task(self._writes(volume), name=f"writes {volume}")
        try:
            first, second = await asyncio.gather(*(self._snapshot(volume, f"{self._name}-{one}") for one in ("a", "b")))
        finally:
            writing.cancel()
        return first, second

    async def _snapshot(self, volume: str, name: str) -> str:
        await self._world.clock.sleep(self._randomness.uniform(0.0, 1.0))
        request = csi.CreateSnapshotRequest(source_volume_id=volume, name=name)
        answer = await self._ask(f"snapshot {name}", lambda driver: driver.create_snapshot(request))
        snapshot = str(answer.snapshot.snapshot_id)
        if self._is_image and len(set(found := self._kernel.written(str(self._world.data(snapshot))))) > 1:
            self._world.fail("torn", f"{snapshot} of {volume} has {found}")
        return snapshot

    async def _writes(self, volume: str) -> None:
        while True:
            await self._world.clock.sleep(self._randomness.uniform(0.0, 0.2))
            self._write(volume)

    async def _staged_first(self, volume: str) -> None:
        """The first time, its device may be unreadable, or what is on it damaged: then nothing is formatted, and it is
        staged later.
        """
        plan, file, node = self._world.plan, str(self._world.data(volume)), self._world.nodes[0]
        before = self._kernel.written(file) if self._is_image else (0, 0)
        is_damaged, is_unread = (
            self._is_image and self._happens(plan.damaged),
            self._is_image and self._happens(plan.unread),
        )
        if is_damaged:
            self._kernel.damage(file)
        if is_unread:
            self._kernel.unread.add(file)
        if is_damaged or is_unread:
            self._world.group.create_task(self._mended(file), name=f"mends {volume}")
        await self._brought(volume, node, staged_only=True)
        if self._is_image and self._kernel.written(file) != before:
            self._world.fail("lost", f"{volume} has {self._kernel.written(file)}, it was {before}")

    async def _mended(self, file: str) -> None:
        await self._world.clock.sleep(5.0)
        self._kernel.unread.discard(file)
        self._kernel._write(file, MADE_AT, MADE)

    def _meddle(self, volume: str) -> None:
        """Somebody mounts something of his own in the volume's folder."""
        point = self._world.data(volume) / "mounted by others"
        point.mkdir()
        (point / "precious").touch()
        mounted = Mount(999, 1, "9:9", "/", str(point), "rw", (), "nfs", "server:/", "rw")
        self._kernel.mounts.append(mounted)
        self._kernel.foreign.add(str(point))

    async def _measured(self, volume: str) -> None:
        """At the path that a kubelet asks for: where it has bound the device itself."""
        node, path = self._world.nodes[0], self._world.root / "nodes" / f"{self._name}-dev"
        device = self._kernel.device_over(str(self._world.data(volume)))
        path.touch()
        self._kernel.run("mount", "--bind", f"/dev/{device}", str(path))
        request = csi.NodeGetVolumeStatsRequest(volume_id=volume, volume_path=str(path))
        await self._ask(f"measure {volume}", lambda driver: driver.node(node).node_get_volume_stats(request))
        self._kernel.run("umount", str(path))
        path.unlink()

    # -- calls

    def _happens(self, share: float) -> bool:
        return self._randomness.happens(share)

    async def _ask(self, what: str, make: Callable[[Any], Awaitable[Any]]) -> Any:
        """Again and again, until it succeeds."""
        takes = what.startswith(("unpublish", "unstage", "detach", "delete"))
        for _ in range(TRIES_MAX):
            try:
                return await self._world.call(what, make)
            except DriverError as error:
                is_occupied = what.startswith("stage") and error.code == Code.ALREADY_EXISTS
                if (error.code not in LATER and not is_occupied) or (takes and error.code == Code.RESOURCE_EXHAUSTED):
                    self._world.fail("refused", f"{what}: {error}")
            await self._world.clock.sleep(self._randomness.uniform(0.1, 0.5))
        self._world.fail("refused", f"{what} fails again and again")
        return await asyncio.get_running_loop().create_future()

    async def _refused(self, what: str, make: Callable[[Any], Awaitable[Any]]) -> None:
        """Something is in the way."""
        while True:
            try:
                await self._world.call(what, make)
            except DriverError as error:
                if error.code == Code.FAILED_PRECONDITION:
                    return
            else:
                self._world.fail("deleted-in-mount", f"{what}: done, and others have mounted something there")
                return
            await self._world.clock.sleep(0.2)
