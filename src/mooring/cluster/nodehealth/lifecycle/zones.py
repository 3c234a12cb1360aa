"""The health of each zone, and how many of its nodes may get a NoExecute taint. Pure.

Where many nodes seem to be dead it is rather the network: then evictions are slow, or stop. Where all nodes of all zones seem to be
dead it is most likely this process that hears nothing.
"""

from __future__ import annotations

import enum
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


class ZoneState(enum.Enum):
    NORMAL = "normal"
    PARTIAL_DISRUPTION = "partial disruption"
    FULL_DISRUPTION = "full disruption"


class Counted(msgspec.Struct, frozen=True):
    """The nodes of a zone."""

    ready: int
    unwell: int

    def state(self, threshold: float) -> ZoneState:
        if self.unwell and not self.ready:
            return ZoneState.FULL_DISRUPTION
        if self.unwell >= UNWELL_MIN and self.unwell / (self.unwell + self.ready) >= threshold:
            return ZoneState.PARTIAL_DISRUPTION
        return ZoneState.NORMAL


class Limiter:
    """One token at a time. rate: tokens a second, 0 for none."""

    def __init__(self, rate: float, free_at: Instant) -> None:
        self.rate, self._free_at = rate, free_at

    def set_rate(self, rate: float, now: Instant) -> None:
        """A limiter that had no token at this moment has none at the new rate either, as yet."""
        if rate == self.rate:
            return
        is_free = self.wait_s(now) <= 0
        self.rate = rate
        self._free_at = now if is_free or rate <= 0 else now + 1 / rate

    def wait_s(self, now: Instant) -> float:
        """Until the next token, infinite at rate 0."""
        return math.inf if self.rate <= 0 else max(0.0, self._free_at - now)

    def take(self, now: Instant) -> None:
        self._free_at = now + 1 / self.rate


class Shift(msgspec.Struct, frozen=True):
    """zones: whose rate is another now. began, ended: of the state that no node of any zone is ready."""

    zones: tuple[str, ...] = ()
    began: bool = False
    ended: bool = False


class Zones:
    """Counted by change, judged by `refresh`."""

    def __init__(self, options: NodeHealthOptions) -> None:
        self._options = options
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._limiters: dict[str, Limiter] = {}
        self._is_dirty = False
        self.all_down = False

    def moved(self, old: Node | None, new: Node | None) -> None:
        """A node came, changed or went."""
        before, after = _place(old), _place(new)
        if before == after:
            return
        if before is not None:
            self._counts[before] -= 1
        if after is not None:
            self._counts[after] += 1
        self._is_dirty = True

    def refresh(self, now: Instant) -> Shift:
        """Judges anew what was counted since."""
        if not self._is_dirty:
            return Shift()
        self._is_dirty = False
        self._counts = +self._counts
        counted = {zone: self.count(zone) for zone, _ in self._counts}
        states = {zone: count.state(self._options.unhealthy_zone_threshold) for zone, count in counted.items()}
        was_down, self.all_down = (
            self.all_down,
            bool(states) and all(one is ZoneState.FULL_DISRUPTION for one in states.values()),
        )
        shifted = tuple(
            zone for zone in sorted(counted) if self._set_rate(zone, self._rate(counted[zone], states[zone]), now)
        )
        for zone in self._limiters.keys() - counted.keys():
            del self._limiters[zone]
        return Shift(shifted, began=self.all_down and not was_down, ended=was_down and not self.all_down)

    def count(self, zone: str) -> Counted:
        return Counted(self._counts[zone, True], self._counts[zone, False])

    @property
    def names(self) -> tuple[str, ...]:
        """The zones with nodes that count."""
        return tuple(sorted({zone for zone, _ in +self._counts}))

    def wait_s(self, zone: str, now: Instant) -> float:
        """Until a node of the zone may get its taint, infinite where that depends on other nodes."""
        return self._limiter(zone, now).wait_s(now)

    def take(self, zone: str, now: Instant) -> None:
        """A node of the zone gets its taint."""
        self._limiter(zone, now).take(now)

    def _limiter(self, zone: str, now: Instant) -> Limiter:
        if zone not in self._limiters:
            self._limiters[zone] = Limiter(0.0 if self.all_down else self._options.node_eviction_rate, now)
        return self._limiters[zone]

    def _set_rate(self, zone: str, rate: float, now: Instant) -> bool:
        limiter = self._limiters.get(zone)
        if limiter is None:
            self._limiters[zone] = Limiter(rate, now)
            return True
        before = limiter.rate
        limiter.set_rate(rate, now)
        return before != rate

    def _rate(self, count: Counted, state: ZoneState) -> float:
        if self.all_down:
            return 0.0
        if state is not ZoneState.PARTIAL_DISRUPTION:
            return self._options.node_eviction_rate
        is_large = count.ready + count.unwell > self._options.large_cluster_size_threshold
        return self._options.secondary_node_eviction_rate if is_large else 0.0


def _place(node: Node | None) -> tuple[str, bool] | None:
    """The zone that the node counts in, and whether it is ready; None where it does not count."""
    if node is None or EXCLUDED in (node.metadata.labels or {}):
        return None
    return zone_of(node), readiness(node) == TRUE
