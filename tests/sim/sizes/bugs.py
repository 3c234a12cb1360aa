"""Places made to grow, each of which the law of sizes must find. scenario: the one in which it is looked for."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from unittest import mock

from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.identity import Identity
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.control import queue
from mooring.sidecars.provisioner.model import orders
from mooring.sidecars.provisioner.model.topology import ClusterTopology


@dataclasses.dataclass(frozen=True, slots=True)
class Bug:
    """tells: a word of what the law says then."""

    scenario: str
    plant: Callable[[], contextlib.AbstractContextManager[Any]]
    tells: str


def _places_for_each_claim() -> contextlib.AbstractContextManager[Any]:
    """The places of all nodes are worked out anew for each claim."""
    of_nodes = ClusterTopology.of_nodes

    def anew(self: ClusterTopology, keys: Sequence[str]) -> Any:
        self.invalidate()
        return of_nodes(self, keys)

    return mock.patch.object(ClusterTopology, "of_nodes", anew)


def _places_are_stored() -> contextlib.AbstractContextManager[Any]:
    """An intent has all places that its volume may have."""
    return mock.patch.object(orders, "PLACES_STORED_MAX", 1 << 30)


def _attachments_are_scanned() -> contextlib.AbstractContextManager[Any]:
    """To find the volume of one, all attachments without PersistentVolume are looked at."""
    volume_of = Orphans.volume_of

    def scanning(self: Orphans, attachment: VolumeAttachment) -> str:
        for names in self._on.values():
            for name in names:
                assert Identity("", name).attachment_to("n") != name
        return volume_of(self, attachment)

    return mock.patch.object(Orphans, "volume_of", scanning)


def _workers_never_yield() -> contextlib.AbstractContextManager[Any]:
    """A worker handles all keys that wait for nobody in one go."""
    return mock.patch.object(queue, "KEYS_IN_TURN", 1 << 30)


def _first_looks_never_yield() -> contextlib.AbstractContextManager[Any]:
    """A worker looks through all keys of a backlog that need no look in one go."""
    return mock.patch.object(queue, "DRAWS_IN_TURN", 1 << 30)


BUGS: Final[Mapping[str, Bug]] = {
    "places-for-each-claim": Bug("places", _places_for_each_claim, "grows by"),
    "places-stored": Bug("places", _places_are_stored, "bytes"),
    "attachments-scanned": Bug("attachments-alone", _attachments_are_scanned, "grows by"),
    "workers-never-yield": Bug("attachments-alone", _workers_never_yield, "one callback"),
    "first-looks-never-yield": Bug("at-rest", _first_looks_never_yield, "one callback"),
}
