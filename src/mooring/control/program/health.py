"""A sidecar's pages for the outside: metrics, and whether it lives, is ready, and renews its Lease.

| path | answer |
|---|---|
| metrics-path | the page |
| /healthz | 200 while the loop turns and the Lease, if held, is renewed: what a liveness probe should ask |
| /readyz | 200 once the work can be done: driver identified, caches filled or standing by, the API server answers; else 503 and why |
| /healthz/leader-election | with an election only; 200 on a leader that renews and on a standby, as the Go sidecars answer |

Differs from the Go sidecars: the first two probes are there without an election, and everything is served before the driver answers.
There, a metrics page that answers means that the driver is known, and people wait for that; so the page waits for the driver too, but
only for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from mooring.base.diagnostics import HEALTHZ, READYZ, Reply, Route
from mooring.base.metrics import CONTENT_TYPE, Metrics
from mooring.control.program.pulse import Pulse

ELECTION: Final = "/healthz/leader-election"

DRIVER_S_MAX: Final = 3.0
"""How long the metrics page waits for the driver; well below the 10 s after which Prometheus gives a scrape up."""


def unfilled(has_synced: bool, obstacle: str) -> str:
    """The fault of the work's caches, "" when they are filled and followed."""
    if not has_synced:
        return f"the caches are not filled yet{': ' if obstacle else ''}{obstacle}"
    return f"the caches are not up to date: {obstacle}" if obstacle else ""


class Health:
    """driver_known: once the driver is identified. obstacle: the work's, "" when ready. overdue: of a Lease long not renewed, or "".

    pulse: whether the API server answers, once it can be asked. An end of ours would not heal it: readiness tells it, liveness does not.
    """

    def __init__(
        self, metrics: Metrics, driver_known: asyncio.Event, obstacle: Callable[[], str], overdue: Callable[[], str]
    ) -> None:
        self._metrics = metrics
        self._driver_known = driver_known
        self._obstacle = obstacle
        self._overdue = overdue
        self.pulse: Pulse | None = None

    def routes(self, metrics_path: str, *, with_probes: bool, with_election: bool) -> Mapping[str, Route]:
        """Path to answer. with_probes: False for metrics-address, where the Go sidecars serve metrics alone."""
        routes: dict[str, Route] = {}
        if with_probes:
            routes |= {HEALTHZ: self._live, READYZ: self._ready}
        if with_probes and with_election:
            routes[ELECTION] = self._live
        return routes | {metrics_path: self._page}

    async def _page(self) -> Reply:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRIVER_S_MAX):
                await self._driver_known.wait()
        return Reply(200, self._metrics.page(), CONTENT_TYPE)

    async def _live(self) -> Reply:
        overdue = self._overdue()
        return Reply(500, overdue) if overdue else Reply(200, "ok")

    async def _ready(self) -> Reply:
        obstacle = self._obstacle()
        if not obstacle and self.pulse is not None:
            obstacle = await self.pulse.obstacle()
        return Reply(503, f"not ready: {obstacle}\n") if obstacle else Reply(200, "ok")
