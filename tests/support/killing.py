"""Processes that can be killed at any turn of the loop, and a backend that outlives them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Cluster, Request
from mooring.wire.grpc.codes import Code
from tests.support.virtual_loop import VirtualLoop


class ActingLoop(VirtualLoop):
    """Does what was asked for at a certain turn, before anything else runs in it. turns_count: since `arm`."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(seed)
        self.turns_count = 0
        self._acts: dict[int, Callable[[], object]] = {}

    def arm(self, acts: dict[int, Callable[[], object]]) -> None:
        """acts: by their turn, counted from now."""
        self.turns_count, self._acts = 0, acts

    def _process_events(self, event_list: Any) -> None:
        self.turns_count += 1
        act = self._acts.get(self.turns_count)
        if act is not None:
            act()
        super()._process_events(event_list)


class Life:
    """One process: what it is handed goes through its `alive`, and touches nothing once it is dead."""

    def __init__(self) -> None:
        self.alive = True
        self._task: asyncio.Task[None] | None = None

    def start(self, main: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(main, name="process")

    def kill(self) -> None:
        """As kill -9 does."""
        self.alive = False
        if self._task is not None:
            self._task.cancel()

    async def point(self) -> None:
        if not self.alive:
            await asyncio.get_running_loop().create_future()

    def check(self) -> None:
        """Raises what it ended with on its own."""
        if self.alive and self._task is not None and self._task.done():
            self._task.result()


class MortalCluster(Cluster):
    """A `Cluster` as one process sees it."""

    def __init__(self, cluster: Cluster, life: Life) -> None:
        self._cluster, self._life = cluster, life

    async def ask(self, request: Request) -> Any:
        await self._life.point()
        answer = await self._cluster.ask(request)
        await self._life.point()
        return answer

    async def watch(self, *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async with contextlib.aclosing(self._cluster.watch(*args, **options)) as events:
            async for event in events:
                await self._life.point()
                yield event


class Backend:
    """volumes: handle -> name, the truth. Calls end whatever becomes of who made them; one for a name at a time.

    fates: of the next CreateVolume calls: "ok", "lost" (done, the answer is not), "slow" (later than anybody waits),
    "refused" (not done).
    """

    def __init__(self, slow_s: float) -> None:
        self.volumes: dict[str, str] = {}
        self.requests: list[Any] = []
        self.fates: list[str] = []
        self.made_count = 0
        self._slow_s = slow_s
        self._at_work: dict[str, asyncio.Task[Any]] = {}

    @property
    def is_idle(self) -> bool:
        return not self._at_work

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        fate = self.fates.pop(0) if self.fates else "ok"
        self.requests.append(request)
        return await self._call(
            request.name, fate, lambda: self._create(request.name, request.capacity_range.required_bytes)
        )

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        def delete() -> csi.DeleteVolumeResponse:
            self.volumes.pop(request.volume_id, None)
            return csi.DeleteVolumeResponse()

        return await self._call(self.volumes.get(request.volume_id, request.volume_id), "ok", delete)

    def _create(self, name: str, size: int) -> csi.CreateVolumeResponse:
        handle = next((handle for handle, other in self.volumes.items() if other == name), "")
        if not handle:
            self.made_count += 1
            handle = f"vol-{self.made_count}"
            self.volumes[handle] = name
        return csi.CreateVolumeResponse(volume={"volume_id": handle, "capacity_bytes": size})

    async def _call(self, name: str, fate: str, effect: Callable[[], Any]) -> Any:
        if name in self._at_work:
            raise DriverError(Code.ABORTED, f"an operation for {name} is pending")
        work = self._at_work[name] = asyncio.get_running_loop().create_task(
            self._work(name, fate, effect), name=f"backend/{name}"
        )
        work.add_done_callback(lambda done: done.exception())  # its caller may be dead
        return await asyncio.shield(work)

    async def _work(self, name: str, fate: str, effect: Callable[[], Any]) -> Any:
        try:
            await asyncio.sleep(self._slow_s if fate == "slow" else 0.001)
            if fate == "refused":
                raise DriverError(Code.UNAVAILABLE, "no")
            answer = effect()
            if fate == "lost":
                raise DriverError(Code.UNAVAILABLE, "the answer is lost")
            return answer
        finally:
            del self._at_work[name]


class MortalDriver:
    """A plugin as one process sees it."""

    def __init__(self, backend: Backend, life: Life) -> None:
        self._backend, self._life = backend, life

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._backend, name)

        async def called(request: Any) -> Any:
            await self._life.point()
            answer = await method(request)
            await self._life.point()
            return answer

        return called
