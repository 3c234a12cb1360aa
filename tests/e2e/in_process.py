"""The in-process target: the sidecar's whole life on ports without a network, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.store import ObjectStore
from mooring.base.clock import Clock, LoopClock
from mooring.base.flags import parse
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.csi_attacher import COMMAND, AttacherFlags, check
from mooring.cli.process import Machine, Setup
from mooring.cli.sidecar import Context, Sidecar, SidecarLife
from mooring.csi.client import Client
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.metrics import CallMetrics
from mooring.kube.cluster import Cluster
from mooring.sidecars.attacher.controller import Attacher
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.wire.grpc.codes import Code
from tests.e2e.targets import Running, Target
from tests.support.scripted_driver import ScriptedDriver

EPOCH_S = 1_780_000_000.0
WAIT_S = 2000.0


class BreakableDriver(InProcessDriver):
    """A driver in process whose connection can break: calls in flight end with Unavailable, as over a socket."""

    def __init__(self, plugin: object, line: Line, *, clock: Clock, metrics: CallMetrics) -> None:
        super().__init__(plugin, clock=clock, metrics=metrics)
        self._line = line

    async def lost(self) -> None:
        await self._line.broken.wait()

    async def reconnected(self) -> None:
        await self._line.whole.wait()

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if self._line.broken.is_set():
            raise DriverError(Code.UNAVAILABLE, "connection error")
        async with asyncio.TaskGroup() as group:
            sent = group.create_task(self._outcome(super()._send(rpc, request, call)), name="call")
            broken = group.create_task(self._line.broken.wait(), name="line")
            await asyncio.wait((sent, broken), return_when=asyncio.FIRST_COMPLETED)
            ended = sent.done()
            sent.cancel()
            broken.cancel()
        if not ended:
            raise DriverError(Code.UNAVAILABLE, "error reading from server: EOF")
        answer = sent.result()
        if isinstance(answer, DriverError):
            raise answer
        return answer

    async def _outcome(self, sending: Awaitable[A]) -> A | DriverError:
        """A DriverError as a value: raised inside the group it would come out wrapped."""
        try:
            return await sending
        except DriverError as error:
            return error


class Line:
    """Between attacher and driver."""

    def __init__(self) -> None:
        self.whole, self.broken = asyncio.Event(), asyncio.Event()
        self.whole.set()

    def cut(self) -> None:
        self.whole.clear()
        self.broken.set()

    def mend(self) -> None:
        self.broken.clear()
        self.whole.set()


class InProcessPorts:
    """What the sidecar reaches the world through."""

    def __init__(
        self, store: ObjectStore, driver: ScriptedDriver, line: Line, clock: Clock, randomness: Random
    ) -> None:
        self._store, self._driver, self._line, self._clock, self._randomness = store, driver, line, clock, randomness

    @contextlib.asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        yield LocalCluster(self._store, clock=self._clock, randomness=self._randomness)

    @contextlib.asynccontextmanager
    async def driver(self, metrics: CallMetrics) -> AsyncIterator[Client]:
        client = BreakableDriver(self._driver, self._line, clock=self._clock, metrics=metrics)
        await client.reconnected()
        yield client


class _RunningLife(Running):
    def __init__(self, life: SidecarLife[AttacherFlags], task: asyncio.Task[None]) -> None:
        self._life, self._task = life, task

    async def kill(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def end(self) -> None:
        self._life.end()
        await asyncio.gather(self._task, return_exceptions=True)
        assert self._task.cancelled() or self._task.exception() is None

    def assert_alive(self) -> None:
        if self._task.done():
            raise AssertionError("the attacher has ended") from self._task.exception()


class InProcessTarget(Target):
    def __init__(self) -> None:
        clock, self._randomness = LoopClock(EPOCH_S), Random(7)
        self._store = new_store(self._randomness, EPOCH_S)
        self._line = Line()
        users = LocalCluster(self._store, clock=clock, randomness=self._randomness)
        super().__init__(users, ScriptedDriver("csi.test"), clock, "x", WAIT_S)

    async def stop_driver(self) -> None:
        self._line.cut()

    async def start_driver(self) -> None:
        self._line.mend()

    @contextlib.asynccontextmanager
    async def attaching(self, *flags: str) -> AsyncIterator[Running]:
        metrics = Metrics()
        parsed = parse(AttacherFlags, flags)
        check(parsed)
        gates = {**{name: gate.default for name, gate in COMMAND.gates.items()}, **parsed.flags.feature_gates}
        ports = InProcessPorts(self._store, self.driver, self._line, self.clock, self._randomness)
        setup = Setup("csi-attacher", parsed.flags, parsed.given, gates)
        sidecar: Sidecar[AttacherFlags] = Sidecar(
            "csi-attacher", "external-attacher-leader-", parsed.flags.timeout_s, _work
        )
        life = SidecarLife(
            sidecar, setup, Machine(environ={}), ports, clock=self.clock, randomness=self._randomness, metrics=metrics
        )
        running = self.running = _RunningLife(life, asyncio.create_task(life.run(), name="sidecar"))
        try:
            yield running
        finally:
            self.running = None
            await running.kill()


def _work(context: Context[AttacherFlags]) -> Attacher:
    return Attacher(context.runtime, context.driver, context.info, context.setup.options(AttacherOptions))


@contextlib.asynccontextmanager
async def target() -> AsyncIterator[Target]:
    yield InProcessTarget()
