"""Workloads under the real kubectl; and the same course as with the real kube-controller-manager."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.workloads.controller import Workloads
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Cluster
from tests.support.builders import Json, a_job, a_template, a_workload
from tests.support.control_plane import HOUSEKEEPING, ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.real import binary
from tests.support.workload_course import Course, course_on

pytestmark = [pytest.mark.real, pytest.mark.slow]
REAL = ("deployment-controller", "replicaset-controller", "statefulset-controller", "job-controller", *HOUSEKEEPING)


@contextlib.asynccontextmanager
async def working(cluster: Cluster) -> AsyncIterator[None]:
    workloads = Workloads(Runtime(cluster, LoopClock(), Random(), Metrics()))
    running = asyncio.create_task(workloads.run(), name="workloads")
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@contextlib.asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Course]:
    """Our controllers on the embedded server, over HTTPS."""
    binary("kubectl")  # a test that lacks it ends before anything is open
    server = EmbeddedServer(folder)
    await asyncio.to_thread(server.__enter__)
    try:
        async with course_on(server.kubeconfig) as (course, cluster), working(cluster):
            yield course
    finally:
        await asyncio.to_thread(server.__exit__)


async def test_kubectl_works_with_workloads(tmp_path: Path) -> None:
    async with embedded(tmp_path) as course:
        kubectl = course.kubectl
        await kubectl("apply -f -", a_workload("Deployment", replicas=2))
        assert 'deployment "web" successfully rolled out' in await kubectl(
            "rollout status deployment/web --timeout=30s"
        )
        await kubectl("wait --for=condition=Available deployment/web --timeout=30s")
        assert ["web", "2/2", "2", "2"] == (await kubectl("get deployment web --no-headers")).split()[:4]
        assert ["2", "2", "2"] == (await kubectl("get rs --no-headers")).split()[1:4]
        await kubectl("scale deployment/web --replicas=3 --current-replicas=2")
        await kubectl("rollout status deployment/web --timeout=30s")
        assert 3 == len((await kubectl("get pods -l app=web -o name")).split())
        await kubectl("set image deployment/web c=example.com/image:2")
        await kubectl("rollout status deployment/web --timeout=30s")
        assert ["1", "2"] == [
            line.split()[0] for line in (await kubectl("rollout history deployment/web")).splitlines()[2:4]
        ]
        await kubectl("rollout restart deployment/web")
        await kubectl("rollout status deployment/web --timeout=30s")
        assert "Scaled up replica set" in await kubectl("describe deployment web")
        await kubectl("delete deployment web --cascade=foreground --timeout=30s")
        assert "" == await kubectl("get rs,pods -o name")


async def test_kubectl_works_with_sets_and_jobs(tmp_path: Path) -> None:
    async with embedded(tmp_path) as course:
        kubectl = course.kubectl
        await kubectl("apply -f -", a_workload("StatefulSet", replicas=2, template=a_template()))
        assert "complete" in await kubectl("rollout status statefulset/web --timeout=30s")
        await kubectl("set image statefulset/web c=example.com/image:2")
        await kubectl("rollout status statefulset/web --timeout=30s")
        assert ["web", "2/2"] == (await kubectl("get sts --no-headers")).split()[:2]
        assert ["1", "2"] == [
            line.split()[0] for line in (await kubectl("rollout history statefulset/web")).splitlines()[2:4]
        ]
        await kubectl("delete statefulset web --cascade=orphan")
        assert 2 == len((await kubectl("get pods -o name")).split()), "the pods stay"
        await kubectl("create -f -", a_job(completions=2))
        await kubectl("wait --for=condition=Complete job/sum --timeout=30s")
        assert ["sum", "Complete", "2/2"] == (await kubectl("get job sum --no-headers")).split()[:3]
        await kubectl("delete job sum")
        await course.until(
            "get pods", lambda items: not [one for one in items if one["metadata"]["name"].startswith("sum")]
        )


@pytest.mark.long
async def test_the_course_is_that_of_the_real_controllers(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane()
    plane.start_controllers(*REAL, flags=["--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-gc-syncs=5"])

    async def real() -> tuple[dict[str, Any], set[tuple[str, str, str]]]:
        async with course_on(plane.token_kubeconfig()) as (course, _):
            await course.run()
            return course.told, await course.events()

    async def ours() -> tuple[dict[str, Any], set[tuple[str, str, str]]]:
        async with embedded(tmp_path) as course:
            await course.run()
            return course.told, await course.events()

    (theirs, their_events), (told, our_events) = await asyncio.gather(real(), ours())
    assert theirs.keys() == told.keys()
    differences = [
        f"after: {step}\n{difference(theirs[step], told[step])}" for step in told if theirs[step] != told[step]
    ]
    events = difference({"events": sorted(their_events)}, {"events": sorted(our_events)})
    assert not differences, "\n".join((*differences, events))
    assert their_events == our_events, events


def difference(wanted: Json, found: Json) -> str:
    """The objects and rows, or events, that only one side has."""
    sides = (("only there", wanted, found), ("only here", found, wanted))
    lines = [
        f"{side}: {one}"
        for side, these, others in sides
        for part in these
        for one in these[part]
        if one not in others[part]
    ]
    return "\n".join(lines)
