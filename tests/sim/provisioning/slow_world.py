"""Which lives of claims have an API server that is late, and processes that stand still, beside another leader or
alone.

Such lives have little else beside: it would only keep this from coming to something.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from tests.sim.habits import NO_HABITS, NO_STOPS, ServerHabits, Stops, server_habits

SLOW_ACTS: Final = (
    ("stop_provisioner",) * 4
    + ("stop_binder",) * 2
    + ("claim_again",) * 6
    + ("drop_claim",) * 4
    + ("kill_provisioner",) * 2
)
"""What users and machines do beside."""
BACK_ACTS: Final = (
    ("back_up",) * 4 + ("set_back",) * 3 + ("make_claim",) * 4 + ("drop_claim",) * 4 + ("claim_again",) * 3
)
"""The same where the server is set back. Who goes on without a restart has most to learn."""
_SEED: Final = 8_000_000
_SHARE: Final = 0.2
_BACK_SHARE: Final = 0.35
_SKEW_S_MAX: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class SlowWorld:
    server: ServerHabits = NO_HABITS
    stops: Stops = NO_STOPS

    @property
    def is_fast(self) -> bool:
        """True for a life without any of it."""
        return self.server is NO_HABITS


def slow_world(seed: int) -> SlowWorld:
    """Each is absent from most lives."""
    randomness = Random(seed + _SEED)
    if not randomness.happens(_SHARE):
        return SlowWorld()
    if randomness.happens(_BACK_SHARE):
        return _back(seed)
    late = randomness.uniform(0.05, 0.3) if randomness.happens(0.7) else 0.0
    server = dataclasses.replace(server_habits(seed), late=late, late_s=randomness.uniform(2.0, 20.0), set_back=False)
    if late and randomness.happens(0.4):
        return SlowWorld(server)
    stops = Stops(
        still=randomness.uniform(0.01, 0.1),
        still_s=randomness.uniform(6.0, 30.0),
        stills_max=1 + randomness.below(4),
        replicas=1 + randomness.below(2),
        skew_s=randomness.uniform(0.0, _SKEW_S_MAX),
    )
    return SlowWorld(server, stops)


def _back(seed: int) -> SlowWorld:
    """With a server that is set back, also in the middle of a list, and without late writes: what nobody can know is
    enough then.
    """
    server = server_habits(seed)
    return SlowWorld(dataclasses.replace(server, late=0.0, old=max(server.old, 0.3), set_back=True))
