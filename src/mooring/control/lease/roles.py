"""Leader election as two tables: from a role and a look at the Lease to a step, and from a role and an event to the
next role.

Who may act, and when:

| role                  | the Lease           | fence (writes, calls)       | work                | next term's caches |
| --- | --- | --- | --- | --- |
| standby               | another's, or free  | closed                      | none                | follow, if warm    |
| claiming              | perhaps ours        | closed                      | none                | catch up           |
| leading               | ours, renewed       | open to the renew deadline  | caught up, then runs | none              |
| draining              | ours, renewed       | open to the renew deadline  | ends what it has    | none               |
| losing, quitting      | another's, or late  | closed                      | is cancelled        | none               |
| releasing             | ours, given back    | closed                      | has ended           | none               |
| ended                 | another's, or free  | closed                      | has ended           | none               |

The fence (`base/fence.py`) is asked by each client in the last moment before it sends. The elector
(`control/lease/elector.py`) moves from role to role by the two tables below; `control/program/terms.py` has the work of
each term, and of a standby the next one's.

A candidate stands by, looks at the Lease, and claims it when it is free. A claim whose answer was lost may have worked:
until the Lease is seen again we are claiming, and who leaves while claiming gives the Lease back. The leader renews.
When the Lease is lost, nothing is written any more and the work has to end before the Lease would have expired: only
then do we stand again. When the work is called off, the Lease is renewed until the work has ended, and then given back.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from mooring.base.clock import Instant
from mooring.control.lease.record import LeaseRecord, Sighting


class Role(enum.Enum):
    STANDBY = "standby"
    CLAIMING = "claiming"  # a claim is under way, or was sent and not answered
    LEADING = "leading"
    DRAINING = "draining"  # called off: the work is ending, the Lease is still ours
    LOSING = "losing"  # the Lease is lost, the work is ending; then we stand again
    QUITTING = "quitting"  # the Lease is lost and we were called off; the work is ending
    RELEASING = "releasing"  # the work has ended, the Lease is given back
    ENDED = "ended"


HOLDING: Final = frozenset({Role.LEADING, Role.DRAINING})
"""The Lease is ours, and renewed."""


class Observed(enum.Enum):
    """The situations that a look at the Lease can show."""

    MISSING = "missing"
    FREE = "free"
    OURS = "ours"
    HELD = "held"  # by another
    EXPIRED = "expired"  # another's, not renewed in time


VACANT: Final = frozenset({Observed.MISSING, Observed.FREE, Observed.OURS, Observed.EXPIRED})
"""Nobody else holds the Lease."""


def observed(
    record: LeaseRecord | None, known: Sighting | None, identity: str, lease_s: float, now: Instant
) -> Observed:
    """record: just read, None when there is no Lease. known: what was sighted so far, this look included.

    A Lease that was deleted while another held it still holds for as long as its record said: its holder may not know
    yet.
    """
    if record is None:
        if known is None or known.record.holder in ("", identity) or known.expires_at(lease_s) <= now:
            return Observed.MISSING
        return Observed.HELD
    if not record.holder:
        return Observed.FREE
    if record.holder == identity:
        return Observed.OURS
    assert known is not None
    assert known.record == record
    return Observed.EXPIRED if known.expires_at(lease_s) <= now else Observed.HELD


class Step(enum.Enum):
    """The step after a look."""

    WAIT = "wait"
    WRITE = "write"  # our name into it, as a claim or as a renewal; creates a missing one
    GIVE_UP = "give up"  # it is lost
    RELEASE = "release"


_W, _N, _G, _R = Step.WRITE, Step.WAIT, Step.GIVE_UP, Step.RELEASE

# fmt: off
_STEPS: Final[Mapping[Role, tuple[Step, ...]]] = {
    #                MISSING  FREE  OURS  HELD  EXPIRED
    Role.STANDBY:   (_W,      _W,   _W,   _N,   _W),
    Role.CLAIMING:  (_W,      _W,   _W,   _N,   _W),
    Role.LEADING:   (_W,      _W,   _W,   _G,   _G),
    Role.DRAINING:  (_W,      _W,   _W,   _G,   _G),
    Role.LOSING:    (_N,      _N,   _N,   _N,   _N),
    Role.QUITTING:  (_N,      _N,   _N,   _N,   _N),
    Role.RELEASING: (_N,      _N,   _R,   _N,   _N),
    Role.ENDED:     (_N,      _N,   _N,   _N,   _N),
}
# fmt: on
STEPS: Final[Mapping[tuple[Role, Observed], Step]] = {
    (role, what): step for role, row in _STEPS.items() for what, step in zip(Observed, row, strict=True)
}


class Happening(enum.Enum):
    CLAIMS = "a claim is sent"
    WON = "the Lease has our name"
    REFUSED = "the Lease is another's"
    OVERDUE = "the time for it is over"  # to renew while holding; for the work to end after the loss
    CALLED_OFF = "we are asked to end"
    WORK_ENDED = "the work has ended"
    WORK_FAILED = "the work has ended with an error"
    RELEASED = "the Lease was given back"  # or not, but nothing more can be done


_ST, _CL, _LE, _DR, _LO, _QU, _RE, _EN = Role
_X = None  # can't happen

# fmt: off
_NEXT: Final[Mapping[Role, tuple[Role | None, ...]]] = {
    #                CLAIMS WON  REFUSED OVERDUE CALLED_OFF WORK_ENDED WORK_FAILED RELEASED
    Role.STANDBY:   (_CL,   _X,  _ST,    _X,     _EN,       _X,        _X,         _X),
    Role.CLAIMING:  (_CL,   _LE, _ST,    _X,     _RE,       _X,        _X,         _X),
    Role.LEADING:   (_X,    _LE, _LO,    _LO,    _DR,       _RE,       _RE,        _X),
    Role.DRAINING:  (_X,    _DR, _QU,    _QU,    _EN,       _RE,       _RE,        _X),
    Role.LOSING:    (_X,    _X,  _X,     _EN,    _QU,       _ST,       _EN,        _X),
    Role.QUITTING:  (_X,    _X,  _X,     _EN,    _EN,       _EN,       _EN,        _X),
    Role.RELEASING: (_X,    _X,  _X,     _X,     _EN,       _X,        _X,         _EN),
    Role.ENDED:     (_X,    _X,  _X,     _X,     _X,        _X,        _X,         _X),
}
# fmt: on
NEXT: Final[Mapping[tuple[Role, Happening], Role | None]] = {
    (role, what): then for role, row in _NEXT.items() for what, then in zip(Happening, row, strict=True)
}
