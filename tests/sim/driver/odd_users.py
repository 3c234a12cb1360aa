"""Those who take no volume through its whole life: of groups, of volumes that pods bring, and who only look."""

from __future__ import annotations

import asyncio

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.sim.driver.users import LATER, SIZE, User
from tests.sim.driver.world import World

_INLINE = "csi.storage.k8s.io/ephemeral"


class GroupUser(User):
    """A group of two volumes is deleted, perhaps while one is restored from it: that has all of its source, or never
    begins.
    """

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number, prefix="group", randomness=Random(world.plan.seed * 16 + 5))

    async def live(self) -> None:
        volumes = [await self._made(f"{self._name}-{one}") for one in ("a", "b")]
        request = csi.CreateVolumeGroupSnapshotRequest(name=self._name, source_volume_ids=volumes)
        made = await self._ask(f"group {self._name}", lambda driver: driver.create_volume_group_snapshot(request))
        members = [one.snapshot_id for one in made.group_snapshot.snapshots]
        restoring = asyncio.get_running_loop().create_task(self._restored(members[0]), name=f"restores {self._name}")
        await self._world.clock.sleep(self._randomness.uniform(0.0, 0.5))
        deletion = csi.DeleteVolumeGroupSnapshotRequest(
            group_snapshot_id=made.group_snapshot.group_snapshot_id, snapshot_ids=members
        )
        await self._ask(f"delete {self._name}", lambda driver: driver.delete_volume_group_snapshot(deletion))
        for volume in (*volumes, *filter(None, [await restoring])):
            await self._deleted(volume)

    async def _restored(self, snapshot: str) -> str:
        """The volume, "" where its source was gone before it began."""
        request = csi.CreateVolumeRequest(
            name=f"{self._name}-restored",
            capacity_range={"required_bytes": SIZE},
            volume_capabilities=[self._capability],
        )
        request.volume_content_source.snapshot.snapshot_id = snapshot
        while True:
            try:
                answer = await self._world.call(f"restore {self._name}", lambda driver: driver.create_volume(request))
            except DriverError as error:
                if error.code == Code.NOT_FOUND:
                    return ""
                if error.code not in LATER:
                    self._world.fail("refused", f"restore {self._name}: {error}")
                await self._world.clock.sleep(self._randomness.uniform(0.1, 0.5))
            else:
                return str(answer.volume.volume_id)


class InlineUser(User):
    """Of a volume that a pod brings: it is there with its target, and goes with it."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number, prefix="inline", randomness=Random(world.plan.seed * 16 + 6))

    async def live(self) -> None:
        node, target = self._world.nodes[0], self._world.root / "nodes" / f"target-{self._name}"
        capability = csi.VolumeCapability(
            access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER}, mount={"fs_type": "ext4"}
        )
        request = csi.NodePublishVolumeRequest(
            volume_id=f"csi-{self._name}",
            target_path=str(target),
            volume_capability=capability,
            volume_context={_INLINE: "true"},
        )
        await self._ask(f"publish {self._name}", lambda driver: driver.node(node).node_publish_volume(request))
        await self._world.clock.sleep(self._randomness.uniform(0.0, 3.0))
        back = csi.NodeUnpublishVolumeRequest(volume_id=request.volume_id, target_path=str(target))
        await self._ask(f"unpublish {self._name}", lambda driver: driver.node(node).node_unpublish_volume(back))


class Onlooker:
    """Lists the snapshots: one that is called ready has its data."""

    def __init__(self, world: World) -> None:
        self._world, self._randomness = world, Random(world.plan.seed * 16 + 7)

    async def live(self) -> None:
        while True:
            await self._world.clock.sleep(self._randomness.uniform(0.0, 0.5))
            try:
                answer = await self._world.call(
                    "list", lambda driver: driver.list_snapshots(csi.ListSnapshotsRequest())
                )
            except DriverError as error:
                if error.code not in LATER:
                    self._world.fail("refused", f"list: {error}")
            else:
                self._check(answer)

    def _check(self, answer: csi.ListSnapshotsResponse) -> None:
        filling = self._world.filling()
        for entry in answer.entries:
            if entry.snapshot.ready_to_use and entry.snapshot.snapshot_id in filling:
                self._world.fail(
                    "early-ready", f"{entry.snapshot.snapshot_id} is called ready, and its data is being copied"
                )
