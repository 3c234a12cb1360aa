"""`mooring dev` and `mooring demo` from their first line to their last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec

import mooring
from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.base.border import refused_as
from mooring.base.clock import Clock
from mooring.base.ending import Ending
from mooring.base.errors import ConfigError, MooringError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.conform.proxy.faults import Faults
from mooring.conform.running_time import running_time
from mooring.conform.watched import Breaches
from mooring.control.runtime import Runtime
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.driver_form import ReferenceDriver
from mooring.csi.wire_driver import WireDriver
from mooring.dev.by_hand import WHERE, places_of
from mooring.dev.demo.demo import Demo
from mooring.dev.demo.stage import NODE_NAMES, PATIENCE, Stage, growing_type
from mooring.dev.folder import run_folder
from mooring.dev.getting_started import Commands, ready_text
from mooring.dev.nodes import Nodes
from mooring.dev.options import DevOptions
from mooring.dev.plane import Plane, running
from mooring.dev.polling import DemoFailed
from mooring.dev.power import Switches, answering
from mooring.dev.seed_objects import make_volume, register
from mooring.dev.story import Story
from mooring.dev.traced import TracedCluster
from mooring.dev.unused import unused_told
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound
from mooring.mounts.namespace import MountSpace

_LOOK_S: Final = 0.02

DEMO_S_MAX: Final = 300.0  # well above the longest wait of one step, so that a step's own failure is told
_CONNECT_S_MAX: Final = 5.0
TO_SHOW_ALL: Final = "to see it: run as root on Linux, with loop devices, and with util-linux and e2fsprogs installed"


async def run_dev(
    options: DevOptions,
    space: MountSpace,
    *,
    story: Story,
    clock: Clock,
    randomness: Random,
    ending: Ending,
    commands: Commands,
    on_enter: Callable[[Callable[[], None]], AbstractContextManager[bool]],
    view: Callable[[Plane], AbstractAsyncContextManager[None]] = lambda _plane: contextlib.nullcontext(),
) -> None:
    """Serves until its end is asked for, also before it is ready.

    space: where this process mounts. ending: how long that may take. commands: to be typed elsewhere. on_enter: calls
    its argument at each Enter; False without a keyboard. view: stands below the story from Ready to the end. Raises
    ConfigError.
    """
    story.title(f"mooring dev {mooring.__version__}")
    repeats = not isinstance(options.form, ReferenceDriver) and options.script is None
    faults = _faults(options)
    with _driver_log(options.driver_log, story):
        with run_folder(options.state, space, story, ending) as folder:
            async with running_time(clock) as ran, _until_asked(ending) as asked:
                breaches = Breaches(
                    story.broken, sees_mounts=space.can_mount, repeats=repeats, proxied=faults is not None, now=ran.now
                )
                plane_of = running(
                    folder,
                    options.form,
                    nodes=options.nodes,
                    topology=options.topology,
                    mounts=space.can_mount,
                    port=options.port,
                    kept=bool(options.state),
                    snapshots=options.snapshots,
                    patience=options.patience,
                    story=story,
                    breaches=breaches,
                    clock=clock,
                    randomness=randomness,
                    ending=ending,
                    faults=faults,
                )
                async with plane_of as plane, _clients(plane, clock, randomness) as (cluster, driver):
                    traced = TracedCluster(cluster, "dev", story, clock)
                    await _prepare(plane, traced, driver, options)

                    def invite() -> None:
                        for line in ready_text(
                            plane, space, options.form, commands, kept=bool(options.state), can_enter=can_enter
                        ):
                            story.title(line)

                    async def where(_node: str) -> str:
                        return msgspec.json.encode(places_of(plane)).decode()

                    switches = Switches(plane.nodes, cluster, options.patience).by_turn
                    async with answering(plane.folder, {**switches, WHERE: where}):
                        with on_enter(invite) as can_enter:
                            asked.ready()
                            invite()
                            async with unused_told(Runtime(cluster, clock, randomness, Metrics()), story), view(plane):
                                await asked.wait()
                    if not options.state:
                        await end_pods(plane.nodes, plane.cluster, traced, story, clock, ending)
            for line in breaches.summary():
                story.title(line)
        story.ended("ended in good order" if asked.is_ready else "ended before it was ready")


@contextlib.contextmanager
def _driver_log(path: str, story: Story) -> Iterator[None]:
    """path: "" for the screen. Each line is in the file at once. Raises ConfigError."""
    if not path:
        yield
        return
    with refused_as(f"driver-log: can't write {path}"):
        file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (closed below)
    story.driver_log = file
    try:
        yield
    finally:
        story.driver_log = None
        with contextlib.suppress(OSError):  # the story has said it
            file.close()


def _faults(options: DevOptions) -> Faults | None:
    """None where there is no fault, and none can come."""
    if options.script is not None:
        return Faults(options.script.faults, options.script.seed)
    return Faults((), 0) if options.takes_faults else None


async def _prepare(plane: Plane, cluster: Cluster, driver: Driver, options: DevOptions) -> None:
    """The surroundings of a newcomer: classes, nodes on which the driver is registered, volumes. Raises ConfigError."""
    try:
        await register(
            cluster,
            capabilities_of(plane.info),
            options.nodes,
            options.topology,
            plane.extras,
            reference=isinstance(options.form, ReferenceDriver),
            has_agents=plane.nodes is not None,
            default_class=options.default_class,
        )
    except ApiError as error:
        raise ConfigError(f"the driver's objects and the nodes can't be made: {error}") from None
    if plane.nodes is not None:
        await plane.nodes.start()
    for name in dict.fromkeys(options.volumes):
        await make_volume(cluster, driver, plane.driver_name, name)


class _Asked:
    """The parts that an early end cuts short: everything, until it is ready."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit, self._event = limit, asyncio.Event()
        self.is_ready = False

    def now(self) -> None:
        self._event.set()
        if not self.is_ready:
            self._limit.reschedule(0.0)

    def ready(self) -> None:
        """An end that is asked for cancels nothing from now on."""
        self.is_ready = True

    async def wait(self) -> None:
        """Returns when the end is asked for."""
        await self._event.wait()


