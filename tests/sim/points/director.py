"""Counts what a script's programs do and are shown, and lets one thing go wrong where a trial says so.

Whose request or call it is stands in the context of the incarnation's tasks, and so does the director; a script's hands
have neither.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, NoReturn, TypeVar

from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.csi.errors import DriverError
from mooring.kube.cluster import Request, Verb
from mooring.kube.errors import ApiError, Unreachable
from mooring.wire.grpc.codes import Code
from tests.sim.keeper import Made, Works
from tests.sim.laws import WRITING
from tests.sim.line import what_of
from tests.sim.mortal import Mortal
from tests.sim.node.kernel import Killed
from tests.sim.points.trial import EARLY, Kind, Record, Touch, Trial, Way
from tests.sim.points.views import Views
from tests.sim.world import SimWorld

T = TypeVar("T")

LATE_S_MAX: Final = 10.0
"""Until a write that was given up is carried out, where nothing else changes before."""
DYING_S: Final = 0.5
"""Until a write of a process that was killed is carried out: the next one has been shown everything by then, but for
this.
"""
AFTER_ACT_S: Final = 5.0
"""Until a write is carried out that was given up when the next act came."""
ACT_S: Final = 0.01
"""How long what was begun waits until somebody has acted."""
STILL_S: Final = 20.0
"""How long a process stands still: another one leads by then."""

LED: Final[ContextVar[Mortal | None]] = ContextVar("led", default=None)
"""Whose requests and calls these are, also while the world carries them out: None for the hands."""
DIRECTOR: Final[ContextVar[Director | None]] = ContextVar("director", default=None)
ARRIVES: Final[ContextVar[bool]] = ContextVar("arrives", default=False)
"""True while a write is carried out that was given up: what it does to its own object is bad luck, and the laws are
not asked.
"""
CALL: Final[ContextVar[Way | None]] = ContextVar("call", default=None)
"""What goes wrong with the driver's call that is at work here."""


class Led:
    """A program whose steps the director counts, wherever its tasks were begun."""

    def __init__(self, works: Works, mortal: Mortal, director: Director) -> None:
        self._works, self._mortal, self._director = works, mortal, director

    def __getattr__(self, name: str) -> Any:
        return getattr(self._works, name)

    async def run(self) -> None:
        LED.set(self._mortal)
        DIRECTOR.set(self._director)
        await self._works.run()

    async def drain(self, timeout_s: float) -> bool:
        return await self._works.drain(timeout_s)


def led(make: Callable[[Any, Mortal], Made], director: Director) -> Callable[[Any, Mortal], Made]:
    """The same, for incarnations whose writes and calls the director counts."""

    def made(world: Any, mortal: Mortal) -> Made:
        LED.set(mortal)
        DIRECTOR.set(director)
        works, line = make(world, mortal)
        director.lines[mortal.who] = line
        return Led(works, mortal, director), line

    return made


