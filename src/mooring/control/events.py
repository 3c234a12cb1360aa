"""Events, which `kubectl describe` shows with their object. Nobody waits for them, and nothing depends on them.

    recorder = EventRecorder(cluster, "external-attacher csi.example.com", clock=clock, randomness=randomness)
    group.create_task(recorder.run(), name="events")
    recorder.event(reference, "Warning", "FailedAttach", "the node is gone")
    EventOnce(recorder, clock).tell(reference, "FailedAttach", "the node is gone")

`EventRecorder` sends what it is given. `Correlator` makes of many occurrences few Events, as client-go does; it is
pure, and `now` is an argument:

- The same event again (source, object, type, reason, message) is no new object: its count goes up, by a patch.
- When events of one source, object, type and reason come with many different messages, they are combined into one.
- One object may have so many events of a type at once, and then one now and then.

`EventOnce` is for a reason that lasts: it is told when it begins, and now and then while it lasts.

These are two ideas, on one kind of memory (`Recent`): `EventOnce` knows the last text about an object, so that a room
reports a change back at once and rests while nothing changes; `Correlator` counts each text, whoever reports it, and a
text that is back after another one is the same Event to it, one more time.

Source: client-go tools/record; the numbers are its. Differs from client-go, where the types share the room of an
object: a Normal event before each failure takes it all, and the Warning is never sent again.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.api.core import EVENTS, ObjectReference
from mooring.base.clock import Clock, Instant, rfc3339
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.base.text import shortened
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import AlreadyExists, ApiError, NotFound, Unreachable

WAITING_MAX: Final = 1000
MESSAGE_BYTES_MAX: Final = 1024
TRIES_MAX: Final = 12
RETRY_S: Final = 10.0
REQUEST_S: Final = 60.0
REPEAT_S: Final = 600.0
"""An event whose reason still holds is sent again after this time, and counted: the API server keeps Events for an
hour. A failure that is tried every five minutes sends at least one in every quarter of an hour.
"""
SLACK_S: Final = 1.0
"""A timer takes so much longer: one that ends at the very moment may find that the event was sent less than REPEAT_S
ago, by a rounding.
"""
LINGER_S: Final = 0.02
"""How long the first event waits, so that writes that somebody waits for go before it; the next ones don't wait."""

SIMILAR_MAX: Final = 10  # different messages; the one that makes it this many is combined, and all after it
SIMILAR_S: Final = 600.0
COMBINED_PREFIX: Final = "(combined from similar events): "
BURST: Final = 25
REFILL_S: Final = 300.0
REMEMBERED_MAX: Final = 4096
COUNTED_S: Final = {"Warning": 2400.0, "Normal": 700.0}
"""An occurrence after this time begins a new Event. A reason that lasts is told again every REPEAT_S, failures now and
then later: they are tried again with growing pauses.
"""

OBJECTS_MAX: Final = 50_000
"""Objects that are remembered; of more, the earliest is given up."""

V = TypeVar("V")

_log = logger(__name__)


