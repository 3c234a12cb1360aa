"""Events, which `kubectl describe` shows with their object. Nobody waits for them, and nothing depends on them.

    recorder = EventRecorder(cluster, "external-attacher csi.example.com", clock=clock, randomness=randomness)
    group.create_task(recorder.run(), name="events")
    recorder.event(reference, "Warning", "FailedAttach", "the node is gone")

Counting, combining and spam: `control/event_correlation.py`. Source: client-go tools/record.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import msgspec

from mooring.api.core import EVENTS, ObjectReference
from mooring.base.clock import Clock, Instant, rfc3339
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.base.text import shortened
from mooring.control.event_correlation import CorrelatedEvent, Correlator, Occurrence
from mooring.kube.access_review import denied
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unreachable

WAITING_MAX: Final = 1000
MESSAGE_BYTES_MAX: Final = 1024
TRIES_MAX: Final = 12
RETRY_S: Final = 10.0
REQUEST_S: Final = 60.0
REPEAT_S: Final = 600.0
"""An event whose reason still holds is sent again after this time, and counted: the API server keeps Events for an hour. A failure
that is tried every five minutes sends at least one in every quarter of an hour."""
SLACK_S: Final = 1.0
"""A timer takes so much longer: one that ends at the very moment may find that the event was sent less than REPEAT_S ago, by a rounding."""
FORBIDDEN_S: Final = 600.0
"""Without the right to events the recorder tries one event in this time, and only logs the others."""
LINGER_S: Final = 0.02
"""Between two events nothing is waited for. The first waits so long: writes that somebody waits for go before it."""

_log = logger(__name__)


class EventRecorder:
    """Events of one source. component: its name.

    asks_first: before each Event, whether there is the right to it; where there is none, it is only logged and nothing is refused.
    rests: after one that was forbidden nothing is sent for FORBIDDEN_S. For events that say what is to be read elsewhere, too.
    """

    def __init__(
        self,
        cluster: Cluster,
        component: str,
        *,
        clock: Clock,
        randomness: Random,
        asks_first: bool = False,
        rests: bool = False,
    ) -> None:
        self._cluster, self._component, self._clock, self._randomness = cluster, component, clock, randomness
        self._asks_first, self._rests = asks_first, rests
        self._correlator = Correlator()
        self._waiting: deque[Occurrence] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._overflowing = False
        self._last_nanoseconds = 0
        self._forbidden_until: Instant | None = None
        self.dropped_count = 0

    def event(self, ref: ObjectReference, type: str, reason: str, message: str) -> bool:
        """Records that something happened to the object. type: Normal or Warning. Never waits.

        Returns False when too many wait, and this one is dropped.
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
        """An event that did not reach the server is tried again; one that it refused is not."""
        if self._is_forbidden() or (self._asks_first and await self._is_denied(occurrence, tally)):
            _log.info(2, "There is no right to send an event", **_shown(occurrence))
            return
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
                if self._rests and isinstance(error, Forbidden):
                    self._forbidden_until = self._clock.now() + FORBIDDEN_S
                _log.warning("The API server refused an event", why=str(error), **_shown(occurrence))
                return

    def _is_forbidden(self) -> bool:
        """An event was, a while ago."""
        return self._forbidden_until is not None and self._clock.now() < self._forbidden_until

    async def _is_denied(self, occurrence: Occurrence, tally: CorrelatedEvent) -> bool:
        verb = "patch" if tally.name else "create"
        return bool(await denied(self._cluster, EVENTS, _namespace(occurrence), (verb,)))

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
