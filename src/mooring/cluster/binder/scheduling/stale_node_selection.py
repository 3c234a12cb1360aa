"""Removes the selected node of a claim when that node is gone: else the claim pins its pod to a node that does not come
back.

kube-scheduler leaves that to the provisioner, which notices only when it is asked for a volume. Only a node whose
deletion was watched counts; an unknown name may be a node that comes later. A claim may be given its node while that is
being deleted, by a write of ours or somebody else's: so deleted nodes are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api.binding import SELECTED_NODE
from mooring.api.core import Node, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.base.log import logger
from mooring.cluster.binder import edits
from mooring.cluster.binder.match import reserved_for
from mooring.cluster.binder.scheduling.reasons import NothingToDo
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.view import BY_SELECTED
from mooring.cluster.binder.writes import Whole
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

DELETED_MAX: Final = 10_000
"""Names of deleted nodes that are remembered."""


class Unselect(msgspec.Struct, frozen=True):
    claim: PersistentVolumeClaim


class StaleNodeSelection:
    """Claims whose node has vanished."""

    def __init__(self, runtime: Runtime, view: View, writes: Whole[PersistentVolumeClaim]) -> None:
        self._view, self._writes = view, writes
        self._deleted: dict[str, None] = {}  # nodes, in order
        self.controller: Controller[tuple[Key, str]] = Controller(
            runtime, "unpin", Deciding(self._decide, self._perform), workers=1, label="PersistentVolumeClaim", log=log
        )

    def look_at_all(self) -> None:
        """A term begins."""
        for name in self._deleted:
            for key in self._claims_on(name):
                self.controller.add(key)

    def node_changed(self, change: Change[Node]) -> Iterator[tuple[Key, str]]:
        name = change.key.name
        self._deleted.pop(name, None)
        if change.new is None:
            self._deleted[name] = None
            if len(self._deleted) > DELETED_MAX:
                del self._deleted[next(iter(self._deleted))]
            yield from self._claims_on(name)

    def _claims_on(self, node_name: str) -> Iterator[tuple[Key, str]]:
        return ((key_of(claim), node_name) for claim in self._view.claims.by(BY_SELECTED, node_name))

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterator[tuple[Key, str]]:
        selected = "" if change.new is None else annotation(change.new, SELECTED_NODE)
        if selected in self._deleted:
            yield change.key, selected

    def _decide(self, key: tuple[Key, str]) -> Decision[Unselect]:
        claim, node_name = self._view.claims.get(key[0]), key[1]
        if claim is None or annotation(claim, SELECTED_NODE) != node_name or claim.spec.volume_name:
            return Decision(NothingToDo("it does not wait for a volume on this node any more"))
        if self._view.node(node_name) is not None or reserved_for(self._view.volumes, claim) is not None:
            return Decision(NothingToDo("its node is there, or a volume is reserved for it"))
        gone = NothingToDo(f'the chosen node "{node_name}" is gone')
        return Decision(gone, (Unselect(claim),), done="another node may be chosen for the claim")

    async def _perform(self, key: tuple[Key, str], decision: Decision[Unselect]) -> None:
        """Raises Failed, Stale."""
        for action in decision.actions:
            await self._writes.put(action.claim, edits.unselect_node)
