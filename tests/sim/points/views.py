"""What a script's programs are shown: old lists, watches that tell nothing for a while or hide an event; and what is
excused for that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator
from typing import Any, Final, TypeVar

from mooring.kube.cluster import Request, WatchEvent
from mooring.kube.errors import Gone
from tests.sim.mortal import Mortal
from tests.sim.points.trial import Shown, Trial, Way
from tests.sim.world import SimWorld

T = TypeVar("T")

UNSEEN_S: Final = 20.0
"""Until a watch that hides an event ends, where the object does not change again before."""
HELD_S: Final = 20.0
"""How long a process lives on a stale view: until then its watches tell nothing."""
CATCHES_UP_S: Final = 2.0
"""From then on, until what it did in between is over."""
LEAKS: Final = ("leaked", "made-again", "content-left")
"""What comes of a driver's call for an object that was gone by then."""


class Views:
    """A part of the director. shown: the events that watches have told. excused: laws that were broken on an old view.

    acted_on_old_view: a driver was called on one, or an object made. came: the trial's point was reached.
    """

    def __init__(self, world: SimWorld, trial: Trial | None) -> None:
        self._world, self._trial = world, trial
        self.shown: list[Shown] = []
        self.excused: list[str] = []
        self.acted_on_old_view = False
        self.came = trial is None
        self._killed: Mortal | None = None
        self._heir: Mortal | None = None
        self._on_old_views: dict[
            str, dict[str, float]
        ] = {}  # by incarnation and kind, until when its watch tells nothing
        self._followed: dict[str, set[str]] = defaultdict(set)

    def excuses(self, process: Mortal, invariant: str, what: str) -> bool:
        """True for who was shown an older state than there is, against the API server's word: what it does before it is
        told the rest is that server's fault. It must come to the same end all the same.
        """
        if not self._is_on_old_view(process):
            return False
        self.excused.append(invariant)
        self._tell(process, f"excused by its old view: {invariant}: {what}")
        return True

    def excuses_leak(self, invariant: str) -> bool:
        """What is left of a call or a creation on such a view: they can't test the version of an object that is
        gone.
        """
        if not self.acted_on_old_view or invariant not in LEAKS:
            return False
        self.excused.append(invariant)
        return True

    def _is_on_old_view(self, process: Mortal) -> bool:
        """Also while it catches up: events come one by one, and it acts on each."""
        return (
            self._world.clock.now()
            <= max(self._on_old_views.get(process.who, {}).values(), default=-CATCHES_UP_S) + CATCHES_UP_S
        )

    def version_for(self, process: Mortal, request: Request) -> int:
        """Of the view that a list shows, 0 for the newest: of each kind that a process started again begins to follow,
        the first.
        """
        trial, killed = self._trial, self._killed
        if trial is None or trial.way is not Way.STALE or killed is None or not self._succeeds(process, killed):
            return 0
        kind, old = request.kind.plural, self._on_old_views.setdefault(process.who, {})
        if kind in old or request.limit <= 1 or request.continue_token or kind not in self._followed[process.program]:
            return 0
        old[kind] = self._world.clock.now() + HELD_S
        self._tell(process, f"is shown {kind} as of {trial.version}")
        return trial.version

    async def events(
        self, process: Mortal, plural: str, events: AsyncGenerator[WatchEvent[T], None]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """A watch, as the trial has it. Raises Gone where an event was hidden: what came since is only to be seen by a
        list.
        """
        self._followed[process.program].add(plural)
        held_until = self._on_old_views.get(process.who, {}).get(plural, 0.0)
        async for event in events:
            if event.object is not None and await self._is_hidden(process, plural, event, events):
                raise Gone("too old resource version", reason="Expired")
            await self._world.clock.sleep(max(0.0, held_until - self._world.clock.now()))
            yield event

    async def _is_hidden(
        self, process: Mortal, plural: str, event: WatchEvent[T], later: AsyncGenerator[WatchEvent[T], None]
    ) -> bool:
        """Returns once the same object has changed again, or after a while."""
        name = _name_of(event)
        number = len(self.shown) + 1
        self.shown.append(Shown(number, process.who, f"{event.type.value} {plural} {name}", self._world.clock.now()))
        if self._trial is None or self._trial.way is not Way.UNSEEN or self._trial.number != number:
            return False
        self.came = True
        self._tell(process, f"is not shown {self.shown[-1].what}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNSEEN_S):
                async for other in later:
                    if other.object is not None and _name_of(other) == name:
                        break
        return True

    def _succeeds(self, process: Mortal, killed: Mortal) -> bool:
        """True for the next incarnation of the same program that begins to work."""
        if self._heir is None and process is not killed and process.program == killed.program:
            self._heir = process
        return process is self._heir

    def _tell(self, process: Mortal, what: str) -> None:
        self._world.story.tell(process.who, what)


def _name_of(event: WatchEvent[Any]) -> str:
    obj: Any = event.object
    meta = obj["metadata"] if isinstance(obj, dict) else obj.metadata
    return str(meta["name"] if isinstance(meta, dict) else meta.name)
