"""The facts of one look, from which a finalizer is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.base.clock import seconds_of
from mooring.inspect.locks import SKEW_S
from mooring.inspect.renewals import LeaseSight
from mooring.inspect.scene import Scene
from mooring.inspect.traces import LiveLease, Traces


class DriverWord(msgspec.Struct, frozen=True):
    """The driver's own answer about one volume or snapshot.

    exists: whether it has it, None where it can't say. published_on: the ids of the nodes that it is published on, None
    where it can't say. why: it can't. detached_from: the id of the node from which it has detached it at our call, ""
    for none.
    """

    driver: str
    exists: bool | None = None
    published_on: frozenset[str] | None = None
    why: str = ""
    detached_from: str = ""


class Author(msgspec.Struct, frozen=True):
    """The last writer of a finalizer, as managedFields name him. at: as the server sent it."""

    manager: str
    at: str


class Facts(msgspec.Struct, frozen=True):
    """kind: as people type it. driver: "" for an object of none. traces: of the driver. word: None where the driver was
    not asked.

    failures: by program, the last error that the object or an Event says of its tries to let the object go. node_ids:
    the driver's names of nodes, as the CSINodes have them. scene: the claims, pods and snapshots around the object.
    """

    obj: Any
    kind: str
    driver: str = ""
    leases: LeaseSight = msgspec.field(default_factory=LeaseSight)
    traces: Traces | None = None
    word: DriverWord | None = None
    failures: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_ids: Mapping[str, str] = msgspec.field(default_factory=dict)
    authors: Mapping[str, Author] = msgspec.field(default_factory=dict)
    scene: Scene = msgspec.field(default_factory=lambda: Scene(0.0))

    @property
    def name(self) -> str:
        return str(self.obj.metadata.name)

    def live(self, *locks: str) -> LiveLease | None:
        """A Lease of one of these names that somebody renews."""
        return next((one for one in self.leases.live if one.name.rpartition("/")[2] in locks), None)

    def silent(self, *locks: str) -> str:
        """A Lease of one of these names that nobody renews, "" for none."""
        return next(
            (one for one in self.leases.silent if one.rpartition("/")[2] in locks and not self._is_older(one)), ""
        )

    def _is_older(self, lease: str) -> bool:
        """True for a Lease that was given up before the object was made: the program that set the finalizer ran without
        it.
        """
        made, last = seconds_of(self.obj.metadata.creation_timestamp), seconds_of(self.leases.last.get(lease))
        return 0 < last < made - SKEW_S
