"""The whole control plane in one process, without a socket where the driver is an object: so its time may be
virtual.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.identity.tls import identity_in, signer_of
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.users import LateTokens
from mooring.base.clock import Clock
from mooring.base.ending import Ending
from mooring.base.randomness import Random
from mooring.conform.watched import Sight
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Call
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import Session
from mooring.dev.controllers import Controllers
from mooring.dev.drivers import Starter
from mooring.dev.extras import extras_of, install
from mooring.dev.introduction import LIMITS
from mooring.dev.options import Patience
from mooring.dev.seed_objects import register, republishes
from mooring.dev.story import Story
from mooring.kube.cluster import Cluster
from mooring.testing.driver_calls import DriverCalls
from mooring.testing.drivers import DriverUnderTest, Wanted, started
from mooring.testing.faults import ApiFaults
from mooring.testing.node import NodeUnderTest, Surroundings
from mooring.wire.grpc.codes import Code

TLS: Final = "tls"
"""The folder of the API server's identity."""
_CONNECT_S: Final = 20.0
_LOG_PLACE: Final = "the story of this cluster, which a failed test prints"


class Ports(msgspec.Struct, frozen=True):
    """Of the plane. folder: for the driver's and the nodes' files. story: hears what happens. stay: no leap for so many
    real seconds.

    drivers_s: the time of the driver, which in a process of its own does not leap.
    """

    folder: Path
    clock: Clock
    randomness: Random
    story: Story
    stay: Callable[[float], None]
    drivers_s: Callable[[], float]


class PlaneUnderTest(msgspec.Struct, frozen=True):
    """users: the API server, for everybody but the plane's programs. cluster: as one of these sees it, by its name.
    group: of the tasks that last as long as the plane.
    """

    ports: Ports
    store: ObjectStore
    users: Cluster
    cluster: Callable[[str], Cluster]
    info: DriverInfo
    driver: DriverUnderTest
    calls: DriverCalls
    api: ApiFaults
    controllers: Controllers
    nodes: Mapping[str, NodeUnderTest]
    group: asyncio.TaskGroup


@contextlib.asynccontextmanager
async def running(wanted: Wanted, ports: Ports) -> AsyncGenerator[PlaneUnderTest, None]:
    """The plane, ready, as long as the block runs; then it ends at once. Raises ConfigError for a driver that can't be
    used.
    """
    clock, story = ports.clock, ports.story
    store, api = new_store(ports.randomness, clock.wall_s()), ApiFaults()
    tokens = LateTokens(lambda: signer_of(identity_in(ports.folder / TLS, clock.wall_s())))
    calls = DriverCalls(clock, story, ports.drivers_s, Sight() if wanted.mounts else None)

    def cluster(who: str) -> LocalCluster:
        return LocalCluster(store, clock=clock, randomness=ports.randomness, faults=api.of(who), tokens=tokens)

    users = LocalCluster(store, clock=clock, randomness=ports.randomness)
    apart = len(wanted.nodes) > 1  # the node of a single one may not die without its controller
    starter = Starter(ports.folder, wanted.nodes, {}, wanted.mounts, story, clock, ports.randomness, Ending(), apart)
    try:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            driver = await started(wanted, starter, calls, stack, group)
            session = Session(driver.controller(), clock=clock, limits=LIMITS)
            info = await session.start()
            calls.republishes(lambda: republishes(store, info.name))
            group.create_task(session.run(), name="testing/driver-session")
            extras = await extras_of(session, wants_snapshots=True)
            if extras.snapshots:
                await install(users, groups=extras.group_snapshots)
            has_agents = await _serves_nodes(driver, wanted.nodes[0], clock)
            controllers = Controllers(
                cluster, session, story, clock, ports.randomness, Patience(), extras, has_agents=has_agents
            )
            await controllers.start_all(group)
            own = capabilities_of(info)
            await register(
                users,
                own,
                wanted.nodes,
                {},
                extras,
                reference=driver.is_reference,
                has_agents=has_agents,
                default_class=True,
                log_place=_LOG_PLACE,
            )
            around = Surroundings(
                ports.folder, cluster, driver, info.name, story, clock, ports.randomness, group, wanted.mounts
            )
            nodes = {name: NodeUnderTest(name, around) for name in wanted.nodes} if has_agents else {}
            for node in nodes.values():
                await node.start()
            yield PlaneUnderTest(ports, store, users, cluster, info, driver, calls, api, controllers, nodes, group)
            raise _Over
    except* _Over:
        pass


async def _serves_nodes(driver: DriverUnderTest, node: str, clock: Clock) -> bool:
    """False for a driver without a node service: its nodes have no agents, as in `mooring dev`. Raises ConfigError."""
    client = driver.on_node(node, clock=clock)
    await client.connect(_CONNECT_S, "the driver answers the controller's calls, and not those of its nodes")
    try:
        await client.node_get_info(csi.NodeGetInfoRequest(), Call(_CONNECT_S))
    except DriverError as error:
        return error.code != Code.UNIMPLEMENTED  # its registration tells any other
    finally:
        await client.close()
    return True


class _Over(Exception):
    """The block has ended: all tasks of the plane end with it."""
