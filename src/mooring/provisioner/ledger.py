"""The open intents, and what this process knows of them beyond what is stored: which of them an earlier call may have made a volume for.

A call that ended unknown may have made the volume, whatever the next one comes to: ResourceExhausted, say, tells that no volume can be
made now, not that there is none. To users and to the claim such an error is final, as in external-provisioner; but the intent is kept,
and when the claim is deleted before it has its volume, the call is repeated until the driver makes the volume known, or rules it out.
An intent that was found has been in doubt since its former process died.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.base.clock import Clock, Instant
from mooring.kube.errors import ApiError
from mooring.provisioner.intents import Intent, Intents
from mooring.provisioner.outcomes import Failed, Failure, State


class Ledger:
    """kept: uids of intents that are kept for that alone, live."""

    def __init__(self, intents: Intents, clock: Clock) -> None:
        self._intents = intents
        self._clock = clock
        self._since: dict[str, Instant] = {}
        self._in_doubt: set[str] = set()
        self._uid_of: dict[str, str] = {}
        self.kept: set[str] = set()

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
        self._in_doubt.update(intents)
        for uid, intent in intents.items():
            self._since.setdefault(uid, self._clock.now())
            self._uid_of.setdefault(intent.volume_name, uid)

    async def begin(self, intent: Intent) -> None:
        """As of Intents. Raises ApiError; Failed while another open intent has the volume's name: names cut short can meet."""
        if self._uid_of.setdefault(intent.volume_name, intent.uid) != intent.uid:
            error = f'a volume "{intent.volume_name}" is being made for another claim: the names of volumes are cut too short'
            raise Failed(Failure(error, State.FINISHED))
        try:
            await self._intents.begin(intent)
        except ApiError:
            if intent.uid not in self:
                del self._uid_of[intent.volume_name]
            raise
        self._since.setdefault(intent.uid, self._clock.now())
        self.kept.discard(intent.uid)

    def doubt(self, uid: str) -> None:
        """A call for it has ended unknown."""
        self._in_doubt.add(uid)

    async def refuse(self, uid: str, *, conclusive: bool) -> None:
        """The driver has refused it. conclusive: and said that there is no volume, whatever earlier calls came to."""
        if conclusive or uid not in self._in_doubt:
            await self.end(uid)
        elif uid in self:
            self.kept.add(uid)

    async def end(self, uid: str) -> None:
        """As of Intents."""
        self._in_doubt.discard(uid)
        self.kept.discard(uid)
        self._since.pop(uid, None)
        intent = self._intents.open().get(uid)
        if intent is not None and self._uid_of.get(intent.volume_name) == uid:
            del self._uid_of[intent.volume_name]
        await self._intents.end(uid)