@contextlib.asynccontextmanager
async def _until_asked(ending: Ending) -> AsyncGenerator[_Asked, None]:
    """The block ends without an error when the end is asked for before it was ready."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            asked = _Asked(limit)

            def tell() -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(asked.now)

            ending.when_asked(tell)
            yield asked


async def run_demo(space: MountSpace, story: Story, clock: Clock, randomness: Random) -> None:
    """Raises DemoFailed when something did not really happen, ConfigError when the parts can't start."""
    story.title(f"mooring demo {mooring.__version__}: the life of a volume")
    ending = Ending()
    with run_folder("", space, story, ending) as folder:
        story.step(
            "An API server, a driver behind a socket, its controllers and the agents of two nodes start in this process"
        )
        fs_type, obstacle = growing_type(space, folder)
        try:
            async with asyncio.timeout(DEMO_S_MAX) as limit:
                await _demo(folder, space, fs_type, story, clock, randomness, ending)
        except TimeoutError:
            assert limit.expired()
            raise DemoFailed(f"it was not done within {DEMO_S_MAX:g} s") from None
    writes = ", ".join(f"{count} by {who}" for who, count in sorted(story.writes.items()))
    way = "" if space.can_mount else ", through links in place of mounts"
    story.ended(
        f"Made, bound, attached and written to{way}; moved to another node and read; taken from a dead node "
        "and read again; grown, "
        "photographed, emptied, restored and read; moved to another class; detached and deleted. "
        f"{sum(story.calls.values())} CSI calls; "
        f"writes to the API: {writes}. Nothing is left."
    )
    if obstacle:
        lacks = "a volume as a file system, which a pod sees grow" if space.can_mount else "real mounts"
        story.title(f"NOT SHOWN: {lacks}: {obstacle}")
        story.title(f"    {TO_SHOW_ALL}")


async def _demo(
    folder: Path, space: MountSpace, fs_type: str, story: Story, clock: Clock, randomness: Random, ending: Ending
) -> None:
    """fs_type: of the file systems that volumes are; "" where they are folders."""
    plane_of = running(
        folder,
        ReferenceDriver(images=bool(fs_type)),
        nodes=NODE_NAMES,
        topology={},
        mounts=space.can_mount,
        patience=PATIENCE,
        story=story,
        breaches=Breaches(story.broken, sees_mounts=space.can_mount, repeats=False),
        clock=clock,
        randomness=randomness,
        ending=ending,
    )
    async with plane_of as plane, _clients(plane, clock, randomness) as (cluster, driver):
        stage = Stage(plane, TracedCluster(cluster, "demo", story, clock), driver, space, story, fs_type=fs_type)
        try:
            await Demo(stage, clock).run()
        except DemoFailed:
            raise
        except MooringError as error:
            raise DemoFailed(str(error)) from error


@contextlib.asynccontextmanager
async def _clients(
    plane: Plane, clock: Clock, randomness: Random
) -> AsyncGenerator[tuple[HttpCluster, WireDriver], None]:
    """Clients that only need the kubeconfig and the socket."""
    config = kubeconfig.load(str(plane.kubeconfig), {})
    async with HttpCluster(config, clock=clock, randomness=randomness, user_agent="mooring") as cluster:
        driver = WireDriver(str(plane.socket), clock=clock)
        await driver.connect(_CONNECT_S_MAX)
        try:
            yield cluster, driver
        finally:
            await driver.close()


async def end_pods(
    nodes: Nodes | None, store: Cluster, cluster: Cluster, story: Story, clock: Clock, ending: Ending
) -> None:
    """Pods give their volumes back, as long as that gets on. Nodes without power come back for it. store: asked often.
    cluster: told.
    """
    try:
        async with asyncio.timeout(ending.left_s):
            if nodes is not None:
                await nodes.revive_all()
            for pod in (await cluster.list(PODS)).items:
                with contextlib.suppress(NotFound):
                    await cluster.delete(PODS, pod.metadata.name, pod.metadata.namespace)
        await _until_nothing_is_held(nodes, store, clock, ending)
    except ConfigError as error:
        story.happened("warning", f"{error}; the rest on that node is left to the driver")
    except TimeoutError:
        story.happened(
            "warning", "nothing comes of the end of the pods: volumes that they still have are left to the driver"
        )


async def _until_nothing_is_held(nodes: Nodes | None, store: Cluster, clock: Clock, ending: Ending) -> None:
    """Raises TimeoutError when nothing comes of it any more."""
    before = None
    while held := await _held(nodes, store):
        if held != before:
            ending.goes_on()
            before = held
        if not ending.left_s:
            raise TimeoutError
        await clock.sleep(_LOOK_S)
    ending.goes_on()


async def _held(nodes: Nodes | None, store: Cluster) -> frozenset[str]:
    """Pods on nodes, and the volumes that nodes with power have in use."""
    on = set(nodes.on if nodes is not None else ())
    pods = [
        f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        for pod in (await store.list(PODS)).items
        if pod.spec.node_name
    ]
    found = [node for node in (await store.list(NODES)).items if node.metadata.name in on]
    return frozenset(
        [*pods, *(f"{node.metadata.name} {volume}" for node in found for volume in node.status.volumes_in_use or ())]
    )
