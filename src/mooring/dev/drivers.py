"""Starts the driver of a plane in the form that was asked for, with a socket for its controller and one for each node.

Below the plane's folder `run/N.sock` is the driver's for node N, and registration sockets appear in `run/N/`: their paths are
short, for a socket's may have 107 bytes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.csi.unix_server import make_room
from mooring.dev.driver_form import FORMS, CommandLine, Form, PythonClass, Socket
from mooring.dev.driver_program import DriverProgram
from mooring.dev.story import Story
from mooring.dev.traced_driver import tell
from mooring.driver.hostpath import HostPath
from mooring.driver.layout import Segments
from mooring.driver.node.way import AUTO, LINK, Way
from mooring.driver.server import serving

OURS_S: Final = 20.0
PROGRAM_S: Final = 60.0
"""A program may be compiled first, as with `go run`."""
THEIRS_S: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Sockets:
    """Where a driver answers. nodes: by name. tells: the driver tells of its calls itself; else their callers do.

    patience_s: how long it may take to be there. advice: the next step when it is not. programs: the driver's, with their tasks.
    """

    controller: Path
    nodes: Mapping[str, Path]
    tells: bool
    patience_s: float
    advice: str
    programs: Mapping[asyncio.Task[None], DriverProgram] = dataclasses.field(default_factory=dict)

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """Those that end with the plane."""
        return tuple(self.programs)

    def is_up(self) -> None:
        """The driver has answered: a program that ends from now on is started again."""
        for program in self.programs.values():
            program.is_up = True


@dataclasses.dataclass(frozen=True, slots=True)
class Starter:
    """folder: the plane's. nodes: their names, at least one. topology: of the reference driver. mounts: False for links in their place."""

    folder: Path
    nodes: Sequence[str]
    topology: Mapping[str, Segments]
    mounts: bool
    story: Story
    clock: Clock
    randomness: Random

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
        return await self._reference(stack)

    async def _reference(self, stack: AsyncExitStack) -> Sockets:
        way = Way(self.state_folder, AUTO if self.mounts else LINK)
        driver = stack.enter_context(
            HostPath(self.state_folder, node_ids=self.nodes, topology=self.topology, randomness=self.randomness, way=way)
        )
        driver.observe(self.story.called, self.clock)
        await stack.enter_async_context(serving(driver, str(self.socket)))
        for node in self.nodes:
            service = driver.node(node)
            service.observe(functools.partial(tell, self.story, who=node), self.clock)
            await stack.enter_async_context(serving(service, str(self.node_socket(node))))
        return self._sockets("this is a fault of Mooring's: please report it", tells=True)

    async def _class(self, form: PythonClass, stack: AsyncExitStack) -> Sockets:
        """An object for each node; the first one is the controller, too."""
        made = driver_class(form)
        for node in self.nodes:
            driver = _object(form, made, node)
            for path in (*((self.socket,) if node == self.nodes[0] else ()), self.node_socket(node)):
                await stack.enter_async_context(serving(driver, str(path)))
        return self._sockets(f"it is {form} that must answer")

    async def _program(self, form: CommandLine, stack: AsyncExitStack, group: asyncio.TaskGroup) -> Sockets:
        """A process for each node; the first one is the controller, too."""
        programs = {}
        for node in self.nodes:
            socket = self.node_socket(node)
            make_room(socket, even_alive=True)
            program = DriverProgram(form.for_node(str(socket), node), _environment(socket, node), self.story, self.clock)
            await program.start()
            stack.push_async_callback(program.close)
            programs[group.create_task(program.mind(), name=f"dev/driver-program/{node}")] = program
        advice = f"the driver must serve on the path that it got for {{socket}}; it was started as: {form}"
        sockets = {node: self.node_socket(node) for node in self.nodes}
        return Sockets(sockets[self.nodes[0]], sockets, False, PROGRAM_S, advice, programs)

    def _elsewhere(self, form: Socket) -> Sockets:
        if len(self.nodes) > 1:
            raise ConfigError(f"driver: one socket is one node's: take --nodes=1, not {len(self.nodes)} nodes, for {form}")
        advice = "start the driver first, or let `mooring dev` start it: --driver './my-driver --endpoint unix://{socket}'"
        path = Path(form.path)
        return Sockets(path, {self.nodes[0]: path}, False, THEIRS_S, advice)

    def _sockets(self, advice: str, *, tells: bool = False) -> Sockets:
        return Sockets(self.socket, {node: self.node_socket(node) for node in self.nodes}, tells, OURS_S, advice)


def _environment(socket: Path, node: str) -> dict[str, str]:
    """With the variables from which many drivers read what their flags do not say."""
    return {**os.environ, "CSI_ENDPOINT": f"unix://{socket}", "NODE_ID": node, "KUBE_NODE_NAME": node}


def driver_class(form: PythonClass) -> Any:
    """Looked for in the current folder, too. Raises ConfigError."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(form.module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{form.module}.".startswith(f"{error.name}."):
            raise ConfigError(f"driver: {form.module} needs the module {error.name}, which is not installed here") from error
        raise ConfigError(f"driver: there is no module {error.name!r} in this folder or installed here; the forms are: {FORMS}") from error
    except Exception as error:  # whatever its author's code raises
        raise ConfigError(f"driver: {form.module} can't be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, form.name, None)
    if found is None:
        near = get_close_matches(form.name, [name for name, value in vars(module).items() if isinstance(value, type)], n=1)
        raise ConfigError(f"driver: {form.module} has no {form.name}{f'; did you mean {form.module}:{near[0]}?' if near else ''}")
    if not isinstance(found, type) or not hasattr(found, "get_plugin_info"):
        raise ConfigError(f"driver: {form} is no driver: it must be a class derived from mooring.driver.sdk.Plugin")
    return found


def _object(form: PythonClass, made: Any, node: str) -> Any:
    """node: becomes the object's node_id where that is empty, as in a Plugin. Raises ConfigError."""
    try:
        driver = made()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"driver: {form}() fails, and is called without arguments: {what}; give defaults to its arguments") from error
    if getattr(driver, "node_id", None) == "":
        driver.node_id = node
    return driver
