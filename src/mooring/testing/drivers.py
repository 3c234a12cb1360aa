"""The driver under test in each form: an object of a Python class for each node, the reference driver, a command, or a
socket.

Objects are called in the test's process. A command and a socket are spoken with over gRPC, by `mooring.dev`'s own
means.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.csi.call_counts import CallObserver
from mooring.csi.client import Client
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.driver_form import CommandLine, PythonClass, ReferenceDriver, Socket, parse_form
from mooring.csi.wire_driver import WireDriver
from mooring.dev.drivers import Sockets, Starter
from mooring.dev.node_drivers import NodeDriver
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.node.mount_mode import LINK, MOUNT, MountMode
from mooring.driver.loading import load
from mooring.driver.sdk import Plugin
from mooring.driver.server import check_identity
from mooring.testing.driver_calls import DriverCalls
from mooring.testing.endpoint import Endpoint, EndpointClient

MakesDriver = Callable[..., object]
NODE_ID: Final = "node_id"
THEIRS: Final = "the driver's process is somebody else's: it can't be restarted from here"


class Wanted(msgspec.Struct, frozen=True):
    """The driver that a test asks for. driver: a class or a function of the node's name; the words of
    `mooring dev --driver`; "" for the reference driver. options: arguments of a class. mounts: the driver really
    mounts, which needs the right to.
    """

    driver: MakesDriver | str = ""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    nodes: Sequence[str] = ("n1", "n2")
    mounts: bool = False

    @property
    def form(self) -> MakesDriver | ReferenceDriver | PythonClass | CommandLine | Socket:
        """Raises ConfigError for words that name no driver."""
        if callable(self.driver):
            return self.driver
        return parse_form(self.driver, {name: str(value) for name, value in self.options.items()})

    @property
    def is_elsewhere(self) -> bool:
        """True for a driver in a process of its own, which lives in real time."""
        return isinstance(self.form, CommandLine | Socket)


class DriverUnderTest(Protocol):
    """A driver that runs, with its clients."""

    is_reference: bool
    is_ours: bool
    """Its processes can be restarted."""

    def controller(self) -> Client:
        """A client for the controller's calls, connected."""

    def on_node(self, node: str, *, clock: Clock, metrics: CallObserver | None = None) -> WireDriver: ...
    async def kill(self, node: str) -> None:
        """The node has lost its power."""

    async def start(self, node: str) -> None: ...
    async def restart(self) -> None:
        """Every process of the driver ends, and starts anew."""


class Objects:
    """A driver whose processes are objects. make: the object of a node; the first one is the controller, too."""

    is_reference = False
    is_ours = True

    def __init__(self, make: Callable[[str], object], nodes: Sequence[str], calls: DriverCalls, clock: Clock) -> None:
        self._make, self._nodes, self._calls, self._clock = make, nodes, calls, clock
        self._controller, self._endpoints = Endpoint(), {node: Endpoint() for node in nodes}
        self._come(nodes)

    def _come(self, nodes: Iterable[str]) -> None:
        """The controller's object, and those of these nodes."""
        first = self._made(self._nodes[0])
        self._controller.comes(first)
        for node in nodes:
            self._endpoints[node].comes(first if node == self._nodes[0] else self._made(node))

    def _made(self, node: str) -> object:
        driver = self._make(node)
        check_identity(driver)
        return driver

    def controller(self) -> Client:
        return EndpointClient(self._controller, self._calls, "", clock=self._clock)

    def on_node(self, node: str, *, clock: Clock, metrics: CallObserver | None = None) -> WireDriver:
        return cast(
            "WireDriver",
            EndpointClient(self._endpoints[node], self._calls, node, clock=clock, metrics=cast("Any", metrics)),
        )

    async def kill(self, node: str) -> None:
        self._endpoints[node].goes()

    async def start(self, node: str) -> None:
        self._endpoints[node].comes(self._controller.plugin if node == self._nodes[0] else self._made(node))

    async def restart(self) -> None:
        on = [node for node, endpoint in self._endpoints.items() if endpoint.plugin is not None]
        for endpoint in (self._controller, *(self._endpoints[node] for node in on)):
            endpoint.goes()
        await self._clock.sleep(1.0)
        self._come(on)


class Reference(Objects):
    """The host-path driver on one folder. Its objects for nodes are parts of that of the controller."""

    is_reference = True

    def __init__(self, folder: Path, wanted: Wanted, calls: DriverCalls, clock: Clock, randomness: Random) -> None:
        self._folder, self._nodes, self._clock, self._randomness = folder, wanted.nodes, clock, randomness
        self._mode = MountMode(folder, MOUNT if wanted.mounts else LINK)
        self._hostpath: HostPath | None = None
        super().__init__(self._part, wanted.nodes, calls, clock)

    def _part(self, node: str) -> object:
        if node == self._nodes[0]:
            self.close()
            self._hostpath = HostPath(
                self._folder,
                node_ids=self._nodes,
                randomness=self._randomness,
                mount_mode=self._mode,
                clock=self._clock,
            )
            return self._hostpath
        assert self._hostpath is not None
        return self._hostpath.node(node)

    def close(self) -> None:
        if self._hostpath is not None:
            self._hostpath.close()


