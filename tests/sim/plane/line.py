"""A program's line to the API server: as everybody's, and each write tells the laws who made it, and what it could know then."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from mooring.api.meta import Kind
from mooring.kube.cluster import Request, Verb
from mooring.kube.errors import ApiError, ServerError, Unreachable
from tests.sim.laws import WRITING, Write
from tests.sim.line import what_of
from tests.sim.mortal import Mortal
from tests.sim.provisioning.line import WritingLine

LATENCY_S: Final = 0.05
"""Of each write, where two controllers with different views undo each other's work as long as one's watch is late."""
ATTACHDETACH, ATTACHER, HEALTH, PROVISIONER, BINDER = "attachdetach", "attacher", "nodehealth", "provisioner", "binder"
AGENT = "agent"


@dataclasses.dataclass(slots=True, eq=False)
class PlaneWrite(Write):
    """who: the program, without its number. seen: per kind, the newest version that it had been shown when it began; nodes: of Nodes that
    it had asked for, or written, the version of the answer. first: the version of its first list of Nodes. began_s: when it was begun.
    is_lost_before: it was sent before, and whether it was carried out then is not known.
    """

    who: str = ""
    request: Request | None = None
    seen: Mapping[str, int] = dataclasses.field(default_factory=dict)
    nodes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    first: int = 0
    began_s: float = 0.0
    is_lost_before: bool = False

    def knows(self, plural: str) -> int:
        return self.seen.get(plural, 0)

    def knows_node(self, name: str) -> int:
        """The newest version of the Node that it can have judged by."""
        return max(self.nodes.get(name, 0), self.knows("nodes"))


class PlaneLine(WritingLine):
    """watched: the kinds that the program follows."""

    def __init__(self, world: Any, mortal: Mortal, watched: tuple[str, ...]) -> None:
        super().__init__(world, mortal)
        self.watched = watched
        self._nodes: dict[str, int] = {}
        self._first = 0
        self._unsure: set[str] = set()  # writes whose last answer was an error: they are sent again, whatever stands there
        self._lost: set[str] = set()  # those of them that may have been carried out

    async def ask(self, request: Request) -> Any:
        if not request.writes:
            answer = await super().ask(request)
            if request.verb is Verb.GET:
                self._read(request, answer)
            return answer
        what = what_of(request)
        write = PlaneWrite(
            self._mortal.number,
            lambda: self._mortal.alive,
            what,
            request.name,
            excused=what in self._unsure,
            who=self._mortal.who.partition("#")[0],
            request=request,
            seen=self._shown_before_now(),
            nodes=dict(self._nodes),
            first=self._first,
            began_s=self._world.clock.now(),
            is_lost_before=what in self._lost,
        )
        laws = self._world.laws
        laws.begins(write)
        token = WRITING.set(write)
        try:
            if self._world.plan.controllers > 1:
                await self._world.clock.sleep(LATENCY_S)
            answer = await super().ask(request)
        except ApiError as error:
            self._unsure.add(what)
            if isinstance(error, Unreachable | ServerError):
                self._lost.add(what)
            raise
        finally:
            WRITING.reset(token)
            laws.ends(write)
        self._unsure.discard(what)
        self._lost.discard(what)
        laws.answered(write)
        self._read(request, answer)
        return answer

    def _read(self, request: Request, answer: Any) -> None:
        if request.kind.plural == "nodes" and answer is not None:
            version = int(answer.metadata.resource_version)
            self._nodes[answer.metadata.name] = max(version, self._nodes.get(answer.metadata.name, 0))

    def _shown_before_now(self) -> Mapping[str, int]:
        """What comes at the very moment of a write may have come after its decision."""
        return {plural: self.shown_before_now(plural) for plural in self._seen}

    def _has_seen(self, kind: Kind[Any], version: str) -> None:
        if kind.plural == "nodes" and not self._first:
            self._first = int(version)
        super()._has_seen(kind, version)
