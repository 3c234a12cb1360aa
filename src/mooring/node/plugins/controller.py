"""Registers the plugins whose sockets appear, and unregisters those whose sockets go.

A plugin is asked what it is, its driver's node service is asked about the node, Node and CSINode are written, and the
plugin is told. Whatever fails on the way is told to the plugin, undone, and tried again with a back-off, or at once
when the socket is made anew. Source: kubelet 1.36, pkg/kubelet/pluginmanager. Differs: nothing is polled, and a driver
of a name belongs to the socket that registered it last: another socket that goes does not take it along.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.errors import ConfigError, MooringError
from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed
from mooring.control.queue import BackOff
from mooring.control.runtime import Runtime
from mooring.csi.capabilities import DRIVER_NAME
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.registration import CSI_PLUGIN, PluginInfo, Registration
from mooring.csi.wire_driver import WireDriver
from mooring.kube.errors import ApiError
from mooring.node.csinode.reconcile import NodeObjects, WriteRefused
from mooring.node.drivers import CALL_S, DriverOnNode, Drivers, RegisteredDriver
from mooring.node.plugins.decide import Step, Version, decide_plugin, highest_supported

_log = logger(__name__)

INFO_S: Final = 1.0
VERSION_S: Final = 5.0
"""A kubelet does not ask for it, so nobody else is that patient with a slow driver."""
DIAL_S: Final = 10.0
NOTIFY_S: Final = 5.0
BACK_OFF: Final = BackOff(0.5, 122.0)
FIRST_S: Final = 2.0
"""How long a plugin's first answer is waited for. Each further try waits twice as long, up to a kubelet's limit: a
silent socket costs little at first.
"""
WORKERS: Final = 100
"""Sockets dealt with at once, most of them silent: a plugin that answers is not to wait for one that does not."""


class _Refusal(MooringError):
    """The plugin is refused, and is told this text."""


class Plugins:
    """The registration of drivers.

    generation: of a socket in the folder, None when it is not there. connect: to a driver, by name and endpoint.
    plugin_at: who listens at a socket. grace_s: how long a driver whose socket is gone stays registered, 0 for not at
    all.
    """

    def __init__(
        self,
        runtime: Runtime,
        drivers: Drivers,
        objects: NodeObjects,
        generation: Callable[[Path], int | None],
        connect: Callable[[str, str], WireDriver],
        plugin_at: Callable[[Path], Registration] = Registration,
        *,
        grace_s: float = 0.0,
    ) -> None:
        self._drivers, self._objects = drivers, objects
        self._generation, self._connect, self._plugin_at = generation, connect, plugin_at
        self._registered: dict[Path, int] = {}  # of the sockets whose plugin was registered: the generation
        self._clock, self._grace_s = runtime.clock, grace_s
        # Since when, monotonic: sockets that are gone, or not registered anew yet, whose plugin is still registered.
        self._gone_since: dict[Path, float] = {}
        self._registering: dict[str, Path] = {}  # by driver name: the socket whose registration is under way
        how = Deciding(self.decide, self.perform, _tell_nobody)
        self.controller: Controller[Path] = Controller(
            runtime, "node-plugins", how, workers=WORKERS, backoff=BACK_OFF, label="socket", log=_log
        )

    def changed(self, socket: Path) -> None:
        """The socket has come, gone, or was made anew: what failed with the old one is history."""
        if socket in self._registered and self._registered[socket] != self._generation(socket):
            self._gone_since.setdefault(socket, self._clock.now())
        self.controller.forget(socket)
        self.controller.add(socket)

    def is_there(self, name: str) -> bool:
        """True for a driver that is registered, or is being registered."""
        return name in self._registering or self._drivers.find(name) is not None

    async def enter_again(self, name: str) -> None:
        """Enters a registered driver at Node and CSINode as it introduced itself. Raises ApiError, Refused."""
        if (driver := self._drivers.find(name)) is not None and driver.told is not None:
            await self._objects.enter(driver.told)

    def decide(self, socket: Path) -> Decision[Step]:
        return decide_plugin(
            self._generation(socket), self._registered.get(socket), grace_left_s=self._grace_left_s(socket)
        )

    async def perform(self, socket: Path, decision: Decision[Step]) -> None:
        """Raises Failed, which the plugin was told."""
        for step in decision.actions:
            if step is Step.UNREGISTER:
                await self._unregister(socket)
            elif (generation := self._generation(socket)) is not None:
                await self._register(socket, generation)

    def _grace_left_s(self, socket: Path) -> float:
        since = self._gone_since.get(socket)
        return 0.0 if since is None else since + self._grace_s - self._clock.now()

    async def _register(self, socket: Path, generation: int) -> None:
        plugin = self._plugin_at(socket)
        try:
            await self._register_with(plugin, socket, generation)
        except _Refusal as refusal:
            text = f"RegisterPlugin error -- {refusal}"
            await self._notify(plugin, text)
            if socket in self._registered:  # by the plugin that was there before
                await self._unregister(socket)
            raise Failed(text) from None
        except DriverError as error:
            raise Failed(f"the plugin at {socket} does not answer: {error}") from None
        finally:
            await plugin.close()

    async def _register_with(self, plugin: Registration, socket: Path, generation: int) -> None:
        info = await plugin.get_info(min(FIRST_S * 2 ** min(self.controller.failures(socket), 8), DIAL_S + INFO_S))
        if info.type != CSI_PLUGIN:
            raise _Refusal(f"no handler registered for plugin type: {info.type} at socket {socket}")
        version = self._valid(info, socket)
        if (other := self._registering.setdefault(info.name, socket)) != socket:
            raise _Refusal(
                f"plugin validation failed with err: CSI driver {info.name} is being registered by the socket "
                f"{other} at this moment"
            )
        try:
            await self._register_valid(plugin, socket, generation, info, version)
        finally:
            del self._registering[info.name]

    async def _register_valid(
        self, plugin: Registration, socket: Path, generation: int, info: PluginInfo, version: Version
    ) -> None:
        endpoint = info.endpoint or str(socket)
        driver = RegisteredDriver(info.name, socket, endpoint, version, self._client(info.name, endpoint))
        self._registered[socket] = generation  # from here on, a socket that goes is unregistered
        try:
            driver.told = await self._introduced(driver)
            await self._objects.enter(driver.told)
            await self._drivers.put(driver)
            await self._remove_others(socket, info.name)
            await plugin.notify(registered=True, timeout_s=NOTIFY_S)
            self._gone_since.pop(socket, None)
        except Exception as error:  # what nobody foresaw, too: it is told, and half a registration is never left
            await self._undo(socket, driver)
            if not isinstance(error, DriverError | ApiError | WriteRefused | ConfigError):
                story = Lines("".join(traceback.format_exception(error)))
                _log.error("A registration failed unexpectedly", driver=info.name, traceback=story)
            raise _Refusal(f"plugin registration failed with err: {error}") from None

    def _valid(self, info: PluginInfo, socket: Path) -> Version:
        """The version of CSI to speak. Raises _Refusal."""
        if not DRIVER_NAME.fullmatch(info.name):
            raise _Refusal(
                f"plugin validation failed with err: {info.name!r} is no driver name: 1 to 63 letters, digits, "
                "dashes and dots"
            )
        version = highest_supported(info.supported_versions)
        if version is None:
            versions = ", ".join(info.supported_versions) or "none"
            raise _Refusal(
                f"plugin validation failed with err: none of the CSI versions reported are supported: {versions}"
            )
        present = self._drivers.find(info.name)
        if present is not None and present.socket not in (socket, *self._gone_since) and present.version >= version:
            raise _Refusal(
                f"plugin validation failed with err: CSI driver {info.name} is already registered with a "
                "higher supported version, "
                f"{_text(present.version)}, by the socket {present.socket}"
            )
        return version

    def _client(self, name: str, endpoint: str) -> WireDriver:
        """Raises _Refusal for an endpoint that is no socket's."""
        try:
            return self._connect(name, endpoint)
        except ConfigError as error:
            raise _Refusal(f"plugin validation failed with err: endpoint: {error}") from None

    async def _introduced(self, driver: RegisteredDriver) -> DriverOnNode:
        await driver.client.connect(
            DIAL_S, advice="the plugin's endpoint must be the driver's socket as this node sees it"
        )
        answer = await driver.rpc.node_get_info(csi.NodeGetInfoRequest(), Call(CALL_S))
        return msgspec.structs.replace(told_by(driver.name, answer), version=await self._version(driver))

    async def _version(self, driver: RegisteredDriver) -> str:
        """The driver's version, "" for a driver that has none: it is registered all the same, as by a kubelet, which
        does not ask.
        """
        try:
            answer = await driver.rpc.get_plugin_info(csi.GetPluginInfoRequest(), Call(VERSION_S))
        except DriverError as error:
            _log.info(2, "The driver does not tell its version", reason=str(error), driver=driver.name)
            return ""
        return answer.vendor_version

    async def _undo(self, socket: Path, driver: RegisteredDriver) -> None:
        """The driver is not registered, and nothing of an earlier registration of it is left."""
        self._registered.pop(socket, None)
        if (
            (present := self._drivers.find(driver.name)) is not None
            and present.socket not in (socket,)
            and present is not driver
        ):
            await driver.client.close()
            return
        await self._drivers.remove(driver.name)
        await driver.client.close()
        await self._taken_off(driver.name, socket)

    async def _unregister(self, socket: Path) -> None:
        self._registered.pop(socket)
        self._gone_since.pop(socket, None)
        await self._remove_others(socket, "")

    async def _remove_others(self, socket: Path, name: str) -> None:
        """Takes off the drivers that this socket has registered, but for the one of this name."""
        for driver in self._drivers:
            if driver.socket == socket and driver.name != name:
                await self._drivers.remove(driver.name)
                await self._taken_off(driver.name, socket)

    async def _taken_off(self, name: str, socket: Path) -> None:
        """Take the driver's entries off, unless another socket has registered it meanwhile, or is about to: then they
        are that one's.
        """
        if self._registering.get(name, socket) != socket or self._drivers.find(name) is not None:
            return
        try:
            await self._objects.take_off(name)
        except (ApiError, WriteRefused) as error:
            _log.error("The driver could not be taken off Node and CSINode", error=error, driver=name)

    async def _notify(self, plugin: Registration, text: str) -> None:
        try:
            await plugin.notify(registered=False, error=text, timeout_s=NOTIFY_S)
        except DriverError as error:
            _log.info(2, "The plugin could not be told that it was refused", reason=str(error))


async def _tell_nobody(*_: object) -> None:
    """The plugin has its answer, and no object of the API is about it."""


def told_by(name: str, answer: csi.NodeGetInfoResponse) -> DriverOnNode:
    """The answer to NodeGetInfo as Node and CSINode are written from it."""
    return DriverOnNode(name, answer.node_id, answer.max_volumes_per_node, dict(answer.accessible_topology.segments))


def _text(version: Version) -> str:
    return ".".join(map(str, version))