class OverSocket(WireDriver):
    """A client over gRPC, whose calls are recorded and struck as those of the others."""

    def __init__(
        self, address: str, calls: DriverCalls, where: str, *, clock: Clock, metrics: CallObserver | None = None
    ) -> None:
        super().__init__(address, clock=clock, metrics=metrics)
        self._calls, self._where = calls, where
        calls.sockets.add(self.socket)

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        return await self._calls.make(rpc, request, call, self._where, super()._send)


class Processes:
    """A driver behind sockets: a command for each node, or a socket that somebody else serves."""

    is_reference = False

    def __init__(self, sockets: Sockets, calls: DriverCalls, clock: Clock) -> None:
        self._sockets, self._calls, self._clock = sockets, calls, clock
        self.is_ours = all(driver.is_ours for driver in sockets.all)
        self._turning = asyncio.Lock()
        self._off: set[str] = set()  # nodes without power

    async def connected(self) -> WireDriver:
        """Raises ConfigError where nobody answers in time."""
        client = OverSocket(str(self._sockets.controller), self._calls, "", clock=self._clock)
        client.socket.absent = self._sockets.absent
        await client.connect(self._sockets.patience_s, self._sockets.advice)
        self._sockets.is_up()
        self._client = client
        return client

    def controller(self) -> Client:
        return self._client

    def on_node(self, node: str, *, clock: Clock, metrics: CallObserver | None = None) -> WireDriver:
        return OverSocket(str(self._sockets.nodes[node]), self._calls, node, clock=clock, metrics=metrics)

    async def kill(self, node: str) -> None:
        async with self._turning:
            self._off.add(node)
            await self._kill(self._sockets.drivers[node], self._sockets.nodes[node])

    async def _kill(self, driver: NodeDriver, socket: Path) -> None:
        nodes = [node for node, path in self._sockets.nodes.items() if path == socket]
        with self._calls.killing(*nodes, *([""] if socket == self._sockets.controller else [])):
            await driver.kill()

    async def start(self, node: str) -> None:
        """Returns when it answers. Raises ConfigError where it never does."""
        async with self._turning:
            await self._start(self._sockets.drivers[node], self._sockets.nodes[node])
            self._off.discard(node)

    async def _start(self, driver: NodeDriver, socket: Path) -> None:
        """While a program starts, time does not leap."""
        with self._calls.at_work():
            await driver.start()
            await self._sockets.until_there(socket, self._clock)
        driver.is_up()

    async def restart(self) -> None:
        if not self.is_ours:
            raise ConfigError(THEIRS)
        async with self._turning:  # two calls may end in this at once
            for driver, socket in self._processes():
                await self._kill(driver, socket)
                await self._start(driver, socket)

    def _processes(self) -> Iterator[tuple[NodeDriver, Path]]:
        """Those that run, each with its socket; the controller's own comes first."""
        if self._sockets.apart is not None:
            yield self._sockets.apart, self._sockets.controller
        yield from (
            (driver, self._sockets.nodes[node])
            for node, driver in self._sockets.drivers.items()
            if node not in self._off
        )


def maker(form: MakesDriver | PythonClass, options: Mapping[str, Any]) -> Callable[[str], object]:
    """Makes the driver's object for a node, by its name. A class gets the options, and the name as `node_id` where it
    takes one.
    """
    if isinstance(form, PythonClass):
        return lambda node: _named(load(form.words, form.for_node(node), node), node)
    if not inspect.isclass(form):
        return lambda node: _named(form(node), node)
    takes_id = NODE_ID in inspect.signature(form.__init__).parameters
    return lambda node: _named(form(**({NODE_ID: node, **options} if takes_id else options)), node)


def _named(driver: object, node: str) -> object:
    """With the node's name as its id, where it has none."""
    if isinstance(driver, Plugin) and not driver.node_id:
        driver.node_id = node
    return driver


async def started(
    wanted: Wanted, starter: Starter, calls: DriverCalls, stack: AsyncExitStack, group: asyncio.TaskGroup
) -> DriverUnderTest:
    """The driver runs until the stack is closed. Raises ConfigError."""
    form = wanted.form
    if isinstance(form, ReferenceDriver):
        reference = Reference(starter.state_folder, wanted, calls, starter.clock, starter.randomness)
        stack.callback(reference.close)
        return reference
    if isinstance(form, CommandLine | Socket):
        processes = Processes(await starter.start(form, stack, group), calls, starter.clock)
        stack.push_async_callback((await processes.connected()).close)
        return processes
    return Objects(maker(form, wanted.options), wanted.nodes, calls, starter.clock)
