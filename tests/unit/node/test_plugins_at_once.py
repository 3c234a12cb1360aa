"""Registration sockets that come at the same moment, in virtual time: the silent hold up nobody, and of two for one
name one wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from mooring.api.storage import CSI_NODES
from mooring.csi.errors import DriverError
from mooring.csi.registration import CSI_PLUGIN, PluginInfo, Registration
from mooring.csi.wire_driver import WireDriver
from mooring.node.csinode.reconcile import NodeObjects
from mooring.node.drivers import Drivers
from mooring.node.plugins.controller import DIAL_S, INFO_S, Plugins
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_node
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.plugin_world import NodePlugin
from tests.unit.node.volume_world import RegisteredDriver


class Connection(RegisteredDriver):
    is_closed = False

    async def close(self) -> None:
        self.is_closed = True

    async def connect(self, timeout_s: float, advice: str) -> None:
        pass

    async def lost(self) -> None:
        await asyncio.get_running_loop().create_future()


class AtOnce(ClusterWorld):
    """sockets: there from the start, by the driver's name; "" for one that never answers. told: in order."""

    def __init__(self, grace_s: float = 0.0, **sockets: str) -> None:
        super().__init__()
        self.sockets, self.told = (
            {Path(f"/{name}"): driver for name, driver in sockets.items()},
            list[tuple[str, bool, str]](),
        )
        self.waited: list[float] = []
        self.generation = 1
        self.drivers, self.service = Drivers(), NodePlugin("d1")
        self.plugins = Plugins(
            self.runtime,
            self.drivers,
            NodeObjects(self.cluster, "n", clock=self.clock),
            lambda socket: self.generation if socket in self.sockets else None,
            lambda name, endpoint: cast(WireDriver, Connection(self.service, clock=self.clock)),
            plugin_at=lambda socket: cast(Registration, _Plugin(self, socket)),
            grace_s=grace_s,
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        await self.create(a_node("n"))
        async with self.running(self.plugins.controller.run()):
            for socket in self.sockets:
                self.plugins.changed(socket)
            yield
        await self.drivers.close()

    async def goes(self, socket: str) -> None:
        del self.sockets[Path(f"/{socket}")]
        self.plugins.changed(Path(f"/{socket}"))
        await self.settle(1.0)

    async def comes(self, socket: str, driver: str = "d1") -> None:
        self.generation += 1
        self.sockets[Path(f"/{socket}")] = driver
        self.plugins.changed(Path(f"/{socket}"))
        await self.settle(1.0)

    def writes(self) -> list[str]:
        """What was done with the entries of CSINode, in order."""
        return [request.body[-1]["op"] for request in self.cluster.writes("patch csinodes")]

    async def names(self) -> list[str]:
        found = await self.find(CSI_NODES, "n")
        return [driver["name"] for driver in (found or {"spec": {}})["spec"].get("drivers") or []]


class _Plugin:
    def __init__(self, world: AtOnce, socket: Path) -> None:
        self._world, self._socket = world, socket

    async def get_info(self, timeout_s: float) -> PluginInfo:
        name = self._world.sockets[self._socket]
        if not name:
            self._world.waited.append(timeout_s)
            await asyncio.sleep(timeout_s)
            raise DriverError(Code.DEADLINE_EXCEEDED, "silent")
        await asyncio.sleep(0.01)
        return PluginInfo(type=CSI_PLUGIN, name=name, endpoint="/e", supported_versions=("1.0.0",))

    async def notify(self, *, registered: bool, error: str = "", timeout_s: float) -> None:
        self._world.told.append((self._socket.name, registered, error))

    async def close(self) -> None:
        pass


@in_virtual_time
async def test_silent_sockets_hold_up_no_other() -> None:
    world = AtOnce(**{f"silent{number}": "" for number in range(50)}, good="d1")
    async with world.at_work():
        await world.settle(1.0)
        assert [("good", True, "")] == world.told
        await world.settle(600.0)
        assert (2.0, DIAL_S + INFO_S) == (min(world.waited), max(world.waited))


@in_virtual_time
async def test_of_two_sockets_for_one_name_one_wins_and_the_other_hears_why() -> None:
    world = AtOnce(a="d1", b="d1")
    async with world.at_work():
        await world.settle(0.3)
        (winner,) = [socket for socket, registered, _ in world.told if registered]
        ((loser, _, text),) = [told for told in world.told if not told[1]]
        assert {winner, loser} == {"a", "b"}
        assert f"CSI driver d1 is being registered by the socket /{winner} at this moment" in text
        await world.settle(300.0)
        assert (Path(f"/{winner}"), ["d1"]) == (world.drivers.get("d1").socket, await world.names())
        assert 1 == sum(registered for _, registered, _ in world.told)
        del world.sockets[Path(f"/{loser}")]
        world.plugins.changed(Path(f"/{loser}"))
        await world.settle(1.0)
        assert ["d1"] == await world.names()


@each_row("delay_s", [0.0, 0.005, 0.01, 0.015, 0.02])
@in_virtual_time
async def test_a_socket_that_takes_over_from_one_that_goes_keeps_the_entry(delay_s: float) -> None:
    """Whatever of the two comes first."""
    world = AtOnce(a="d1")
    async with world.at_work():
        await world.settle(1.0)
        remove = world.drivers.remove

        async def slowly(name: str) -> None:
            await remove(name)
            await asyncio.sleep(0.05)

        cast(Any, world.drivers).remove = slowly
        world.sockets = {Path("/b"): "d1"}
        world.plugins.changed(Path("/a"))
        await asyncio.sleep(delay_s)
        world.plugins.changed(Path("/b"))
        await world.settle(200.0)
        assert (Path("/b"), ["d1"]) == (world.drivers.get("d1").socket, await world.names())


GRACE_S = 30.0


@in_virtual_time
async def test_a_driver_whose_registrar_restarts_stays_for_its_grace_period() -> None:
    """Neither the scheduler nor the provisioner sees it go; it is asked anew, and told."""
    world = AtOnce(GRACE_S, a="d1")
    async with world.at_work():
        await world.settle(1.0)
        await world.goes("a")
        await world.settle(GRACE_S - 5.0)
        assert (["d1"], True) == (await world.names(), world.drivers.find("d1") is not None)
        await world.comes("a")
        await world.settle(100.0)
        assert (["add"], 2, [("a", True, "")] * 2) == (world.writes(), world.service.asked, world.told)
        await world.goes("a")
        await world.settle(GRACE_S)
        assert ([], None) == (await world.names(), world.drivers.find("d1"))


@in_virtual_time
async def test_each_absence_of_a_registrar_has_a_whole_grace_period() -> None:
    """However long ago the one before began."""
    world = AtOnce(GRACE_S, a="d1")
    async with world.at_work():
        for _ in range(3):
            await world.goes("a")
            await world.settle(GRACE_S - 5.0)
            await world.comes("a")
        assert (["add"], ["d1"]) == (world.writes(), await world.names())


@in_virtual_time
async def test_a_grace_period_ends_though_nobody_answers_at_the_new_socket() -> None:
    """Such as a registrar that was killed once it had bound its socket."""
    world = AtOnce(GRACE_S, a="d1")
    async with world.at_work():
        await world.settle(1.0)
        await world.comes("a", "")
        await world.settle(GRACE_S - 5.0)
        assert ["d1"] == await world.names()
        await world.settle(GRACE_S + 60.0)
        assert ([], None) == (await world.names(), world.drivers.find("d1"))
        await world.comes("a")
        assert ["d1"] == await world.names()


@in_virtual_time
async def test_the_connection_of_a_driver_that_has_gone_is_closed() -> None:
    """As is that of one in whose place another has come."""
    world = AtOnce(a="d1")
    async with world.at_work():
        await world.settle(1.0)
        first = cast(Connection, world.drivers.get("d1").client)
        await world.goes("a")
        await world.comes("a")
        second = cast(Connection, world.drivers.get("d1").client)
        assert (True, False) == (first.is_closed, second.is_closed)
    assert second.is_closed


@in_virtual_time
async def test_another_socket_takes_a_driver_over_within_its_grace_period() -> None:
    world = AtOnce(GRACE_S, a="d1")
    async with world.at_work():
        await world.settle(1.0)
        await world.goes("a")
        await world.comes("b")
        await world.settle(100.0)
        assert (["add"], Path("/b")) == (world.writes(), world.drivers.get("d1").socket)


@each_row("name", ["d2", "no/name"])
@in_virtual_time
async def test_a_socket_that_comes_back_with_another_driver_ends_the_first(name: str) -> None:
    world = AtOnce(GRACE_S, a="d1")
    async with world.at_work():
        await world.settle(1.0)
        await world.goes("a")
        await world.comes("a", name)
        assert (["d2"] if name == "d2" else []) == await world.names()
        assert world.drivers.find("d1") is None
