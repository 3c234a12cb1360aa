"""The memory of a claim, by its uid: one record, dropped as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from mooring.base.clock import Instant
from mooring.control.topics import Topic
from mooring.sidecars.provisioner.intents.states import IntentState
from mooring.sidecars.provisioner.model.cached import Source
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.volumes import Json


@dataclasses.dataclass(frozen=True, slots=True)
class PendingVolume:
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


@dataclasses.dataclass(frozen=True, slots=True)
class Rest:
    """A claim that the driver, or the API server, can't serve as it is. fingerprint: a change of it ends the rest; None when it is gone.

    heals: the topics after which it is reconciled at once.
    """

    until: Instant
    fingerprint: object
    error: str
    heals: frozenset[Topic] = frozenset()


@dataclasses.dataclass(slots=True)
class ClaimRecord:
    """state, since, unknown: of its intent, since when it is known here, and the requests whose calls ended unknown, the one first that
    is asked for next once nobody waits.

    orphaned_at: from then on the secret of an intent whose claim is gone is not expected back. pending: until its PersistentVolume is
    stored. source: held for it. is_asking: a call for it may be in flight. rest, looks: of its last failure, and the number of reconciles
    since. reschedules: other nodes asked for in a row.
    """

    state: IntentState = IntentState.ENDED
    since: Instant = 0.0
    unknown: list[Intent] = dataclasses.field(default_factory=list)
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
