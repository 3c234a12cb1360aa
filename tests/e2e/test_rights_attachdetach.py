"""The attach/detach controller with the rights of its manifest: they are enough for all that it does, and it needs
every one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mooring.api.core import NODES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.binding import POD, PVC, Tenant
from tests.support.builders import Json, a_claim, a_class, a_node, a_pv
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy, Refuse
from tests.support.programs import Program
from tests.support.rights import ELECTION, acting_as, deployed, has_asked, refused

ATTACHDETACH = deployed("attachdetach")
FLAGS = tuple(
    flag.replace("--leader-election-namespace", "--leader-elect-resource-namespace").replace(
        "--leader-election-", "--leader-elect-"
    )
    for flag in ELECTION[1:]
)


@contextlib.asynccontextmanager
async def controlling(proxy: FaultProxy, log: Path) -> AsyncIterator[None]:
    """A controller that runs for the block, and ends in good order."""
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "attachdetach",
        f"--kubeconfig={proxy.kubeconfig}",
        "--v=2",
        *FLAGS,
    ]
    program = Program(command, log, {**os.environ, "POD_NAMESPACE": ""})
    try:
        yield
        program.assert_alive()
        assert 0 == await asyncio.to_thread(program.stop)
    except BaseException as error:
        error.add_note(f"-- mooring attachdetach\n{program.log_tail(60)}")
        raise
    finally:
        program.kill()


@pytest.mark.long
async def test_the_manifests_rights_are_enough_and_all_are_needed(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane()
    users = HttpCluster(load(str(plane.kubeconfig()), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(90), acting_as(ATTACHDETACH, plane, tmp_path) as proxy, users:
        world = Tenant(users, look_s=0.02)
        async with controlling(proxy, tmp_path / "one"), controlling(proxy, tmp_path / "two"):
            node, pv = await _after_failures(world, proxy)
            await _its_volume_is_attached(world, node, pv)
            await _a_node_that_is_not_ready_keeps_it(world, proxy, node, pv)
            await _a_pod_that_goes_before_its_volume_is_attached(world)
            await world.until(
                lambda: has_asked(proxy, "watch", "leases"), what="the one that does not lead watches the Lease"
            )
        assert [] == refused(proxy)
        assert [] == ATTACHDETACH.unused(proxy)


async def _a_pod_that_wants_a_volume(world: Tenant, base: str = "") -> tuple[Json, str, str]:
    """The pod, its node, and its volume, once the attachment is made. base: of all names."""
    node, pv, claim = world(f"{base}node"), world(f"{base}pv"), world(f"{base}claim")
    await world.create(a_node(node, annotations={MANAGED: "true"}))
    made = await world.create(a_claim(claim, sc=world("sc"), volume=pv))
    await world.create(a_pv(pv, claim=made, storageClassName=world("sc")))
    await world.patch(PVC, claim, {"status": {"phase": "Bound"}}, subresource="status")
    pod = await world.make_pod(claim, base=f"{base}pod", node=node)
    await world.shown(VOLUME_ATTACHMENTS, attachment_name("csi.test", pv, node), bool, "is made")
    return pod, node, pv


async def _after_failures(world: Tenant, proxy: FaultProxy) -> tuple[str, str]:
    """An attachment is refused twice alike, which is told and counted up; then it may have been made, and is asked
    for.
    """
    proxy.fail("create", "volumeattachments", Refuse(422, "Invalid", "not at once"), times=2)
    proxy.fail("create", "volumeattachments", Refuse(500, "InternalError", "perhaps"), times=1)
    await world.create(a_class(world("sc"), provisioner="csi.test"))
    pod, node, pv = await _a_pod_that_wants_a_volume(world)
    await world.told(pod, "Warning", "FailedAttachVolume", "not at once")
    return node, pv


async def _a_pod_that_goes_before_its_volume_is_attached(world: Tenant) -> None:
    """Nothing was reported, so nothing is taken from the report: the node is asked what it has in use."""
    _, node, pv = await _a_pod_that_wants_a_volume(world, "early-")
    await world.remove(POD, world("early-pod"))
    await world.gone(VOLUME_ATTACHMENTS, attachment_name("csi.test", pv, node))


async def _its_volume_is_attached(world: Tenant, node: str, pv: str) -> None:
    va = attachment_name("csi.test", pv, node)
    await world.patch(VOLUME_ATTACHMENTS, va, {"status": {"attached": True}}, subresource="status")
    listed = [{"name": unique_name("csi.test", pv), "devicePath": ""}]
    await world.shown(NODES, node, lambda one: one["status"].get("volumesAttached") == listed, "reports the volume")


async def _a_node_that_is_not_ready_keeps_it(world: Tenant, proxy: FaultProxy, node: str, pv: str) -> None:
    """For how long says the class."""
    unique = unique_name("csi.test", pv)
    await world.patch(NODES, node, {"status": {"volumesInUse": [unique]}}, subresource="status")
    await world.remove(POD, world("pod"))
    await world.until(lambda: has_asked(proxy, "get", "storageclasses"), what="the class is asked for")
    await world.patch(NODES, node, {"status": {"volumesInUse": None}}, subresource="status")
    await world.gone(VOLUME_ATTACHMENTS, attachment_name("csi.test", pv, node))
