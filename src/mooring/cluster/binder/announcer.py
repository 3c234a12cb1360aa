"""The events of one controller: each on change, and repeated at times while its reason lasts (`EventOnce`).

kube-controller-manager sends them again every 15 seconds for each claim that waits. Beyond `EventOnce`, an event may
wait until its reason has lasted for a while.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import ObjectReference
from mooring.base.clock import Clock, Instant
from mooring.cluster.binder.reasons import EventText
from mooring.control.events import OBJECTS_MAX, EventOnce, EventRecorder, Recent

FORGOTTEN_S: Final = 1200.0
"""Seconds after which a reason that nobody has asked about begins anew."""


class Announcer:
    """Tells events once, and remembers since when one is about to be told."""

    def __init__(self, recorder: EventRecorder, clock: Clock) -> None:
        self._once, self._clock = EventOnce(recorder, clock), clock
        self._since: Recent[tuple[EventText, Instant]] = Recent(OBJECTS_MAX)

    def waits_s(self, uid: str, event: EventText, patience_s: float) -> float:
        """Seconds until the event is to be told, whose reason has to last for so long; 0 from then on."""
        now = self._clock.now()
        if not patience_s:
            return 0.0
        before = self._since.get(uid, now)
        if before is None or before[0] != event:
            before = event, now
        self._since.put(uid, before, now, FORGOTTEN_S)
        return max(0.0, before[1] + patience_s - now)

    def tell(self, ref: ObjectReference, event: EventText) -> None:
        """Sends the event, unless it is told already."""
        self._once.tell(ref, event.reason, event.message, type=event.type)

    def keep_telling(self, ref: ObjectReference, event: EventText) -> float:
        """Sends the event of a reason that lasts. Gives the seconds until it is to be sent again."""
        self.tell(ref, event)
        return self._once.again_s

    def forget(self, uid: str) -> None:
        """The object has no reason for an event any more."""
        self._once.forget(uid)
        self._since.pop(uid)
