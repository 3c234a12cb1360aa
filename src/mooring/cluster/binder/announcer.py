"""The events of one controller: each on change, and repeated at times while its reason lasts.

kube-controller-manager sends them again every 15 seconds for each claim that waits.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mooring.api.core import ObjectReference
from mooring.base.clock import Clock, Instant
from mooring.cluster.binder.reasons import EventText
from mooring.control.events import REPEAT_S, EventRecorder

REMIND_S: Final = REPEAT_S
"""Seconds until the event of a lasting reason is repeated."""

CROWDED_S: Final = 10.0
"""Seconds until an event is tried again that was dropped because too many were waiting."""

REMEMBERED_MAX: Final = 50_000

_NEVER: Final[Instant] = float("-inf")


class Announcer:
    """Remembers the last event of each object, and since when one is about to be told."""

    def __init__(self, recorder: EventRecorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock
        self._last: OrderedDict[str, tuple[EventText, Instant]] = OrderedDict()
        self._since: OrderedDict[str, tuple[EventText, Instant]] = OrderedDict()

    def waits_s(self, uid: str, event: EventText, patience_s: float) -> float:
        """Seconds until the event is to be told, whose reason has to last for so long; 0 from then on."""
        now = self._clock.now()
        if not patience_s:
            return 0.0
        before = self._since.get(uid)
        if before is None or before[0] != event:
            before = self._since[uid] = event, now
            if len(self._since) > REMEMBERED_MAX:
                self._since.popitem(last=False)
        return max(0.0, before[1] + patience_s - now)

    def tell(self, ref: ObjectReference, event: EventText) -> bool:
        """Sends the event, unless the last one was the same and recent. Returns False when it was dropped: then it is owed."""
        now = self._clock.now()
        before = self._last.get(ref.uid)
        if before is not None and before[0] == event and now - before[1] < REMIND_S:
            return True
        sent = self._recorder.event(ref, *event)
        self._last[ref.uid] = event, now if sent else _NEVER
        self._last.move_to_end(ref.uid)
        if len(self._last) > REMEMBERED_MAX:
            self._last.popitem(last=False)
        return sent

    def owes(self, uid: str) -> bool:
        """True for an object whose last event was dropped."""
        return uid in self._last and self._last[uid][1] == _NEVER

    def forget(self, uid: str) -> None:
        """The object has no reason for an event any more."""
        self._last.pop(uid, None)
        self._since.pop(uid, None)
