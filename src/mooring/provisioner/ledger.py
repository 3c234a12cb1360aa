"""The open intents, and what this process knows of them beyond what is stored: which of them an earlier call may have made a volume for.

A call that ended unknown may have made the volume, whatever the next one comes to: ResourceExhausted, say, tells that no volume can be
made now, not that there is none. To users and to the claim such an error is final, as in external-provisioner; but the intent is kept,
and when the claim is deleted before it has its volume, the call is repeated until the driver makes the volume known, or rules it out.
An intent that was found has been in doubt since its former process died.
"""

from __future__ import annotations

from collections.abc import Iterable

from mooring.provisioner.intents import Intent, Intents


class Ledger:
    """kept: uids of intents that are kept for that alone, live."""

    def __init__(self, intents: Intents) -> None:
        self._intents = intents
        self._in_doubt: set[str] = set()
        self.kept: set[str] = set()

    def __contains__(self, uid: str) -> bool:
        return uid in self._intents.open()

    def found(self, uids: Iterable[str]) -> None:
        """An earlier process, or another one, has left these open."""
        self._in_doubt.update(uids)

    async def begin(self, intent: Intent) -> None:
        """As of Intents. Raises ApiError."""
        await self._intents.begin(intent)
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
        await self._intents.end(uid)
