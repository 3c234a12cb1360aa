"""The open intents of all claims, and what else is remembered of claims.

The tracker has the truth of this process; the journal is written before the driver is called (`begin`, `condemn`), with
the claim's own volume (`mark_stored`), and before that may go (`wait_for_end`, `forget_stored`). Whatever else happens
to an intent need not be written: the next process takes it for unknown, and asks the driver again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.control.result import Retry
from mooring.control.topics import Bus, Topic
from mooring.kube.errors import ApiError, Conflict
from mooring.sidecars.provisioner.intents.journal import Intents
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import Source
from mooring.sidecars.provisioner.model.intent import (
    STILL_OPEN,
    ClaimIntents,
    Intent,
    IntentEvent,
    OwnVolume,
    entry_after,
)
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.volumes import Json

log = logger(__name__)


class PendingVolume(msgspec.Struct, frozen=True):
    """A volume that exists, and whose PersistentVolume is still to be stored."""

    order: Order
    #: The driver's name for the volume.
    volume_id: str
    #: The PersistentVolume.
    body: Json
    #: When its attempt began, on the clock.
    began: Instant
    #: The PersistentVolumes that named the volume when the driver answered; with the last that goes, it may go, too.
    others: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        return self.order.intent.uid

    @property
    def name(self) -> str:
        return self.order.intent.volume_name


class Rest(msgspec.Struct, frozen=True):
    """The rest of a claim that the driver, or the API server, can't serve as it is."""

    until: Instant
    #: A change of it ends the rest; None when the claim is gone.
    fingerprint: object
    error: str
    #: The topics after which the claim is reconciled at once.
    heals: frozenset[Topic] = frozenset()


class ClaimRecord(msgspec.Struct):
    """The memory of one claim, beside its intents."""

    #: From then on the secret of an intent whose claim is gone is not expected back.
    orphaned_at: Instant | None = None
    #: Its volume, until the PersistentVolume is stored.
    pending: PendingVolume | None = None
    #: The source that is held for it.
    source: Source | None = None
    #: The consequence of its last failure, where that is to rest.
    rest: Rest | None = None
    #: The number of reconciles since the last failure.
    looks: int = 0
    #: How many times in a row the scheduler was asked for another node.
    reschedules: int = 0

    @property
    def is_idle(self) -> bool:
        """True when there is nothing to remember."""
        waits = self.pending is not None or self.source is not None or self.rest is not None or self.reschedules > 0
        return not (waits or self.orphaned_at is not None)


_IDLE: Final = ClaimRecord()


class ClaimRecords:
    """The records of all claims that there is anything to remember of. Nobody holds one over an await."""

    def __init__(self) -> None:
        self._records: dict[str, ClaimRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, uid: str) -> ClaimRecord:
        """For reading alone: where there is none, an idle one that all share."""
        return self._records.get(uid, _IDLE)

    def of(self, uid: str) -> ClaimRecord:
        """For writing."""
        record = self._records.get(uid)
        if record is None:
            record = self._records[uid] = ClaimRecord()
        return record

    def forget(self, uid: str, *, is_open: bool) -> None:
        """The claim is gone, or has its volume: only what concerns a volume that may exist, and its source, stay.
        is_open: one of its intents is.
        """
        record = self._records.get(uid)
        if record is not None:
            record.rest, record.reschedules = None, 0
            if not is_open:
                record.orphaned_at = None
            self.tidy(uid)

    def end_rests(self, topic: Topic) -> None:
        """Whatever the topic heals is tried again at once."""
        for uid, record in list(self._records.items()):
            if record.rest is not None and topic in record.rest.heals:
                record.rest = None
                self.tidy(uid)

    def tidy(self, uid: str) -> None:
        """Drops a record once it is idle."""
        record = self._records.get(uid)
        if record is not None and record.is_idle:
            del self._records[uid]


