"""Faults between the programs of a plane and its API server: answers that are lost, rights that are missing, a server that is away."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.kube.errors import ApiError, Forbidden, Unreachable

WRITES: Final = ("create", "patch", "replace", "delete")
BROKEN: Final = "read tcp 127.0.0.1:6443: connection reset by peer"


@dataclasses.dataclass(frozen=True, slots=True)
class Requests:
    """Some of a program's requests. who, verb, plural: None for any. verb: create, patch, replace, delete, get, list, watch."""

    who: str | None
    verb: str | None
    plural: str | None

    def means(self, who: str, verb: str, plural: str) -> bool:
        return self.who in (None, who) and self.verb in (None, verb) and self.plural in (None, plural)


class ApiFaults:
    """Of a whole plane."""

    def __init__(self) -> None:
        self.is_away = False
        self.forbidden: list[Requests] = []
        self.lost: list[tuple[Requests, int]] = []
        """Requests whose answers are lost, and how many still are."""
        self.loses_first = False
        """Of each program's writes of each kind, the first answer is lost."""
        self._lost_once: set[tuple[str, str, str]] = set()

    def of(self, who: str) -> ServerFaults:
        """For the requests of one program."""
        return _Line(self, who)

    def refusal(self, who: str, verb: str, kind: Kind[Any], name: str) -> ApiError | None:
        """Why a request does not reach the server, None where it does."""
        if self.is_away:
            return Unreachable("dial tcp 127.0.0.1:6443: connect: connection refused")
        if any(one.means(who, verb, kind.plural) for one in self.forbidden):
            said = "update" if verb == "replace" else verb
            subject = f'"{name}" ' if name else ""
            text = f'{kind.resource} {subject}is forbidden: User "{who}" cannot {said} resource "{kind.plural}" in API group "{kind.group}"'
            return Forbidden(text, reason="Forbidden")
        return None

    def loss(self, who: str, verb: str, kind: Kind[Any]) -> ApiError | None:
        """The error in place of an answer, None where it arrives."""
        if self.loses_first and verb in WRITES and (who, verb, kind.plural) not in self._lost_once:
            self._lost_once.add((who, verb, kind.plural))
            return Unreachable(BROKEN)
        for place, (requests, times) in enumerate(self.lost):
            if requests.means(who, verb, kind.plural):
                if times > 1:
                    self.lost[place] = (requests, times - 1)
                else:
                    del self.lost[place]
                return Unreachable(BROKEN)
        return None

    def clear(self) -> None:
        self.is_away = self.loses_first = False
        self.forbidden.clear()
        self.lost.clear()


class _Line(ServerFaults):
    def __init__(self, faults: ApiFaults, who: str) -> None:
        self._faults, self._who = faults, who

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (refusal := self._faults.refusal(self._who, verb, kind, name)) is not None:
            raise refusal

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (loss := self._faults.loss(self._who, verb, kind)) is not None:
            raise loss
