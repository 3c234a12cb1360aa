"""The rooms, and how many of their states are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tests.sim.states.bugs import BUGS
from tests.sim.states.rooms.attacher import AttacherRoom
from tests.sim.states.rooms.claims import ClaimsRoom
from tests.sim.states.rooms.groups import GroupsRoom
from tests.sim.states.rooms.health import HealthRoom
from tests.sim.states.rooms.nodes import NodesRoom
from tests.sim.states.rooms.resizer import ResizerRoom
from tests.sim.states.rooms.snapshots import SnapshotsRoom
from tests.sim.states.run import Outcome, Room, run_state
from tests.sim.states.space import State

ROOMS: Final[Mapping[str, Room]] = {
    room.name: room for room in (AttacherRoom(), NodesRoom(), HealthRoom(), ClaimsRoom(), ResizerRoom(), SnapshotsRoom(), GroupsRoom())
}
QUICK: Final = {"attacher": 2, "nodes": 2, "health": 2, "claims": 2, "resizer": 2, "snapshots": 2, "groups": 2}
"""Of each room, of how many axes the quick share has each choice of values: pairs."""


def quick(room: str, strength: int | None = None) -> Iterator[State]:
    """The share that every run of the tests takes. strength: in place of the room's own."""
    return ROOMS[room].space.covering(strength or QUICK[room])


def run_one(room: str, state: State, bug: str | None = None) -> Outcome:
    if bug is None:
        return run_state(ROOMS[room], state)
    with BUGS[bug].plant():
        return run_state(ROOMS[room], state, bug)


def failures(room: str, states: Iterable[State], bug: str | None) -> tuple[int, list[tuple[str, tuple[str, ...]]]]:
    """How many there were; of each that failed, the report and the laws."""
    outcomes = [run_one(room, state, bug) for state in states]
    bad = [(outcome.report(), tuple(sorted({law for law, _ in outcome.complaints}))) for outcome in outcomes if outcome.complaints]
    return len(outcomes), bad
