"""Reports which volumes the node uses: node.status.volumesInUse, the lock that keeps the controller from detaching them.

One write for all that changed within a moment. A name is there before its volume's first step, and until after its last.

A write holds for one version of the Node only, so that one whose answer was lost, and which is carried out late, takes away nothing that
was named since. As long as there may be such a write, the next one notes that version in an annotation: one that names what the Node says
already would change nothing, not even the version, and so would not shut it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

from mooring.api.core import NODES, Node
from mooring.api.meta import Key
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict
from mooring.kube.patch import strategic_patch

_log = logger(__name__)

REPORTED_OVER: Final = "mooring.dev/volumes-in-use-over"
"""An annotation: the version of the Node that the report was written over which shut out others."""

REPORTED: Final = "in-use-report"
"""What waits for a report waits for this."""

GATHER_S: Final = 0.05
AGAIN_S: Final = 1.0


class InUseReport:
    """names: all that the node uses now. reported: called once the Node says what is in use, after each change."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: Informer[Node],
        node_name: str,
        names: Callable[[], Collection[str]],
        reported: Callable[[], None],
        *,
        clock: Clock,
    ) -> None:
        self._cluster, self._nodes, self._node_name, self._clock = cluster, nodes, node_name, clock
        self._names, self._reported = names, reported
        self._reports: frozenset[str] | None = None  # what the Node says, None while that is not known; certain to be there
        self._is_unsure = False  # a write is on its way, or its answer was lost
        self._changed = asyncio.Event()
        nodes.on_change(self._node_changed)

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

    def _node_changed(self, change: Change[Node]) -> None:
        """The report does not depend on the writer of the Node: a report that was changed, or lost with the Node, is made again."""
        present = frozenset(change.new.status.volumes_in_use or ()) if change.new is not None else frozenset[str]()
        if self._reports is not None and self._is_unsure:
            present &= self._reports  # the Node as it was before our write
        if self._reports is not None and present != self._reports:
            self._reports = present
            self._changed.set()
            self._reported()

    async def run(self) -> None:
        """Reports until cancelled."""
        while True:
            await self._changed.wait()
            await self._clock.sleep(GATHER_S)
            self._changed.clear()
            wanted = frozenset(self._names())
            if self._reports is None:
                continue
            if wanted == self._reports and not self._is_unsure:
                self._reported()  # what waited for the report of a volume that has gone meanwhile
                continue
            was_unsure = self._is_unsure
            self._reports &= wanted  # what this write takes away is in use no more from here on, whatever becomes of its answer
            self._is_unsure = True
            try:
                await self._write(wanted, was_unsure=was_unsure)
            except Conflict:  # somebody else has written the Node, and it may be long until the watch tells
                self._changed.set()
                await self._look_again()
                continue
            except ApiError as error:
                _log.error("The volumes in use could not be reported, trying again", error=error)
                self._changed.set()
                await self._clock.sleep(AGAIN_S)
                continue
            self._reports, self._is_unsure = wanted, False
            self._reported()

    async def _look_again(self) -> None:
        """The Node as it is now, for the next write: a watch that is silent for a minute would have it refused twenty times a second."""
        try:
            await self._nodes.write(Key("", self._node_name), self._cluster.get(NODES, self._node_name))
        except ApiError as error:
            _log.error("The Node could not be read, trying again", error=error)
            await self._clock.sleep(AGAIN_S)

    async def _write(self, wanted: Collection[str], *, was_unsure: bool) -> None:
        """Only over the Node that is known: a report that is carried out late would take away what a later one has named."""
        key = Key("", self._node_name)
        body: dict[str, Any] = {"status": {"volumesInUse": sorted(wanted) or None}}
        if (node := self._nodes.store.get(key)) is not None:
            version = node.metadata.resource_version
            noted = {"annotations": {REPORTED_OVER: version}} if was_unsure else {}
            body["metadata"] = {"resourceVersion": version, **noted}
        patch = strategic_patch(body, of=node)
        await self._nodes.write(key, self._cluster.patch(NODES, self._node_name, patch, subresource="status"))
