"""Issue 27, C.1: `mooring attachdetach` and kube-controller-manager's own controller take each other's place, with
volumes in mid-life.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.binding import Tenant
from tests.support.builders import a_claim, a_node, a_pod, a_pv
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import Program
from tests.support.rights import NAMESPACE, acting_as, deployed, refused

pytestmark = [pytest.mark.long, pytest.mark.real]

VAS: Kind[Any] = VOLUME_ATTACHMENTS
HELD = "tests/held"
FLAGS = (
    f"--leader-elect-resource-namespace={NAMESPACE}",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=300ms",
)


class World(Tenant):
    """A node, and volumes that pods want there. The attacher's part, and the kubelet's, are done by hand."""

    async def make_place(self) -> None:
        await self.create(a_node(self("node"), annotations={MANAGED: "true"}))

    async def make_consumer(self, base: str) -> str:
        """A pod that wants a volume of its own; gives the name of its attachment."""
        pv, claim = self(f"{base}-pv"), self(f"{base}-claim")
        made = await self.create(a_claim(claim, sc="", volume=pv))
        await self.create(a_pv(pv, handle=pv, claim=made))
        await self.patch(PERSISTENT_VOLUME_CLAIMS, claim, {"status": {"phase": "Bound"}}, subresource="status")
        await self.create(a_pod(self(base), claim, node=self("node"), terminationGracePeriodSeconds=0))
        return attachment_name("csi.test", pv, self("node"))

    async def is_attached(self, va: str) -> None:
        """By the attacher, which holds it with a finalizer."""
        await self.patch(VAS, va, {"metadata": {"finalizers": [HELD]}})
        await self.patch(VAS, va, {"status": {"attached": True}}, subresource="status")

    async def is_detached(self, va: str) -> None:
        await self.patch(VAS, va, {"metadata": {"finalizers": None}})
        await self.gone(VAS, va)

    async def pod_goes(self, base: str) -> None:
        await self.users.delete(PODS, self(base), "default", grace_period_s=0)

    async def reported(self, *bases: str) -> None:
        """The node says that it has the volumes of these pods and no others."""
        wanted = sorted(unique_name("csi.test", self(f"{base}-pv")) for base in bases)

        def check(node: Any) -> bool:
            return wanted == sorted(one["name"] for one in node["status"].get("volumesAttached") or ())

        await self.shown(NODES, self("node"), check, f"reports {wanted}")


@contextlib.asynccontextmanager
async def _running(plane: ControlPlane, ours: FaultProxy, log: Path, *, is_go: bool) -> AsyncIterator[None]:
    """One of the two for the block; it ends by kill -9."""
    if is_go:
        plane.start_controllers("persistentvolume-attach-detach-controller")
        yield
        plane.end("kube-controller-manager")
        return
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "attachdetach",
        f"--kubeconfig={ours.kubeconfig}",
        "--v=2",
        *FLAGS,
    ]
    program = Program(command, log, {**os.environ, "POD_NAMESPACE": NAMESPACE})
    try:
        yield
        program.assert_alive()
    finally:
        program.kill()


@pytest.mark.parametrize("go_between", [pytest.param(True, id="ours-go-ours"), pytest.param(False, id="go-ours-go")])
async def test_attachments_of_pods_change_hands(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, go_between: bool
) -> None:
    """One wants an attachment and dies; the next one reports it, wants another, begins to detach the first and dies;
    the third ends it.
    """
    plane = new_control_plane()
    async with (
        acting_as(deployed("attachdetach"), plane, tmp_path) as ours,
        HttpCluster(
            load(str(plane.kubeconfig()), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
        ) as cluster,
    ):
        world = World(cluster, wait_s=60.0, look_s=0.05)
        await world.make_place()
        async with _running(plane, ours, tmp_path / "one", is_go=not go_between):
            first = await world.make_consumer("first")
            uid = (await world.shown(VAS, first, bool))["metadata"]["uid"]
        await world.is_attached(first)
        async with _running(plane, ours, tmp_path / "two", is_go=go_between):
            await world.reported("first")
            second = await world.make_consumer("second")
            await world.shown(VAS, second, bool)
            await world.is_attached(second)
            await world.reported("first", "second")
            assert uid == (await world.get(VAS, first))["metadata"]["uid"], "made anew"
            await world.pod_goes("first")
            await world.shown(VAS, first, lambda body: body["metadata"].get("deletionTimestamp"), "is being detached")
        async with _running(plane, ours, tmp_path / "three", is_go=not go_between):
            await world.is_detached(first)
            await world.reported("second")
            await world.pod_goes("second")
            await world.shown(VAS, second, lambda body: body["metadata"].get("deletionTimestamp"), "is being detached")
            await world.is_detached(second)
            await world.reported()
        assert [] == refused(ours)
