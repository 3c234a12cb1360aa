"""A program's line to the API server: as everybody's, and each write tells the laws who made it, and what it could know
then.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.api.meta import Kind, annotation
from mooring.cluster.attachdetach.identity import FORCE_AFTER
from mooring.kube.cluster import Page, Request, Verb
from mooring.kube.errors import ApiError, NotFound, ServerError, Unreachable
from tests.sim.laws import WRITING, Write
from tests.sim.line import what_of
from tests.sim.mortal import Mortal
from tests.sim.provisioning.line import WritingLine

LATENCY_S: Final = 0.05
"""Of each write, where two controllers with different views undo each other's work as long as one's watch is late."""
ATTACHDETACH, ATTACHER, HEALTH, PROVISIONER, BINDER = "attachdetach", "attacher", "nodehealth", "provisioner", "binder"
AGENT, WORKLOADS = "agent", "workloads"


@dataclasses.dataclass(slots=True, eq=False)
class PlaneWrite(Write):
    """who: the program, without its number. seen: per kind, the newest version that it had been shown before the moment
    in which it began; volumes, nodes_now: of PersistentVolumes and of Nodes, in that moment. nodes: of Nodes that it
    had asked for, or written, the version of the answer; missing: of those that it was told were not there, the newest
    version of any Node when it asked.
    firsts: per kind, the version of its first list, or at the beginning of its term. began_s: when it was begun.
    is_lost_before: it was sent before, and whether it was carried out then is not known. gaps: per kind, from which
    version to which its lists were ahead of its watches: what came and went in between was not shown to it.
    """

    who: str = ""
    request: Request | None = None
    seen: Mapping[str, int] = dataclasses.field(default_factory=dict)
    volumes: int = 0
    nodes_now: int = 0
    nodes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, int] = dataclasses.field(default_factory=dict)
    firsts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    began_s: float = 0.0
    is_lost_before: bool = False
    gaps: Mapping[str, Sequence[tuple[int, int]]] = dataclasses.field(default_factory=dict)

    def knows(self, plural: str) -> int:
        return self.seen.get(plural, 0)

    def has_missed(self, plural: str, since: int, until: int) -> bool:
        """Whether what was so from one version to another of the kind came and went in a gap."""
        return any(first < since and until <= last for first, last in self.gaps.get(plural, ()))

    def knows_node(self, name: str) -> int:
        """The newest version of the Node that it had been shown before."""
        return max(self.nodes.get(name, 0), self.knows("nodes"))

    def may_know_node(self, name: str) -> int:
        """The newest version of the Node that it can have judged by."""
        return max(self.nodes.get(name, 0), self.nodes_now)


class PlaneLine(WritingLine):
    """watched: the kinds that the program follows."""

    def __init__(self, world: Any, mortal: Mortal, watched: tuple[str, ...]) -> None:
        super().__init__(world, mortal)
        self.watched = watched
        if mortal.who.startswith(ATTACHDETACH):
            world.laws.silence.begins(mortal, has_all=False)
        self._nodes: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._firsts: dict[str, int] = {}
        self._gaps: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._unsure: set[str] = (
            set()
        )  # writes whose last answer was an error: they are sent again, whatever stands there
        self._lost: set[str] = set()  # those of them that may have been carried out
        mortal.at_begin(self._begins)

    def _begins(self) -> None:
        """What it has followed as a standby has told its controllers nothing."""
        self._firsts = {plural: self.shown(plural) for plural in self._firsts}

    async def ask(self, request: Request) -> Any:
        if request.kind.plural == "storageclasses" and request.verb is Verb.GET:
            return await self._read_class(request)
        if not request.writes:
            newest = self._world.truth.newest("nodes")
            try:
                answer = await super().ask(request)
            except NotFound:
                if request.kind.plural == "nodes":
                    self._missing[request.name] = newest
                raise
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
            volumes=self.shown("persistentvolumes"),
            nodes_now=self.shown("nodes"),
            nodes=dict(self._nodes),
            missing=dict(self._missing),
            firsts=dict(self._firsts),
            began_s=self._world.clock.now(),
            is_lost_before=what in self._lost,
            gaps={plural: tuple(gaps) for plural, gaps in self._gaps.items()},
        )
        laws = self._world.laws
        laws.begins(write)
        if (
            self._world.loses is not None
            and write.who.startswith(ATTACHDETACH)
            and request.kind.plural == "volumeattachments"
        ):
            lost = self._lose(request)
        else:
            lost = None
        if (
            self._world.meddles is not None
            and write.who == HEALTH
            and request.kind.plural == "nodes"
            and not request.subresource
        ):
            await self._world.meddles(request.name)
            laws.silence.went(write)  # a refusal of what moves at the same time is told as that
        token = WRITING.set(write)
        try:
            if lost is not None:
                await lost
            if self._world.plan.controllers > 1:
                await self._world.clock.sleep(LATENCY_S)
            answer = await super().ask(request)
        except ApiError as error:
            self._unsure.add(what)
            if isinstance(error, Unreachable | ServerError):
                self._lost.add(what)
            laws.failed(write, error)
            raise
        finally:
            WRITING.reset(token)
            laws.ends(write)
        self._unsure.discard(what)
        self._lost.discard(what)
        laws.answered(write)
        self._read(request, answer)
        return answer

    async def _lose(self, request: Request) -> None:
        """The process is killed, or gives up, in the moment that it has sent this, which is long on its way. Raises
        ApiError.
        """
        lose, self._world.loses = self._world.loses, None
        after_s = self._world.server.carry_out_late(self._mortal.who, request)
        self._tell(f"{what_of(request)}: on its way for {after_s:.3f} s")
        if self._world.loses_process:
            self._mortal.kill("with a request on its way")
        lose(request)
        await self._mortal.point("after that")
        raise (
            Unreachable("timed out")
            if int(after_s * 1000) % 2
            else ServerError("timed out", code=504, reason="Timeout")
        )

    async def _list(self, request: Request) -> Page[Any]:
        plural = request.kind.plural
        before = self.shown(plural)
        page = await super()._list(request)
        if self.shown(plural) > before:
            self._gaps[plural].append((before, self.shown(plural)))
        return page

    def _read(self, request: Request, answer: Any) -> None:
        if request.kind.plural == "nodes" and answer is not None:
            version = int(answer.metadata.resource_version)
            self._nodes[answer.metadata.name] = max(version, self._nodes.get(answer.metadata.name, 0))

    async def _read_class(self, request: Request) -> Any:
        """The laws know what each process was told of its classes."""
        asked, process = self._world.laws.asked, (self._mortal.who.partition("#")[0], self._mortal.number)
        try:
            found = await super().ask(request)
        except NotFound:
            asked.class_read(process, request.name, None, self._world.clock.now())
            raise
        except ApiError:
            asked.class_unread(process, request.name, self._world.clock.now())
            raise
        asked.class_read(process, request.name, annotation(found, FORCE_AFTER), self._world.clock.now())
        return found

    def _shown_before_now(self) -> Mapping[str, int]:
        """What comes at the very moment of a write may have come after its decision."""
        return {plural: self.shown_before_now(plural) for plural in self._seen}

    def _has_seen(self, kind: Kind[Any], version: str) -> None:
        self._firsts.setdefault(kind.plural, int(version))
        if self._mortal.who.startswith(ATTACHDETACH) and set(self.watched) <= set(self._firsts):
            self._world.laws.silence.begins(self._mortal, has_all=True)
        super()._has_seen(kind, version)
