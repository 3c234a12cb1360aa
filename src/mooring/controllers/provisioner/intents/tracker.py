"""The open intents, and which of them an earlier call may have made a volume for.

A call that ended unknown may have made the volume, whatever the next one comes to: ResourceExhausted, say, tells that no volume can be
made now, not that there is none. To users and to the claim such an error is final, as in external-provisioner; but the intent is kept,
and when the claim is deleted before it has its volume, the call is repeated until the driver makes the volume known, or rules it out.
An intent that was found has been in doubt since its former process died.

Where the claim has wanted several things meanwhile, each request that ended unknown is in doubt for itself: that the driver refuses one
of them, since a volume of that name is there, is no word on the others. They are stored with the next one: a new process knows them, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.controllers.provisioner.claims.outcomes import Failed, Failure, RulesOut, State
from mooring.controllers.provisioner.claims.requests import is_same_call
from mooring.controllers.provisioner.intents.intent import Intent, Intents
from mooring.kube.errors import ApiError

log = logger(__name__)

DOUBTS_MAX: Final = 8
"""Requests in doubt for one claim; the oldest is given up."""


class IntentTracker:
    """kept: uids of intents that are kept for that alone, live. ended: called with each intent that is over."""

    def __init__(self, intents: Intents, clock: Clock, ended: Callable[[Intent], None] = lambda intent: None) -> None:
        self._intents = intents
        self._clock = clock
        self._ended = ended
        self._since: dict[str, Instant] = {}
        self._unknown: dict[str, list[Intent]] = {}
        self._uid_of: dict[str, str] = {}
        self.unresolved: set[str] = set()

    def __contains__(self, uid: str) -> bool:
        return uid in self._intents.open()

    @property
    def count(self) -> int:
        """Of the open ones."""
        return len(self._since)

    @property
    def oldest_s(self) -> float:
        """For how long the oldest one is known here, 0 without any."""
        return self._clock.now() - next(iter(self._since.values())) if self._since else 0.0

    def found(self, intents: Mapping[str, Intent]) -> None:
        """An earlier process, or another one, has left these open."""
        for uid, intent in intents.items():
            for former in intent.doubts:
                self.mark_unknown(dataclasses.replace(former, unattended=intent.unattended))
            self.mark_unknown(intent)
            self._since.setdefault(uid, self._clock.now())
            self._uid_of.setdefault(intent.volume_name, uid)

    async def begin(self, intent: Intent) -> None:
        """As of Intents. Raises ApiError; Failed while another open intent has the volume's name: names cut short can meet."""
        if self._uid_of.setdefault(intent.volume_name, intent.uid) != intent.uid:
            error = f'a volume "{intent.volume_name}" is being made for another claim: the names of volumes are cut too short'
            raise Failed(Failure(error, State.FINISHED))
        try:
            await self._intents.begin(self._with_unknown(intent))
        except ApiError:
            if intent.uid not in self:
                del self._uid_of[intent.volume_name]
            raise
        self._since.setdefault(intent.uid, self._clock.now())
        self.unresolved.discard(intent.uid)

    def mark_unknown(self, intent: Intent) -> None:
        """A call for it has ended unknown."""
        doubts = self._unknown.setdefault(intent.uid, [])
        if not _is_among(doubts, intent):
            doubts.append(dataclasses.replace(intent, doubts=()))
        if len(doubts) > DOUBTS_MAX:
            log.error("so many requests of one claim ended unknown that the oldest is given up", PersistentVolume=doubts.pop(0).volume_name)

    async def refuse(self, uid: str, rules_out: RulesOut) -> None:
        """The driver has refused the open intent. What is still in doubt is kept: another request, perhaps, that was made before."""
        intent, doubts = self._intents.open().get(uid), self._unknown.get(uid, [])
        if intent is None or rules_out is RulesOut.VOLUME:
            doubts = []
        elif rules_out is RulesOut.REQUEST:
            doubts = [one for one in doubts if not is_same_call(one, intent)]
        if intent is None or not doubts:
            await self.end(uid)
            return
        self._unknown[uid] = doubts
        self.unresolved.add(uid)
        if not _is_among(doubts, intent):
            try:
                await self._intents.begin(self._with_unknown(doubts[-1]))
            except ApiError as error:
                log.error("could not write down again what may have been made", error=error, PersistentVolume=intent.volume_name)

    async def end(self, uid: str) -> None:
        """As of Intents."""
        self._unknown.pop(uid, None)
        self.unresolved.discard(uid)
        self._since.pop(uid, None)
        intent = self._intents.open().get(uid)
        if intent is not None and self._uid_of.get(intent.volume_name) == uid:
            del self._uid_of[intent.volume_name]
        await self._intents.end(uid)
        if intent is not None:
            self._ended(intent)

    def _with_unknown(self, intent: Intent) -> Intent:
        """As it is stored, so that a new process knows of what was asked for before."""
        others = (one for one in self._unknown.get(intent.uid, ()) if not is_same_call(one, intent))
        return dataclasses.replace(intent, doubts=tuple(others))


def _is_among(doubts: list[Intent], intent: Intent) -> bool:
    return any(is_same_call(one, intent) for one in doubts)
