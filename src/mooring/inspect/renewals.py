"""Which Leases somebody renews. Watched, and measured by our own clock: the times in a Lease are other machines' times.

renewals = Renewals(cluster, clock, {"external-attacher-leader-csi-example-com"})
seen = await renewals.look()       # takes up to the Leases' duration the first time, and compares from then on
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from mooring.api.coordination import LEASES
from mooring.api.meta import Key
from mooring.base.clock import Clock
from mooring.base.units import format_duration
from mooring.control.lease.record import LeaseRecord, LeaseTimes, record_of
from mooring.inspect.traces import LiveLease
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.list_all import list_all

LEASE_S_MAX: Final = 120.0
"""A Lease that holds for longer counts as held: nobody waits for its end."""
LOOKS_EVERY_S: Final = 2.0
"""How often the watched Leases are read: the watch ends early once each was renewed."""


class LeaseSight(msgspec.Struct, frozen=True):
    """live: held, and renewed while they were watched. silent: those that nobody renews or holds, by their keys. last:
    when each was renewed for the last time, as it says itself.
    """

    live: tuple[LiveLease, ...] = ()
    silent: tuple[str, ...] = ()
    last: Mapping[str, str] = msgspec.field(default_factory=dict)


class Renewals:
    """Looks at the Leases of these names, in one namespace or, for None, in all. watching: is told how long the first
    look may take.

    also_unheld: a Lease without a holder may be renewed, too. longest_s: one that holds for longer counts as held.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        names: Collection[str],
        watching: Callable[[str], None] = lambda text: None,
        namespace: str | None = None,
        *,
        also_unheld: bool = False,
        longest_s: float = LEASE_S_MAX,
    ) -> None:
        self._cluster, self._clock, self._names, self._watching = cluster, clock, names, watching
        self._namespace, self._also_unheld, self._longest_s = namespace, also_unheld, longest_s
        self._dead: Mapping[str, LeaseRecord] | None = (
            None  # as they were at the first look: still so, they have run out
        )

    async def look(self) -> LeaseSight:
        """Raises ApiError."""
        found = await self._read()
        if self._dead is None:
            self._dead = {
                name: record
                for name, record in found.items()
                if self._counts(record) and record.duration_s <= self._longest_s
            }
            if self._dead:
                found = await self._watched(self._dead)
        dead = self._dead
        live = {name: record for name, record in found.items() if self._counts(record) and dead.get(name) != record}
        last = {name: record.renewed for name, record in found.items()}
        return LeaseSight(
            tuple(self._live(*one) for one in sorted(live.items())), tuple(sorted(found.keys() - live.keys())), last
        )

    def _counts(self, record: LeaseRecord) -> bool:
        return bool(record.holder) or self._also_unheld

    def _live(self, name: str, record: LeaseRecord) -> LiveLease:
        too_long = record.duration_s > self._longest_s
        why = (
            f"it holds for {format_duration(record.duration_s)}, which nobody waited for"
            if too_long
            else "it was renewed a moment ago"
        )
        return LiveLease(name, record.holder, why, is_watched=not too_long)

    async def _watched(self, held: Mapping[str, LeaseRecord]) -> dict[str, LeaseRecord]:
        """The Leases, once those that were held have run out, or each was renewed."""
        wait_s = max(record.duration_s or LeaseTimes().lease_s for record in held.values())
        self._watching(f"looking for {format_duration(wait_s)} whether {', '.join(sorted(held))} is still renewed")
        until, found = self._clock.now() + wait_s, dict(held)
        while (left_s := until - self._clock.now()) > 0:
            await self._clock.sleep(min(left_s, LOOKS_EVERY_S))
            found = await self._read()
            if all(found.get(name) != record for name, record in held.items()):
                break
        return found

    async def _read(self) -> dict[str, LeaseRecord]:
        selections = [
            Selection(namespace=self._namespace, field_selector=f"metadata.name={name}") for name in sorted(self._names)
        ]
        found = [lease for one in selections async for lease in list_all(self._cluster, LEASES.whole(), one)]
        return {_key_of(lease): record_of(lease) for lease in found}


def _key_of(lease: Mapping[str, Any]) -> str:
    return str(Key(lease["metadata"].get("namespace", ""), lease["metadata"]["name"]))
