"""Sends Events and messages once: again when the text is another one, and now and then while it lasts."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from mooring.api.core import ObjectReference
from mooring.base.clock import Clock, Instant
from mooring.control.events import REPEAT_S, SLACK_S, EventRecorder

OBJECTS_MAX: Final = 50_000
"""Objects that are remembered; of more, the earliest is given up."""


class EventOnce:
    """By the uid of an object, its last texts. events: where they go; None for none. repeat_s: a text that lasts is sent again after this.

    Each process sends the failure that stands in a status: the one that wrote it may have died before it sent its Event.
    """

    def __init__(self, events: EventRecorder | None, clock: Clock, repeat_s: float = REPEAT_S) -> None:
        self._events, self._clock, self._repeat_s = events, clock, repeat_s
        self._sent: OrderedDict[str, tuple[Mapping[str, tuple[str, Instant]], Instant]] = (
            OrderedDict()
        )  # with the time of the last text

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
        anew: bool = False,
    ) -> bool:
        """Sends the event, unless it was sent already. about: one of several things about the object, each with its own text.

        anew: sends it anyway. Returns False where the event was dropped, since too many wait: it is owed still.
        """
        if self.left_s(ref.uid, text, about) > 0 and not anew:
            return True
        if self._events is not None and not self._events.event(ref, type, reason, text):
            return False
        self.note(ref.uid, text, about)
        return True

    def note(self, uid: str, text: str, about: str = "") -> bool:
        """Notes a text that goes out in another way, as in a log. Returns True when it is new."""
        is_new = self.left_s(uid, text, about) <= 0
        if is_new:
            now = self._clock.now()
            self._sent[uid] = {**self._texts(uid), about: (text, now)}, now
            self._sent.move_to_end(uid)
            while len(self._sent) > OBJECTS_MAX or now - next(iter(self._sent.values()))[1] > self._repeat_s:
                self._sent.popitem(last=False)
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
            self._sent[uid] = texts, self._sent[uid][1]
        else:
            self._sent.pop(uid, None)

    def _texts(self, uid: str) -> Mapping[str, tuple[str, Instant]]:
        return self._sent[uid][0] if uid in self._sent else {}
