"""Faults of an API server that last."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.kube.cluster import WatchEvent
from mooring.kube.errors import Forbidden


class Refused(ServerFaults):
    """The API server refuses these kinds, or one object of theirs, from the moment when it is on."""

    def __init__(self, plural: str, name: str = "", *, on: bool = True) -> None:
        self._plural, self._name, self.on = plural, name, on

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if self.on and kind.plural == self._plural and self._name in (name, ""):
            raise Forbidden(f"{kind.plural} are forbidden")

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        await self.before("watch", kind, "")


class Unanswered(ServerFaults):
    """Patches of these kinds are never answered."""

    def __init__(self, plural: str) -> None:
        self._plural = plural

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "patch" and kind.plural == self._plural:
            await asyncio.Event().wait()
