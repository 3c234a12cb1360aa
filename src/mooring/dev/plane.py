"""A whole control plane in this process: API server, a driver on real sockets, its controllers, and an agent for each
node.

    async with running(folder, Reference(), ...) as plane:
        plane.kubeconfig          # a file for kubectl and any other client
        await plane.nodes.start() # once what must be there before the nodes was made

The driver answers over gRPC on its sockets, as a sidecar would meet it; clients reach the API server over HTTPS on
loopback; controllers and agents work on the server's store in process. In the folder: `kubeconfig`, the server's
identity in `tls/`, the API objects in `objects.db`, or in memory if nobody wants to keep them; `csi.sock` and the
driver's state in `driver/`, unless the driver is somebody's own; what is mounted in `nodes/NAME/`, laid out as a
kubelet's folder; the nodes' sockets in `run/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.disk.state import lasting
from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.identity.tls import identity_in, signer_of
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.users import Tokens
from mooring.apiserver.web.server import LOOPBACK, ApiServer, is_free, last_port
from mooring.base.clock import Clock
from mooring.base.ending import Ending
from mooring.base.errors import ConfigError, first_of
from mooring.base.folders import refusal
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.conform.proxy.faults import Faults
from mooring.conform.proxy.proxy import Passed, Proxy
from mooring.conform.watched import Breaches, WatchedDriver
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver_form import Form, ReferenceDriver
from mooring.csi.session import DriverChanged, Session
from mooring.dev.controllers import Controllers
from mooring.dev.drivers import Sockets, Starter
from mooring.dev.extras import Extras, extras_of, install
from mooring.dev.folder import check_path
from mooring.dev.introduction import LIMITS, LastFailure, asked_again, introduced
from mooring.dev.node import Shared
from mooring.dev.nodes import Nodes, node_ids
from mooring.dev.options import Patience
from mooring.dev.pace import PacedLoop
from mooring.dev.seed_objects import republishes
from mooring.dev.story import Story
from mooring.dev.traced import TracedCluster, TracedDriver
from mooring.driver.hostpath.layout import Segments
from mooring.kube.cluster import Cluster
from mooring.node.options import LEASE_S

LEASE_SHARE: Final = 0.8
"""The share of the grace period that a node's Lease lasts, as by default."""


