"""The objects, fields and indexes that the provisioner reads.

A `View` shows the caches as they are; a decision reads it between two awaits, when nothing changes. Objects that no cache holds (snapshots,
secrets, a clone's volume) are looked up for one attempt: a decision that needs one raises `NotLookedUp` and is made again with the answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mooring.api.gateway import ReferenceGrant
from mooring.api.meta import Key, Kind
from mooring.api.storage import CSINode
from mooring.base.errors import MooringError
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.model.cached import CacheView
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.topology import ClusterTopology

# -- objects looked up for one attempt


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """One object, to be looked up."""

    kind: Kind[Any]
    name: str
    namespace: str = ""


class NotLookedUp(Exception):
    """A decision needs this object: look it up and decide again."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted.kind.plural)
        self.wanted = wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Looked:
    """The objects that an attempt has looked up so far. An error is an answer, too. Secrets are here as their values: never shown."""

    found: dict[Wanted, Any] = dataclasses.field(default_factory=dict, repr=False)

    def get(self, wanted: Wanted) -> Any:
        """The object. Raises the error of its look-up, or NotLookedUp."""
        if wanted not in self.found:
            raise NotLookedUp(wanted)
        answer = self.found[wanted]
        if isinstance(answer, MooringError):
            raise answer
        return answer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View(CacheView):
    """The caches, intents and records, live.

    intents: by claim uid, those whose volume may exist. records: the memory of claims.
    """

    csi_nodes: Reader[CSINode]
    grants: Reader[ReferenceGrant]
    places: ClusterTopology
    intents: Mapping[str, Intent]
    records: ClaimRecords

    def topology_keys(self, node_name: str) -> tuple[str, ...] | None:
        """The driver's keys on that node; None when the node has no CSINode."""
        csi_node = self.csi_nodes.get(Key("", node_name))
        if csi_node is None:
            return None
        return next((d.topology_keys or () for d in csi_node.spec.drivers or () if d.name == self.driver.name), ())
