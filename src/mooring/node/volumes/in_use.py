"""Reports which volumes the node uses: node.status.volumesInUse, the lock that keeps the controller from detaching them.

One write for all that changed within a moment. A name is there before its volume's first step, and until after its last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from mooring.api.core import NODES
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import ApiError

_log = logger(__name__)

GATHER_S: Final = 0.05
AGAIN_S: Final = 1.0


class InUseReport:
    """names: all that the node uses now. reported: called after each report that has come through."""

    def __init__(
        self, cluster: Cluster, node_name: str, names: Callable[[], Collection[str]], reported: Callable[[], None], *, clock: Clock
    ) -> None:
        self._cluster, self._node_name, self._names, self._reported, self._clock = cluster, node_name, names, reported, clock
        self._reports: frozenset[str] | None = None  # what the Node says, None while that is not known; certain to be there
        self._is_unsure = False  # a write is on its way, or its answer was lost
        self._changed = asyncio.Event()

    def begin(self, present: Collection[str]) -> None:
        """present: what the Node's status says at the start."""
        self._reports = frozenset(present)
        self._changed.set()

    def changed(self) -> None:
        """The names may be others now."""
        self._changed.set()

    def has(self, name: str) -> bool:
        """True once the API server has stored that this volume is in use."""
        return self._reports is not None and name in self._reports

    async def run(self) -> None:
        """Reports until cancelled."""
        while True:
            await self._changed.wait()
            await self._clock.sleep(GATHER_S)
            self._changed.clear()
            wanted = frozenset(self._names())
            if self._reports is None or (wanted == self._reports and not self._is_unsure):
                continue
            self._reports &= wanted  # what this write takes away is in use no more from here on, whatever becomes of its answer
            self._is_unsure = True
            try:
                patch = {"status": {"volumesInUse": sorted(wanted) or None}}
                await self._cluster.patch(NODES, self._node_name, Patch(PatchType.STRATEGIC, patch), subresource="status")
            except ApiError as error:
                _log.error("The volumes in use could not be reported, trying again", error=error)
                self._changed.set()
                await self._clock.sleep(AGAIN_S)
                continue
            self._reports, self._is_unsure = wanted, False
            self._reported()
