"""The Lease as a candidate handles it: reading and writing it whole, and remembering what was seen.

Only GET, POST and PUT (and a watch): the usual Role grants no patch on leases. Whole objects, so that what others put
there stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from mooring.api.coordination import LEASES
from mooring.api.core import ObjectReference
from mooring.base.clock import Clock, Instant
from mooring.control.lease.record import Candidate, LeaseRecord, Sighting, record_of, sighted
from mooring.control.lease.roles import VACANT, Observed, observed
from mooring.kube.cluster import Cluster, Selection, compare_versions
from mooring.kube.errors import NotFound

WholeLease = dict[str, Any]
OnLook = Callable[[str, bool], None]


def _unheard(version: str, is_vacant: bool) -> None: ...


class LeaseLock:
    """last: the answer of our last write, None when the next write has to read first. renewed_at: when that write was
    sent.

    on_look: called at each look with the version of the Lease, "" for none, and whether nobody else holds it.
    """

    def __init__(self, cluster: Cluster, candidate: Candidate, clock: Clock) -> None:
        self._cluster = cluster
        self._me = candidate
        self._clock = clock
        self._kind = LEASES.whole()
        self._sighting: Sighting | None = None
        self.version = ""  # the Lease's, as last seen
        self.last: WholeLease | None = None
        self.renewed_at: Instant = 0.0
        self.on_look: OnLook = _unheard

    async def read(self) -> WholeLease | None:
        """Read the whole Lease, None when there is none. Raises ApiError."""
        try:
            lease = await self._cluster.get(self._kind, self._me.lock_name, self._me.namespace)
        except NotFound:
            return None
        self._note(lease)
        return lease

    async def write(self, lease: WholeLease | None) -> None:
        """Writes our name over the Lease as read, creates one for None. It is ours from before the request was sent.
        Raises ApiError.
        """
        sent = self._clock.now()
        body = self._me.holding(lease, self._clock.wall_s())
        if lease is None:
            answer = await self._cluster.create(self._kind, body, self._me.namespace)
        else:
            answer = await self._cluster.replace(self._kind, body, self._me.namespace)
        self.last, self.renewed_at = answer, sent
        self._note(answer)

    async def give_back(self, lease: WholeLease) -> None:
        """Raises ApiError."""
        await self._cluster.replace(self._kind, self._me.released(lease, self._clock.wall_s()), self._me.namespace)

    async def changes(self, timeout_s: float) -> AsyncGenerator[LeaseRecord, None]:
        """The content of the Lease at each change, from the version last read. Raises ApiError. Close it with
        `contextlib.aclosing`.
        """
        selection = Selection(self._me.namespace, field_selector=f"metadata.name={self._me.lock_name}")
        watch = self._cluster.watch(self._kind, selection, resource_version=self.version, timeout_s=timeout_s)
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                if event.object is not None and compare_versions(event.resource_version, self.version) > 0:
                    self._note(event.object)
                    yield record_of(event.object)

    def observed(self, lease: WholeLease | None) -> Observed:
        """The situation that a Lease, as just read, shows."""
        record = None if lease is None else record_of(lease)
        what = observed(record, self._sighting, self._me.identity, self._me.times.lease_s, self._clock.now())
        self.on_look("" if lease is None else self.version, what in VACANT)
        return what

    def look_again(self) -> bool:
        """True when nobody holds the Lease by now, as it was last seen."""
        if self.left_s() > 0.0:
            return False
        self.on_look(self.version, True)
        return True

    def left_s(self) -> float:
        """Seconds until the known holder's Lease runs out, 0 when it has, or without a holder."""
        if self._sighting is None or not self._sighting.record.holder:
            return 0.0
        return max(0.0, self._sighting.expires_at(self._me.times.lease_s) - self._clock.now())

    def reference(self) -> ObjectReference:
        """The Lease as the object of an event."""
        metadata = _mapping((self.last or {}).get("metadata"))
        uid, version = (_text(metadata.get(name)) for name in ("uid", "resourceVersion"))
        return ObjectReference(
            api_version=LEASES.api_version,
            kind=LEASES.name,
            namespace=self._me.namespace,
            name=self._me.lock_name,
            uid=uid,
            resource_version=version,
        )

    def _note(self, lease: WholeLease) -> None:
        self.version = _text(_mapping(lease.get("metadata")).get("resourceVersion"))
        self._sighting = sighted(self._sighting, record_of(lease), self._clock.now())


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
