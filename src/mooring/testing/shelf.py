"""A shelf of faults that a driver and its plane must outlive: each heals by itself, so that a test says the same with
it as without.

Each is a fixture of the plug-in, too: `mooring_lost_answers` is `lost_answers`. "The first of each kind" is the first
call of each name in CHANGES, on any node.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from mooring.base.errors import ConfigError
from mooring.testing.cluster import AsyncCluster
from mooring.testing.drivers import THEIRS
from mooring.testing.faults import WRITES

CALLERS: Final[Mapping[str, str]] = {
    "CreateVolume": "provisioner",
    "DeleteVolume": "provisioner",
    "ControllerPublishVolume": "attacher",
    "ControllerUnpublishVolume": "attacher",
    "ControllerExpandVolume": "resizer",
    "ControllerModifyVolume": "resizer",
    "CreateSnapshot": "snapshotter",
    "DeleteSnapshot": "snapshotter",
    "CreateVolumeGroupSnapshot": "snapshotter",
    "DeleteVolumeGroupSnapshot": "snapshotter",
}
"""Whoever makes these calls of a controller."""
ON_NODES: Final = (
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeExpandVolume",
)
CHANGES: Final = (*CALLERS, *ON_NODES)
"""All calls that change something."""

SLOW_S: Final = 5.0
"""Less than any caller's patience."""
REBOOT_S: Final = 120.0
OUTAGE_S: Final = 60.0
RIGHTLESS_S: Final = 30.0


class CantHappen(ConfigError):
    """This fault can't be made with this driver."""


async def lost_answers(cluster: AsyncCluster) -> None:
    """The first call of each kind takes effect, and the connection breaks before its answer."""
    for rpc in CHANGES:
        cluster.faults.lose_answer(rpc)


async def late_answers(cluster: AsyncCluster) -> None:
    """The first call of each kind takes effect, and its caller waits until its deadline."""
    for rpc in CHANGES:
        cluster.faults.hang(rpc, after=True)


async def failing_driver(cluster: AsyncCluster) -> None:
    """The first call of each kind fails with Internal, and has no effect."""
    for rpc in CHANGES:
        cluster.faults.fail(rpc, "INTERNAL", "the backend has a bad day")


async def slow_driver(cluster: AsyncCluster) -> None:
    """The answer of every call comes five seconds late."""
    cluster.faults.slow(SLOW_S)


async def driver_restarts(cluster: AsyncCluster) -> None:
    """In the first call of each kind, after its effect, all processes of the driver end, and start anew. Raises
    CantHappen.
    """
    if not cluster.plane.driver.is_ours:
        raise CantHappen(THEIRS)
    for rpc in CHANGES:
        cluster.faults.during(rpc, lambda _: cluster.restart_driver(), code="UNAVAILABLE")


async def caller_restarts(cluster: AsyncCluster) -> None:
    """In the first call of each kind, after its effect, its caller is killed, and starts anew: a controller, or the
    agent of a node.
    """

    def restart(controller: str) -> Callable[[str], Coroutine[Any, Any, None]]:
        return lambda _: cluster.restart(controller)

    for rpc, controller in CALLERS.items():
        if controller in cluster.controllers:
            cluster.faults.during(rpc, restart(controller))
    for rpc in ON_NODES:
        cluster.faults.during(rpc, lambda node: cluster.node(node).agent_restarts())


async def node_reboots(cluster: AsyncCluster) -> None:
    """In the first NodePublishVolume, after its effect, the power of its node goes; it is back two minutes later."""

    async def reboot(name: str) -> None:
        node = cluster.node(name)
        await node.dies()
        await cluster.passes(seconds=REBOOT_S)
        await node.returns()

    cluster.faults.during("NodePublishVolume", reboot)


async def api_outage(cluster: AsyncCluster) -> None:
    """From the first call of each kind on, after its effect, no program reaches the API server, for a minute."""

    async def outage(_: str) -> None:
        cluster.faults.api_server_goes()
        await cluster.passes(seconds=OUTAGE_S)
        cluster.faults.api_server_returns()

    for rpc in CHANGES:
        cluster.faults.during(rpc, outage, answers=True)


async def lost_api_answers(cluster: AsyncCluster) -> None:
    """Of each program's writes of each kind, the API server carries the first one out, and its answer is lost."""
    cluster.faults.lose_first_api_answers()


async def missing_rights(cluster: AsyncCluster) -> None:
    """No program may write for the first thirty seconds."""

    async def granted() -> None:
        await cluster.passes(seconds=RIGHTLESS_S)
        for verb in WRITES:
            cluster.faults.allow(verb)

    for verb in WRITES:
        cluster.faults.forbid(verb)
    cluster.run(granted(), "rights come back")


SHELF: Final[Mapping[str, Callable[[AsyncCluster], Coroutine[Any, Any, None]]]] = {
    one.__name__: one
    for one in (
        lost_answers,
        late_answers,
        failing_driver,
        slow_driver,
        driver_restarts,
        caller_restarts,
        node_reboots,
        api_outage,
        lost_api_answers,
        missing_rights,
    )
}
"""Every fault, by its name."""