class Director(Views):
    """trial: None only counts. touches, shown, acts: the record. lines: of the incarnations, by their names. hurries:
    set when the next act is to begin whatever is under way.
    """

    def __init__(self, world: SimWorld, trial: Trial | None) -> None:
        super().__init__(world, trial)
        self.touches: list[Touch] = []
        self.lines: dict[str, Any] = {}
        self.acts: list[tuple[int, int]] = []
        self.hurries = asyncio.Event()
        self._changed = asyncio.Event()
        self._doubted: tuple[str, str] | None = None
        self._changes: list[tuple[int, str]] = []
        world.store.on_change(self._has_changed)

    def record(self) -> Record:
        return Record(self.touches, self.shown, self.acts, self._changes, self._followed)

    def _has_changed(self, resource: Resource, change: StoredChange) -> None:
        self._changes.append((change.rv, resource.plural))
        self._changed.set()

    def act_begins(self) -> None:
        """What comes from now on belongs to the next act."""
        self.acts.append((len(self.touches), len(self.shown)))
        self.hurries.clear()

    # -- writes and calls

    async def written(self, process: Mortal, request: Request, send: Callable[[], Awaitable[Any]]) -> Any:
        """Sends a write, as the trial has it. Raises ApiError."""
        way = await self._begun(process, what_of(request), Kind.WRITE)
        if self._is_on_old_view(process):
            self._world.server.late_names.add(
                request.name
            )  # as one that comes late, it meets what its process can't know of
            self.acted_on_old_view = self.acted_on_old_view or request.verb is Verb.CREATE
        if way in (Way.LATE, Way.KILL_IN):
            self._tell(process, f"{what_of(request)}: given up, and on its way")
            self._world.group.create_task(self._carry_out(request, send, way), name=f"late/{what_of(request)}")
            await self._done(process, what_of(request), way)
            raise Unreachable("timed out")
        try:
            answer = await send()
        finally:
            await self._done(process, what_of(request), way)
        if way is Way.LOST:
            self._tell(process, f"{what_of(request)}: done, the answer is lost")
            self._loses(process, request)
            raise Unreachable("connection reset")
        return answer

    async def called(
        self, process: Mortal, verb: str, handle: str, about: str, send: Callable[[], Awaitable[None]]
    ) -> None:
        """Makes a call, as the trial has it. Raises DriverError."""
        what = f"call {verb} {handle} {about}"
        self.acted_on_old_view = self.acted_on_old_view or self._is_on_old_view(process)
        way = await self._begun(process, what, Kind.CALL)
        if self._doubted == (verb, handle) and way is None:
            self._doubted = None
            self._tell(process, f"{what}: refused, before anybody looks for what is there")
            raise DriverError(Code.INVALID_ARGUMENT, "not like this")
        if way is Way.DOUBT:
            self._doubted = verb, handle
        token = CALL.set(way)
        try:
            if way is Way.KILL_IN:
                self._world.group.create_task(_alone(send), name=f"orphan/{what}")
                await self._world.clock.sleep(0)
            else:
                await send()
        finally:
            CALL.reset(token)
            await self._done(process, what, way)

    async def _begun(self, process: Mortal, what: str, kind: Kind) -> Way | None:
        """What goes wrong with it. Who is killed before it does not come back from here."""
        if not self._is_reached(process, what, kind) or (trial := self._trial) is None:
            return None
        if trial.way is Way.KILL_BEFORE:
            await self._kill(process, f"before {what}")
        if trial.way is Way.STOP:
            process.freeze(STILL_S)
        if trial.way in EARLY:
            self.hurries.set()
            await self._world.clock.sleep(ACT_S)
        return {Way.NEXT_LOST: Way.LOST, Way.NEXT_LATE: Way.LATE}.get(trial.way, trial.way)

    def stepped(self, process: Mortal, what: str) -> None:
        """A step on the process' disk begins. Raises Killed."""
        if self._is_reached(process, what, Kind.STEP) and process.alive:
            self._killed = process
            process.kill(f"before {what}")
            raise Killed

    def _is_reached(self, process: Mortal, what: str, kind: Kind) -> bool:
        """Records it; true where the trial's point is here."""
        number, trial = len(self.touches) + 1, self._trial
        self.touches.append(Touch(number, process.who, what, kind, self._world.store.version, self._world.clock.now()))
        is_here = trial is not None and trial.way is not Way.UNSEEN and trial.number == number
        self.came = self.came or is_here
        return is_here

    async def _done(self, process: Mortal, what: str, way: Way | None) -> None:
        if way in (Way.KILL_AFTER, Way.STALE, Way.KILL_IN):
            await self._kill(process, f"{'under' if way is Way.KILL_IN else 'after'} {what}")
        if way is Way.STOP_AFTER:
            process.freeze(STILL_S)

    async def _kill(self, process: Mortal, where: str) -> NoReturn:
        if process.alive:
            self._killed = process
            process.kill(where)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("who is dead does not come back")

    async def _carry_out(self, request: Request, send: Callable[[], Awaitable[Any]], way: Way) -> None:
        """After the next change of anything; of who is killed, when the next one has been shown all. What it does to
        the object that it was made for is bad luck, to another one a fault.
        """
        truth, kind, name = self._world.truth, request.kind, request.name
        uid = self._uid(request)
        WRITING.set(None)
        self._world.server.late_count += 1
        self._world.server.late_names.add(name)
        self._changed.clear()
        if way is Way.KILL_IN or (self._trial is not None and self._trial.way is Way.NEXT_LATE):
            await self._world.clock.sleep(DYING_S if way is Way.KILL_IN else AFTER_ACT_S)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LATE_S_MAX):
                    await self._changed.wait()
        before, newest = self._uid(request), truth.newest(kind.plural)
        self._world.story.tell("API server", f"the late {what_of(request)} comes")
        ARRIVES.set(True)
        with contextlib.suppress(ApiError):
            await send()
        ARRIVES.set(False)
        self._world.server.late_count -= 1
        did = truth.newest(kind.plural) != newest and request.verb is not Verb.CREATE
        if did and before and before != uid and not self._world.may_come_astray(request):
            self._world.fail("late-astray", f"{what_of(request)} that was given up changed the next of that name")

    def _uid(self, request: Request) -> str:
        found = self._world.truth.get(request.kind.whole(), request.name, request.namespace) if request.name else None
        return "" if found is None else str(found["metadata"]["uid"])

    def _loses(self, process: Mortal, request: Request) -> None:
        """The attacher's line remembers for its laws which writes had no answer."""
        lost = self.lines[process.who]._lost
        if isinstance(lost, dict):
            lost[request.kind.plural, request.name] = self._world.store.version


async def _alone(send: Callable[[], Awaitable[None]]) -> None:
    """A call whose caller is dead: nobody hears its error."""
    with contextlib.suppress(DriverError):
        await send()
