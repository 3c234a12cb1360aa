"""A sidecar's pages for the outside: metrics, and whether it lives, is ready, and renews its Lease.

| path                     | answer |
| --- | --- |
| metrics-path             | the page |
| /healthz                 | 200 while the loop turns and the Lease, if held, is renewed: for a liveness probe |
| /readyz                  | 200 with the driver known, caches filled or standing by, the server there; else 503, why |
| /healthz/leader-election | with an election only; 200 on a leader that renews and on a standby, as in Go |

Differs from the Go sidecars: the first two probes are there without an election, and everything is served before the
driver answers. There, a metrics page that answers means that the driver is known, and people wait for that; so the page
waits for the driver too, but only for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mooring.base.clock import Clock, Instant
from mooring.base.diagnostics import HEALTHZ, READYZ, Reply, Route
from mooring.base.metrics import CONTENT_TYPE, Metrics
from mooring.kube.errors import ApiError, ServerError, Unreachable

ELECTION: Final = "/healthz/leader-election"

FRESH_S: Final = 2.0
"""How long an answer counts."""
PATIENCE_S: Final = 0.8
"""How long a probe waits for the API server: less than the second that a kubelet gives it, so that the reason still
reaches the kubelet.
"""

DRIVER_S_MAX: Final = 3.0
"""How long the metrics page waits for the driver; well below the 10 s after which Prometheus gives a scrape up."""


def unfilled(has_synced: bool, obstacle: str) -> str:
    """The fault of the work's caches, "" when they are filled and followed."""
    if not has_synced:
        return f"the caches are not filled yet{': ' if obstacle else ''}{obstacle}"
    return f"the caches are not up to date: {obstacle}" if obstacle else ""


class Pulse:
    """Whether the API server answers: asked when a probe asks, and for nothing that needs rights.

    Filled caches do not show it: the watch of a server that hangs is as silent as a watch without news. A request of
    our own every few seconds would be a load from thousands of nodes. So each probe causes one request, and probes at
    the same time share it. ask: one small request; it raises ApiError.
    """

    def __init__(self, ask: Callable[[], Awaitable[object]], clock: Clock) -> None:
        self._ask, self._clock = ask, clock
        self._known_at: Instant = -math.inf
        self._is_asking = False
        self._obstacle = ""

    async def obstacle(self) -> str:
        """The API server's silence or failure in words, "" when it answers. While one probe asks, others hear what was
        known before.
        """
        if not self._is_asking and self._clock.now() - self._known_at >= FRESH_S:
            self._is_asking = True
            try:
                self._obstacle = await self._asked()
                self._known_at = self._clock.now()
            finally:
                self._is_asking = False
        return self._obstacle

    async def _asked(self) -> str:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._ask()
        except TimeoutError:
            return f"the API server does not answer (within {PATIENCE_S:g} s)"
        except (Unreachable, ServerError) as error:
            return f"the API server does not answer: {error}"
        except ApiError:
            return ""  # a refusal is an answer
        return ""


class Health:
    """driver_known: set once the driver is identified. obstacle: the work's, "" when ready. overdue: a text about a
    Lease that is long not renewed, or "".

    pulse: whether the API server answers, once it can be asked. An end of ours would not heal it: readiness tells it,
    liveness does not.
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
