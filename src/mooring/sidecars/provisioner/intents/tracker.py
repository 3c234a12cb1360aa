"""The records of claims, and in them the states of intents: which are open, and for which an earlier call may have made a volume.

A call that ended unknown may have made the volume, whatever error the next one ends with: ResourceExhausted, say, means that no volume can
be made now, InvalidArgument that the Secret was changed, AlreadyExists that there is a volume. To users and to the claim such an error is
final, as in external-provisioner; but the intent is kept, and when the claim is deleted, or has its volume, the call is repeated until the
driver reports what it has made. An intent that was found has been unknown since its former process died.

Where the claim has changed several times meanwhile, each request that ended unknown counts for itself: that the driver refuses one of
them, or makes a volume for another one, says nothing about the rest. Names may be unique in a zone alone, so there may be a second volume
of the name. They are stored with the next one: a new process knows them, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.control.topics import Bus, Topic
from mooring.kube.errors import ApiError, Conflict
from mooring.sidecars.provisioner.intents.journal import Intents
from mooring.sidecars.provisioner.intents.states import NEXT, IntentEvent, IntentState
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import Source
from mooring.sidecars.provisioner.model.intent import STILL_OPEN, Intent
from mooring.sidecars.provisioner.model.orders import Order, is_same_call
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed, Failure, State
from mooring.sidecars.provisioner.model.volumes import Json

log = logger(__name__)

UNKNOWN_MAX: Final = 8
"""Unknown requests of one claim; the oldest is given up."""


class PendingVolume(msgspec.Struct, frozen=True):
    """A volume that exists. volume_id: the driver's name for it. began: when its attempt did.

    others: the PersistentVolumes that named the volume when the driver answered; with one that goes, it may go, too.
    """

    order: Order
    volume_id: str
    body: Json
    began: Instant
    others: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        return self.order.intent.uid

    @property
    def name(self) -> str:
        return self.order.intent.volume_name


class Rest(msgspec.Struct, frozen=True):
    """A claim that the driver, or the API server, can't serve as it is. fingerprint: a change of it ends the rest; None when it is gone.

    heals: the topics after which it is reconciled at once.
    """

    until: Instant
    fingerprint: object
    error: str
    heals: frozenset[Topic] = frozenset()


class ClaimRecord(msgspec.Struct):
    """state, since, unknown: of its intent, since when it is known here, and the requests whose calls ended unknown, the one first that
    is asked for next once nobody waits.

    orphaned_at: from then on the secret of an intent whose claim is gone is not expected back. pending: until its PersistentVolume is
    stored. source: held for it. is_asking: a call for it may be in flight. rest, looks: of its last failure, and the number of reconciles
    since. reschedules: other nodes asked for in a row.
    """

    state: IntentState = IntentState.ENDED
    since: Instant = 0.0
    unknown: list[Intent] = msgspec.field(default_factory=list)
    orphaned_at: Instant | None = None
    pending: PendingVolume | None = None
    source: Source | None = None
    is_asking: bool = False
    rest: Rest | None = None
    looks: int = 0
    reschedules: int = 0

    @property
    def is_open(self) -> bool:
        """True while an intent is open: a volume may exist that no PersistentVolume shows."""
        return self.state is not IntentState.ENDED

    @property
    def is_unresolved(self) -> bool:
        """True while an intent is open only because an earlier call may have made a volume."""
        return self.state is IntentState.UNRESOLVED

    @property
    def is_idle(self) -> bool:
        """True when there is nothing to remember."""
        waits = self.pending is not None or self.source is not None or self.rest is not None or self.reschedules > 0
        return not (self.is_open or waits or self.orphaned_at is not None)


_IDLE: Final = ClaimRecord()


class ClaimRecords:
    """The records of all claims that there is anything to remember of. Nobody holds one over an await."""

    def __init__(self) -> None:
        self._records: dict[str, ClaimRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ClaimRecord]:
        return iter(self._records.values())

    def get(self, uid: str) -> ClaimRecord:
        """For reading alone: where there is none, an idle one that all share."""
        return self._records.get(uid, _IDLE)

    def of(self, uid: str) -> ClaimRecord:
        """For writing."""
        record = self._records.get(uid)
        if record is None:
            record = self._records[uid] = ClaimRecord()
        return record

    def forget(self, uid: str) -> None:
        """The claim is gone, or has its volume: only the intent of a volume that may exist, and the source held for it, stay."""
        record = self._records.get(uid)
        if record is not None:
            record.rest, record.reschedules = None, 0
            if not record.is_open:
                record.orphaned_at = None
            self.tidy(uid)

    def tidy(self, uid: str) -> None:
        """Drops a record once it is idle."""
        record = self._records.get(uid)
        if record is not None and record.is_idle:
            del self._records[uid]


class IntentTracker:
    """records: hold the states. bus: is told of each intent that is closed."""

    def __init__(self, intents: Intents, records: ClaimRecords, clock: Clock, bus: Bus) -> None:
        self._intents, self._records, self._clock, self._bus = intents, records, clock, bus
        self._uid_of: dict[str, str] = {}

    def __contains__(self, uid: str) -> bool:
        return self._records.get(uid).is_open

    @property
    def count(self) -> int:
        """The number of open intents."""
        return len(self._known_since())

    @property
    def oldest_s(self) -> float:
        """For how long the oldest one is known here, 0 without any."""
        return self._clock.now() - min(self._known_since(), default=self._clock.now())

    def _known_since(self) -> list[Instant]:
        return [record.since for record in self._records if record.is_open]

    def _happened(self, uid: str, event: IntentEvent) -> None:
        record = self._records.of(uid)
        after = NEXT[record.state, event]
        assert after is not None, f"an intent that is {record.state.value}: {event.value}"
        if not record.is_open:
            record.since = self._clock.now()
        record.state = after

    def found(self, intents: Mapping[str, Intent]) -> None:
        """An earlier process, or another one, has left these open."""
        for uid, intent in intents.items():
            for former in intent.unknown_requests:
                self._add_unknown(msgspec.structs.replace(former, unattended=intent.unattended))
            self._add_unknown(intent)
            self._happened(uid, IntentEvent.FOUND)
            self._uid_of.setdefault(intent.volume_name, uid)

    async def begin(self, intent: Intent) -> None:
        """As of Intents. Raises ApiError; AttemptFailed while another open intent has the volume's name: names cut short can meet."""
        if self._uid_of.setdefault(intent.volume_name, intent.uid) != intent.uid:
            error = f'a volume "{intent.volume_name}" is being made for another claim: the names of volumes are cut too short'
            raise AttemptFailed(Failure(error, State.FINISHED))
        try:
            await self._write(intent)
        except ApiError:
            if intent.uid not in self:
                del self._uid_of[intent.volume_name]
            raise
        self._happened(intent.uid, IntentEvent.BEGUN)

    def mark_made(self, volume: PendingVolume) -> None:
        """The volume exists; its PersistentVolume is still to be stored."""
        self._happened(volume.uid, IntentEvent.MADE)
        self._records.of(volume.uid).pending = volume

    def mark_unknown(self, intent: Intent) -> None:
        """A call for it has ended unknown."""
        self._add_unknown(intent)
        self._happened(intent.uid, IntentEvent.LOST)

    def _add_unknown(self, intent: Intent) -> None:
        unknown = self._records.of(intent.uid).unknown
        if not _is_among(unknown, intent):
            unknown.append(msgspec.structs.replace(intent, unknown_requests=()))
        if len(unknown) > UNKNOWN_MAX:
            log.error(
                "so many requests of one claim ended unknown that the oldest is given up",
                PersistentVolume=unknown.pop(0).volume_name,
            )

    async def refuse(self, uid: str, *, proves_absent: bool) -> None:
        """The driver has refused the open intent. It is kept while a request is unknown that was made before."""
        intent = self._intents.open().get(uid)
        unknown = (
            [] if intent is None else still_unknown(self._records.get(uid).unknown, intent, proves_absent=proves_absent)
        )
        if intent is None or not unknown:
            await self.close(uid, IntentEvent.RULED_OUT)
            return
        self._keep(uid, sorted(unknown, key=lambda one: is_same_call(one, intent)))  # the others are asked for first
        if not _is_among(unknown, intent):
            await self._write_again(unknown[-1])

    async def store(self, uid: str, handle: str) -> None:
        """The PersistentVolume is stored, with this handle. The volumes that other requests may have made become second volumes."""
        intent = self._intents.open().get(uid)
        unknown = [] if intent is None else still_unknown(self._records.get(uid).unknown, intent, proves_absent=True)
        if intent is None or not unknown:
            await self.close(uid, IntentEvent.STORED)
            return
        self._keep(uid, [msgspec.structs.replace(one, stored_handle=handle) for one in unknown])
        await self._write_again(self._records.get(uid).unknown[-1])
        self._bus.tell(topics.INTENT_CLOSED, intent.volume_name)

    async def wait_for_end(self, uid: str) -> None:
        """As of Intents. While a second volume is asked for, the claim's own is not deleted: the driver could make that one again."""
        record, intent = self._records.get(uid), self._intents.open().get(uid)
        if record.is_asking:
            raise Conflict(STILL_OPEN)
        if (
            record.is_unresolved
            and intent is not None
            and intent.stored_handle is None
            and record.unknown[-1].stored_handle
        ):
            await self._write(record.unknown[-1])  # `store` could not write it down
        await self._intents.wait_for_end(uid)

    async def forget_stored(self, uid: str) -> None:
        """The volume that the claim had is deleted: one of its handle would be another one. Raises ApiError."""
        intent = self._intents.open().get(uid)
        if intent is not None and intent.stored_handle:
            unknown = [msgspec.structs.replace(one, stored_handle="") for one in self._records.get(uid).unknown]
            self._records.of(uid).unknown = unknown
            await self._write(msgspec.structs.replace(intent, stored_handle=""))

    async def condemn(self, intent: Intent, handle: str) -> None:
        """The volume that it has made is about to be deleted, and is not asked for any more. Raises ApiError."""
        await self._write(msgspec.structs.replace(intent, dying_handle=handle))

    def _keep(self, uid: str, unknown: list[Intent]) -> None:
        self._records.of(uid).unknown = unknown
        self._happened(uid, IntentEvent.KEPT)

    async def _write_again(self, intent: Intent) -> None:
        try:
            await self._write(intent)
        except ApiError as error:
            log.error(
                "could not write down again what may have been made", error=error, PersistentVolume=intent.volume_name
            )

    async def close(self, uid: str, event: IntentEvent) -> None:
        """As end of Intents. event: STORED, or RULED_OUT."""
        self._happened(uid, event)
        record = self._records.of(uid)
        record.unknown, record.orphaned_at = [], None
        self._records.tidy(uid)
        intent = self._intents.open().get(uid)
        if intent is not None and self._uid_of.get(intent.volume_name) == uid:
            del self._uid_of[intent.volume_name]
        await self._intents.end(uid)
        if intent is not None:
            self._bus.tell(topics.INTENT_CLOSED, intent.volume_name)

    async def _write(self, intent: Intent) -> None:
        """With the former requests, so that a new process knows them. Raises ApiError."""
        others = (one for one in self._records.get(intent.uid).unknown if not is_same_call(one, intent))
        await self._intents.begin(msgspec.structs.replace(intent, unknown_requests=tuple(others)))


def still_unknown(unknown: list[Intent], answered: Intent, *, proves_absent: bool) -> list[Intent]:
    """The requests that may have made a volume, after the driver has answered one. proves_absent: as of a failure."""
    return [one for one in unknown if not is_same_call(one, answered)] if proves_absent else unknown


def _is_among(unknown: list[Intent], intent: Intent) -> bool:
    return any(is_same_call(one, intent) for one in unknown)


class IntentMetrics:
    """Counts volumes that may exist without a PersistentVolume. external-provisioner has no such metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "mooring_provisioner_intents"
        self._open = Gauge(f"{prefix}_open", "Volumes that are being made, or may have been.", registry=registry)
        self._oldest = Gauge(f"{prefix}_oldest_seconds", "How long the oldest of them is known.", registry=registry)

    @contextlib.contextmanager
    def shown(self, tracker: IntentTracker) -> Iterator[None]:
        """Shows the figures in the block: a process that no longer leads does not know which intents are open."""
        self._open.set_function(lambda: tracker.count)
        self._oldest.set_function(lambda: tracker.oldest_s)
        try:
            yield
        finally:
            self._open.set_function(lambda: 0)
            self._oldest.set_function(lambda: 0)
