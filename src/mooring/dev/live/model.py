"""The view's model: fed by what happens, it gives a board at any moment. No clock of its own, no I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable

from mooring.base.clock import Instant
from mooring.control.result import Because
from mooring.dev.live.board import Board, Objects
from mooring.dev.live.memory import Mounts, Reasons, Since
from mooring.dev.live.nodes import node_rows
from mooring.dev.live.snapshots import snapshot_rows
from mooring.dev.live.volumes import VolumeRows
from mooring.driver.guard import CallRecord


class Model:
    """changed: called after each event that may change the board."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self._reasons, self._mounts, self._since = Reasons(), Mounts(), Since()

    def called(self, record: CallRecord, who: str) -> None:
        """A call to the driver has ended. who: the called part, a node's name for its agent's calls."""
        self._mounts.called(record, who)
        self.changed()

    def explained(self, who: str, queue: str, key: Hashable, because: Because, now: Instant) -> None:
        """A controller has decided about a key."""
        self._reasons.heard(who, queue, key, because, now)
        self.changed()

    def lost(self, node: str) -> None:
        """The power of a node was cut."""
        self._mounts.lost(node)
        self.changed()

    def board(self, objects: Objects, now: Instant) -> Board:
        nodes = tuple(node_rows(objects))
        of_volumes = VolumeRows(objects, self._mounts, self._reasons, now).all()
        volumes = (*of_volumes, *snapshot_rows(objects, self._reasons, now))
        states = [*((row.name, row.state) for row in nodes), *((row.key, (row.stage, row.waits)) for row in volumes)]
        ages = self._since.ages(states, now)
        return Board(
            tuple(row if row.is_well else dataclasses.replace(row, for_s=ages[row.name]) for row in nodes),
            tuple(dataclasses.replace(row, for_s=ages[row.key]) if row.waits else row for row in volumes),
        )
