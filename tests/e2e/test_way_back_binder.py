"""Issue 27, C.1: `mooring binder`, and kube-controller-manager with kube-scheduler, take each other's place with claims
in mid-life.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.binding import POD, PV, PVC, Tenant
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import Program
from tests.support.rights import NAMESPACE, acting_as, deployed, refused
from tests.support.swapping import ELECTION

pytestmark = [pytest.mark.long, pytest.mark.real]


@contextlib.asynccontextmanager
async def _running(plane: ControlPlane, ours: FaultProxy, log: Path, *, is_go: bool) -> AsyncIterator[None]:
    """One side for the block; it ends by kill -9."""
    if is_go:
        plane.start_binding()
        yield
        plane.end("kube-scheduler")
        plane.end("kube-controller-manager")
        return
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "binder",
        f"--kubeconfig={ours.kubeconfig}",
        "--v=2",
        *ELECTION,
    ]
    program = Program(command, log, {**os.environ, "POD_NAMESPACE": NAMESPACE})
    try:
        yield
        program.assert_alive()
    except BaseException as error:
        error.add_note(f"-- mooring binder\n{program.log_tail(60)}")
        raise
    finally:
        program.kill()


@pytest.mark.parametrize("go_between", [pytest.param(True, id="ours-go-ours"), pytest.param(False, id="go-ours-go")])
async def test_claims_and_pods_change_hands(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, go_between: bool
) -> None:
    """One has chosen a node and waits for the volume; the next one binds it and places the pod, holds back its claim's
    deletion, and has chosen a node for another; the third one ends both.
    """
    plane = new_control_plane()
    async with (
        acting_as(deployed("binder"), plane, tmp_path) as ours,
        HttpCluster(
            load(str(plane.kubeconfig()), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
        ) as cluster,
    ):
        world = Tenant(cluster, wait_s=60.0, look_s=0.05)
        node = await world.make_node()
        await world.make_class(wffc=True)
        async with _running(plane, ours, tmp_path / "one", is_go=not go_between):
            await world.make_claim("first")
            await world.make_pod(world("first"), base="one")
            claim = await world.selected(world("first"), node)
        async with _running(plane, ours, tmp_path / "two", is_go=go_between):
            await world.provision(claim, "first-pv", policy="Retain")
            await world.bound(world("first"), world("first-pv"))
            await world.scheduled(world("one"), node)
            await world.delete(PVC, world("first"))
            await world.make_claim("second")
            await world.make_pod(world("second"), base="two")
            claim = await world.selected(world("second"), node)
            assert await world.find(PVC, world("first")), "its pod uses it"
        async with _running(plane, ours, tmp_path / "three", is_go=not go_between):
            await world.provision(claim, "second-pv")
            await world.bound(world("second"), world("second-pv"))
            await world.scheduled(world("two"), node)
            assert await world.find(PVC, world("first")), "its pod uses it"
            await world.users.delete(POD, world("one"), "default", grace_period_s=0)
            await world.gone(PVC, world("first"))
            await world.phase(PV, world("first-pv"), "Released")
        assert [] == refused(ours)
