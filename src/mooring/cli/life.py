"""The life of a sidecar, whatever it works at: diagnostics, driver, election, work, and an orderly end.

In order: the diagnostics server listens, so that probes and metrics show a driver that never gets ready; the driver is connected and
greeted; with an election the process stands for the Lease; then the work runs, one object of it for each term.

Told to end: nothing new is begun, calls to the driver end and their results are stored (20 s at the most), the Lease is released. Whoever
stands by, or still waits for the driver, ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from mooring.base.clock import Clock
from mooring.base.diagnostics import Diagnostics
from mooring.base.errors import InvariantError
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.cli import election
from mooring.cli.health import Health, unfilled
from mooring.cli.ports import Ports
from mooring.cli.process import Machine, Setup
from mooring.cli.tables import SidecarFlags
from mooring.control.events import EventRecorder
from mooring.control.lease.elector import LeaderElector, LeaseMetrics, WorkOutlivesLease
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Driver
from mooring.csi.metrics import CallMetrics
from mooring.csi.probe_and_identify import Limits
from mooring.csi.session import Session, carry_on, exit_on_loss
from mooring.kube.cluster import Cluster

_log = logger(__name__)

F = TypeVar("F", bound=SidecarFlags)

DRAIN_S_MAX: Final = 20.0
EVENTS_S_MAX: Final = 2.0
"""How long the end waits for the event that tells of it."""


class Work(Protocol):
    """What a sidecar does while it may act: one object for one term."""

    @property
    def has_synced(self) -> bool:
        """True once its caches are filled."""
        ...

    @property
    def obstacle(self) -> str:
        """What keeps its caches from being filled or followed, "" for nothing that is known."""
        ...

    async def run(self) -> None:
        """Works until cancelled, or until drained."""
        ...

    async def drain(self, timeout_s: float) -> bool:
        """Begins nothing new, lets calls in flight end and be stored; then run() returns. False when that took too long."""
        ...

    def driver_returned(self) -> None:
        """The driver was away and is back, unchanged: what failed meanwhile may be tried at once."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Context(Generic[F]):
    """What a sidecar's work is built from."""

    setup: Setup[F]
    cluster: Cluster
    driver: Driver
    info: DriverInfo
    clock: Clock
    chance: Chance
    metrics: Metrics


