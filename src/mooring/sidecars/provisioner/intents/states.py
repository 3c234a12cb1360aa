"""The life of an intent as a table: from a state and an event to the next state.

An intent is open from before CreateVolume until its volume is stored as a PersistentVolume, or surely does not exist. That an intent was
left unattended for long is no state: it is stored beside the state.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class IntentState(enum.Enum):
    """The knowledge of this process."""

    ENDED = "ended"  # also of a claim that has never had one
    OPEN = "open"  # the driver is being asked, or was and has not been heard
    UNKNOWN = "unknown"  # a call has ended unknown, of this process or of a former one
    UNRESOLVED = "unresolved"  # the last call is answered for sure; an earlier one may have made a volume
    PENDING = "pending"  # the volume is made, its PersistentVolume is still to be stored


class IntentEvent(enum.Enum):
    """The events in its life."""

    BEGUN = "the intent is stored, the driver may be asked"
    FOUND = "another process has left it open"
    MADE = "the driver has made the volume"
    LOST = "a call has ended unknown"
    KEPT = "the last call is answered for sure, an earlier one may have made a volume"
    RULED_OUT = "there is no volume, and nothing makes one"
    STORED = "the PersistentVolume is stored"


_EN, _OP, _UK, _UR, _PE = IntentState
_X = None  # can't happen

# fmt: off
_NEXT: Final[Mapping[IntentState, tuple[IntentState | None, ...]]] = {
    #                        BEGUN FOUND MADE LOST KEPT RULED_OUT STORED
    IntentState.ENDED:      (_OP,  _UK,  _PE, _UK, _X,  _EN,      _EN),
    IntentState.OPEN:       (_OP,  _UK,  _PE, _UK, _X,  _EN,      _EN),
    IntentState.UNKNOWN:    (_UK,  _UK,  _PE, _UK, _UR, _EN,      _EN),
    IntentState.UNRESOLVED: (_UK,  _UR,  _PE, _UR, _UR, _EN,      _EN),
    IntentState.PENDING:    (_X,   _PE,  _PE, _UK, _UR, _EN,      _EN),
}
# fmt: on
NEXT: Final[Mapping[tuple[IntentState, IntentEvent], IntentState | None]] = {
    (state, what): then for state, row in _NEXT.items() for what, then in zip(IntentEvent, row, strict=True)
}
