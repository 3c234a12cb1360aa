"""Watches a driver's calls, and gives the rules that they break."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from mooring.conform.book import (
    answers,
    errors,
    identity,
    lists,
    node,
    publishing,
    requests,
    snapshots,
    topology,
    volumes,
)
from mooring.conform.book.exchange import Exchange
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule
from mooring.conform.book.subject import Subject, changed_by
from mooring.csi.driver import Rpc
from mooring.csi.errors import DriverError
from mooring.csi.redact import scrubbed
from mooring.wire.grpc.codes import Code

CANCELED: Final = DriverError(Code.CANCELED, "the caller gave up")

_CHAPTERS: Final = (identity, topology, answers, requests, volumes, publishing, snapshots, node, lists, errors)

_WITH_ASKED: Final = (requests, volumes, publishing, snapshots, node, lists, errors)
ASKED: Final[frozenset[Rule]] = frozenset(rule for chapter in _WITH_ASKED for rule in chapter.ASKED)
"""Those that only an asker can judge: one who knows what there should be."""

BOOK: Final[Mapping[str, Rule]] = {
    rule.number: rule for rule in (*(one for chapter in _CHAPTERS for one in chapter.RULES), *ASKED)
}
"""Every rule by its number."""

Judge = Callable[[Exchange, Past], Iterator[Breach]]
_JUDGES: Final[tuple[Judge, ...]] = tuple(chapter.judge for chapter in _CHAPTERS)
_OF_INCOMPLETE: Final[tuple[Judge, ...]] = (requests.judge, errors.judge)
"""A request that lacks a required field is about nothing that the other rules could speak of."""


@dataclasses.dataclass(slots=True)
class Under:
    """A call under way. alone: whether it has been the only one so far that changes its subject."""

    rpc: Rpc[Any, Any]
    request: Message
    where: str
    subject: Subject | None
    began_s: float | None
    alone: bool = True


class Watcher:
    """One driver's. on_breach: is told of the first breach of each rule by each call; every: of each breach.

    now: seconds, without those in which this process did not run; None where nobody counts them, and only the order of
    the calls matters.
    """

    def __init__(
        self,
        on_breach: Callable[[Breach], None],
        *,
        every: bool = False,
        now: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._on_breach, self._every, self._now = on_breach, every, now
        self._past = Past()
        #: Whether the driver's CSIDriver has requiresRepublish now; set by who can see it.
        self.republishes: Callable[[], bool] = lambda: False
        self._under: dict[int, Under] = {}
        self._numbers = itertools.count()
        self.breaches: dict[tuple[str, str, str], Breach] = {}
        """By the rule's number, the call and where it was made."""

    def began(self, rpc: Rpc[Any, Any], request: Message, where: str = "") -> int:
        """A call goes out. where: the node, "" for the controller. Gives the call's number, for `ended`."""
        call = Under(rpc, request, where, changed_by(rpc, request), self._now())
        if call.subject is not None:
            for other in self._under.values():
                if other.subject == call.subject:
                    other.alone = call.alone = False
        number = next(self._numbers)
        self._under[number] = call
        return number

    def ended(self, number: int, response: Message | None, error: DriverError | None, **seen: Any) -> None:
        """The call has ended. seen: what else an `Exchange` holds: limit_s, target, staging."""
        call = self._under.pop(number)
        exchange = Exchange(
            *(call.rpc, call.request, response, error, call.where, call.alone),
            republished=self.republishes(),
            began_s=call.began_s,
            ended_s=self._now(),
            **seen,
        )
        is_whole = not requests.lacking(call.request)
        for judge in _JUDGES if is_whole else _OF_INCOMPLETE:
            for breach in judge(exchange, self._past):
                self.tell(breach, call.request)
        if is_whole:
            self._past.note(exchange)

    def forgot(self, number: int) -> None:
        """The caller gave the call up: nobody will know how it ended."""
        call = self._under.pop(number)
        self._past.note(Exchange(call.rpc, call.request, None, CANCELED, call.where, call.alone))

    def advertises(self, rpc: Rpc[Any, Any]) -> bool:
        """Whether the driver's controller has the capability that the call needs, as far as it was asked."""
        return identity.NEEDS[rpc.attribute].number in (self._past.controller or ())

    def tell(self, breach: Breach, request: Message) -> None:
        """request: whose secrets do not stand in what is told."""
        key = breach.rule.number, breach.rpc, breach.where
        is_new = key not in self.breaches
        if is_new or self._every:
            breach = dataclasses.replace(breach, found=scrubbed(breach.found, request))
            self.breaches.setdefault(key, breach)
            self._on_breach(breach)
