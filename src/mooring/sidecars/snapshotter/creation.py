"""The creation of a snapshot, or of a group, as a state machine; and the memory about contents. Pure.

CreateSnapshot may take effect although nobody hears its answer. So the content is marked before the first request
(annotation `volumesnapshot-being-created`), and the mark goes once the outcome is known: a marked content without a
handle must not vanish, or its snapshot stays on the storage for ever. The mark is all that survives a restart, and it
says little: the snapshot controller sets it, too, when it makes the content, before anybody has asked. `State` is what
this process knows beyond it; of a content about which it knows nothing, a former process may have asked.

    event             NEVER     FIRST          PERHAPS          DELETED
    MARKED            NEVER     NEVER          NEVER            NEVER
    SENT              FIRST     PERHAPS        PERHAPS          PERHAPS
    UNREACHED         NEVER     NEVER          PERHAPS          PERHAPS
    UNCLEAR           PERHAPS   PERHAPS        PERHAPS          PERHAPS
    REFUSED           PERHAPS   NEVER nothing  PERHAPS          PERHAPS
    REFUSED_TOO_LONG  PERHAPS   NEVER nothing  NEVER given up   PERHAPS
    ANSWERED          PERHAPS made, in each state
    DELETED           DELETED, in each state

Drivers judge a request before they look up its name: so a refusal says nothing of a request before it. Differs from
csi-snapshotter, which takes each refusal for good, and leaves snapshots behind.

An answer finds NEVER or DELETED only where the record was lost during the call: then nobody knows which call it was.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.base.clock import Instant
from mooring.csi.errors import DriverError

RECORDS_MAX: Final = 50_000

GIVE_UP_S: Final = 3600.0
"""How long a content in deletion waits for a driver that refuses to say what became of an earlier request: somebody may
bring back the volume, the class or the Secret. It counts from the deletion, which a restart does not move.
"""

SECRET_GRACE_S: Final = 120.0
"""How long a deletion waits for a Secret that is gone; then it is tried without."""

FOREIGN_S: Final = 60.0
"""How long a content with another driver's class is passed over in silence, as csi-snapshotter does for ever."""


class State(enum.Enum):
    """Whether a request may have made the snapshot, as far as this process knows."""

    #: Nothing can have been made: no request was sent, or each was refused for good.
    NEVER = enum.auto()
    #: The first request is under way. If it is refused, then for good.
    FIRST = enum.auto()
    #: A request may have made the snapshot, of this process or of a former one.
    PERHAPS = enum.auto()
    #: The driver has deleted what it made, and was not asked to make it since.
    DELETED = enum.auto()


class Event(enum.Enum):
    """What happens to a creation."""

    #: The content came into the world before our eyes, or gets its mark now: nobody has asked.
    MARKED = enum.auto()
    #: A request leaves.
    SENT = enum.auto()
    #: There was nobody to send it to.
    UNREACHED = enum.auto()
    #: An error after which the driver may be at work, or an OK that names no snapshot.
    UNCLEAR = enum.auto()
    #: A final error.
    REFUSED = enum.auto()
    #: A final error, when the content has been in deletion for GIVE_UP_S.
    REFUSED_TOO_LONG = enum.auto()
    #: OK, with the handle.
    ANSWERED = enum.auto()
    #: DeleteSnapshot was answered with OK.
    DELETED = enum.auto()


class Outcome(enum.Enum):
    """The meaning of an event for the content."""

    #: The mark stays, and the driver is asked again.
    OPEN = enum.auto()
    #: The driver has the snapshot. The status gets its handle, and the mark goes.
    MADE = enum.auto()
    #: Refused for good: the driver has nothing. The mark goes, and so does a content that is given up.
    NOTHING = enum.auto()
    #: Nobody will find out. The same as NOTHING, with a warning.
    GIVEN_UP = enum.auto()


class Step(msgspec.Struct, frozen=True):
    """A cell of the table."""

    #: The state after the event.
    state: State
    outcome: Outcome = Outcome.OPEN


_NEVER, _FIRST, _PERHAPS, _DELETED = map(Step, State)
_NOTHING, _GIVEN_UP = Step(State.NEVER, Outcome.NOTHING), Step(State.NEVER, Outcome.GIVEN_UP)
_MADE = Step(State.PERHAPS, Outcome.MADE)

