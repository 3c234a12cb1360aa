"""Starts the driver of a plane in the form that was asked for, with a socket for its controller and one for each node.

In the plane's folder, `run/N.sock` is the driver's socket for node N, and registration sockets appear in `run/N/`. The
paths are short, since a socket's path may have 107 bytes.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.clock import Clock
from mooring.base.ending import Ending
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.csi.address import ABSENT
from mooring.csi.driver_form import CommandLine, Form, PythonClass, ReferenceDriver, Socket
from mooring.csi.wire_driver import WireDriver
from mooring.dev.driver_program import DriverProgram
from mooring.dev.node_drivers import LATE_S, ExternalDriver, InProcessNodeDriver, NodeDriver, NodeProgram
from mooring.dev.story import Story
from mooring.dev.traced import tell
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.layout import Segments
from mooring.driver.hostpath.node.mount_mode import AUTO, LINK, MountMode
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.loading import load, story_of
from mooring.driver.sdk import Plugin
from mooring.driver.server import serving

OURS_S: Final = 20.0
PROGRAM_S: Final = 60.0
"""A program may be compiled first, as with `go run`."""
THEIRS_S: Final = 5.0
NOT_SERVING_YET: Final = (
    "the driver's program runs, and its socket is not there yet: it must serve on the path that it got for {socket}"
)


class Sockets(msgspec.Struct, frozen=True):
    """Where a driver answers. nodes: by name. tells: the driver tells of its calls itself; else their callers do.

    patience_s: how long it may take to be there. advice: the next step when it is not. drivers: those of the nodes,
    started. absent: what is said while there is no socket. apart: the controller's own, None where it is the first
    node's, or somebody else's. behind: the drivers' own sockets by node, "" for the controller's, where the others are
    those of proxies.
    """

    controller: Path
    nodes: Mapping[str, Path]
    tells: bool
    patience_s: float
    advice: str
    drivers: Mapping[str, NodeDriver]
    absent: str = ABSENT
    apart: NodeDriver | None = None
    behind: Mapping[str, Path] = msgspec.field(default_factory=dict)

    async def until_there(self, path: Path, clock: Clock) -> None:
        """Returns when the driver serves on this path. Raises ConfigError where it never does."""
        client = WireDriver(str(path), clock=clock)
        client.socket.absent = self.absent
        await client.connect(self.patience_s, self.advice)
        await client.close()

    @property
    def all(self) -> tuple[NodeDriver, ...]:
        """The controller's own comes first."""
        return (*((self.apart,) if self.apart is not None else ()), *self.drivers.values())

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """Those that end with the plane."""
        return tuple(task for driver in self.all for task in driver.tasks)

    def is_up(self) -> None:
        """The driver has answered: a program that ends from now on is started again."""
        for driver in self.all:
            driver.is_up()


