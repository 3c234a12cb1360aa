"""A sidecar as a process: the driver's part of its life, its exit code.

    sidecar = Sidecar(name="csi-attacher", ..., make_work=...)      what one sidecar adds
    run_sidecar(sidecar, setup, machine)                            everything else; gives the exit code

Before the election and the work (`cli/life.py`) the driver is connected and introduces itself. A driver that was replaced by another one:
exit code 1, and a note for the kubelet.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Generic, Protocol, TypeVar

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
from mooring.control.runtime import Runtime
from mooring.csi.capabilities import DriverInfo
from mooring.csi.codes import DriverError
from mooring.csi.driver import Driver
from mooring.csi.metrics import CallMetrics
from mooring.csi.probe_and_identify import Limits
from mooring.csi.session import LOST_TEXT, DriverLost, Session, carry_on, exit_on_loss
from mooring.kube.cluster import Cluster

_log = logger(__name__)

F = TypeVar("F", bound=SidecarFlags)


class Work(manager.Work, Protocol):
    """The work of a sidecar during one term."""

    def driver_returned(self) -> None:
        """The driver was away and is back, unchanged: what failed meanwhile may be tried at once."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Context(Generic[F]):
    """The parts that a sidecar's work is built from."""

    setup: Setup[F]
    runtime: Runtime
    driver: Driver
    info: DriverInfo


async def _nothing(_: Cluster) -> None:
    """Nothing has to be known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sidecar(Generic[F]):
    """The parts of one sidecar that others do not have.

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


class SidecarLife(Life[F]):
    """One sidecar from its first step to its last. run() raises DriverLost, and DriverError for a driver that does not introduce itself."""

    def __init__(
        self, sidecar: Sidecar[F], setup: Setup[F], machine: Machine, ports: Ports, *, clock: Clock, randomness: Random, metrics: Metrics
    ) -> None:
        address = setup.flags.metrics_address
        super().__init__(sidecar.name, setup, machine, clock=clock, randomness=randomness, metrics=metrics, metrics_address=address)
        self.starting = sidecar.starting
        self._sidecar, self._ports = sidecar, ports
        self._session: Session | None = None
        self._on_return: Callable[[], None] = lambda: None
        self._waits_for = "starting"

    def _connect(self) -> AbstractAsyncContextManager[Cluster]:
        return self._ports.cluster()

    async def _begin(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        await self._sidecar.ask(runtime.cluster)
        session = self._session = await self._identified(stack)
        context = Context(self._setup, runtime, session.driver, session.info)
        lock_name = self._sidecar.lock_prefix + session.info.name

        def make_work() -> Work:
            work = self._sidecar.make_work(context)
            self._on_return = work.driver_returned
            return work

        async with asyncio.TaskGroup() as group:
            watch = group.create_task(session.run(), name=f"{self._name}/driver-session")
            # The Go attacher's manifest gives no right to events: there, who leads is only logged.
            await self._lead(make_work, session.info.name, lock_name, asks_first=True)
            watch.cancel()

    async def _identified(self, stack: AsyncExitStack) -> Session:
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
        self._known.set()
        self._waits_for = ""
        return session

    def _driver_returned(self) -> None:
        if self._work is not None:
            self._on_return()

    def _missing(self) -> str:
        if self._waits_for:
            return self._waits_for
        return "" if self._session is not None and self._session.is_up else "the connection to the CSI driver is lost"


def run_sidecar(sidecar: Sidecar[F], setup: Setup[F], machine: Machine) -> int:
    """Lives until told to end; gives the exit code. Raises ConfigError, and whatever nobody expected."""
    clock, randomness, metrics = LoopClock(), Random(), Metrics()
    ports = NetworkPorts(
        sidecar.name, setup, machine, sidecar.log_length_max, sidecar.server, clock=clock, randomness=randomness, metrics=metrics
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
