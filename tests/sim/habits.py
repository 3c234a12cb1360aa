"""The habits of the world beyond a request that fails at once: what a plan says of the API server, and of processes
that stand still.

A part turns them on in its `plan_of`, each in a field of that name: `server=server_habits(seed)`, `stops=stops(seed)`.
A plan without the field has none of them. The draws come from sources of their own, so that no other draw of a plan
moves. Whoever turns them on:

| field             | what the part has to do for it |
| --- | --- |
| `server`          | nothing: its `Line` has the doors. Its laws must know that a write may come late (`late-astray`) |
| `server.set_back` | its acts call `back_up()` and `set_back()` of `world.server`; laws: `on_set_back` |
| `stops`           | its `life.py` hands `outside(line)` to the Runtime, and `mortal.clock` in place of the world's; |
|                   | its endpoint calls the backend by `mortal.outside` |
| `stops.replicas`  | its keepers are those of `replicas_of` (`leading.py`); endpoints: `mortal.sends` |
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random

_SERVER_SEED: Final = 3_000_017
_STOPS_SEED: Final = 5_000_011
_ARRAY_SEED: Final = 9_000_011


@dataclasses.dataclass(frozen=True, slots=True)
class ServerHabits:
    """Shares per request, of watch events for `held`. Times ending in _s: the longest.

    late: a write is carried out after its client gave it up. odd: a request is refused, with any code that a server, a
    webhook or a proxy may give. lasting: from here on, one verb of one kind is refused to this program, under all its
    lives. held: from this event on a watch shows nothing for a while, and then all in one burst, to the same watch or
    to one that resumes from its old version; folded: of those, the share of which the version is forgotten, so that a
    list shows only the last state. lag: of watches, the share that are served by a second server, which is behind the
    first one all the time. old: a list's answer is long on its way, and old when it comes. set_back: of all lives,
    whether the server is set back to a backup.
    """

    late: float = 0.0
    late_s: float = 10.0
    odd: float = 0.0
    lasting: float = 0.0
    lasting_s: float = 0.0
    held: float = 0.0
    held_s: float = 0.0
    folded: float = 0.0
    lag: float = 0.0
    lag_s: float = 0.0
    old: float = 0.0
    old_s: float = 0.0
    set_back: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Stops:
    """still: the probability at each point where a process may be stopped; still_s: for how long at the most;
    stills_max: per incarnation.

    replicas: how many of a program stand for its Lease, 1 for a program without one. skew_s: how far the wall clocks of
    two processes may be from the server's.
    """

    still: float = 0.0
    still_s: float = 0.0
    stills_max: int = 0
    replicas: int = 1
    skew_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayHabits:
    """Drivers that differ as real ones do, for publishing.

    stuck: per call, the probability that all calls like it (verb, volume, machine) are answered one code from now on,
    before or after their effect; for stuck_s at the most, and for ever if the faults end meanwhile. hangs: per call,
    that it hangs for ever. tenants: whoever has not the volume's secret is told NotFound. strangers: lists show volumes
    and machines that nobody here knows. bare: some machines get no publish context. forgets: a restart of the driver
    ends all publications.
    """

    stuck: float = 0.0
    stuck_s: float = 0.0
    hangs: float = 0.0
    tenants: bool = False
    strangers: bool = False
    bare: bool = False
    forgets: bool = False


NO_HABITS: Final = ServerHabits()
NO_STOPS: Final = Stops()
NO_ARRAY: Final = ArrayHabits()


def server_habits(seed: int) -> ServerHabits:
    """Each is absent from most lives."""
    randomness = Random(seed + _SERVER_SEED)
    return ServerHabits(
        late=_perhaps(randomness, 0.3, 0.02, 0.2),
        late_s=randomness.uniform(0.5, 10.0),
        odd=_perhaps(randomness, 0.3, 0.02, 0.2),
        lasting=_perhaps(randomness, 0.2, 0.002, 0.02),
        lasting_s=randomness.uniform(5.0, 200.0),
        held=_perhaps(randomness, 0.3, 0.02, 0.2),
        held_s=randomness.uniform(1.0, 20.0),
        folded=_perhaps(randomness, 0.5, 0.2, 1.0),
        lag=_perhaps(randomness, 0.2, 0.2, 0.8),
        lag_s=randomness.uniform(0.5, 15.0),
        old=_perhaps(randomness, 0.2, 0.1, 0.6),
        old_s=randomness.uniform(0.5, 15.0),
        set_back=randomness.happens(0.1),
    )


def stops(seed: int) -> Stops:
    """Three lives in four have none."""
    randomness = Random(seed + _STOPS_SEED)
    if not randomness.happens(0.25):
        return NO_STOPS
    return Stops(
        still=_perhaps(randomness, 0.8, 0.01, 0.1),
        still_s=randomness.uniform(0.5, 20.0),
        stills_max=1 + randomness.below(4),
        replicas=1 + randomness.below(2),
        skew_s=_perhaps(randomness, 0.5, 1.0, 600.0),
    )


def array_habits(seed: int) -> ArrayHabits:
    """Each is absent from most lives."""
    randomness = Random(seed + _ARRAY_SEED)
    return ArrayHabits(
        stuck=_perhaps(randomness, 0.3, 0.02, 0.2),
        stuck_s=randomness.uniform(1.0, 60.0),
        hangs=_perhaps(randomness, 0.2, 0.02, 0.2),
        tenants=randomness.happens(0.3),
        strangers=randomness.happens(0.3),
        bare=randomness.happens(0.3),
        forgets=randomness.happens(0.2),
    )


def _perhaps(randomness: Random, share: float, low: float, high: float) -> float:
    return randomness.uniform(low, high) if randomness.happens(share) else 0.0
