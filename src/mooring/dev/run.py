"""`mooring dev` and `mooring demo` from their first line to their last."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Final

import mooring
from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError, MooringError
from mooring.base.randomness import Random
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.socket_driver import SocketDriver
from mooring.csi.wire_driver import WireDriver
from mooring.dev.controllers import Patience
from mooring.dev.demo.demo import Demo
from mooring.dev.demo.file_systems import growing_type
from mooring.dev.demo.stage import NODE_NAMES, PATIENCE, Stage
from mooring.dev.driver_form import Form, Reference
from mooring.dev.folder import run_folder
from mooring.dev.invitation import Commands, invitation
from mooring.dev.nodes import Nodes
from mooring.dev.plane import Plane, running
from mooring.dev.polling import DemoFailed, until
from mooring.dev.power import answering
from mooring.dev.seed_objects import make_volume, register
from mooring.dev.story import Story
from mooring.dev.switches import Switches
from mooring.dev.traced_cluster import TracedCluster
from mooring.driver.layout import Segments
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound
from mooring.mounts.namespace import MountSpace

DEMO_S_MAX: Final = 20.0
_CONNECT_S_MAX: Final = 5.0
_PODS_END_S_MAX: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class DevOptions:
    """state: a permanent folder, "" for a temporary one. form: of the driver. nodes: their names, at least one. topology, port: as for
    `running`. volumes: made at the start. default_class: our class is the default. patience: with nodes that are gone. snapshots: as for
    `running`.
    """

    state: str
    form: Form
    nodes: Sequence[str]
    topology: Mapping[str, Segments]
    volumes: Sequence[str]
    default_class: bool
    port: int
    patience: Patience
    snapshots: bool = True


async def run_dev(
    options: DevOptions,
    space: MountSpace,
    *,
    story: Story,
    clock: Clock,
    randomness: Random,
    stop: asyncio.Event,
    commands: Commands,
    on_enter: Callable[[Callable[[], None]], AbstractContextManager[bool]],
    view: Callable[[Plane], AbstractAsyncContextManager[None]] = lambda _plane: contextlib.nullcontext(),
) -> None:
    """Serves until `stop` is set.

    space: where this process mounts. commands: to be typed elsewhere. on_enter: calls its argument at each Enter; False without a
    keyboard. view: stands below the story from Ready to the end. Raises ConfigError.
    """
    story.title(f"mooring dev {mooring.__version__}")
    kept = bool(options.state)
    with run_folder(options.state, space, story) as folder:
        plane_of = running(
            folder,
            options.form,
            nodes=options.nodes,
            topology=options.topology,
            mounts=space.can_mount,
            port=options.port,
            kept=kept,
            snapshots=options.snapshots,
            patience=options.patience,
            story=story,
            clock=clock,
            randomness=randomness,
        )
        async with plane_of as plane, _clients(plane, clock, randomness) as (cluster, driver):
            traced = TracedCluster(cluster, "dev", story, clock)
            await _prepare(plane, traced, driver, options)

            def invite() -> None:
                for line in invitation(plane, space, options.form, commands, kept=kept, can_enter=can_enter):
                    story.title(line)

            async with answering(plane.folder, Switches(plane.nodes, cluster, options.patience).by_turn):
                with on_enter(invite) as can_enter:
                    invite()
                    async with view(plane):
                        await stop.wait()
            if not kept:
                await _end_pods(plane.nodes, traced, story)
        story.ended("ended in good order")


async def _prepare(plane: Plane, cluster: Cluster, driver: Driver, options: DevOptions) -> None:
    """What a newcomer finds: classes, nodes on which the driver is registered, volumes. Raises ConfigError."""
    await register(
        cluster,
        capabilities_of(plane.info),
        options.nodes,
        options.topology,
        plane.extras,
        reference=isinstance(options.form, Reference),
        has_agents=plane.nodes is not None,
        default_class=options.default_class,
    )
    if plane.nodes is not None:
        await plane.nodes.start()
    for name in dict.fromkeys(options.volumes):
        await make_volume(cluster, driver, plane.driver_name, name)


async def _end_pods(nodes: Nodes | None, cluster: Cluster, story: Story) -> None:
    """Everything ends with this process: pods give back their volumes first, so that nothing of them (a loop device, say) is left. Nodes
    without power come back for it.
    """
    try:
        async with asyncio.timeout(_PODS_END_S_MAX):
            if nodes is not None:
                await nodes.revive_all()
            for pod in (await cluster.list(PODS)).items:
                with contextlib.suppress(NotFound):
                    await cluster.delete(PODS, pod.metadata.name, pod.metadata.namespace)
            for pod in (await cluster.list(PODS)).items:
                if pod.spec.node_name:
                    await until(cluster, PODS, pod.metadata.name, lambda one: one is None)
            for name in nodes.on if nodes is not None else ():
                await until(cluster, NODES, name, lambda one: one is None or not one.status.volumes_in_use)
    except ConfigError as error:
        story.happened("warning", f"{error}; what is left on that node is left to the driver")
    except TimeoutError:
        story.happened("warning", f"pods still had their volumes after {_PODS_END_S_MAX:g} s; they are left to the driver")


async def run_demo(space: MountSpace, story: Story, clock: Clock, randomness: Random) -> None:
    """Raises DemoFailed when something did not really happen, ConfigError when the parts can't start."""
    story.title(f"mooring demo {mooring.__version__}: the life of a volume")
    with run_folder("", space, story) as folder:
        story.step("An API server, a driver behind a socket, its controllers and the agents of two nodes start in this process")
        try:
            async with asyncio.timeout(DEMO_S_MAX) as limit:
                await _demo(folder, space, story, clock, randomness)
        except TimeoutError:
            assert limit.expired()
            raise DemoFailed(f"it was not done within {DEMO_S_MAX:g} s") from None
    writes = ", ".join(f"{count} by {who}" for who, count in sorted(story.writes.items()))
    way = "" if space.can_mount else ", through links in place of mounts"
    story.ended(
        f"Made, bound, attached and written to{way}; moved to another node and read; taken from a dead node and read again; grown, "
        f"photographed, emptied, restored and read; moved to another class; detached and deleted. {sum(story.calls.values())} CSI calls; "
        f"writes to the API: {writes}. Nothing is left."
    )