class Starter(msgspec.Struct, frozen=True):
    """folder: the plane's. nodes: their names, at least one. topology: of the reference driver. mounts: False for links
    in their place. controller_apart: a program's controller is a process of its own, so that any node may die; else it
    is the first node's, too.
    """

    folder: Path
    nodes: Sequence[str]
    topology: Mapping[str, Segments]
    mounts: bool
    story: Story
    clock: Clock
    randomness: Random
    ending: Ending
    controller_apart: bool = False

    @property
    def socket(self) -> Path:
        """The controller's."""
        return self.folder / "csi.sock"

    @property
    def state_folder(self) -> Path:
        """The reference driver's."""
        return self.folder / "driver"

    def registry(self, node: str) -> Path:
        """Where the node's agent finds registration sockets."""
        return self.folder / "run" / str(self.nodes.index(node) + 1)

    def node_socket(self, node: str) -> Path:
        """The driver's, for this node."""
        return self.registry(node).with_suffix(".sock")

    async def start(self, form: Form, stack: AsyncExitStack, group: asyncio.TaskGroup) -> Sockets:
        """The driver runs until the stack is closed. Raises ConfigError."""
        for node in self.nodes:
            self.registry(node).mkdir(parents=True, exist_ok=True, mode=0o700)
        match form:
            case PythonClass():
                return await self._class(form, stack)
            case CommandLine():
                return await self._program(form, stack, group)
            case Socket():
                return self._elsewhere(form)
        return await self._reference(form, stack)

    async def _reference(self, form: ReferenceDriver, stack: AsyncExitStack) -> Sockets:
        mount_mode = MountMode(self.state_folder, AUTO if self.mounts else LINK)
        options = HostpathOptions(images=form.images)
        driver = stack.enter_context(
            HostPath(
                self.state_folder,
                node_ids=self.nodes,
                topology=self.topology,
                randomness=self.randomness,
                options=options,
                mount_mode=mount_mode,
            )
        )
        driver.observe(self.story.called, self.clock)
        await stack.enter_async_context(serving(driver, str(self.socket), grace_s=LATE_S))

        def on_node(node: str) -> Plugin:
            service = driver.node(node)
            service.observe(functools.partial(tell, self.story, who=node), self.clock)
            return service

        drivers = {
            node: InProcessNodeDriver(functools.partial(on_node, node), self.node_socket(node)) for node in self.nodes
        }
        await _started(drivers.values(), stack)
        return self._sockets(drivers, "this is a fault of Mooring's: please report it", tells=True)

    async def _class(self, form: PythonClass, stack: AsyncExitStack) -> Sockets:
        """An object for each node, a new one at each start; the first one is the controller, too, and stays."""
        first, *others = self.nodes
        controller = _object(form, first)
        await stack.enter_async_context(serving(controller, str(self.socket), grace_s=LATE_S))
        drivers = {first: InProcessNodeDriver(lambda: controller, self.node_socket(first))}
        drivers |= {
            node: InProcessNodeDriver(functools.partial(_object, form, node), self.node_socket(node)) for node in others
        }
        await _started(drivers.values(), stack)
        return self._sockets(drivers, f"it is {form} that must answer")

    async def _program(self, form: CommandLine, stack: AsyncExitStack, group: asyncio.TaskGroup) -> Sockets:
        """A process for each node; the first one is the controller, too, unless that is apart."""
        first, sockets = self.nodes[0], {node: self.node_socket(node) for node in self.nodes}
        apart = self._program_on(form, first, self.socket, group, is_controller=True) if self.controller_apart else None
        shared = None if self.controller_apart else first
        drivers = {
            node: self._program_on(form, node, path, group, is_controller=node == shared)
            for node, path in sockets.items()
        }
        started = (*((apart,) if apart is not None else ()), *drivers.values())
        for driver in started:
            stack.enter_context(self.ending.at_last(driver.kill_now))
        await _started(started, stack)
        advice = f"the driver must serve on the path that it got for {{socket}}; it was started as: {form}"
        controller = sockets[first] if apart is None else self.socket
        return Sockets(controller, sockets, False, PROGRAM_S, advice, drivers, NOT_SERVING_YET, apart)

    def _program_on(
        self, form: CommandLine, node: str, socket: Path, group: asyncio.TaskGroup, *, is_controller: bool
    ) -> NodeProgram:
        words, environment = form.for_node(str(socket), node), form.environment(str(socket), node)
        return NodeProgram(
            lambda: DriverProgram(words, environment, socket, self.story, self.clock, self.ending),
            *(node, socket, group),
            is_controller=is_controller,
        )

    def _elsewhere(self, form: Socket) -> Sockets:
        if len(self.nodes) > 1:
            raise ConfigError(
                f"driver: one socket is one node's: take --nodes=1, not {len(self.nodes)} nodes, for {form}"
            )
        advice = (
            "start the driver first, or let `mooring dev` start it: --driver './my-driver --endpoint unix://{socket}'"
        )
        path, node = Path(form.path), self.nodes[0]
        return Sockets(path, {node: path}, False, THEIRS_S, advice, {node: ExternalDriver()})

    def _sockets(self, drivers: Mapping[str, NodeDriver], advice: str, *, tells: bool = False) -> Sockets:
        return Sockets(
            self.socket, {node: self.node_socket(node) for node in self.nodes}, tells, OURS_S, advice, drivers
        )


async def _started(drivers: Iterable[NodeDriver], stack: AsyncExitStack) -> None:
    """All of them, closed with the stack."""
    for driver in drivers:
        await driver.start()
        stack.push_async_callback(driver.close)


def _object(form: PythonClass, node: str) -> Plugin:
    """node: stands for {node} in options, and becomes the object's node_id where nothing else does.

    Raises ConfigError; an error of its author's code is told with its place.
    """
    try:
        driver = load(form.words, form.for_node(node), node)
    except ConfigError as error:
        raise ConfigError(f"driver: {error}") from None
    except Exception as error:  # whatever its author's code raises
        raise ConfigError(f"driver: {story_of(form.words, error)}") from error
    if not driver.node_id:
        driver.node_id = node
    return driver
