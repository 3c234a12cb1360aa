"""Correlates events before they are sent: repeated ones are counted, similar ones combined, spam is dropped. Pure; `now` is an argument.

- The same event again (source, object, type, reason, message) is no new object: its count goes up, by a patch.
- When events of one source, object, type and reason come with many different messages, they are combined into one.
- One object may have so many events of a type at once, and then one now and then.

Source: client-go tools/record (correlator); the numbers are its. Differs from client-go, where the types share that room: a Normal event
before each failure takes it all, and the Warning is never sent again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import msgspec

from mooring.api.core import ObjectReference
from mooring.base.clock import Instant

SIMILAR_MAX: Final = 10  # different messages; the one that makes it this many is combined, and all after it
SIMILAR_S: Final = 600.0
COMBINED_PREFIX: Final = "(combined from similar events): "
BURST: Final = 25
REFILL_S: Final = 300.0
REMEMBERED_MAX: Final = 4096
COUNTED_S: Final = {"Warning": 2400.0, "Normal": 700.0}
"""An event after that time begins anew. What stays so is told again every ten minutes (`control/events.py`), failures now and then later:
they are tried again with growing pauses."""

V = TypeVar("V")


class Recent(Generic[V]):
    """The values used last, by key, each until its time is over; beyond the bound, the one unused the longest goes.

    Those whose time is over go once a quarter as many have been put as were left the last time: one that is kept for long holds up none
    behind it, and at a steady rate there are never many more than mean anything.
    """

    def __init__(self, size_max: int = REMEMBERED_MAX) -> None:
        self._values: OrderedDict[Hashable, tuple[V, Instant]] = OrderedDict()
        self._size_max, self._puts, self._left = size_max, 0, 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, now: Instant) -> V | None:
        """None for one whose time is over."""
        value, until = self._values.get(key, (None, now))
        return value if now <= until else None

    def pop(self, key: Hashable) -> None:
        self._values.pop(key, None)

    def put(self, key: Hashable, value: V, now: Instant, kept_s: float) -> None:
        """kept_s: how long the value means anything."""
        self._values[key] = value, now + kept_s
        self._values.move_to_end(key)
        self._puts += 1
        if self._puts > self._left // 4:
            self._values = OrderedDict((one, found) for one, found in self._values.items() if found[1] >= now)
            self._puts, self._left = 0, len(self._values)
        if len(self._values) > self._size_max:
            self._values.popitem(last=False)


class Occurrence(msgspec.Struct, frozen=True):
    """Something that happened to an object, before it is an Event. at: RFC 3339."""

    ref: ObjectReference
    type: str
    reason: str
    message: str
    at: str

    @property
    def about(self) -> Hashable:
        """The object, whatever its version."""
        ref = self.ref
        return ref.api_version, ref.kind, ref.namespace, ref.name, ref.uid


class CorrelatedEvent(msgspec.Struct):
    """Occurrences that make one Event. name: the Event's, "" as long as it was not created."""

    count: int
    first_at: str
    name: str = ""


class Correlator:
    """Correlates the events of one source."""

    def __init__(self) -> None:
        self._similar: Recent[dict[str, None]] = Recent()
        self._tallies: Recent[CorrelatedEvent] = Recent()
        self._buckets: Recent[tuple[float, Instant]] = Recent()

    def correlate(self, occurrence: Occurrence, now: Instant) -> tuple[Occurrence, CorrelatedEvent] | None:
        """The occurrence to send, and its tally. None for spam, which is counted all the same."""
        kind = (occurrence.about, occurrence.type, occurrence.reason)
        if self._is_one_of_many(kind, occurrence.message, now):
            tally = self._count((kind, None), occurrence, now)
            occurrence = msgspec.structs.replace(occurrence, message=COMBINED_PREFIX + occurrence.message)
        else:
            tally = self._count((kind, occurrence.ref.field_path, occurrence.message), occurrence, now)
        return (occurrence, tally) if self._may_speak((occurrence.about, occurrence.type), now) else None

    def _is_one_of_many(self, kind: Hashable, message: str, now: Instant) -> bool:
        messages = self._similar.get(kind, now) or {}
        messages[message] = None
        many = len(messages) >= SIMILAR_MAX
        if many:
            del messages[next(iter(messages))]  # one place stays free, so this never grows
        self._similar.put(kind, messages, now, SIMILAR_S)
        return many

    def _count(self, key: Hashable, occurrence: Occurrence, now: Instant) -> CorrelatedEvent:
        tally = self._tallies.get(key, now) or CorrelatedEvent(0, occurrence.at)
        self._tallies.put(key, tally, now, COUNTED_S[occurrence.type])
        tally.count += 1
        return tally

    def _may_speak(self, about: Hashable, now: Instant) -> bool:
        """A token bucket per object and type."""
        tokens, last = self._buckets.get(about, now) or (float(BURST), now)
        tokens = min(float(BURST), tokens + (now - last) / REFILL_S)
        allowed = tokens >= 1.0
        left = tokens - 1.0 if allowed else tokens
        self._buckets.put(about, (left, now), now, (BURST - left) * REFILL_S)  # then it is full again
        return allowed
