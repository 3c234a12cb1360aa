"""`mooring dev` and `mooring demo` from their first line to their last."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import mooring
from mooring.api.pods import PODS
from mooring.base.clock import Clock
from mooring.base.errors import MooringError
from mooring.base.randomness import Random
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.grpc import GrpcDriver
from mooring.dev.demo import NODE, Demo, DemoFailed
from mooring.dev.driver_form import Form, Reference, Socket
from mooring.dev.folder import run_folder
from mooring.dev.plane import Plane, running
from mooring.dev.polling import until
from mooring.dev.seed_objects import make_volume, register
from mooring.dev.story import Story
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
    `running`. volumes: made at the start. default_class: our class is the default.
    """

    state: str
    form: Form
    nodes: Sequence[str]
    topology: Mapping[str, Segments]
    volumes: Sequence[str]
    default_class: bool
    port: int


async def run_dev(
    options: DevOptions,
    space: MountSpace,
    *,
    story: Story,
    clock: Clock,
    randomness: Random,
    stop: asyncio.Event,
    examples: str,
    on_enter: Callable[[Callable[[], None]], AbstractContextManager[bool]],
) -> None:
    """Serves until `stop` is set.

    space: where this process mounts. examples: the command that prints them. on_enter: calls its argument at each Enter; False without a
    keyboard. Raises ConfigError.
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
            story=story,
            clock=clock,
            randomness=randomness,
        )
        async with plane_of as plane, _clients(plane, clock, randomness) as (cluster, driver):
            traced = TracedCluster(cluster, "dev", story, clock)
            await _prepare(plane, traced, driver, options)

            def invite() -> None:
                for line in _invitation(plane, space, options, examples, can_enter=can_enter):
                    story.title(line)

            with on_enter(invite) as can_enter:
                invite()
                await stop.wait()
            if not kept:
                await _end_pods(traced, story)
        story.ended("ended in good order")


async def _prepare(plane: Plane, cluster: Cluster, driver: Driver, options: DevOptions) -> None:
    """What a newcomer finds: classes, nodes on which the driver is registered, volumes. Raises ConfigError."""
    await register(
        cluster,
        capabilities_of(plane.info),
        options.nodes,
        options.topology,
        reference=isinstance(options.form, Reference),
        has_agents=plane.nodes is not None,
        default_class=options.default_class,
    )
    if plane.nodes is not None:
        await plane.nodes.start()
    for name in dict.fromkeys(options.volumes):
        await make_volume(cluster, driver, plane.driver_name, name)


async def _end_pods(cluster: Cluster, story: Story) -> None:
    """Everything ends with this process: pods give back their volumes first, so that nothing of them (a loop device, say) is left."""
    try:
        async with asyncio.timeout(_PODS_END_S_MAX):
            for pod in (await cluster.list(PODS)).items:
                with contextlib.suppress(NotFound):
                    await cluster.delete(PODS, pod.metadata.name, pod.metadata.namespace)
            for pod in (await cluster.list(PODS)).items:
                if pod.spec.node_name:
                    await until(cluster, PODS, pod.metadata.name, lambda one: one is None)
    except TimeoutError:
        story.happened("warning", f"pods still had their volumes after {_PODS_END_S_MAX:g} s; they are left to the driver")


def _invitation(plane: Plane, space: MountSpace, options: DevOptions, examples: str, *, can_enter: bool) -> Iterator[str]:
    """The command to type stands last and alone, from the first column on; the others fit 80 columns, but for those with paths."""
    ends = "stay in the --state folder." if options.state else "end with this process; --state FOLDER keeps them."
    again = ", Enter shows this again" if can_enter else ""
    yield ""
    yield f"Ready. Objects and volumes {ends}"
    yield f"The driver {plane.driver_name} is on unix://{plane.socket}"
    yield from _about_pods(plane, space, options.form)
    yield "Not here: containers, resizer, snapshotter; attach/detach is a simple stand-in."
    yield f"Claims and a pod to paste: {examples}"
    yield "From here on: what the controllers write, and every call to the driver."
    yield f"Ctrl-C ends it{again}. In another terminal:"
    yield ""
    yield f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}"
    yield ""


def _about_pods(plane: Plane, space: MountSpace, form: Form) -> Iterator[str]:
    """Whether pods run, and where their volumes are seen."""
    folder = plane.folder / "nodes"
    if plane.nodes is None:
        yield "The driver has no node service: pods get a node, and do not run."
    elif isinstance(form, Socket):
        yield "Pods run once their volumes are there. The driver mounts them where it runs,"
        yield f"and they outlive this process: {folder}"
    elif space.can_mount:
        yield "Pods run once their volumes are mounted. The mounts are this process' own:"
        yield f"  ls /proc/{os.getpid()}/root{folder}/*/pods"
    else:
        yield f"No mounts: {space.obstacle}."
        links = isinstance(form, Reference)
        yield "Volumes are links in place of mounts." if links else "Pods wait for the volumes that the driver would mount."


async def run_demo(space: MountSpace, story: Story, clock: Clock, randomness: Random) -> None:
    """Raises DemoFailed when something did not really happen, ConfigError when the parts can't start."""
    story.title(f"mooring demo {mooring.__version__}: the life of a volume")
    with run_folder("", space, story) as folder:
        story.step("An API server, a driver behind a socket, its controllers and the agent of a node start in this process")
        try:
            async with asyncio.timeout(DEMO_S_MAX) as limit:
                await _demo(folder, space, story, clock, randomness)
        except TimeoutError:
            assert limit.expired()
            raise DemoFailed(f"it was not done within {DEMO_S_MAX:g} s") from None
    writes = ", ".join(f"{count} by {who}" for who, count in sorted(story.writes.items()))
    did = "mounted, written to, unmounted, mounted again and read" if space.can_mount else "written to and read through a link"
    story.ended(
        f"Made, bound, attached, {did}, detached and deleted. {sum(story.calls.values())} CSI calls; "
        f"writes to the API: {writes}. Nothing is left."
    )


async def _demo(folder: Path, space: MountSpace, story: Story, clock: Clock, randomness: Random) -> None:
    plane_of = running(
        folder, Reference(), nodes=[NODE], topology={}, mounts=space.can_mount, story=story, clock=clock, randomness=randomness
    )
    async with plane_of as plane, _clients(plane, clock, randomness) as (cluster, driver):
        demo = Demo(plane, TracedCluster(cluster, "demo", story, clock), driver, space, story)
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
