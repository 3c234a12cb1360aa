"""`mooring controller` with the rights of its manifest: the whole life of a claim and its attachment, by two replicas
with one Lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.control.manager import Manager
from mooring.control.runtime import Runtime
from tests.e2e.controller_world import ControllerWorld, a_world
from tests.support.control_plane import ControlPlane
from tests.support.rights import ELECTION, acting_as, deployed, has_asked, refused

CONTROLLER = deployed("one-process")
ENABLED = "--enable=attacher,provisioner,resizer,snapshotter,attachdetach"
TESTED_ALONE = {
    "get csinodes.storage.k8s.io",
    "get nodes",
    "get persistentvolumeclaims",
    "get persistentvolumes",
    "get pods",
    "get replicasets.apps",
    "get storageclasses.storage.k8s.io",
    "get volumeattachments.storage.k8s.io",
    "get volumeattributesclasses.storage.k8s.io",
    "get volumesnapshotclasses.snapshot.storage.k8s.io",
    "get volumesnapshotcontents.snapshot.storage.k8s.io",
    "list nodes",
    "watch nodes",
    "patch events",
    "update persistentvolumeclaims",
    "update volumesnapshotcontents/status.snapshot.storage.k8s.io",
    *(f"{verb} csistoragecapacities.storage.k8s.io" for verb in ("list", "watch", "create", "update", "delete")),
    *(f"{verb} volumesnapshots.snapshot.storage.k8s.io" for verb in ("get", "list", "watch", "update")),
}
"""Rights for what does not happen in this life; each is seen to be needed where its controller is tested alone."""


@pytest.mark.long
async def test_the_manifests_rights_are_enough_for_a_whole_life(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane()
    async with (
        acting_as(CONTROLLER, plane, tmp_path) as proxy,
        a_world(plane.kubeconfig(), tmp_path, full=True) as world,
    ):
        binding = asyncio.create_task(_binder(world).run(), name="binder")
        world.pod_namespace = CONTROLLER.namespace
        node = await world.make_place()
        async with world.controller(proxy.kubeconfig, "one", ENABLED, *ELECTION) as first:
            await world.make_consumer()
            pv = await world.in_use("pod", node)
            await world.grown("pod", 2)
            await world.moved_to_class("pod", "gold")
            await world.photographed(pv)
            async with world.controller(proxy.kubeconfig, "two", ENABLED, *ELECTION):
                await world.until(
                    lambda: has_asked(proxy, "watch", "leases"), what="the one that does not lead watches the Lease"
                )
                assert 0 == await asyncio.to_thread(first.stop)
                await world.end_of("pod", node)
        binding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await binding
        assert [] == refused(proxy)
        assert set() == set(CONTROLLER.unused(proxy)) - TESTED_ALONE


def _binder(world: ControllerWorld) -> Manager:
    """What kube-controller-manager and kube-scheduler do, with all rights."""
    return make_binder(Runtime(world.users, LoopClock(), Random(), Metrics()), BinderOptions())
