"""The driver of one node, in each form: started with the node, ended at once when its power is cut, and in good order
with the plane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Protocol

from mooring.dev.driver_program import DriverProgram
from mooring.driver.sdk import Plugin
from mooring.driver.server import serving
from mooring.wire.grpc.socket_file import make_room

LATE_S: Final = 0.2
"""How long calls in flight may take at the end: whoever made them has waited for them before."""


class NodeDriver(Protocol):
    """May be started again after its end. is_ours: this plane runs it, so what it mounts is mounted by this plane."""

    is_ours: bool
    is_controller: bool
    """It answers the controller's calls, too, and these end with it."""

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]: ...

    async def start(self) -> None: ...

    def is_up(self) -> None:
        """It has answered: an end from now on is none of its start."""

    async def kill(self) -> None:
        """Ends it at once; nothing to do for one that has ended."""

    async def close(self) -> None:
        """Ends it in good order."""


class InProcessNodeDriver:
    """A driver in this process. make: called at each start."""

    is_ours = True
    is_controller = False

    def __init__(self, make: Callable[[], Plugin], socket: Path) -> None:
        self._make, self._socket = make, socket
        self._stack = AsyncExitStack()
        self.tasks: tuple[asyncio.Task[None], ...] = ()

    async def start(self) -> None:
        await self._stack.enter_async_context(serving(self._make(), str(self._socket), grace_s=LATE_S))

    def is_up(self) -> None:
        pass

    async def kill(self) -> None:
        await self._stack.aclose()

    async def close(self) -> None:
        await self._stack.aclose()


class NodeProgram:
    """A driver in a process of its own. make: called at each start."""

    is_ours = True

    def __init__(
        self,
        make: Callable[[], DriverProgram],
        node: str,
        socket: Path,
        group: asyncio.TaskGroup,
        *,
        is_controller: bool,
    ) -> None:
        self._make, self._node, self._socket, self._group = make, node, socket, group
        self.is_controller = is_controller
        self._program: DriverProgram | None = None
        self.tasks: tuple[asyncio.Task[None], ...] = ()

    def kill_now(self) -> None:
        """As kill(), from any thread."""
        if self._program is not None:
            self._program.kill_now()

    async def start(self) -> None:
        make_room(self._socket, even_alive=True)
        self._program = self._make()
        await self._program.start()
        self.tasks = (self._group.create_task(self._program.mind(), name=f"dev/driver-program/{self._node}"),)

    def is_up(self) -> None:
        assert self._program is not None
        self._program.is_up = True

    async def kill(self) -> None:
        await self._stop_minding()
        if self._program is not None:
            await self._program.kill()
            self._program = None

    async def close(self) -> None:
        await self._stop_minding()
        if self._program is not None:
            await self._program.close()

    async def _stop_minding(self) -> None:
        """Else it would be started again."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = ()


class ExternalDriver:
    """A driver that somebody else runs: it goes on, whatever happens to the node."""

    is_ours = False
    is_controller = False
    tasks: tuple[asyncio.Task[None], ...] = ()

    async def start(self) -> None:
        pass

    def is_up(self) -> None:
        pass

    async def kill(self) -> None:
        pass

    async def close(self) -> None:
        pass