class Plane(msgspec.Struct, frozen=True):
    """The running parts and their addresses.

    cluster: the server's store, for parts in this process. socket: the driver's, for its controller calls.
    state_folder: the reference driver's, None for another driver. nodes: to be started; None for a driver without a
    node service. node_ids: the driver's names of the nodes, by theirs. extras: of the driver, with controllers for
    them. faults: of calls to the driver; None where none can be made.
    """

    folder: Path
    cluster: Cluster
    kubeconfig: Path
    socket: Path
    state_folder: Path | None
    info: DriverInfo
    nodes: Nodes | None
    node_ids: Mapping[str, str]
    extras: Extras
    controllers: Controllers
    faults: Faults | None

    @property
    def driver_name(self) -> str:
        return self.info.name


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    form: Form,
    *,
    nodes: Sequence[str],
    topology: Mapping[str, Segments],
    mounts: bool,
    port: int = 0,
    kept: bool = False,
    snapshots: bool = True,
    patience: Patience,
    story: Story,
    breaches: Breaches,
    clock: Clock,
    randomness: Random,
    ending: Ending,
    faults: Faults | None = None,
) -> AsyncGenerator[Plane, None]:
    """The plane, ready but for its nodes, as long as the block runs. A part that fails ends the block with its error.

    folder: made when it is missing. form: of the driver. nodes: their names. topology: the segments of each, {} for a
    driver without. mounts: False where this process can't mount: the reference driver shows volumes by links then.
    port: of the API server, 0 for that of the folder's last start, or a free one. kept: the API objects stay in the
    folder. snapshots: their kinds and controllers, for a driver that makes them. patience: with nodes that are gone.
    breaches: of the book's rules. ending: how long the parts may take to end. faults: between the driver and its
    callers; None for none, now and later.
    Raises ConfigError when the folder, the driver, the topology or the port can't be used, or the objects can't be
    saved any more.
    """
    build = _Build(
        form, Starter(real(folder), nodes, topology, mounts, story, clock, randomness, ending), breaches, port, kept
    )
    try:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            store, durability = await build.objects(stack)
            sockets = await build.driver(stack, group, faults)
            session, tasks = await build.session(stack, group, sockets)
            breaches.republishes(lambda: republishes(store, session.info.name))
            ids = await node_ids(sockets, breaches, clock)
            tasks.append(
                group.create_task(_end_on_failure(durability), name="dev/durability")
            )  # before anybody is refused for it
            tokens = await build.api_server(stack, store, durability)
            cluster = LocalCluster(store, clock=clock, randomness=randomness, durability=durability, tokens=tokens)
            extras = await extras_of(session, wants_snapshots=snapshots)
            if extras.snapshots:
                await install(TracedCluster(cluster, "server", story, clock), groups=extras.group_snapshots)
            controllers = Controllers(
                lambda _who: cluster, session, story, clock, randomness, patience, extras, has_agents=bool(ids)
            )
            await controllers.start_all(group)
            lease_s = min(LEASE_S, LEASE_SHARE * patience.grace_s)
            shared = Shared(
                cluster, session.info.name, build.starter, sockets, build.breaches, group, Metrics(), lease_s
            )
            agents = Nodes(shared) if ids else None
            state_folder = build.starter.state_folder if isinstance(form, ReferenceDriver) else None
            places = (build.kubeconfig, sockets.controller, state_folder)
            yield Plane(build.starter.folder, cluster, *places, session.info, agents, ids, extras, controllers, faults)
            await controllers.drain(ending.left_s)  # after a good end of the block alone
            ending.goes_on()
            if agents is not None:
                await agents.stop(ending.left_s)
            ending.goes_on()
            for task in (*tasks, *controllers.tasks, *sockets.tasks):
                task.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from errors


class _Build:
    """The common arguments of the parts, and a method for each that returns when it is ready."""

    def __init__(self, form: Form, starter: Starter, breaches: Breaches, port: int, kept: bool) -> None:
        self.starter = starter
        self._form, self._port, self._kept = form, port, kept
        self._folder, self._story, self._clock, self._randomness = (
            starter.folder,
            starter.story,
            starter.clock,
            starter.randomness,
        )
        self.kubeconfig = self._folder / "kubeconfig"
        self.breaches = breaches
        check_path(self._folder, len(starter.nodes), "state" if kept else "TMPDIR")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise refusal(self._folder, error) from None

    async def driver(self, stack: AsyncExitStack, group: asyncio.TaskGroup, faults: Faults | None) -> Sockets:
        sockets = await self.starter.start(self._form, stack, group)
        if faults is None:
            return sockets
        run = self._folder / "run"
        return await _with_faults(
            sockets, faults, run, stack, story=self._story, breaches=self.breaches, clock=self._clock
        )

    async def session(
        self, stack: AsyncExitStack, group: asyncio.TaskGroup, sockets: Sockets
    ) -> tuple[Session, list[asyncio.Task[None]]]:
        """The driver, connected and identified, and the tasks that end with it. Raises ConfigError."""
        path = str(sockets.controller)
        failure = LastFailure()
        client = (
            WatchedDriver(path, watch=self.breaches.watch(), clock=self._clock, metrics=failure)
            if sockets.tells
            else TracedDriver(
                path, "driver", self._story, breaches=self.breaches, where="", clock=self._clock, metrics=failure
            )
        )
        client.socket.absent = sockets.absent
        await client.connect(sockets.patience_s, sockets.advice)
        stack.push_async_callback(client.close)
        session = Session(client, clock=self._clock, limits=LIMITS)
        await introduced(session, failure, where=path, patience_s=sockets.patience_s)
        sockets.is_up()
        if not sockets.tells:  # past a proxy, whose faults count the calls of others
            own = str(sockets.behind.get("", sockets.controller))
            watched = WatchedDriver(own, watch=self.breaches.watch_at_proxy(""), clock=self._clock)
            await asked_again(watched, session.info, sockets.patience_s)
        return session, [group.create_task(_followed(session), name="dev/driver-session")]

    async def objects(self, stack: AsyncExitStack) -> tuple[ObjectStore, Durability]:
        if self._kept:
            return await stack.enter_async_context(
                lasting(self._folder, clock=self._clock, randomness=self._randomness)
            )
        store = new_store(self._randomness, self._clock.wall_s())
        return store, InMemory(store)

    async def api_server(self, stack: AsyncExitStack, store: ObjectStore, durability: Durability) -> Tokens:
        """The signer of service accounts' tokens."""
        identity = identity_in(self._folder / "tls", self._clock.wall_s())
        port = self._port or self._last_port()
        server = ApiServer(
            store,
            identity,
            clock=self._clock,
            randomness=self._randomness,
            address=(LOOPBACK, port),
            durability=durability,
        )
        await server.start()
        stack.push_async_callback(server.close)
        server.write_kubeconfig(self.kubeconfig)
        self._story.happened("server", f"answers on {server.url}")
        return signer_of(identity)

    def _last_port(self) -> int:
        """The port of the folder's last start, if it is free, so that its clients find the server again; else 0."""
        port = last_port(self.kubeconfig)
        if port and not is_free(port):
            self._story.happened("server", f"port {port}, where it was last time, is taken: it takes another")
            return 0
        return port


