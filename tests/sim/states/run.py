"""One state from its start to rest: the controllers begin on it, it has REST_S of virtual time, and is watched for
another hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Protocol
from unittest import mock

from mooring.apiserver import watch
from mooring.base import log
from mooring.cluster.snapshots import controller as snapshot_controller
from mooring.kube.cache import reflector
from mooring.sidecars.snapshotter import controller as snapshotter
from tests.sim.course import BoundedLoop, RunsHot, seldom_collected
from tests.sim.states.space import Space, State
from tests.sim.states.world import StateWorld, template
from tests.support.builders import Json
from tests.support.scripted_driver import ScriptedDriver
from tests.support.virtual_loop import Deadlock

REST_S: Final = 3600.0
"""The bound: by then a state has come to rest. The longest wait of a program is 360 s, the longest back-off 300 s,
after a sum of 500 s.
"""
HOUR_S: Final = 3600.0
RESYNC_S: Final = REST_S + HOUR_S / 2
"""Of the controllers that leave nothing to a resync: when it comes, all has been done long before."""
SOON_S: Final = 5.0
SLOW_MAX: Final = 70
"""How often one thing may be tried again in an hour: the shortest back-off at its longest is a minute."""
RETRIES_MAX: Final = 40
"""The same for what works and comes to nothing, as a call whose answer can't be used; a reason has to be told then."""
BOOKMARK_S: Final = 3000.0
"""Two hours in which nothing happens need no bookmark every few seconds."""
WATCH_S: Final = (2400.0, 7000.0)
"""How long a watch lasts: some still end in each of the two hours. That they ended every few minutes was half of the
work.
"""
SHOWN: Final = 60
LINE_MAX: Final = 600
Complaint = tuple[str, str]
"""The law, and what breaks it."""


class Room(Protocol):
    """One controller with its small world. rounds: words in calls that it makes for ever, as often as its options
    say.
    """

    name: str
    space: Space
    rounds: tuple[str, ...]

    def bodies(self, state: State) -> list[Json]:
        """The objects."""

    def driver(self, state: State) -> ScriptedDriver:
        """With what its backend holds."""

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        """The controllers. Laws that hold on the way are added to the world here."""

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        """Everything wrong at rest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """complaints: none for a state from which all is well."""

    room: str
    state: str
    complaints: tuple[Complaint, ...]
    story: tuple[str, ...]
    bug: str | None = None

    def report(self) -> str:
        """The deeds, what is wrong, and how to see it again."""
        told = [f"{law}: {what[:LINE_MAX]}" for law, what in self.complaints]
        bug = f" --bug {self.bug}" if self.bug else ""
        replay = f"replay: .venv/bin/python -m tests.sim.states --room {self.room} --state {self.state}{bug}"
        return "\n".join((f"{self.room}: {self.state}", *self.story[:SHOWN], *(told or ["all is well"]), replay))


def run_state(room: Room, state: State, bug: str | None = None) -> Outcome:
    """The outcome of one state, always the same one."""
    template()
    world: list[StateWorld] = []
    found: list[Complaint] = []

    async def live() -> None:
        world.append(StateWorld(room.bodies(state), room.driver(state)))
        log.configure(verbosity=0, stream=world[0].log, wall_s=lambda: 0.0)
        async with asyncio.TaskGroup() as group:
            world[0].parts += [
                group.create_task(part, name=f"part/{number}")
                for number, part in enumerate(room.parts(world[0], state))
            ]
            await asyncio.sleep(RESYNC_S - SOON_S)
            before = world[0].objects()
            await asyncio.sleep(2 * SOON_S)
            found.extend(_late(before, world[0].objects()))
            await asyncio.sleep(REST_S + HOUR_S - RESYNC_S - SOON_S)
            found.extend(_complaints(room, world[0], state))
            for task in world[0].parts:
                task.cancel()

    try:
        with seldom_collected(), _seldom(), asyncio.Runner(loop_factory=lambda: BoundedLoop(7)) as runner:
            runner.run(live())
    except (Deadlock, RunsHot) as error:
        found.append(("hot-loop" if isinstance(error, RunsHot) else "standstill", str(error)))
    except BaseException as error:
        error.add_note(f"in room {room.name}, state {room.space.id_of(state)}")
        raise
    finally:
        log.configure()
    return Outcome(room.name, room.space.id_of(state), tuple(found), tuple(_story(world[0])), bug)


@contextlib.contextmanager
def _seldom() -> Iterator[None]:
    """What comes again and again for ever comes less often."""
    changed = ((watch, "BOOKMARK_PERIOD_S", BOOKMARK_S), (reflector, "WATCH_S", WATCH_S))
    untold = (
        (room, "TELL_S", None) for room in (snapshot_controller, snapshotter)
    )  # a look at what waits would heal a wake that is missed
    with contextlib.ExitStack() as stack:
        for room, name, value in (*changed, *untold):
            stack.enter_context(mock.patch.object(room, name, value))
        yield


def _story(world: StateWorld) -> Iterator[str]:
    lines = [
        (deed.at_s, f"{deed.what}{f': {deed.error}' if deed.error else ''}") for deed in world.deeds if deed.writes
    ]
    lines += [(call.started_s, f"{call.method} {_about(call.request)}: {call.code}") for call in world.driver.calls]
    yield from (f"{at_s:10.3f} {line}" for at_s, line in sorted(lines))
    yield from (f"    reason {name} {key}: {because}"[:LINE_MAX] for (name, key), because in world.reasons.items())
    yield from (f"       log {line[-LINE_MAX:]}" for line in list(dict.fromkeys(world.log.lines))[:10])


def _about(request: Any) -> str:
    return " ".join(str(request).split())[:120]


def _complaints(room: Room, world: StateWorld, state: State) -> list[Complaint]:
    unexpected = [("unexpected-error", line) for line in world.log.lines if "unexpected" in line or "Traceback" in line]
    return [*world.broken, *unexpected, *_restless(room, world), *room.complaints(world, state)]


def _late(before: dict[str, str], after: dict[str, str]) -> Iterator[Complaint]:
    """A resync finds nothing to do: whoever waited for something has heard when it came."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield "late", f"{name}: with the resync {before.get(name)} became {after.get(name)}"


def _restless(room: Room, world: StateWorld) -> Iterator[Complaint]:
    """In the last hour nothing is done, but for what failed and is tried again slowly."""
    done: Counter[str] = Counter()
    failed: defaultdict[str, int] = defaultdict(int)
    for deed in world.deeds:
        if (
            deed.at_s >= REST_S and deed.writes and (deed.error or " events " not in deed.what)
        ):  # an Event that is told again is no unrest
            done[deed.what] += 1
            failed[deed.what] += deed.error is not None
    for call in world.driver.calls:
        if call.started_s >= REST_S and not any(word in call.method for word in room.rounds):
            what = f"{call.method} {_about(call.request)}"
            done[what] += 1
            failed[what] += call.code != 0
    tells = any(failed.values()) or any(world.errors())
    for what, count in done.items():
        is_telling = "/status" in what
        if count > SLOW_MAX:
            yield "runs-hot", f"{what}: {count} times in the last hour"
        elif not failed[what] and not (tells and (is_telling or count <= RETRIES_MAX)):
            yield "no-rest", f"{what}: {count} times in the last hour"