class IntentTracker:
    """All open intents of this process. bus: is told of each claim whose own volume is settled."""

    def __init__(self, intents: Intents, records: ClaimRecords, clock: Clock, bus: Bus) -> None:
        self._intents, self._records, self._clock, self._bus = intents, records, clock, bus
        #: By the claim's uid, live.
        self.open: dict[str, ClaimIntents] = {}
        self._since: dict[str, Instant] = {}  # when the first intent of the claim was known here, unless it is put off
        self._uid_of: dict[str, str] = {}  # by the volume's name

    def __contains__(self, uid: str) -> bool:
        return uid in self.open

    @property
    def count(self) -> int:
        """The number of claims with open intents."""
        return len(self.open)

    @property
    def oldest_s(self) -> float:
        """For how long the oldest one is known here, 0 without any."""
        return self._clock.now() - min(self._since.values(), default=self._clock.now())

    def is_name_taken(self, intent: Intent) -> bool:
        """True while a volume of this name is being made for another claim: names cut short can meet."""
        return self._uid_of.get(intent.volume_name, intent.uid) != intent.uid

    def found(self, entries: Mapping[str, ClaimIntents]) -> None:
        """Another process has left these."""
        for entry in entries.values():
            self._show(entry)

    # -- before a call

    async def begin(self, order: Order) -> None:
        """CreateVolume is about to be called. Raises ApiError, TooLarge where one more request of the claim does not
        fit into its entry of the journal: none that may have made a volume is dropped for it.
        """
        entry = self._after(order.intent, IntentEvent.BEGUN)
        assert entry is not None, "it has just been begun"
        await self._write(msgspec.structs.replace(entry, own=order.own))

    async def condemn(self, intent: Intent, handle: str) -> None:
        """DeleteVolume is about to be called for the volume that it has made. Raises ApiError."""
        entry = self._after(msgspec.structs.replace(intent, dying_handle=handle), IntentEvent.DOOMED)
        assert entry is not None, "it has just been condemned"
        await self._write(entry)

    # -- after a call

    def mark_made(self, volume: PendingVolume) -> None:
        """The volume exists; its PersistentVolume is still to be stored."""
        self._show(self._after(volume.order.intent, IntentEvent.MADE))
        self._records.of(volume.uid).pending = volume

    def mark_unknown(self, intent: Intent) -> None:
        """A call for it has ended unknown."""
        self._show(self._after(intent, IntentEvent.LOST))

    async def refuse(self, intent: Intent, *, proves_absent: bool = False) -> None:
        """The driver has refused the call. proves_absent: as `Failure.proves_absent`."""
        entry = self._after(intent, IntentEvent.ABSENT if proves_absent else IntentEvent.REFUSED)
        if entry is None:
            await self._close(intent)
        else:
            self._show(entry)

    async def mark_stored(self, intent: Intent) -> None:
        """The PersistentVolume is stored. Raises Retry where that can't be written; then the request is open as before.

        Where others are open the next process has to know of it: it asks for none of them beside the claim's volume.
        """
        entry = self._after(intent, IntentEvent.STORED)
        if entry is None:
            await self._close(intent)
            return
        entry = msgspec.structs.replace(entry, own=OwnVolume.STORED)
        try:
            await self._intents.write(entry)
        except ApiError as error:
            raise Retry(f"could not write down that the volume's creation is over: {error}") from error
        self._show(entry)
        self._bus.tell(topics.INTENT_CLOSED, intent.volume_name)

    async def _close(self, intent: Intent) -> None:
        uid = intent.uid
        entry = self.open.pop(uid, None)
        if entry is None:
            return
        for name in {one.volume_name for one in (*entry.requests, intent)}:
            if self._uid_of.get(name) == uid:
                del self._uid_of[name]
        self._since.pop(uid, None)
        self._records.of(uid).orphaned_at = None
        self._records.tidy(uid)
        await self._intents.end(uid)
        self._bus.tell(topics.INTENT_CLOSED, entry.volume_name)

    # -- the claim's own volume

    async def wait_for_end(self, uid: str) -> None:
        """Implements `IntentEnds.wait_for_end`."""
        await self._intents.ready()  # before that the intents of a former process are not known
        entry = self.open.get(uid)
        if entry is not None and not entry.is_put_off:
            raise Conflict(STILL_OPEN)
        if entry is None:
            await self._intents.wait_for_end(uid)
        else:
            await self._intents.write(entry)

    async def forget_stored(self, uid: str) -> None:
        """Implements `IntentEnds.forget_stored`."""
        entry = self.open.get(uid)
        if entry is not None and entry.own is OwnVolume.STORED:
            await self._write(msgspec.structs.replace(entry, own=OwnVolume.DELETED))

    def _after(self, intent: Intent, event: IntentEvent) -> ClaimIntents | None:
        return entry_after(self.open.get(intent.uid), intent, event)

    def _show(self, entry: ClaimIntents | None) -> None:
        assert entry is not None, "an intent is open after this"
        self.open[entry.uid] = entry
        if entry.is_put_off and entry.own is OwnVolume.STORED:
            self._since.pop(entry.uid, None)  # it waits for its user, for months perhaps, and nothing is amiss
        else:
            self._since.setdefault(entry.uid, self._clock.now())
        self._uid_of.setdefault(entry.volume_name, entry.uid)

    async def _write(self, entry: ClaimIntents) -> None:
        """The name is taken from now on, before the answer (`is_name_taken`). Raises ApiError; then it is as before."""
        before = self.open.get(entry.uid)
        self._show(entry)
        try:
            await self._intents.write(entry)
        except ApiError:
            if self.open.get(entry.uid) is not entry:  # another process's was found
                pass
            elif before is None:
                await self._close(entry.last)
            else:
                self._show(before)
            raise


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
