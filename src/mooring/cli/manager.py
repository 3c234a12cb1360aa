"""The life of a controller that has no driver: diagnostics, election, work, and an orderly end.

As a sidecar's life (`cli/life.py`), without what concerns a driver. SIGTERM or SIGINT end it in good order, a second signal at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from mooring.base.clock import Clock, LoopClock
from mooring.base.diagnostics import Diagnostics
from mooring.base.errors import InvariantError
from mooring.base.log import logger
from mooring.base.loops import loop_factory
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.base.stopping import stop_signals
from mooring.cli import election
from mooring.cli.clusters import client, load_config_as_kubectl
from mooring.cli.health import Health, unfilled
from mooring.cli.process import Machine, Setup
from mooring.cli.settings import request_limit
from mooring.cli.tables import ManagerFlags
from mooring.control.events import EventRecorder
from mooring.control.lease.elector import LeaderElector, LeaseMetrics, WorkOutlivesLease
from mooring.kube.cluster import Cluster

_log = logger(__name__)


F = TypeVar("F", bound=ManagerFlags)

DRAIN_S_MAX: Final = 20.0
EVENTS_S_MAX: Final = 2.0


class Work(Protocol):
    """What is done while we may act: one object for one term."""

    @property
    def has_synced(self) -> bool: ...
    @property
    def obstacle(self) -> str: ...
    async def run(self) -> None: ...
    async def drain(self, timeout_s: float) -> bool: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Around:
    """What work is built from."""

    cluster: Cluster
    clock: Clock
    chance: Chance
    metrics: Metrics


class Manager(Generic[F]):
    """name: of the program, and of its Lease. make_work: one for each term."""

    def __init__(self, name: str, setup: Setup[F], machine: Machine, make_work: Callable[[Around], Work]) -> None:
        self._name, self._setup, self._machine, self._make_work = name, setup, machine, make_work
        self._work: Work | None = None
        self._elector: LeaderElector | None = None
        self._ending = False

    def serve(self) -> int:
        """Lives until it is told to end; gives the exit code. Raises ConfigError, and whatever nobody expected."""
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve())
        return 0

    async def _serve(self) -> None:
        clock, chance, metrics = LoopClock(), Chance(), Metrics()
        flags = self._setup.flags
        config = load_config_as_kubectl(flags.kubeconfig, self._machine)
        limit = request_limit(flags, self._setup.given)
        async with contextlib.AsyncExitStack() as stack:
            stop = stack.enter_context(stop_signals())
            await self._serve_diagnostics(stack, metrics)
            own = await stack.enter_async_context(client(self._name, config, limit, clock=clock, chance=chance, metrics=metrics))
            around = Around(own, clock, chance, metrics)
            if flags.leader_election:
                for_lease = client(self._name, config, limit, clock=clock, chance=chance, metrics=metrics)
                await self._stand(around, await stack.enter_async_context(for_lease), stop)
            else:
                await self._term(around, stop)
        _log.info(0, "Ended in good order")

    async def _serve_diagnostics(self, stack: contextlib.AsyncExitStack, metrics: Metrics) -> None:
        flags = self._setup.flags
        if not flags.http_endpoint:
            return
        known = asyncio.Event()
        known.set()
        health = Health(metrics, known, self._obstacle, lambda: "" if self._elector is None else self._elector.healthy())
        routes = health.routes(flags.metrics_path, with_probes=True, with_election=flags.leader_election)
        server = Diagnostics(routes)
        await server.start(flags.http_endpoint)
        stack.push_async_callback(server.close)

    async def _stand(self, around: Around, cluster: Cluster, stop: asyncio.Event) -> None:
        """Stands for the Lease. cluster: a client of its own, so that what throttles the work does not delay a renewal."""
        me = election.candidate(self._setup.flags, self._machine, self._name, around.chance)
        events = EventRecorder(cluster, f"{self._name}/{me.identity}", clock=around.clock, chance=around.chance)
        metrics = around.metrics.once(LeaseMetrics)
        self._elector = LeaderElector(cluster, me, clock=around.clock, chance=around.chance, events=events, metrics=metrics)
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(events.run(), name=f"{self._name}/election-events")
            standing = group.create_task(self._lead(around, stop), name=f"{self._name}/election")
            stopping = group.create_task(stop.wait(), name=f"{self._name}/stop")
            await asyncio.wait((standing, stopping), return_when=asyncio.FIRST_COMPLETED)
            if self._work is None:  # standing by: nothing is to be brought to an end
                standing.cancel()
            await asyncio.wait((standing,))
            stopping.cancel()
            await events.drain(EVENTS_S_MAX)
            sending.cancel()

    async def _lead(self, around: Around, stop: asyncio.Event) -> None:
        assert self._elector is not None
        try:
            await self._elector.run(lambda: self._term(around, stop))
        except WorkOutlivesLease as error:
            _log.error("Exiting at once", error=error)
            self._machine.exit_now(1)

    async def _term(self, around: Around, stop: asyncio.Event) -> None:
        """The work, until told to end, or until cancelled because the Lease was lost."""
        if stop.is_set():
            return
        work = self._work = self._make_work(around)
        _log.info(0, "Starting", component=self._name)
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(work.run(), name=f"{self._name}/work")
                stopping = group.create_task(stop.wait(), name=f"{self._name}/told-to-end")
                await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
                if not stop.is_set():
                    raise InvariantError("the work ended, and nobody had told it to")
                self._ending = True
                if not (work.has_synced and await work.drain(DRAIN_S_MAX)):
                    running.cancel()
        finally:
            self._work = None

    def _obstacle(self) -> str:
        if self._ending:
            return "ending"
        return "" if self._work is None else unfilled(self._work.has_synced, self._work.obstacle)
