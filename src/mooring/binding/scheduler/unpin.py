"""Takes a chosen node back when that node is no more: else the claim pins its pod to a node that nobody will see again.

kube-scheduler leaves that to the provisioner, which notices only when it is asked for a volume. Only a node that vanished before our eyes
counts; a name that was never seen may be a node that comes later.
"""

from __future__ import annotations

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.binding import edits
from mooring.binding.edits import Moved
from mooring.binding.match import reserved_for
from mooring.binding.names import SELECTED_NODE
from mooring.binding.scheduler.view import View
from mooring.binding.view import BY_SELECTED
from mooring.binding.workers import Workers
from mooring.binding.writes import Whole

log = logger(__name__)


class Unpin:
    """Claims whose node has vanished."""

    def __init__(self, view: View, writes: Whole[PersistentVolumeClaim], *, clock: Clock, chance: Chance, metrics: Metrics) -> None:
        self._view, self._writes = view, writes
        self.workers: Workers[tuple[Key, str]] = Workers("unpin", 1, self._sync, clock=clock, chance=chance, metrics=metrics)

    def node_vanished(self, name: str) -> None:
        for claim in self._view.claims.by(BY_SELECTED, name):
            self.workers.queue.add((key_of(claim), name))

    async def _sync(self, key: tuple[Key, str]) -> None:
        claim, node_name = self._view.claims.get(key[0]), key[1]
        if claim is None or annotation(claim, SELECTED_NODE) != node_name or claim.spec.volume_name:
            return
        if self._view.node(node_name) is not None or reserved_for(self._view.volumes, claim) is not None:
            return
        try:
            await self._writes.put(claim, edits.unselect_node)
        except Moved:
            self.workers.queue.retry(key)
            return
        self.workers.queue.forget(key)
        log.info(2, "the node chosen for the claim is gone: another may be chosen", PersistentVolumeClaim=str(key[0]), node=node_name)
