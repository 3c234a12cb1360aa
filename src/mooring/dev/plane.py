"""A whole control plane in this process: API server, reference driver on a real socket, attacher, provisioner, binder and scheduler.

    async with running(folder, node_ids=["node-1"], ...) as plane:
        plane.kubeconfig     # a file for kubectl and any other client

The driver answers over gRPC on its socket, as a sidecar would meet it; clients reach the API server over HTTPS on loopback; the
controllers work on the server's store in process. In the folder: `kubeconfig`, `csi.sock`, the server's identity in `tls/`, and the
driver's state in `driver/`; the API objects in `objects.db`, or in memory if nobody wants to keep them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.disk.state import lasting
from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.identity.tls import identity_in
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.server import ApiServer
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError, first_of
from mooring.base.folders import refusal
from mooring.base.randomness import Random
from mooring.csi.address import PATH_BYTES_MAX
from mooring.csi.grpc import GrpcDriver
from mooring.csi.session import Session
from mooring.dev.controllers import Controllers
from mooring.dev.story import Story
from mooring.driver.hostpath import HostPath
from mooring.driver.layout import Segments
from mooring.driver.server import serving
from mooring.kube.client import kubeconfig

_CONNECT_S_MAX: Final = 10.0
_END_S_MAX: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Plane:
    """The running parts and their addresses. state_folder: the driver's."""

    kubeconfig: Path
    socket: Path
    state_folder: Path
    driver_name: str


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    *,
    node_ids: Collection[str],
    topology: Mapping[str, Segments],
    port: int = 0,
    kept: bool = False,
    story: Story,
    clock: Clock,
    randomness: Random,
) -> AsyncGenerator[Plane, None]:
    """The plane, ready, as long as the block runs. A part that fails ends the block with its error.

    folder: made when it is missing. node_ids: the nodes that the driver knows; topology: the segments of each, {} for a driver without.
    port: of the API server, 0 for that of the folder's last start, or a free one. kept: the API objects stay in the folder. Raises
    ConfigError when the folder, the topology or the port can't be used, or the objects can't be saved any more.
    """
    build = _Build(folder, node_ids, topology, port, kept, story, clock, randomness)
    try:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            driver_name = await build.driver(stack)
            store, durability = await build.objects(stack)
            await build.api_server(stack, store, durability)
            controllers, tasks = await build.controllers(stack, group, store, durability)
            yield Plane(build.kubeconfig, build.socket, build.state_folder, driver_name)
            await controllers.drain(_END_S_MAX)  # after a good end of the block alone
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from errors


class _Build:
    """The common arguments of the parts, and a method for each that returns when it is ready."""

    def __init__(
        self,
        folder: Path,
        node_ids: Collection[str],
        topology: Mapping[str, Segments],
        port: int,
        kept: bool,
        story: Story,
        clock: Clock,
        randomness: Random,
    ) -> None:
        folder = folder.absolute()
        self._folder, self._port, self._kept = folder, port, kept
        self._node_ids, self._topology = node_ids, topology
        self._story, self._clock, self._randomness = story, clock, randomness
        self.kubeconfig, self.socket, self.state_folder = folder / "kubeconfig", folder / "csi.sock", folder / "driver"
        _check_length(self.socket)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise refusal(folder, error) from None

    async def driver(self, stack: AsyncExitStack) -> str:
        driver = stack.enter_context(
            HostPath(self.state_folder, node_ids=self._node_ids, topology=self._topology, randomness=self._randomness)
        )
        driver.observe(self._story.called, self._clock)
        await stack.enter_async_context(serving(driver, str(self.socket)))
        return driver.name

    async def objects(self, stack: AsyncExitStack) -> tuple[ObjectStore, Durability]:
        if self._kept:
            return await stack.enter_async_context(lasting(self._folder, clock=self._clock, randomness=self._randomness))
        store = new_store(self._randomness, self._clock.wall_s())
        return store, InMemory(store)

    async def api_server(self, stack: AsyncExitStack, store: ObjectStore, durability: Durability) -> None:
        identity = identity_in(self._folder / "tls", self._clock.wall_s())
        port = self._port or self._last_port()
        server = ApiServer(store, identity, clock=self._clock, randomness=self._randomness, port=port, durability=durability)
        await server.start()
        stack.push_async_callback(server.close)
        server.write_kubeconfig(self.kubeconfig)
        self._story.happened("server", f"answers on {server.url}")

    def _last_port(self) -> int:
        """The port of the folder's last start, if it is free, so that its clients find the server again; else 0."""
        port = _port_in(self.kubeconfig)
        if port and not _is_free(port):
            self._story.happened("server", f"port {port}, where it was last time, is taken: it takes another")
            return 0
        return port

    async def controllers(
        self, stack: AsyncExitStack, group: asyncio.TaskGroup, store: ObjectStore, durability: Durability
    ) -> tuple[Controllers, list[asyncio.Task[None]]]:
        """The controllers, their caches filled, and the tasks that end with them."""
        client = GrpcDriver(str(self.socket), clock=self._clock)
        await client.connect(_CONNECT_S_MAX)
        stack.push_async_callback(client.close)
        session = Session(client, clock=self._clock)
        await session.start()
        local = LocalCluster(store, clock=self._clock, randomness=self._randomness, durability=durability)
        controllers = Controllers(local, session, self._story, self._clock, self._randomness)
        tasks = [
            group.create_task(session.run(), name="dev/driver-session"),
            group.create_task(_end_on_failure(durability), name="dev/durability"),
        ]
        return controllers, tasks + await controllers.started(group)


def _check_length(socket_path: Path) -> None:
    """Raises ConfigError for a folder whose path is too long for a socket."""
    spare = PATH_BYTES_MAX - len(os.fsencode(socket_path))
    if spare < 0:
        length = len(os.fsencode(socket_path.parent))
        raise ConfigError(
            f"state: the folder's path has {length} bytes, and may have {length + spare}, since the driver's unix socket lies in it: "
            "give a shorter one"
        )


def _port_in(path: Path) -> int:
    """The server's port in a kubeconfig; 0 where there is none that can be read."""
    try:
        return urlsplit(kubeconfig.load(str(path), {}).server).port or 0
    except (ConfigError, ValueError):
        return 0


def _is_free(port: int) -> bool:
    """Asked as the server will ask for it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def _end_on_failure(durability: Durability) -> None:
    """Raises ConfigError when the objects can't be saved any more."""
    await durability.failed()
    raise ConfigError(f"the API objects could not be saved: {durability.failure}; a restart shows what was saved last")
