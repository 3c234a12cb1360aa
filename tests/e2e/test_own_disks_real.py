"""Disks that pods name themselves (27 A1), on the real API server: our attachments are those of
kube-controller-manager, to the letter.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.binding import Tenant
from tests.support.builders import Json, a_node, a_pod
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program

DISKS: list[Json] = [
    {"gcePersistentDisk": {"pdName": "written", "fsType": "ext4", "partition": 1}},
    {"gcePersistentDisk": {"pdName": "read", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-456", "fsType": "xfs"}},
    {"cinder": {"volumeID": "c0ffee", "readOnly": True}},
    {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s/disks/d", "kind": "Managed"}},
    {"azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "share"}},
    {"vsphereVolume": {"volumePath": "[store] kubevols/v.vmdk", "fsType": "ext4"}},
    {"portworxVolume": {"volumeID": "px", "readOnly": True}},
]
CONTROLLER = "persistentvolume-attach-detach-controller"


@contextlib.asynccontextmanager
async def ours(plane: ControlPlane, log: Path) -> AsyncIterator[None]:
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "attachdetach",
        f"--kubeconfig={plane.kubeconfig()}",
        "--leader-elect=false",
    ]
    program = Program(command, log)
    try:
        yield
        program.assert_alive()
    finally:
        await asyncio.to_thread(program.stop)


@contextlib.asynccontextmanager
async def theirs(plane: ControlPlane) -> AsyncIterator[None]:
    program = plane.start_controllers(CONTROLLER)
    try:
        yield
        program.assert_alive()
    finally:
        program.kill()


async def _attachments(world: Tenant) -> dict[str, Json]:
    return {one["metadata"]["name"]: one["spec"] for one in await world.list(VOLUME_ATTACHMENTS)}


async def _are(world: Tenant, count: int) -> dict[str, Json]:
    async def made() -> bool:
        return count == len(await _attachments(world))

    await world.until(made, 60, f"{count} attachments")
    return await _attachments(world)


@pytest.mark.long
async def test_attachments_are_those_of_the_real_controller_which_ours_takes_over(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """The pod goes while neither runs."""
    plane = new_control_plane()
    users = HttpCluster(load(str(plane.kubeconfig()), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    volumes = [{"name": f"v{number}", **disk} for number, disk in enumerate(DISKS)]
    async with asyncio.timeout(240), users:
        world = Tenant(users, look_s=0.05)
        await world.create(a_node("n", annotations={MANAGED: "true"}))
        await world.patch(
            NODES, "n", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
        )
        await world.create(a_pod("user", node="n", volumes=volumes, terminationGracePeriodSeconds=0))
        async with theirs(plane):
            made = await _are(world, len(DISKS))
        await users.delete(PODS, "user", "default", grace_period_s=0)
        async with ours(plane, tmp_path / "ours"):
            await _are(world, 0)
            await world.create(a_pod("user", node="n", volumes=volumes, terminationGracePeriodSeconds=0))
            assert made == await _are(world, len(DISKS))
