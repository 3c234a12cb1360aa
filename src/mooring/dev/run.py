"""`mooring dev` and `mooring demo` from their first line to their last."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import mooring
from mooring.base.clock import Clock
from mooring.base.errors import MooringError
from mooring.base.folders import folder_or_temporary
from mooring.base.randomness import Random
from mooring.csi.grpc import GrpcDriver
from mooring.dev.demo import NODE, Demo, DemoFailed
from mooring.dev.plane import Plane, running
from mooring.dev.seed_objects import make_volume, register
from mooring.dev.story import Story
from mooring.dev.traced_cluster import TracedCluster
from mooring.driver.layout import Segments
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster

DEMO_S_MAX: Final = 9.0
_CONNECT_S_MAX: Final = 5.0


async def run_dev(
    state: str,
    *,
    node_ids: Sequence[str],
    topology: Mapping[str, Segments],
    volumes: Sequence[str],
    default_class: bool,
    port: int,
    story: Story,
    clock: Clock,
    randomness: Random,
    stop: asyncio.Event,
    examples: str,
    on_enter: Callable[[Callable[[], None]], AbstractContextManager[bool]],
) -> None:
    """Serves until `stop` is set.

    state: a permanent folder, "" for a temporary one. node_ids: at least one. topology, port: as for `running`. volumes: made at the start.
    default_class: our class is the default. examples: the command that prints them. on_enter: calls its argument at each Enter; False
    without a keyboard. Raises ConfigError.
    """
    story.title(f"mooring dev {mooring.__version__}")
    with folder_or_temporary(state) as folder:
        plane_of = running(
            folder, node_ids=node_ids, topology=topology, port=port, kept=bool(state), story=story, clock=clock, randomness=randomness
        )
        async with plane_of as plane:
            async with _clients(plane, clock, randomness) as (cluster, driver):
                traced = TracedCluster(cluster, "dev", story, clock)
                await register(traced, plane.driver_name, node_ids, topology, default_class=default_class)
                for name in dict.fromkeys(volumes):
                    await make_volume(traced, driver, plane.driver_name, name)

            def invite() -> None:
                for line in _invitation(plane, examples, kept=bool(state), can_enter=can_enter):
                    story.title(line)

            with on_enter(invite) as can_enter:
                invite()
                await stop.wait()
        story.ended("ended in good order")


def _invitation(plane: Plane, examples: str, *, kept: bool, can_enter: bool) -> Iterator[str]:
    """The command to type stands last and alone, from the first column on; the others fit 80 columns."""
    ends = "stay in the --state folder." if kept else "end with this process; --state FOLDER keeps them."
    again = ", Enter shows this again" if can_enter else ""
    yield ""
    yield f"Ready. Objects and volumes {ends}"
    yield f"The driver {plane.driver_name} is on unix://{plane.socket}"
    yield "Not here: kubelet (no pod runs), attach/detach controller, resizer, snapshotter."
    yield f"Claims and a pod to paste: {examples}"
    yield "From here on: what the controllers write, and every call to the driver."
    yield f"Ctrl-C ends it{again}. In another terminal:"
    yield ""
    yield f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}"
    yield ""


async def run_demo(story: Story, clock: Clock, randomness: Random) -> None:
    """Raises DemoFailed when something did not really happen, ConfigError when the parts can't start."""
    story.title(f"mooring demo {mooring.__version__}: the life of a volume")
    with folder_or_temporary("") as folder:
        story.step("An API server, a driver behind a socket, provisioner, binder and attacher start in this process")
        try:
            async with asyncio.timeout(DEMO_S_MAX) as limit:
                await _demo(folder, story, clock, randomness)
        except TimeoutError:
            assert limit.expired()
            raise DemoFailed(f"it was not done within {DEMO_S_MAX:g} s") from None
    writes = ", ".join(f"{count} by the {who}" for who, count in sorted(story.writes.items()))
    story.ended(
        f"Made, bound, attached, detached and deleted. {sum(story.calls.values())} CSI calls; writes to the API: {writes}. Nothing is left."
    )


async def _demo(folder: Path, story: Story, clock: Clock, randomness: Random) -> None:
    async with (
        running(folder, node_ids=[NODE], topology={}, story=story, clock=clock, randomness=randomness) as plane,
        _clients(plane, clock, randomness) as clients,
    ):
        cluster, driver = clients
        demo = Demo(plane, TracedCluster(cluster, "demo", story, clock), driver, story)
        try:
            await demo.run()
        except DemoFailed:
            raise
        except MooringError as error:
            raise DemoFailed(str(error)) from error


@contextlib.asynccontextmanager
async def _clients(plane: Plane, clock: Clock, randomness: Random) -> AsyncGenerator[tuple[HttpCluster, GrpcDriver], None]:
    """Clients that only need the kubeconfig and the socket."""
    config = kubeconfig.load(str(plane.kubeconfig), {})
    async with HttpCluster(config, clock=clock, randomness=randomness, user_agent="mooring") as cluster:
        driver = GrpcDriver(str(plane.socket), clock=clock)
        await driver.connect(_CONNECT_S_MAX)
        try:
            yield cluster, driver
        finally:
            await driver.close()