async def _nothing(_: Cluster) -> None:
    """Nothing has to be known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sidecar(Generic[F]):
    """What one sidecar adds.

    name: its executable's. lock_prefix: with the driver's name, which follows, it makes the Lease's. probe_timeout_s: of one Probe.
    starting: what is logged when its work begins, in upstream's words.
    log_length_max: characters of a logged gRPC response, 0 or less for all. server: the API server's URL, "" for what the kubeconfig says.
    ask: what the work has to know of the API server, asked once before the driver is connected.
    """

    name: str
    lock_prefix: str
    probe_timeout_s: float
    make_work: Callable[[Context[F]], Work]
    starting: str = "Starting"
    log_length_max: int = -1
    server: str = ""
    ask: Callable[[Cluster], Awaitable[None]] = _nothing


class Life(Generic[F]):
    """One sidecar from its first step to its last. run() once, end() at any time."""

    def __init__(
        self,
        sidecar: Sidecar[F],
        setup: Setup[F],
        machine: Machine,
        ports: Ports,
        *,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
    ) -> None:
        self._sidecar, self._setup, self._machine, self._ports = sidecar, setup, machine, ports
        self._clock, self._chance, self._metrics = clock, chance, metrics
        self._told_to_end = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._session: Session | None = None
        self._work: Work | None = None
        self._elector: LeaderElector | None = None
        self._waits_for = "starting"
        self._driver_known = asyncio.Event()
        self.health = Health(metrics, self._driver_known, self._obstacle, self._overdue)

    @property
    def is_ending(self) -> bool:
        return self._told_to_end.is_set()

    def end(self) -> None:
        """Lets the work come to an end; whatever waits instead of working ends at once."""
        self._told_to_end.set()
        if self._work is None and self._main is not None:
            self._main.cancel()

    async def run(self) -> None:
        """Returns some time after end(). Raises ConfigError, DriverLost; DriverError for a driver that does not introduce itself."""
        try:
            async with asyncio.TaskGroup() as group:
                self._main = group.create_task(self._live(), name=f"{self._sidecar.name}/main")
        except BaseExceptionGroup as errors:
            raise _first(errors) from None  # its own traceback says it all

    async def _live(self) -> None:
        if self.is_ending:
            return
        async with contextlib.AsyncExitStack() as stack:
            await self._serve_diagnostics(stack)
            cluster = await stack.enter_async_context(self._ports.cluster())
            await self._sidecar.ask(cluster)
            session = self._session = await self._greeted(stack)
            context = Context(self._setup, cluster, session.driver, session.info, self._clock, self._chance, self._metrics)
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(session.run(), name=f"{self._sidecar.name}/driver-session")
                if self._setup.flags.leader_election:
                    await self._stand(context, await stack.enter_async_context(self._ports.cluster()))
                else:
                    await self._term(context)
                watch.cancel()

    async def _serve_diagnostics(self, stack: contextlib.AsyncExitStack) -> None:
        flags = self._setup.flags
        address = flags.http_endpoint or flags.metrics_address
        if address:
            with_probes = bool(flags.http_endpoint)
            routes = self.health.routes(flags.metrics_path, with_probes=with_probes, with_election=flags.leader_election)
            server = Diagnostics(routes)
            await server.start(address)
            stack.push_async_callback(server.close)

    async def _greeted(self, stack: contextlib.AsyncExitStack) -> Session:
        metrics = self._metrics.once(CallMetrics)
        self._waits_for = "no connection to the CSI driver yet"
        driver = await stack.enter_async_context(self._ports.driver(metrics))
        self._waits_for = "the CSI driver is not ready yet"
        session = Session(
            driver,
            clock=self._clock,
            limits=Limits(probe_timeout_s=self._sidecar.probe_timeout_s),
            metrics=metrics,
            on_loss=exit_on_loss if self._setup.flags.exit_on_lost_connection else carry_on,
        )
        session.on_return(self._driver_returned)
        info = await session.start()
        _log.info(0, "CSI driver name", driver=info.name, version=info.vendor_version)
        self._driver_known.set()
        self._waits_for = ""
        return session

    async def _stand(self, context: Context[F], cluster: Cluster) -> None:
        """Stands for the Lease. cluster: a client of its own, so that what throttles the work does not delay a renewal."""
        lock_name = self._sidecar.lock_prefix + context.info.name
        me = election.candidate(self._setup.flags, self._machine, lock_name, self._chance)
        # The Go attacher's manifest gives no right to events: there, who leads is only logged.
        events = EventRecorder(cluster, f"{lock_name}/{me.identity}", clock=self._clock, chance=self._chance, asks_first=True)
        metrics = self._metrics.once(LeaseMetrics)
        self._elector = LeaderElector(cluster, me, clock=self._clock, chance=self._chance, events=events, metrics=metrics)
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(events.run(), name=f"{self._sidecar.name}/election-events")
            try:
                await self._elector.run(lambda: self._term(context))
            except WorkOutlivesLease as error:
                _log.error("Exiting at once", error=error)
                self._machine.exit_now(1)
            await events.drain(EVENTS_S_MAX)
            sending.cancel()

    async def _term(self, context: Context[F]) -> None:
        """The work, until told to end, or until cancelled because the Lease was lost."""
        if self.is_ending:
            return
        work = self._work = self._sidecar.make_work(context)
        _log.info(0, self._sidecar.starting, component=context.info.name)
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(work.run(), name=f"{self._sidecar.name}/work")
                ending = group.create_task(self._told_to_end.wait(), name=f"{self._sidecar.name}/told-to-end")
                await asyncio.wait((running, ending), return_when=asyncio.FIRST_COMPLETED)
                if not self.is_ending:
                    raise InvariantError("the work ended, and nobody had told it to")
                if not (work.has_synced and await work.drain(DRAIN_S_MAX)):
                    running.cancel()
        except asyncio.CancelledError:
            if self.is_ending and self._main is not None:  # the Lease was lost meanwhile: no reason to stand for it again
                self._main.cancel()
            raise
        finally:
            self._work = None

    def _driver_returned(self) -> None:
        if self._work is not None:
            self._work.driver_returned()

    # -- what the probes are told

    def _obstacle(self) -> str:
        if self.is_ending:
            return "ending"
        if self._waits_for:
            return self._waits_for
        if self._session is None or not self._session.is_up:
            return "the connection to the CSI driver is lost"
        return "" if self._work is None else unfilled(self._work.has_synced, self._work.obstacle)

    def _overdue(self) -> str:
        return "" if self._elector is None else self._elector.healthy()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that the others followed from: groups keep the order in which their tasks failed."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
