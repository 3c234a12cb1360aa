"""The rooms, and how many of their states are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tests.sim.states.bugs import BUGS
from tests.sim.states.rooms.attacher import AttacherRoom
from tests.sim.states.rooms.capacity import CapacityRoom
from tests.sim.states.rooms.claims import ClaimsRoom
from tests.sim.states.rooms.ephemeral import EphemeralRoom
from tests.sim.states.rooms.groups import GroupsRoom
from tests.sim.states.rooms.health import HealthRoom
from tests.sim.states.rooms.jobs import JobsRoom
from tests.sim.states.rooms.nodes import NodesRoom
from tests.sim.states.rooms.resizer import ResizerRoom
from tests.sim.states.rooms.snapshots import SnapshotsRoom
from tests.sim.states.rooms.workloads import WorkloadsRoom
from tests.sim.states.run import Outcome, Room, run_state
from tests.sim.states.space import State

_ALL: Final = (
    AttacherRoom(),
    NodesRoom(),
    HealthRoom(),
    ClaimsRoom(),
    EphemeralRoom(),
    CapacityRoom(),
    ResizerRoom(),
    SnapshotsRoom(),
    GroupsRoom(),
    WorkloadsRoom(),
    JobsRoom(),
)
ROOMS: Final[Mapping[str, Room]] = {room.name: room for room in _ALL}
PAIRS: Final = 2
"""Of so many axes the quick share of a room has each choice of values."""


def quick(room: str, strength: int | None = None) -> Iterator[State]:
    """The share that every run of the tests takes. strength: of how many axes it has each choice of values, in place of
    pairs.
    """
    return ROOMS[room].space.covering(strength or PAIRS)


def run_one(room: str, state: State, bug: str | None = None) -> Outcome:
    if bug is None:
        return run_state(ROOMS[room], state)
    with BUGS[bug].plant():
        return run_state(ROOMS[room], state, bug)


def failures(room: str, states: Iterable[State], bug: str | None) -> tuple[int, list[tuple[str, tuple[str, ...]]]]:
    """How many there were; of each that failed, the report and the laws."""
    outcomes = [run_one(room, state, bug) for state in states]
    bad = [
        (outcome.report(), tuple(sorted({law for law, _ in outcome.complaints})))
        for outcome in outcomes
        if outcome.complaints
    ]
    return len(outcomes), bad
