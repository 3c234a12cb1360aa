"""How drivers of volumes differ: each habit is a switch of the plan, and off in most lives."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from mooring.wire.grpc.codes import Code
from tests.sim.plan import perhaps

ZONES: Final = ("zone0", "zone1")
KEY: Final = "topology.kubernetes.io/zone"
"""The topology key under which nodes are registered."""
OTHER_KEY: Final = "topology.csi.example.com/zone"
"""The driver's other key: nodes have it as a label, too."""

HANGS: Final = -1
"""In place of a code: the call has no end."""
ANOTHERS: Final = -2
"""In place of a code: the answer is OK, and names another volume."""
STUBBORN_CODES: Final = (
    *(
        Code.INVALID_ARGUMENT,
        Code.INTERNAL,
        Code.ALREADY_EXISTS,
        Code.RESOURCE_EXHAUSTED,
        Code.NOT_FOUND,
        Code.UNAUTHENTICATED,
    ),
    *(Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.OUT_OF_RANGE, Code.FAILED_PRECONDITION, HANGS, ANOTHERS),
)


@dataclasses.dataclass(frozen=True, slots=True)
class DriverHabits:
    """Shares of calls, but for what is a yes or no.

    lingers: deletions that go on after they were answered DeadlineExceeded, and lock nothing. late: creations that do
    so: what is asked meanwhile is answered for itself. lies: a call that took effect may be answered with any code.
    judges: a request is judged before its name is looked up. forgets: a restart forgets the names of volumes whose
    creation was not answered. odd: answers that name another volume. stubborn: of names, each with one answer for ever.
    lasting: such answers do not end with the other faults. tenants: each Secret is an account, where names are unique,
    and strangers see NotFound. zoned: nodes have zones, and so have volumes. zonal: names are unique in a zone alone.
    other_key: places are told under the driver's other key. full: a zone that has no room, "" for none. outgrown: the
    full zone never has room again, and the first nodes of the other one come late. reuses: a volume that is made again
    has the handle of the former one.
    """

    lingers: float = 0.0
    late: float = 0.0
    lies: bool = False
    judges: float = 0.0
    forgets: bool = False
    odd: float = 0.0
    stubborn: float = 0.0
    lasting: bool = False
    tenants: bool = False
    zoned: bool = False
    zonal: bool = False
    other_key: bool = False
    full: str = ""
    outgrown: bool = False
    reuses: bool = False


KIND: Final = DriverHabits()
"""A driver without any of them."""


def habits_of(randomness: Random) -> DriverHabits:
    """A driver. Each habit alone, or with others."""
    stubborn = perhaps(randomness, 0.2, 0.1, 0.5)
    zoned = randomness.happens(0.4)
    return DriverHabits(
        late=perhaps(randomness, 0.3, 0.1, 0.6),
        lies=randomness.happens(0.25),
        judges=perhaps(randomness, 0.3, 0.2, 0.9),
        forgets=randomness.happens(0.15),
        odd=perhaps(randomness, 0.25, 0.05, 0.5),
        stubborn=stubborn,
        lasting=stubborn > 0 and randomness.happens(0.5),
        zoned=zoned,
        zonal=zoned and randomness.happens(0.5),
        other_key=zoned and randomness.happens(0.4),
        full=ZONES[randomness.below(2)] if zoned and randomness.happens(0.3) else "",
        reuses=randomness.happens(0.2),
    )
