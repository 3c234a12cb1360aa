"""Controllers as a program: the cluster that kubectl would talk to, election, metrics and probes, signals, and an
orderly end.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from mooring.api.coordination import LEASES
from mooring.api.names import dns_label, dns_subdomain
from mooring.base import log, loops
from mooring.base.clock import LoopClock
from mooring.base.diagnostics import Diagnostics, split_address
from mooring.base.errors import ConfigError, first_of
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.base.stopping import stop_signals
from mooring.base.watchdog import watched
from mooring.control.lease.elector import Candidate, LeaseTimes
from mooring.control.lease.record import identity_of
from mooring.control.manager import Work
from mooring.control.program.health import Health, Pulse
from mooring.control.program.terms import LeasedWork, Terms, stand_for_election
from mooring.control.runtime import Runtime
from mooring.kube.client.config import ClusterConfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.client.retrying import ClientMetrics
from mooring.kube.cluster import Cluster

_log = logger(__name__)

METRICS_PATH: Final = "/metrics"


def run(
    name: str,
    make: Callable[[Runtime], Work],
    *,
    lease: str = "",
    http: str = "",
    kubeconfig: str = "",
    context: str = "",
    verbosity: int = 0,
) -> None:
    """Runs controllers until SIGTERM or Ctrl-C: no new key is begun, the work in hand ends. A second signal ends the
    process at once.

    name: the program's, for the API server and messages. make: builds the controllers; with a lease, anew for each term
    that it wins. lease: where programs of this name elect who works, as namespace/name; "" for no election. http: where
    metrics, /healthz and /readyz are served, as ":8080"; "" for nowhere. kubeconfig: a file; "" finds one as kubectl
    does. context: in it, "" for the current one. verbosity: of the log on stderr, 0 for warnings and errors, 2 for what
    was done, 4 for why.
    Exits with 1 and one line on stderr where one of these can't be used, or there is no way to the cluster.
    """
    log.configure(verbosity=verbosity)
    try:
        election = _place_of(lease) if lease else None
        if http:
            split_address(http)
        config = load(kubeconfig, os.environ, context=context)
        loops.run(_Program(name, make, config, election, http).run())
    except ConfigError as error:
        sys.exit(f"{name}: {error}")


def _place_of(lease: str) -> tuple[str, str]:
    """The Lease's namespace and name. Raises ConfigError."""
    namespace, slash, lock_name = lease.partition("/")
    problem = dns_label(namespace) or dns_subdomain(lock_name)
    if not slash or problem:
        why = f": {problem[0]}" if slash and problem else ""
        raise ConfigError(f"lease: {lease!r} is no namespace/name, as in default/labels{why}")
    return namespace, lock_name


class _Program:
    """One run of a program. election: namespace and name of the Lease, None for none."""

    def __init__(
        self,
        name: str,
        make: Callable[[Runtime], Work],
        config: ClusterConfig,
        election: tuple[str, str] | None,
        http: str,
    ) -> None:
        self._name, self._make, self._config, self._election, self._http = name, make, config, election, http
        self._clock, self._randomness, self._metrics = LoopClock(), Random(), Metrics()
        self._stop = asyncio.Event()
        self._terms: Terms | None = None
        ready = asyncio.Event()
        ready.set()  # there is no driver to wait for
        self._health = Health(self._metrics, ready, self._obstacle, self._overdue)

    async def run(self) -> None:
        """Runs until a signal. Raises ConfigError, and the error of the work."""
        _log.info(0, "Starting", program=self._name, server=self._config.server, found_in=self._config.source)
        with stop_signals() as self._stop:
            async with AsyncExitStack() as stack:
                await self._serve(stack)
                runtime = Runtime(
                    await stack.enter_async_context(self._client()), self._clock, self._randomness, self._metrics
                )
                leased = LeasedWork(self._name, "", lambda: self._make(runtime))
                async with watched(self._clock, self._overdue, os._exit, f"{self._name}/watchdog"):
                    await self._work(Terms(leased, self._stop), stack)

    def _client(self) -> HttpCluster:
        """A new client for each use: what holds up the work does not hold up the election, nor look like a silent API
        server.
        """
        metrics = self._metrics.once(ClientMetrics)
        return HttpCluster(
            self._config, clock=self._clock, randomness=self._randomness, user_agent=self._name, metrics=metrics
        )

    async def _serve(self, stack: AsyncExitStack) -> None:
        if not self._http:
            return
        asked = await stack.enter_async_context(self._client())
        self._health.pulse = Pulse(functools.partial(asked.serves, LEASES), self._clock)
        server = Diagnostics(
            self._health.routes(METRICS_PATH, with_probes=True, with_election=self._election is not None)
        )
        await server.start(self._http)
        stack.push_async_callback(server.close)

    async def _work(self, terms: Terms, stack: AsyncExitStack) -> None:
        """Runs terms of work until the program has to end; a standby ends at once."""
        self._terms = terms
        cluster = None if self._election is None else await stack.enter_async_context(self._client())
        try:
            async with asyncio.TaskGroup() as group:
                working = group.create_task(self._hold(terms, cluster), name=f"{self._name}/work")
                stopping = group.create_task(self._stop.wait(), name=f"{self._name}/stop")
                await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                terms.end()
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None  # its own traceback says it all

    async def _hold(self, terms: Terms, cluster: Cluster | None) -> None:
        """Runs the terms of work. cluster: for the election, None without one."""
        if cluster is None or self._election is None:
            await terms.run(None)
            return
        namespace, lock_name = self._election
        me = Candidate(lock_name, namespace, identity_of(socket.gethostname(), self._randomness), LeaseTimes(), {})
        await stand_for_election(
            terms,
            me,
            cluster,
            name=self._name,
            lock_name=lock_name,
            clock=self._clock,
            randomness=self._randomness,
            metrics=self._metrics,
            exit_now=os._exit,
        )

    # -- the answers to probes

    def _obstacle(self) -> str:
        if self._stop.is_set():
            return "ending"
        return "starting" if self._terms is None else self._terms.obstacle

    def _overdue(self) -> str:
        return "" if self._terms is None else self._terms.overdue