# fmt: off
_ROWS: Final[Mapping[Event, tuple[Step, ...]]] = {
    #                        NEVER      FIRST      PERHAPS     DELETED
    Event.MARKED:           (_NEVER,    _NEVER,    _NEVER,     _NEVER),
    Event.SENT:             (_FIRST,    _PERHAPS,  _PERHAPS,   _PERHAPS),
    Event.UNREACHED:        (_NEVER,    _NEVER,    _PERHAPS,   _PERHAPS),
    Event.UNCLEAR:          (_PERHAPS,  _PERHAPS,  _PERHAPS,   _PERHAPS),
    Event.REFUSED:          (_PERHAPS,  _NOTHING,  _PERHAPS,   _PERHAPS),
    Event.REFUSED_TOO_LONG: (_PERHAPS,  _NOTHING,  _GIVEN_UP,  _PERHAPS),
    Event.ANSWERED:         (_MADE,     _MADE,     _MADE,      _MADE),
    Event.DELETED:          (_DELETED,  _DELETED,  _DELETED,   _DELETED),
}
# fmt: on
NEXT: Final[Mapping[tuple[State, Event], Step]] = {
    (state, event): step for event, steps in _ROWS.items() for state, step in zip(State, steps, strict=True)
}


def event_of(error: DriverError, deletion_s: float | None) -> Event:
    """The event that a failed request is. deletion_s: since when a content that is given up is in deletion; None for
    another one.
    """
    if error.unsent:
        return Event.UNREACHED
    if not error.final or error.answered:
        return Event.UNCLEAR
    return Event.REFUSED if deletion_s is None or deletion_s < GIVE_UP_S else Event.REFUSED_TOO_LONG


class Record(msgspec.Struct, frozen=True):
    """What this process remembers of one content; a restart may lose it all."""

    #: The state of its creation, as long as the status has no handle; DELETED also counts later.
    state: State = State.PERHAPS
    #: When the driver has deleted the snapshot: in the state DELETED alone.
    deleted_at: Instant | None = None
    #: The parameters of the last request: sent again if the class is gone by then.
    parameters: Mapping[str, str] | None = None
    #: Nobody has answered the write that removes the mark: it may be off, whatever the cache shows.
    mark_lost: bool = False
    #: Since when the driver has said nothing new of a snapshot that is not ready.
    unready_at: Instant | None = None
    #: No question told of the snapshot: the next look is a CreateSnapshot.
    by_name: bool = False
    #: Since when its Secret is missing.
    secret_gone_at: Instant | None = None
    #: Since when its class is another driver's.
    foreign_at: Instant | None = None


_NOTHING_KNOWN: Final = Record()


class Memory:
    """Records by the uid of a content; of too many the oldest is given up."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def of(self, uid: str) -> Record:
        return self._records.get(uid, _NOTHING_KNOWN)

    def change(self, uid: str, **changes: Any) -> None:
        """Changes fields of the record; one that says nothing takes no room."""
        record = msgspec.structs.replace(self.of(uid), **changes)
        if record == _NOTHING_KNOWN:
            self.forget(uid)
            return
        if uid not in self._records and len(self._records) >= RECORDS_MAX:
            del self._records[next(iter(self._records))]
        self._records[uid] = record

    def forget(self, uid: str) -> None:
        self._records.pop(uid, None)

    def advance(self, uid: str, event: Event, now: Instant, parameters: Mapping[str, str] | None = None) -> Outcome:
        """Takes the creation to its next state. parameters: of the request that is SENT."""
        record = self.of(uid)
        step = NEXT[record.state, event]
        kept = record.parameters if step.outcome is Outcome.OPEN else None
        self.change(
            uid,
            state=step.state,
            deleted_at=now if step.state is State.DELETED else None,
            parameters=kept if parameters is None else parameters,
            by_name=record.by_name and event is not Event.SENT,
        )
        return step.outcome

    def waited_s(self, uid: str, now: Instant, *, news: bool) -> float:
        """How long the driver has said nothing new of a snapshot that is not ready. news: it has, just now."""
        since = self.of(uid).unready_at
        if since is None or news:
            self.change(uid, unready_at=now)
            return 0.0
        return now - since

    def note_class(self, uid: str, now: Instant, *, is_foreign: bool) -> None:
        """Note since when the content's class is another driver's. is_foreign: it is."""
        since = self.of(uid).foreign_at
        if is_foreign != (since is not None):
            self.change(uid, foreign_at=now if is_foreign else None)

    def foreign_left_s(self, uid: str, now: Instant) -> float:
        """How long a class of another driver is still passed over in silence."""
        since = self.of(uid).foreign_at
        return FOREIGN_S if since is None else max(0.0, since + FOREIGN_S - now)

    def secret_is_gone(self, uid: str, now: Instant) -> bool:
        """True when its Secret has been missing for so long that a deletion goes on without."""
        since = self.of(uid).secret_gone_at
        return since is not None and now - since >= SECRET_GRACE_S