async def _demo(folder: Path, space: MountSpace, story: Story, clock: Clock, randomness: Random) -> None:
    fs_type, obstacle = growing_type(space, folder)
    plane_of = running(
        folder,
        Reference(images=bool(fs_type)),
        nodes=NODE_NAMES,
        topology={},
        mounts=space.can_mount,
        patience=PATIENCE,
        story=story,
        clock=clock,
        randomness=randomness,
    )
    async with plane_of as plane, _clients(plane, clock, randomness) as (cluster, driver):
        stage = Stage(plane, TracedCluster(cluster, "demo", story, clock), driver, space, story, fs_type=fs_type)
        if obstacle:
            story.happened("warning", f"file systems are left out: {obstacle}. Volumes are folders: no pod sees them grow")
        try:
            await Demo(stage, clock).run()
        except DemoFailed:
            raise
        except MooringError as error:
            raise DemoFailed(str(error)) from error


@contextlib.asynccontextmanager
async def _clients(plane: Plane, clock: Clock, randomness: Random) -> AsyncGenerator[tuple[HttpCluster, SocketDriver], None]:
    """Clients that only need the kubeconfig and the socket."""
    config = kubeconfig.load(str(plane.kubeconfig), {})
    async with HttpCluster(config, clock=clock, randomness=randomness, user_agent="mooring") as cluster:
        driver = WireDriver(str(plane.socket), clock=clock)
        await driver.connect(_CONNECT_S_MAX)
        try:
            yield cluster, driver
        finally:
            await driver.close()
