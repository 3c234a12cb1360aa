"""The events of one controller: each on change, and repeated at times while its reason lasts (`EventOnce`).

kube-controller-manager sends them again every 15 seconds for each claim that waits. Beyond `EventOnce`, an event may wait until its reason
has lasted for a while. An event that was dropped is sent later, even if its reason is otherwise told only at its beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mooring.api.core import ObjectReference
from mooring.base.clock import Clock, Instant
from mooring.cluster.binder.reasons import EventText
from mooring.control.event_correlation import Recent
from mooring.control.event_once import OBJECTS_MAX, EventOnce
from mooring.control.events import EventRecorder

FORGOTTEN_S: Final = 1200.0
"""Seconds after which a reason that nobody has asked about begins anew."""
CROWDED_S: Final = 10.0
"""Seconds until an event is tried again that was dropped because too many were waiting."""


class Announcer:
    """Tells events once, and remembers since when one is about to be told."""

    def __init__(self, recorder: EventRecorder, clock: Clock) -> None:
        self._once, self._clock = EventOnce(recorder, clock), clock
        self._since: Recent[tuple[EventText, Instant]] = Recent(OBJECTS_MAX)
        self._owed: OrderedDict[str, None] = OrderedDict()

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

    def tell(self, ref: ObjectReference, event: EventText) -> bool:
        """Sends the event, unless it is told already. Returns False when it was dropped: then it is owed."""
        sent = self._once.tell(ref, event.reason, event.message, type=event.type)
        if sent:
            self._owed.pop(ref.uid, None)
        else:
            self._owed[ref.uid] = None
            if len(self._owed) > OBJECTS_MAX:
                self._owed.popitem(last=False)
        return sent

    def keep_telling(self, ref: ObjectReference, event: EventText) -> float:
        """As `tell`, for a reason that lasts. Gives the seconds until the event is to be sent again."""
        return self._once.again_s if self.tell(ref, event) else CROWDED_S

    def owes(self, uid: str) -> bool:
        """True for an object whose last event was dropped."""
        return uid in self._owed

    def forget(self, uid: str) -> None:
        """The object has no reason for an event any more."""
        self._once.forget(uid)
        self._since.pop(uid)
        self._owed.pop(uid, None)
