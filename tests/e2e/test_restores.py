"""A claim that is filled from a snapshot, on a real cluster: each provisioner, ours or Go's, beside the others'
snapshot programs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner import names
from tests.e2e.snapshot_world import FLAGS, PV, PVC, VS, VSC, Snapshots, a_world
from tests.support.builders import a_claim, a_class
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.scripted_driver import RPC
from tests.support.snapshot_driver import CREATE, SnapshotDriver

pytestmark = [pytest.mark.real, pytest.mark.slow]

CREATE_VOLUME: Final = "CreateVolume"
RESTORED: Final = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
HELD: Final = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"


class RestoringDriver(SnapshotDriver):
    """Makes volumes, too, from the snapshots that it has."""

    def __init__(self) -> None:
        super().__init__(controller=(RPC.CREATE_DELETE_VOLUME,))

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        def create() -> csi.CreateVolumeResponse:
            volume = csi.Volume(volume_id=f"vol-{request.name}", capacity_bytes=request.capacity_range.required_bytes)
            volume.content_source.CopyFrom(request.volume_content_source)
            return csi.CreateVolumeResponse(volume=volume)

        return await self._call(CREATE_VOLUME, request, request.name, create)


@contextlib.asynccontextmanager
async def _provisioner(world: Snapshots, kubeconfig: Path, *, go: bool) -> AsyncIterator[None]:
    start = [binary("csi-provisioner")] if go else [sys.executable, "-m", "mooring.cli.csi_provisioner"]
    places = [f"--csi-address={world.socket}", f"--kubeconfig={kubeconfig}"]
    program = Program([*start, *places, *FLAGS], world.folder / "provisioner", dict(os.environ))
    try:
        yield
        program.assert_alive()
        if not go:
            assert 0 == await asyncio.to_thread(program.stop)
    except BaseException as error:
        error.add_note(f"-- csi-provisioner\n{program.log_tail(60)}")
        raise
    finally:
        program.kill()


@pytest.mark.parametrize("go_provisioner", [True, False], ids=["go-provisioner", "go-snapshots"])
@pytest.mark.long
async def test_a_claim_is_filled_from_a_snapshot_of_the_others(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, go_provisioner: bool
) -> None:
    """A claim smaller than the snapshot is refused, and one that waits for it holds the snapshot until it has its
    volume.
    """
    kubeconfig, go_pair = new_control_plane().kubeconfig(), not go_provisioner
    async with a_world(kubeconfig, tmp_path, RestoringDriver()) as world:
        await world.base()
        await world.create(a_class())
        async with (
            world.program("snapshot-controller", kubeconfig, go=go_pair),
            world.program("csi-snapshotter", kubeconfig, "--resync-period=3s", go=go_pair),
            _provisioner(world, kubeconfig, go=go_provisioner),
        ):
            await world.snap()
            await world.ready()
            [snapshot] = world.driver.snapshots
            asked = {"annotations": {names.STORAGE_PROVISIONER: world.driver.name}, "dataSource": RESTORED}
            await world.create(a_claim("small", size="1Mi", **asked))
            restored = await world.create(a_claim("restored", **asked))
            pv = f"pvc-{restored['metadata']['uid']}"
            await world.shown(PV, pv, bool, "the restored volume")
            await _refuses_the_small_one(world)
            assert [snapshot] == [
                call.request.volume_content_source.snapshot.snapshot_id for call in world.driver.made(CREATE_VOLUME)
            ]
            await _goes_when_nobody_restores(world)
            assert ({}, 1) == (world.driver.snapshots, len(world.driver.made(CREATE)))


async def _refuses_the_small_one(world: Snapshots) -> None:
    async def told() -> bool:
        return any("is less than the size" in event["message"] for event in await world.events_about("small"))

    await world.until(told, what="the small claim is refused")


async def _goes_when_nobody_restores(world: Snapshots) -> None:
    await world.delete(VS, "snap")
    await asyncio.sleep(1.0)
    assert HELD in (await world.get(VS, "snap"))["metadata"]["finalizers"], "two claims wait for it"
    await world.patch(PVC, "restored", {"status": {"phase": "Bound"}}, subresource="status")
    await world.patch(PVC, "small", {"metadata": {"finalizers": None}})
    await world.remove(PVC, "small")
    await world.gone(VS, "snap")

    async def no_content() -> bool:
        return not await world.list(VSC)

    await world.until(no_content, what="no content is left")
