"""The life of a program of controllers: diagnostics, election, work, and an orderly end. `cli/sidecar.py` adds the
driver's part.

In order: the diagnostics server listens, so that probes and metrics show a program that never gets ready; with an
election the process stands for the Lease; then the work runs, one object of it for each term
(`control/program/terms.py`). A program may have several works, each with its Lease.

Told to end by SIGTERM or SIGINT: nothing new is begun, what is in hand ends and is stored (20 s at the most), the Lease
is released. A standby ends at once. A second signal: exit code 1 at once.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import dataclasses
import functools
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Generic, TypeVar

from mooring.api.coordination import LEASES
from mooring.base.clock import Clock
from mooring.base.diagnostics import Diagnostics
from mooring.base.errors import first_of
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.base.watchdog import watched
from mooring.cli import election
from mooring.cli.process import Machine, Setup
from mooring.cli.tables import ManagerFlags
from mooring.cli.tracing import Traces
from mooring.control.program.health import Health, Pulse
from mooring.control.program.terms import LeasedWorks, Terms, stand_for_election
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Cluster

_log = logger(__name__)

F = TypeVar("F", bound=ManagerFlags)


class Life(abc.ABC, Generic[F]):
    """One program from its first step to its last. run() once, end() at any time.

    name: the executable's. metrics_address: of the diagnostics server where --http-endpoint names none; it serves no
    probes then.
    """

    def __init__(
        self,
        name: str,
        setup: Setup[F],
        machine: Machine,
        *,
        clock: Clock,
        randomness: Random,
        metrics: Metrics,
        metrics_address: str = "",
    ) -> None:
        self._name, self._setup, self._machine = name, setup, machine
        self._clock, self._randomness, self._metrics = clock, randomness, metrics
        self._metrics_address = metrics_address
        self._stop_requested = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._terms: tuple[Terms, ...] = ()
        self._known = asyncio.Event()  # what the metrics page waits for
        self.traces = Traces(name, setup, clock)
        self.health = Health(metrics, self._known, self._obstacle, self._overdue)

    @abc.abstractmethod
    def _connect(self) -> AbstractAsyncContextManager[Cluster]:
        """A client of its own at each call. Raises ConfigError."""

    @abc.abstractmethod
    async def _begin(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        """Gets ready, and calls `_lead`."""

    @property
    def is_ending(self) -> bool:
        return self._stop_requested.is_set()

    def end(self) -> None:
        """Lets the work come to an end; whatever waits instead of working ends at once."""
        self._stop_requested.set()
        for terms in self._terms:
            terms.end()
        if not self._terms and self._main is not None:
            self._main.cancel()

    async def run(self) -> None:
        """Returns some time after end(). Raises ConfigError, and what `_begin` raises."""
        try:
            async with asyncio.TaskGroup() as group:
                self._main = group.create_task(self._live(), name=f"{self._name}/main")
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None  # its own traceback says it all
        finally:
            await self.traces.close()

    async def until_signalled(self) -> None:
        """As run(); the first signal is end(), the second ends the process. One that hangs is ended
        (`base/watchdog.py`).
        """
        with self._signals():
            async with watched(self._clock, self._overdue, self._machine.exit_now, f"{self._name}/watchdog"):
                await self.run()
        _log.info(0, "Ended in good order")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def signalled(number: signal.Signals) -> None:
            if self.is_ending:
                _log.warning("Second signal, exiting at once", signal=number.name)
                self._machine.exit_now(1)
            _log.info(0, "Received a signal, ending", signal=number.name)
            self.end()

        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            loop.add_signal_handler(number, signalled, number)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    # -- from the first step to the work

    async def _live(self) -> None:
        if self.is_ending:
            return
        self.traces.start()
        async with AsyncExitStack() as stack:
            await self._serve_diagnostics(stack)
            cluster = await stack.enter_async_context(self._connect())
            if (
                self._setup.flags.http_endpoint
            ):  # a client of its own, so that a busy one does not look like a silent API server
                asked = await stack.enter_async_context(self._connect())
                self.health.pulse = Pulse(functools.partial(asked.serves, LEASES), self._clock)
            await self._begin(Runtime(cluster, self._clock, self._randomness, self._metrics), stack)

    async def _serve_diagnostics(self, stack: AsyncExitStack) -> None:
        flags = self._setup.flags
        address = flags.http_endpoint or self._metrics_address
        if address:
            with_probes = bool(flags.http_endpoint)
            routes = self.health.routes(
                flags.metrics_path, with_probes=with_probes, with_election=flags.leader_election
            )
            server = Diagnostics(routes)
            await server.start(address)
            stack.push_async_callback(server.close)

    async def _lead(self, given: LeasedWorks) -> None:
        """Works for one term, or, with an election, for each term that a work wins."""
        flags = self._setup.flags
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            cluster = None
            if flags.leader_election:  # a client of its own, so that what throttles the work does not delay a renewal
                cluster = await stack.enter_async_context(self._connect())
            self._terms = tuple(Terms(leased, self._stop_requested, warm=flags.warm_standby) for leased in given.works)
            beside = (
                [] if given.beside is None else [group.create_task(_run(given.beside), name=f"{self._name}/beside")]
            )
            async with asyncio.TaskGroup() as holding:
                for terms in self._terms:
                    holding.create_task(self._hold(terms, cluster), name=f"{self._name}/term/{terms.leased.component}")
            for task in beside:
                task.cancel()

    async def _hold(self, terms: Terms, cluster: Cluster | None) -> None:
        """One work. cluster: for its election, None without one."""
        if cluster is None:
            await terms.run(None)
            return
        leased = terms.leased
        me = election.candidate(self._setup.flags, self._machine, leased.lock_name, self._randomness)
        me = dataclasses.replace(me, namespace=leased.namespace or me.namespace)
        await stand_for_election(
            terms,
            me,
            cluster,
            name=self._name,
            lock_name=leased.lock_name,
            clock=self._clock,
            randomness=self._randomness,
            metrics=self._metrics,
            exit_now=self._machine.exit_now,
        )

    # -- what the probes are told

    def _obstacle(self) -> str:
        if self.is_ending:
            return "ending"
        if missing := self._missing():
            return missing
        return "; ".join(dict.fromkeys(filter(None, (terms.obstacle for terms in self._terms))))

    def _missing(self) -> str:
        """The obstacle to the work, "" for none."""
        return ""

    def _overdue(self) -> str:
        return next(filter(None, (terms.overdue for terms in self._terms)), "")


async def _run(what: Callable[[], Awaitable[None]]) -> None:
    await what()
