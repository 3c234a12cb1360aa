"""The drivers that are registered on this node: what each says about itself, and its connection with its
capabilities.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mooring.base import effects
from mooring.base.errors import MooringError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver

CALL_S: Final = 120.0
"""The timeout of one call to a driver's node service, as in the kubelet."""
COUNT_MAX: Final = 2**31 - 1


class NotRegistered(MooringError):
    """No driver of this name is registered on the node; its registration ends the wait."""


class DriverOnNode(msgspec.Struct, frozen=True):
    """The answer to NodeGetInfo. limit: volumes of the driver on the node at the most; 0 or less for none that it
    knows.

    version: as GetPluginInfo gives it; None where it was not asked.
    """

    driver: str
    node_id: str
    limit: int
    topology: Mapping[str, str]
    version: str | None = None

    @property
    def count(self) -> int | None:
        """The limit as CSINode can hold it, None for none."""
        return min(self.limit, COUNT_MAX) if self.limit > 0 else None


class RegisteredDriver(msgspec.Struct, eq=False):
    """One registered driver. socket: its registration's. endpoint: its own. version: of CSI, the highest that both
    speak.

    told: what it said of itself at its registration. known_capabilities: as it gave them last, also while they are
    asked for anew; None before the first call.
    """

    name: str
    socket: Path
    endpoint: str
    version: tuple[int, ...]
    client: WireDriver
    told: DriverOnNode | None = None
    known_capabilities: frozenset[int] | None = None
    _capabilities: frozenset[int] | None = None

    @property
    def rpc(self) -> Driver:
        """The driver's calls."""
        return self.client

    async def capabilities(self) -> frozenset[int]:
        """The capabilities of its node service, as numbers. Raises DriverError."""
        if self._capabilities is None:
            answer = await self.client.node_get_capabilities(csi.NodeGetCapabilitiesRequest(), Call(CALL_S))
            self._capabilities = self.known_capabilities = frozenset(
                capability.rpc.type for capability in answer.capabilities
            )
        return self._capabilities

    async def mind(self, returned: Callable[[], None]) -> None:
        """Follows the connection until cancelled. returned: called when the driver is back, perhaps with other
        capabilities.
        """
        while True:
            await self.client.lost()
            self._capabilities = None
            await self.client.reconnected()
            returned()


class Drivers:
    """The registered drivers by name."""

    def __init__(self) -> None:
        self._drivers: dict[str, RegisteredDriver] = {}
        self._minding: dict[str, asyncio.Task[None]] = {}
        self._handlers: list[Callable[[str], None]] = []

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Calls the handler with a driver's name when it was registered, has gone, or is back after a loss."""
        self._handlers.append(handler)

    def find(self, name: str) -> RegisteredDriver | None:
        return self._drivers.get(name)

    def get(self, name: str) -> RegisteredDriver:
        """Raises NotRegistered."""
        if (found := self._drivers.get(name)) is None:
            effects.note(effects.UNSENT)
            raise NotRegistered(f"driver name {name} not found in the list of registered CSI drivers")
        return found

    def may_be_able(self, name: str, capability: int) -> bool:
        """False for a driver that has said that its node service lacks the capability; one that is away may come back
        with it.
        """
        found = self._drivers.get(name)
        return found is None or found.known_capabilities is None or capability in found.known_capabilities

    def connected(self) -> Mapping[str, bool]:
        """Whether the connection of each driver stands, by name."""
        return {name: driver.client.is_connected for name, driver in self._drivers.items()}

    def __iter__(self) -> Iterator[RegisteredDriver]:
        return iter(tuple(self._drivers.values()))

    async def put(self, driver: RegisteredDriver) -> None:
        """Registers the driver in place of one that had its name: a registration ends no call."""
        await self.remove(driver.name)
        self._drivers[driver.name] = driver
        self._minding[driver.name] = asyncio.create_task(
            driver.mind(lambda: self._tell(driver.name)), name=f"node/driver/{driver.name}"
        )
        self._tell(driver.name)

    async def remove(self, name: str) -> None:
        """Takes the driver off; its connection ends with the calls in flight, as a kubelet has one for each. One that
        is not there is fine.
        """
        if (driver := self._drivers.pop(name, None)) is None:
            return
        minding = self._minding.pop(name)
        minding.cancel()
        await asyncio.gather(minding, return_exceptions=True)
        await driver.client.close_after_calls()
        self._tell(name)

    async def close(self) -> None:
        """Ends every connection."""
        for driver in self:
            await self.remove(driver.name)
            await driver.client.close()

    def _tell(self, name: str) -> None:
        for handler in self._handlers:
            handler(name)