def real(folder: Path) -> Path:
    """As the mount table has it: without links."""
    return Path(os.path.realpath(folder))


async def _followed(session: Session) -> None:
    """Raises ConfigError when another driver, or another version of it, answers on the socket."""
    try:
        await session.run()
    except DriverChanged as change:
        what = (
            "another driver"
            if change.after is None or change.after.name != change.before.name
            else "another version of it"
        )
        raise ConfigError(
            f"driver: after a restart {what} answers, or one with other capabilities: start mooring dev again"
        ) from None


async def _end_on_failure(durability: Durability) -> None:
    """Raises ConfigError when the objects can't be saved any more."""
    await durability.failed()
    raise ConfigError(f"the API objects could not be saved: {durability.failure}; a restart shows what was saved last")


async def _with_faults(
    sockets: Sockets,
    faults: Faults,
    folder: Path,
    stack: AsyncExitStack,
    *,
    story: Story,
    breaches: Breaches,
    clock: Clock,
) -> Sockets:
    """The sockets of proxies, which stand until the stack is closed. faults: of all of them. folder: for these. Raises
    ConfigError.
    """

    def tell(passed: Passed) -> None:
        if passed.fault is not None:
            story.happened("proxy", f"{passed.name}: {passed.fault} ({passed.fault.place})")

    loop = asyncio.get_running_loop()
    drivers_s = loop.real_s if isinstance(loop, PacedLoop) else clock.now
    nodes = {path: node for node, path in sockets.nodes.items()}
    proxied: dict[Path, Path] = {}
    for number, path in enumerate(dict.fromkeys((sockets.controller, *nodes))):
        await sockets.until_there(path, clock)
        watch = breaches.watch_at_proxy(nodes.get(path, ""))
        proxy = Proxy(str(path), faults=faults, watch=watch, tell=tell, clock=clock, drivers_s=drivers_s)
        proxied[path] = folder / f"p{number}"
        await stack.enter_async_context(proxy.serving(proxied[path]))
    moved = {node: proxied[path] for node, path in sockets.nodes.items()}
    return msgspec.structs.replace(
        sockets, controller=proxied[sockets.controller], nodes=moved, behind={"": sockets.controller, **sockets.nodes}
    )
