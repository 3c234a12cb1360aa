"""A sidecar as a process: the driver's part of its life, its exit code.

    sidecar = Sidecar(name="csi-attacher", ..., make_work=...)      what one sidecar adds
    run_sidecar(sidecar, setup, machine)                            everything else; gives the exit code

Before the election and the work (`cli/life.py`) the driver is connected and introduces itself. A driver that was
replaced by another one: exit code 1, and a note for the kubelet.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from mooring.base import loops
from mooring.base.clock import Clock, LoopClock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.life import Life
from mooring.cli.ports import NetworkPorts, Ports
from mooring.cli.process import Machine, Setup
from mooring.cli.tables import SidecarFlags
from mooring.control import manager
from mooring.control.caches import Caches
from mooring.control.program.terms import LeasedWork, LeasedWorks
from mooring.control.runtime import Runtime
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.csi.metrics import CallMetrics, ConnectionMetrics
from mooring.csi.probe_and_identify import ProbeLimits
from mooring.csi.session import LOST_TEXT, DriverLost, Session, carry_on, exit_on_loss
from mooring.kube.cluster import Cluster

_log = logger(__name__)

F = TypeVar("F", bound=SidecarFlags)


@runtime_checkable
class CallsDriver(Protocol):
    """A work that calls the driver."""

    def driver_returned(self) -> None:
        """The driver was away and is back, unchanged: what failed meanwhile may be tried at once."""
        ...


class SidecarWork(manager.Work, CallsDriver, Protocol):
    """The work of a sidecar during one term."""


@dataclasses.dataclass(frozen=True, slots=True)
class Context(Generic[F]):
    """The parts that a sidecar's work is built from. caches: a share of the process', None for caches of its own."""

    setup: Setup[F]
    runtime: Runtime
    driver: Driver
    info: DriverInfo
    caches: Caches | None = None


def _no_work(_: Context[Any]) -> SidecarWork:
    raise AssertionError("a sidecar has `make_work` or `works`")


async def _nothing(_: Cluster) -> None:
    """Nothing has to be known."""


async def _no_more(_: Driver, __: DriverInfo) -> None:
    """The driver's information about itself is enough."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sidecar(Generic[F]):
    """The parts of one sidecar that others do not have.

    name: its executable's. lock_prefix: with the driver's name, which follows, it makes the Lease's. probe_timeout_s:
    of one Probe. starting: what is logged when its work begins, in upstream's words.
    log_length_max: characters of a logged gRPC response, 0 or less for all. server: the API server's URL, "" for what
    the kubeconfig says. as_kubectl: the kubeconfig is found as kubectl finds it, where no flag names one; else it is
    the pod's own then.
    ask: what the work has to know of the API server, asked once before the driver is connected. works: of a process
    with several works; None for one, as these fields say.
    check_driver: what it has to know of the driver, once that has introduced itself. Raises ConfigError for one that it
    can't work with.
    """

    name: str
    lock_prefix: str
    probe_timeout_s: float
    make_work: Callable[[Context[F]], SidecarWork] = _no_work
    starting: str = "Starting"
    log_length_max: int = -1
    server: str = ""
    as_kubectl: bool = False
    ask: Callable[[Cluster], Awaitable[None]] = _nothing
    check_driver: Callable[[Driver, DriverInfo], Awaitable[None]] = _no_more
    works: Callable[[Context[F]], LeasedWorks] | None = None

    def works_of(self, context: Context[F]) -> LeasedWorks:
        """The one work, with its Lease, or the several."""
        if self.works is not None:
            return self.works(context)
        name = context.info.name
        return LeasedWorks((LeasedWork(name, self.lock_prefix + name, lambda: self.make_work(context), self.starting),))


