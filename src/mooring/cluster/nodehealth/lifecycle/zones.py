"""The health of each zone, and how many of its nodes may get a NoExecute taint. Pure.

Where many nodes seem to be dead it is rather the network: then evictions are slow, or stop. Where all nodes of all
zones seem to be dead it is most likely this process that is cut off.

    not ready are                                            nodes a second that get the taint
    all nodes of all zones                                   none
    all nodes of the zone                                    node_eviction_rate: other zones show that the network works
    three of the zone or more, and the threshold's share     secondary_node_eviction_rate, in a small zone none
    fewer                                                    node_eviction_rate
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import msgspec

from mooring.api.core import Node
from mooring.api.nodes import TRUE, readiness
from mooring.base.clock import Instant
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.view import EXCLUDED, zone_of

UNWELL_MIN: Final = 3
"""Nodes that are not ready, below which no zone is disrupted in part."""


class Counted(msgspec.Struct, frozen=True):
    """The nodes of a zone, by the condition Ready."""

    ready: int
    unwell: int

    @property
    def size(self) -> int:
        return self.ready + self.unwell


class Limiter:
    """One token at a time."""

    def __init__(self, rate: float, free_at: Instant) -> None:
        #: Tokens a second, 0 for none.
        self.rate = rate
        #: When the next token is there.
        self._free_at = free_at

    def set_rate(self, rate: float, now: Instant) -> None:
        """Change the rate. A limiter that has no token at this moment gets the next one at the new rate."""
        if rate == self.rate:
            return
        is_free = self.wait_s(now) <= 0
        self.rate = rate
        self._free_at = now if is_free or rate <= 0 else now + 1 / rate

    def wait_s(self, now: Instant) -> float:
        """Seconds until the next token, infinite at rate 0."""
        return math.inf if self.rate <= 0 else max(0.0, self._free_at - now)

    def take(self, now: Instant) -> None:
        self._free_at = now + 1 / self.rate


class Shift(msgspec.Struct, frozen=True):
    """The consequences of changes at nodes."""

    #: The zones whose rate is another now.
    zones: tuple[str, ...] = ()
    #: From now on no node of any zone is ready.
    began: bool = False
    #: From now on some node of some zone is ready again.
    ended: bool = False


class Zones:
    """The zones: each change of a node is counted, and `refresh` judges them all."""

    def __init__(self, options: NodeHealthOptions) -> None:
        self._options = options
        #: Nodes by zone, and by whether they are ready.
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._limiters: dict[str, Limiter] = {}
        #: A count has changed since the last `refresh`.
        self._is_dirty = False
        #: No node of any zone is ready, by the last `refresh`.
        self.all_down = False

    def moved(self, old: Node | None, new: Node | None) -> None:
        """Count a node that came, changed or went."""
        before, after = _place(old), _place(new)
        if before == after:
            return
        if before is not None:
            self._counts[before] -= 1
        if after is not None:
            self._counts[after] += 1
        self._is_dirty = True

    def refresh(self, now: Instant) -> Shift:
        """Judge the zones anew, where a count has changed."""
        if not self._is_dirty:
            return Shift()
        self._is_dirty = False
        self._counts = +self._counts
        counted = {zone: self.count(zone) for zone in self.names}
        was_down, self.all_down = self.all_down, bool(counted) and not any(one.ready for one in counted.values())
        shifted = []
        for zone in sorted({*counted, *self._limiters}):  # a zone whose nodes do not count keeps its limiter, too
            rate, limiter = self._rate(self.count(zone)), self._limiters.get(zone)
            if limiter is None or limiter.rate != rate:
                shifted.append(zone)
            self._limiters[zone] = limiter or Limiter(rate, now)
            self._limiters[zone].set_rate(rate, now)
        return Shift(tuple(shifted), began=self.all_down and not was_down, ended=was_down and not self.all_down)

    def _rate(self, count: Counted) -> float:
        if self.all_down:
            return 0.0
        is_many = count.unwell >= UNWELL_MIN and count.unwell / count.size >= self._options.unhealthy_zone_threshold
        if not is_many or not count.ready:
            return self._options.node_eviction_rate
        is_large = count.size > self._options.large_cluster_size_threshold
        return self._options.secondary_node_eviction_rate if is_large else 0.0

    def count(self, zone: str) -> Counted:
        return Counted(self._counts[zone, True], self._counts[zone, False])

    @property
    def names(self) -> tuple[str, ...]:
        """The zones with nodes that count."""
        return tuple(sorted({zone for zone, _ in +self._counts}))

    def wait_s(self, zone: str, now: Instant) -> float:
        """Seconds until a node of the zone may get its taint, infinite where that depends on other nodes."""
        return self._limiter(zone, now).wait_s(now)

    def take(self, zone: str, now: Instant) -> None:
        """Take the zone's turn: a node of it gets its taint."""
        self._limiter(zone, now).take(now)

    def _limiter(self, zone: str, now: Instant) -> Limiter:
        """Return the zone's limiter; a zone whose nodes do not count has one of its own, too."""
        if zone not in self._limiters:
            self._limiters[zone] = Limiter(0.0 if self.all_down else self._options.node_eviction_rate, now)
        return self._limiters[zone]


def _place(node: Node | None) -> tuple[str, bool] | None:
    """The zone that the node counts in, and whether it is ready; None where it does not count."""
    if node is None or EXCLUDED in (node.metadata.labels or {}):
        return None
    return zone_of(node), readiness(node) == TRUE
