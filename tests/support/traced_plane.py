"""A whole plane in this process, each of whose parts has traces as a program of its own would have them, sent into
memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.base.clock import LoopClock
from mooring.base.ending import Ending
from mooring.base.randomness import Random
from mooring.cli.node_agent import traced_client
from mooring.conform.watched import Breaches
from mooring.control.runtime import Runtime
from mooring.control.tracing.ports import TracingDriver, on_traced_ports
from mooring.control.tracing.steps import Tracing
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.driver_form import ReferenceDriver
from mooring.csi.errors import DriverError
from mooring.dev.options import Patience
from mooring.dev.plane import Plane, running
from mooring.dev.polling import until
from mooring.dev.screen import PlainScreen
from mooring.dev.seed_objects import WAITS, claim, class_name, pod, register
from mooring.dev.story import Story
from mooring.driver.hostpath.driver import DRIVER_NAME
from mooring.kube.errors import NotFound
from mooring.node.agent import AgentSockets
from mooring.wire.grpc.codes import Code
from tests.support.spans import SpansInMemory

PROGRAMS: Final = {
    "mooring.dev.controllers.Attacher": "csi-attacher",
    "mooring.dev.controllers.Provisioner": "csi-provisioner",
    "mooring.dev.controllers.make_binder": "mooring-binder",
    "mooring.dev.controllers.AttachDetach": "mooring-attachdetach",
    "mooring.dev.node.NodeAgent": "mooring-node-agent",
}
"""What makes the parts of a plane, and the programs that they stand for."""
PATIENCE_S: Final = 30.0
CLASS: Final = class_name(reference=True) + WAITS


class FailsOnce(Driver):
    """Another driver, whose first CreateVolume fails."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._has_failed = driver, False

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if rpc.name == "CreateVolume" and not self._has_failed:
            self._has_failed = True
            raise DriverError(Code.RESOURCE_EXHAUSTED, "the array is busy")
        return await self._driver.invoke(rpc, request, call)


def with_traces(make: Callable[..., Any], program: str, spans: SpansInMemory) -> Callable[..., Any]:
    """The maker of a part, which makes its traces with it."""

    def made(runtime: Runtime, *rest: Any, **more: Any) -> Any:
        tracing = Tracing(spans.of(program), LoopClock())
        traced = on_traced_ports(runtime, tracing)
        if "sockets" in more:
            more["sockets"] = AgentSockets(driver=traced_client(traced))
        called = [
            TracingDriver(FailsOnce(one), tracing, DRIVER_NAME) if isinstance(one, Driver) else one for one in rest
        ]
        return make(traced, *called, **more)

    return made


@contextlib.contextmanager
def traced_parts(spans: SpansInMemory) -> Iterator[None]:
    """Planes that are made in the block have traces."""
    with pytest.MonkeyPatch.context() as patched:
        for place, program in PROGRAMS.items():
            module, _, name = place.rpartition(".")
            patched.setattr(place, with_traces(getattr(__import__(module, fromlist=[name]), name), program, spans))
        yield


@contextlib.asynccontextmanager
async def traced_plane(folder: Path, spans: SpansInMemory) -> AsyncIterator[Plane]:
    """One node, whose volumes are shown by links."""
    clock = LoopClock()
    story = Story(PlainScreen(io.StringIO()), clock)
    with traced_parts(spans):
        plane_of = running(
            folder,
            ReferenceDriver(),
            nodes=("n1",),
            topology={},
            mounts=False,
            patience=Patience(),
            story=story,
            breaches=Breaches(story.broken, sees_mounts=False, repeats=False),
            clock=clock,
            randomness=Random(),
            ending=Ending(),
        )
        async with plane_of as plane:
            driver = capabilities_of(plane.info)
            await register(plane.cluster, driver, ("n1",), {}, plane.extras, reference=True, has_agents=True)
            assert plane.nodes is not None
            await plane.nodes.start()
            yield plane


async def a_life(plane: Plane) -> str:
    """A claim, its volume on a node in a pod, and the end of both; gives the claim's uid."""
    cluster = plane.cluster
    made = await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim("data", CLASS, "1Mi"), "default")
    await cluster.create(PODS, pod("reader", "data"), "default")
    await _within(until(cluster, PODS, "reader", lambda one: one is not None and one.status.phase == "Running"))
    for kind, name in ((PODS, "reader"), (PERSISTENT_VOLUME_CLAIMS, "data")):
        await cluster.delete(kind, name, "default")
        await _within(until(cluster, kind, name, lambda one: one is None))
    with contextlib.suppress(NotFound):
        await _within(until(cluster, PERSISTENT_VOLUMES, f"pvc-{made.metadata.uid}", lambda one: one is None))
    return made.metadata.uid


async def _within(waiting: Awaitable[Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await waiting
