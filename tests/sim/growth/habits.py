"""What a seed chooses of the world's worse habits, in lives of growing claims: by a stream of its own; each is absent
from most lives.

| habit      | meaning |
| --- | --- |
| quirks     | calls of one kind always fail, or once for each volume, with one code, or never end |
| tenants    | who asks with a wrong Secret is another tenant, who has no such volume |
| obstacle_s | how long lasting obstacles outlive all other faults: nobody who waits may be silent |
| dies       | a process dies as the faults end, and the next one finds what stood in the way |
| long_names | objects with names of 253 characters |
| acts       | what users and administrators do beside the acts of the plan, and how often |
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from tests.sim.plan import perhaps, weighted
from tests.sim.quirks import SLOW_S, Quirk, quirks_of

EXPAND, MODIFY = "expand", "modify"
ODD_ACTS: Final = {
    "take_over_class": 3,
    "choose_other_class": 3,
    "remake_volume": 2,
    "wish_oddly": 4,
    "swap_secret": 2,
    "note_secret": 2,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Habits:
    """act_share: a probability. Words as in the table above."""

    quirks: tuple[Quirk, ...]
    tenants: bool
    obstacle_s: float
    dies: bool
    long_names: bool
    act_share: float
    acts: tuple[str, ...]


def habits_of(seed: int, *, modifies: bool, retry_max_s: float) -> Habits:
    """The habits of a seed's world."""
    randomness = Random(seed * 1_000_003 + 17)
    quirks = quirks_of(randomness, 0.25, (EXPAND, MODIFY) if modifies else (EXPAND,))
    lasting = any(not quirk.once for quirk in quirks)
    stands = randomness.happens(0.7 if lasting else 0.1)
    return Habits(
        quirks=quirks,
        tenants=randomness.happens(0.3),
        obstacle_s=(4000.0 if randomness.happens(0.1) and retry_max_s > SLOW_S else 60.0) if stands else 0.0,
        dies=randomness.happens(0.3),
        long_names=randomness.happens(0.1),
        act_share=perhaps(randomness, 0.6, 0.1, 0.5),
        acts=weighted(randomness, ODD_ACTS, ()) or ("wish_oddly",) * ODD_ACTS["wish_oddly"],
    )