class SidecarLife(Life[F]):
    """One sidecar from its first step to its last.

    run() raises DriverLost, DriverError for a driver that does not introduce itself, ConfigError for one that it can't
    work with.
    """

    def __init__(
        self,
        sidecar: Sidecar[F],
        setup: Setup[F],
        machine: Machine,
        ports: Ports,
        *,
        clock: Clock,
        randomness: Random,
        metrics: Metrics,
    ) -> None:
        address = setup.flags.metrics_address
        super().__init__(
            sidecar.name, setup, machine, clock=clock, randomness=randomness, metrics=metrics, metrics_address=address
        )
        self._sidecar, self._ports = sidecar, ports
        self._session: Session | None = None
        self._waits_for = "starting"

    def _connect(self) -> AbstractAsyncContextManager[Cluster]:
        return self._ports.cluster()

    async def _begin(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        await self._sidecar.ask(runtime.cluster)
        session = self._session = await self._identified(stack)
        await self._sidecar.check_driver(session.driver, session.info)
        make = self.traces.beside(
            lambda ports, driver: self._sidecar.works_of(
                Context(self._setup, ports, driver or session.driver, session.info)
            ),
            session.info.name,
        )
        works = make(runtime, session.driver)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(session.run(), name=f"{self._name}/driver-session")
            # The Go attacher's manifest gives no right to events: there, who leads is only logged.
            await self._lead(works)
            watch.cancel()

    async def _identified(self, stack: AsyncExitStack) -> Session:
        metrics = self._metrics.once(CallMetrics)
        self._metrics.once(ConnectionMetrics).show(self._name, lambda: {metrics.driver_name: not self._missing()})
        self._waits_for = "no connection to the CSI driver yet"
        driver = await stack.enter_async_context(self._ports.driver(metrics))
        self._waits_for = "the CSI driver is not ready yet"
        session = Session(
            driver,
            clock=self._clock,
            limits=ProbeLimits(probe_timeout_s=self._sidecar.probe_timeout_s),
            metrics=metrics,
            on_loss=exit_on_loss if self._setup.flags.exit_on_lost_connection else carry_on,
        )
        session.on_return(self._driver_returned)
        info = await session.start()
        _log.info(0, "CSI driver name", driver=info.name, version=info.vendor_version)
        self._known.set()
        self._waits_for = ""
        return session

    def _driver_returned(self) -> None:
        for terms in self._terms:
            if isinstance(terms.work, CallsDriver):
                terms.work.driver_returned()

    def _missing(self) -> str:
        if self._waits_for:
            return self._waits_for
        return "" if self._session is not None and self._session.is_up else "the connection to the CSI driver is lost"


def run_sidecar(sidecar: Sidecar[F], setup: Setup[F], machine: Machine) -> int:
    """Lives until told to end; gives the exit code. Raises ConfigError, and whatever nobody expected."""
    clock, randomness, metrics = LoopClock(), Random(), Metrics()
    ports = NetworkPorts(
        sidecar.name,
        setup,
        machine,
        sidecar.log_length_max,
        sidecar.server,
        clock=clock,
        randomness=randomness,
        metrics=metrics,
        as_kubectl=sidecar.as_kubectl,
    )
    one = SidecarLife(sidecar, setup, machine, ports, clock=clock, randomness=randomness, metrics=metrics)
    return exit_code(one.until_signalled(), machine)


def exit_code(main: Coroutine[Any, Any, None], machine: Machine) -> int:
    """Runs main on a loop of its own; what its end comes to."""
    try:
        loops.run(main)
    except DriverLost:
        _log.error(LOST_TEXT)
        _note_for_the_kubelet(machine)
        return 1
    except DriverError as error:
        _log.error("CSI driver does not introduce itself", error=error)
        return 1
    return 0


def _note_for_the_kubelet(machine: Machine) -> None:
    """The kubelet shows this file's text as the reason for the end."""
    try:
        machine.termination_log.write_text(LOST_TEXT, encoding="utf-8")
        machine.termination_log.chmod(0o644)
    except OSError as error:
        _log.error("Could not write the termination log", error=error, file=str(machine.termination_log))