class EventRecorder:
    """Events of one source. component: its name."""

    def __init__(
        self,
        cluster: Cluster,
        component: str,
        *,
        clock: Clock,
        randomness: Random,
    ) -> None:
        self._cluster, self._component, self._clock, self._randomness = cluster, component, clock, randomness
        self._correlator = Correlator()
        self._waiting: deque[Occurrence] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._overflowing = False
        self._last_nanoseconds = 0
        self.dropped_count = 0

    def event(self, ref: ObjectReference, type: str, reason: str, message: str) -> bool:
        """Records that something happened to the object. type: Normal or Warning. Never waits, and holds up nothing.

        Returns False when too many wait: this one is dropped and counted, and no work depends on that.
        """
        if len(self._waiting) >= WAITING_MAX:
            self.dropped_count += 1
            if not self._overflowing:
                self._overflowing = True
                _log.warning(
                    "Too many events are waiting, dropping new ones", component=self._component, limit=WAITING_MAX
                )
            return False
        self._waiting.append(Occurrence(ref, type, reason, message, rfc3339(self._clock.wall_s())))
        self._some.set()
        self._idle.clear()
        return True

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            while self._waiting:
                correlated = self._correlator.correlate(self._waiting.popleft(), self._clock.now())
                if correlated is not None:
                    await self._send(*correlated)
                self._catch_up()
            self._idle.set()
            self._some.clear()
            await self._some.wait()
            await self._clock.sleep(LINGER_S)

    async def drain(self, timeout_s: float) -> None:
        """Waits until all that was recorded is sent, but not longer than this."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("Some events were not sent in time", component=self._component, count=len(self._waiting))

    def _catch_up(self) -> None:
        if self._overflowing and len(self._waiting) < WAITING_MAX / 2:
            self._overflowing = False
            _log.warning("Events are sent again", component=self._component, dropped=self.dropped_count)

    async def _send(self, occurrence: Occurrence, tally: CorrelatedEvent) -> None:
        """An event that did not reach the server is tried again; one that it answered with an error is not, be it a
        refusal or a 5xx.
        """
        name = f"{occurrence.ref.name}.{self._nanoseconds():x}"
        for attempt in range(1, TRIES_MAX + 1):
            try:
                async with asyncio.timeout(REQUEST_S):
                    await self._write(name, occurrence, tally)
                return
            except (Unreachable, TimeoutError) as error:
                if attempt == TRIES_MAX:
                    _log.error("Failed to send an event", error=error, **_shown(occurrence))
                    return
                _log.info(2, "Failed to send an event, trying again", why=str(error), **_shown(occurrence))
                await self._clock.sleep(RETRY_S * (self._randomness.uniform(0.0, 1.0) if attempt == 1 else 1.0))
            except ApiError as error:
                _log.warning("The API server refused an event", why=str(error), **_shown(occurrence))
                return

    async def _write(self, name: str, occurrence: Occurrence, tally: CorrelatedEvent) -> None:
        """Counts an Event up, or creates one of this name. Raises ApiError."""
        namespace = _namespace(occurrence)
        message = shortened(occurrence.message, MESSAGE_BYTES_MAX)
        if tally.name:
            change = {"count": tally.count, "lastTimestamp": occurrence.at, "message": message}
            try:
                await self._cluster.patch(EVENTS, tally.name, Patch(PatchType.STRATEGIC, change), namespace)
                return
            except NotFound:
                tally.name = ""  # the server keeps events for an hour
        try:
            await self._cluster.create(EVENTS, self._body(name, namespace, message, occurrence, tally), namespace)
        except AlreadyExists:
            pass  # an earlier try, whose answer was lost
        tally.name = name

    def _body(
        self, name: str, namespace: str, message: str, occurrence: Occurrence, tally: CorrelatedEvent
    ) -> dict[str, Any]:
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.name,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": msgspec.to_builtins(occurrence.ref),
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": tally.first_at,
            "lastTimestamp": occurrence.at,
            "count": tally.count,
        }

    def _nanoseconds(self) -> int:
        """The wall clock, never the same twice: it makes names."""
        self._last_nanoseconds = max(self._last_nanoseconds + 1, int(self._clock.wall_s() * 1e9))
        return self._last_nanoseconds


def _namespace(occurrence: Occurrence) -> str:
    return occurrence.ref.namespace or "default"


def _shown(occurrence: Occurrence) -> dict[str, str]:
    ref = occurrence.ref
    return {
        "object": f"{ref.kind}/{ref.namespace}/{ref.name}" if ref.namespace else f"{ref.kind}/{ref.name}",
        "reason": occurrence.reason,
    }


class Recent(Generic[V]):
    """The values used last, by key, each until its time is over; beyond the bound, the one unused the longest goes.

    Values whose time is over go once a quarter as many have been put as were left the last time: one that is kept for
    long holds up none behind it, and at a steady rate there are never many more than mean anything.
    """

    def __init__(self, size_max: int = REMEMBERED_MAX) -> None:
        self._values: OrderedDict[Hashable, tuple[V, Instant]] = OrderedDict()
        self._size_max, self._puts, self._left = size_max, 0, 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, now: Instant) -> V | None:
        """The value of this key, None once its time is over."""
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


class EventOnce:
    """Sends a text once about each object, known by its uid. events: where it goes; None for none. repeat_s: a text
    that lasts is sent again after this.

    Each process sends the failure that stands in a status: the one that wrote it may have died before it sent its
    Event.
    """

    def __init__(self, events: EventRecorder | None, clock: Clock, repeat_s: float = REPEAT_S) -> None:
        self._events, self._clock, self._repeat_s = events, clock, repeat_s
        # The last text about each thing, and when it was sent, by the object's uid.
        self._sent: Recent[Mapping[str, tuple[str, Instant]]] = Recent(OBJECTS_MAX)

    @property
    def again_s(self) -> float:
        """Seconds from now on until a text that is sent now, or was sent already, is surely sent again."""
        return self._repeat_s + SLACK_S

    def tell(
        self,
        ref: ObjectReference,
        reason: str,
        text: str,
        *,
        type: str = "Warning",
        about: str = "",
        mark: str = "",
        apart_s: float = 0.0,
        anew: bool = False,
    ) -> bool:
        """Sends the event, unless it was sent already; True where it does. about: one of several things about the
        object, each with its own text. mark: what tells one text from another where the words alone do not, as with a
        time in them. apart_s: the least time between two of them. anew: sends it anyway.

        One that is dropped, since too many wait, is sent when the object is looked at next.
        """
        if anew:
            self.forget(ref.uid, about)
        _, before = self._texts(ref.uid).get(about, ("", -math.inf))
        if self._clock.now() < before + apart_s or self.left_s(ref.uid, mark or text, about) > 0:
            return False
        is_sent = self._events is None or self._events.event(ref, type, reason, text)
        if is_sent:
            self.note(ref.uid, mark or text, about)
        return is_sent

    def note(self, uid: str, text: str, about: str = "") -> bool:
        """Notes a text that goes out in another way, as in a log. Returns True when it is new."""
        is_new = self.left_s(uid, text, about) <= 0
        if is_new:
            now = self._clock.now()
            self._sent.put(uid, {**self._texts(uid), about: (text, now)}, now, self._repeat_s)
        return is_new

    def left_s(self, uid: str, text: str, about: str = "") -> float:
        """Seconds until the text is sent again, 0 for one that was not sent."""
        now = self._clock.now()
        before, at = self._texts(uid).get(about, ("", -math.inf))
        return max(0.0, at + self._repeat_s - now) if before == text else 0.0

    def forget(self, uid: str, about: str | None = None) -> None:
        """The object is gone, or (about) this is over: if it comes again, it is sent again."""
        texts = {} if about is None else {one: what for one, what in self._texts(uid).items() if one != about}
        if texts:
            self._sent.put(uid, texts, self._clock.now(), self._repeat_s)
        else:
            self._sent.pop(uid)

    def _texts(self, uid: str) -> Mapping[str, tuple[str, Instant]]:
        return self._sent.get(uid, self._clock.now()) or {}
