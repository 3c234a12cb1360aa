"""The doors of the API server's habits in one line: what refuses a request, holds a watch back, or lets an answer grow
old.

`habits.py` says what there is. A list of ours asks for the newest state, which no server answers with an old one; but
its answer may be long on its way. A watch may be served by a server that lags, and may resume from its old version
after the server has held it back.
"""

from __future__ import annotations

from typing import Any

from mooring.api.meta import Kind
from mooring.kube.cluster import Request, WatchEvent
from mooring.kube.errors import ApiError, Unreachable
from tests.sim.mortal import Mortal
from tests.sim.server import WATCH, right_of
from tests.sim.world import SimWorld


class Doors:
    def __init__(self, world: SimWorld, mortal: Mortal) -> None:
        self._world, self._mortal = world, mortal
        self._habits, self._randomness = world.habits, world.randomness["habits"]
        self._folded: set[str] = set()  # kinds of which the watches' version is forgotten

    # -- requests

    def refusal(self, request: Request | None, kind: Kind[Any] | None) -> ApiError | None:
        """The server's own refusal, None for none. request: None for a watch of the kind."""
        server, program = self._world.server, self._mortal.program
        if request is not None:
            return server.refusal(right_of(program, request), writes=request.writes)
        assert kind is not None, "a watch is of a kind"
        return server.refusal((program, WATCH, kind.plural), writes=False)

    def give_up(self, what: str, request: Request) -> None:
        """A write may be given up by its client, and be carried out later. Raises Unreachable for that."""
        server = self._world.server
        if server.is_late():
            after_s = server.carry_out_late(self._mortal.who, request)
            self._tell(f"{what}: given up, on its way for {after_s:.3f} s")
            raise Unreachable("timed out")

    async def grow_old(self, what: str) -> None:
        """A list that has its answer: that may be long on its way."""
        if self._happens(self._habits.old):
            old_s = self._randomness.uniform(0.0, self._habits.old_s)
            self._tell(f"{what}: on its way for {old_s:.3f} s")
            await self._world.clock.sleep(old_s)

    # -- watches

    def is_folded(self, kind: Kind[Any]) -> bool:
        """True for a watch whose version was forgotten while it was held back."""
        was_folded = kind.plural in self._folded
        self._folded.discard(kind.plural)
        return was_folded

    def lag_s(self) -> float:
        """How far behind the server is that serves this watch."""
        return self._randomness.uniform(0.0, self._habits.lag_s) if self._happens(self._habits.lag) else 0.0

    async def is_held_up(self, event: WatchEvent[Any], kind: Kind[Any], lag_s: float) -> bool:
        """Before an event: the server may be behind, or show nothing for a while, and then all in one burst. True when
        the watch has ended instead: the next one resumes from its old version, or hears that it is forgotten, and a
        list shows only the last state.
        """
        history, habits = self._world.server.history, self._habits
        if lag_s and history is not None and self._world.faulty:
            await self._world.clock.sleep(
                history.time_of(int(event.resource_version)) + lag_s - self._world.clock.now()
            )
        if not self._happens(habits.held):
            return False
        randomness = self._randomness
        held_s, is_burst, is_folded = (
            randomness.uniform(0.0, habits.held_s),
            randomness.happens(0.5),
            randomness.happens(habits.folded),
        )
        self._tell(f"watch {kind.plural}: shows nothing for {held_s:.3f} s")
        await self._world.clock.sleep(held_s)
        if is_burst:
            return False
        if is_folded:
            self._folded.add(kind.plural)
        self._tell(f"watch {kind.plural}: ended{', its version is forgotten' if is_folded else ''}")
        return True

    def _happens(self, share: float) -> bool:
        return share > 0 and self._world.faulty and self._randomness.happens(share)

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)
