"""The agent of one node: drivers register with it, and pods of the node get their volumes."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS
from mooring.base.folders import check_utf8, hold, refusal
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.events import EventRecorder
from mooring.control.manager import Loop, Manager
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.csi.metrics import ConnectionMetrics
from mooring.csi.registration import Registration
from mooring.csi.wire_driver import WireDriver
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.patch import strategic_patch
from mooring.mounts.system import LOOP_TOOL, MOUNT_TOOLS, missing_tools
from mooring.node.csinode.allocatable import Allocatable
from mooring.node.csinode.entries import GRACE_S, Entries
from mooring.node.csinode.reconcile import NodeObjects, persistently
from mooring.node.drivers import Drivers
from mooring.node.heartbeat import Heartbeat
from mooring.node.layout import KubeletLayout
from mooring.node.metrics import NodeMetrics
from mooring.node.options import AgentOptions
from mooring.node.plugins.controller import Plugins, told_by
from mooring.node.plugins.watcher import SocketWatcher
from mooring.node.volumes.controller import COMPONENT, NodeVolumes
from mooring.node.volumes.state.desired import CLAIM
from mooring.node.volumes.state.on_disk import names_on_disk
from mooring.node.volumes.stats import UsageMetrics, VolumeStats

_log = logger(__name__)

CONTROLLED_ATTACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class AgentSockets(msgspec.Struct, frozen=True):
    """How the agent finds plugins and speaks with them, as a port: over sockets, or in process.

    watch: of the folder with registration sockets. plugin: at one of these. driver: at its own endpoint.
    """

    watch: Callable[..., SocketWatcher] = SocketWatcher
    plugin: Callable[[Path], Registration] = Registration
    driver: Callable[..., WireDriver] = WireDriver


class NodeAgent(Manager):
    """run() until cancelled or drained. Raises ConfigError when the root folder can't be used."""

    def __init__(
        self, runtime: Runtime, options: AgentOptions, caches: Caches | None = None, sockets: AgentSockets | None = None
    ) -> None:
        self._cluster, self._clock, self._name = runtime.cluster, runtime.clock, options.node_name
        self.layout = KubeletLayout(options.root)
        caches = caches or Caches(runtime, f"node/{options.node_name}")
        sockets, metrics = sockets or AgentSockets(), runtime.metrics.once(NodeMetrics)
        self.drivers = Drivers()
        self._objects = NodeObjects(runtime.cluster, options.node_name, clock=runtime.clock)
        self._plugins = Plugins(
            runtime,
            self.drivers,
            self._objects,
            lambda socket: self._watcher.generation(socket),
            lambda name, endpoint: sockets.driver(endpoint, clock=runtime.clock, metrics=metrics.calls_of(name)),
            plugin_at=sockets.plugin,
            grace_s=options.grace_s,
        )
        self._watcher = sockets.watch(
            options.registry or self.layout.registry, self._plugins.changed, clock=runtime.clock
        )
        self._allocatable = Allocatable(runtime, caches, self.drivers, self._objects, told_by)
        self._entries = Entries(
            runtime,
            options.node_name,
            self.drivers,
            self._objects,
            self._plugins.is_there,
            self._plugins.enter_again,
            max(GRACE_S, options.grace_s),
        )
        events = EventRecorder(runtime.cluster, COMPONENT, clock=runtime.clock, randomness=runtime.randomness)
        self._volumes = NodeVolumes(runtime, caches, options, self.drivers, events, self._allocatable.refresh_now)
        self._attaches = not options.controller_attaches
        if options.watches_claims:
            self._volumes.pods.watch_claims(caches.of(PERSISTENT_VOLUME_CLAIMS, keeps=always(CLAIM)))
        stats = VolumeStats(
            self.drivers,
            self._volumes.published,
            self._volumes.tell_abnormal if options.watches_health else lambda *_: None,
            metrics,
            clock=runtime.clock,
            randomness=runtime.randomness,
            period_s=options.stats_period_s,
        )
        runtime.metrics.once(ConnectionMetrics).show(options.node_name, self.drivers.connected)
        runtime.metrics.once(UsageMetrics).show(options.node_name, lambda: stats.usages)
        self._is_prepared = asyncio.Event()
        self._heartbeat = (
            Heartbeat(runtime, caches, options.node_name, options.lease_s, options.resources)
            if options.heartbeats
            else None
        )
        super().__init__(
            caches,
            self._plugins.controller,
            self._allocatable.controller,
            self._entries.controller,
            *self._volumes.workers,
            *((self._heartbeat.controller,) if self._heartbeat is not None else ()),
            prepare=self._prepare_node,
        )
        self.beside("node/events", events)
        self.beside("node/registry", Loop(self._watch_registry))
        self.beside("node/stats", Loop(stats.run))
        self.beside("node/in-use", self._volumes.in_use.controller)
        if self._heartbeat is not None:
            self.beside("node/lease", Loop(self._renew_lease))

    async def run(self) -> None:
        check_utf8(self.layout.root)
        try:
            self.layout.root.mkdir(parents=True, exist_ok=True, mode=0o750)
            lock = hold(self.layout.root / ".mooring-node.lock", "the node agent")
        except OSError as error:
            raise refusal(self.layout.root, error) from None
        if missing := missing_tools((*MOUNT_TOOLS, LOOP_TOOL)):
            text = "Programs that raw block volumes need are not on this machine, such volumes fail; install util-linux"
            _log.warning(text, missing=", ".join(missing))
        try:
            await super().run()
        finally:
            self._volumes.close()
            await self.drivers.close()
            os.close(lock)

    async def drain(self, timeout_s: float) -> bool:
        self._volumes.stop_walks()
        return await super().drain(timeout_s)

    async def _prepare_node(self) -> None:
        """Makes the Node and the CSINode where they are missing, however long the API server is away; then sockets are
        looked for.
        """
        await persistently(self._make_node, self._clock, "The Node")
        await self._objects.prepare()
        node = await persistently(lambda: self._cluster.get(NODES, self._name), self._clock, "The Node")
        await self._volumes.prepare(node)
        self._is_prepared.set()

    async def _watch_registry(self) -> None:
        await self._is_prepared.wait()
        await self.caches.synced()
        self._volumes.start()
        await self._volumes.pod_folders.remove_orphans()
        self._entries.start()
        await self._watcher.run()

    async def _renew_lease(self) -> None:
        assert self._heartbeat is not None
        await self._is_prepared.wait()
        await self.caches.synced()
        await self._heartbeat.renew_for_ever()

    async def _make_node(self) -> None:
        try:
            node = await self._cluster.get(NODES, self._name)
        except NotFound:
            try:
                in_use = await asyncio.to_thread(names_on_disk, self.layout)
                await self._cluster.create(NODES, new_node(self._name, in_use, attaches=self._attaches))
                return
            except AlreadyExists:
                node = await self._cluster.get(NODES, self._name)
        wanted = None if self._attaches else "true"
        if (node.metadata.annotations or {}).get(CONTROLLED_ATTACH) != wanted:
            patch = strategic_patch({"metadata": {"annotations": {CONTROLLED_ATTACH: wanted}}}, of=node)
            await self._cluster.patch(NODES, self._name, patch, subresource="status")


def new_node(name: str, in_use: Sequence[str] = (), *, attaches: bool = False) -> dict[str, Any]:
    """The Node of a machine that has none, or has it no more. in_use: the volumes that it may have mounted.

    They are named from the first moment: a controller that read an empty list would detach them.
    """
    system, machine = platform.system().lower(), platform.machine()
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": system,
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
    }
    metadata = {"name": name, "labels": labels, "annotations": {} if attaches else {CONTROLLED_ATTACH: "true"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"volumesInUse": list(in_use)} if in_use else {},
    }
