"""`mooring attachdetach` as a program: on the embedded server over HTTPS, and two replicas with one Lease of their own
name.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS
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
from tests.support.embedded import EmbeddedServer
from tests.support.programs import Program
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

ELECTION = (
    "--leader-elect-retry-period=300ms",
    "--leader-elect-resource-namespace=default",
    "--leader-elect-resource-name=of-the-test",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@contextlib.contextmanager
def controller(kubeconfig: Path, log: Path, *flags: str) -> Iterator[Program]:
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "attachdetach",
        f"--kubeconfig={kubeconfig}",
        "--v=2",
        *flags,
    ]
    program = Program(command, log)
    try:
        yield program
    finally:
        program.stop()


async def _a_pod_has_its_volume(kubeconfig: Path) -> Any:
    """A pod's volume is attached, reported, and let go of. Gives the Leases that there are."""
    async with HttpCluster(
        load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
    ) as cluster:
        world = Tenant(cluster, look_s=0.02)
        node, pv, claim = world("node"), world("pv"), world("claim")
        va = attachment_name("csi.test", pv, node)
        await world.create(a_node(node, annotations={MANAGED: "true"}))
        made = await world.create(a_claim(claim, sc="", volume=pv))
        await world.create(a_pv(pv, claim=made))
        await world.patch(PERSISTENT_VOLUME_CLAIMS, claim, {"status": {"phase": "Bound"}}, subresource="status")
        await world.create(a_pod(world("pod"), claim, node=node, terminationGracePeriodSeconds=0))
        await world.shown(VOLUME_ATTACHMENTS, va, bool)
        await world.patch(VOLUME_ATTACHMENTS, va, {"status": {"attached": True}}, subresource="status")
        listed = [{"name": unique_name("csi.test", pv), "devicePath": ""}]
        await world.shown(NODES, node, lambda one: one["status"].get("volumesAttached") == listed, "reports the volume")
        await cluster.delete(PODS, world("pod"), "default", grace_period_s=0)
        await world.gone(VOLUME_ATTACHMENTS, va)
        return [one["metadata"]["name"] for one in await world.list(LEASES, "default")]


def test_a_standby_takes_over(server: EmbeddedServer, tmp_path: Path) -> None:
    with controller(server.kubeconfig, tmp_path / "one", *ELECTION) as first:
        assert ["of-the-test"] == asyncio.run(_a_pod_has_its_volume(server.kubeconfig))
        with controller(server.kubeconfig, tmp_path / "two", *ELECTION) as second:
            first.send(signal.SIGTERM)
            asyncio.run(_a_pod_has_its_volume(server.kubeconfig))
            eventually(lambda: first.exit_code is not None, 20, "the first has ended")
            second.send(signal.SIGTERM)
            eventually(lambda: second.exit_code is not None, 20, "the second has ended")
            assert (0, 0) == (first.exit_code, second.exit_code)
