"""The binder with the rights of its manifest: all parts can do what they do, and need every right."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.binding import POD, PV, PVC, Tenant, finalizers
from tests.support.builders import a_claim, a_volume, an_ephemeral_volume
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import Program
from tests.support.rights import ELECTION, OWNERS_ARE_CHECKED, acting_as, deployed, has_asked, refused

BINDER = deployed("binder")
NOT_ASKED_FOR = ["update pods/finalizers"]
"""The API server's own question when a claim gets a pod as its owner: refused is the claim."""


@contextlib.asynccontextmanager
async def binding(proxy: FaultProxy, log: Path) -> AsyncIterator[None]:
    """A binder that runs for the block, and ends in good order."""
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "binder",
        f"--kubeconfig={proxy.kubeconfig}",
        "--v=2",
        *ELECTION,
    ]
    program = Program(command, log, {**os.environ, "POD_NAMESPACE": ""})
    try:
        yield
        program.assert_alive()
        assert 0 == await asyncio.to_thread(program.stop)
    except BaseException as error:
        error.add_note(f"-- mooring binder\n{program.log_tail(60)}")
        raise
    finally:
        program.kill()


@pytest.mark.long
async def test_the_manifests_rights_are_enough_and_all_are_needed(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane(apiserver_flags=[OWNERS_ARE_CHECKED])
    users = HttpCluster(load(str(plane.kubeconfig()), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(90), acting_as(BINDER, plane, tmp_path) as proxy, users:
        world = Tenant(users, look_s=0.02)
        async with binding(proxy, tmp_path / "one"), binding(proxy, tmp_path / "two"):
            await _a_pod_gets_its_volumes(world)
            await _a_pod_is_told_twice_what_it_lacks(world)
            await _volumes_are_released(world)
            await _no_class(world)
            await _a_class_of_attributes_goes(world)
            await world.until(
                lambda: has_asked(proxy, "watch", "leases"), what="the one that does not lead watches the Lease"
            )
        assert [] == refused(proxy)
        assert NOT_ASKED_FOR == BINDER.unused(proxy)


async def _a_pod_gets_its_volumes(world: Tenant) -> None:
    """One from its claim, which waits for a node, and one of its own."""
    node = await world.make_node()
    await world.make_class(wffc=True)
    await world.make_claim()
    await world.make_pod(world("claim"), volumes=(an_ephemeral_volume(sc=world("sc")),))
    await world.provision(await world.asked(world("claim")))
    await world.provision(await world.asked(f"{world('pod')}-scratch"), "own", size="2Gi")
    await world.scheduled(world("pod"), node)
    await world.bound(world("claim"), world("pv"))


async def _a_pod_is_told_twice_what_it_lacks(world: Tenant) -> None:
    """The second time the event is counted up."""
    claim = world("later")
    await world.make_pod(claim, base="waits")
    await world.rejected(world("waits"), "not found")
    await world.create(a_claim(claim, sc=""))
    await world.rejected(world("waits"), "unbound")
    await world.remove(PVC, claim)
    await world.rejected(world("waits"), "not found")


async def _volumes_are_released(world: Tenant) -> None:
    """Nothing goes as long as it is used."""
    await world.delete(PVC, world("claim"))
    await world.shown(
        PVC, world("claim"), lambda body: finalizers(body) == ["kubernetes.io/pvc-protection"], "stays for the pod"
    )
    await world.delete(POD, world("pod"))
    await world.gone(PVC, world("claim"))
    await world.phase(PV, world("pv"), "Released")
    await world.remove(PV, world("pv"))


async def _no_class(world: Tenant) -> None:
    """A class that nobody knows is asked for before a volume of that name is taken."""
    await world.create(a_volume(world("static"), sc=world("unknown")))
    await world.create(a_claim(world("static"), sc=world("unknown")))
    await world.bound(world("static"), world("static"))


async def _a_class_of_attributes_goes(world: Tenant) -> None:
    gold = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": world("gold")}}
    await world.create({**gold, "driverName": world.driver, "parameters": {"a": "b"}})
    await world.shown(VOLUME_ATTRIBUTES_CLASSES, world("gold"), finalizers, "is protected")
    await world.remove(VOLUME_ATTRIBUTES_CLASSES, world("gold"))
