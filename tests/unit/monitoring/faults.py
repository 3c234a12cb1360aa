"""Faults of an API server that last."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.coordination import LEASES
from mooring.api.meta import Kind
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.kube.cluster import Request, Verb, WatchEvent
from mooring.kube.errors import Forbidden
from mooring.sidecars.provisioner.intents.access_review import SELF_REVIEWS


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


class WithoutJournal(LocalCluster):
    """An API server that lets a provisioner elect, and write no intents; it says so to whoever asks."""

    async def ask(self, request: Request) -> Any:
        if request.kind.name == SELF_REVIEWS.name:
            return {"status": {"allowed": False}}
        if request.kind.plural == LEASES.plural and (request.verb is Verb.LIST or "-intents-" in _name(request)):
            raise Forbidden("leases are forbidden")
        return await super().ask(request)


def _name(request: Request) -> str:
    return request.name or str(((request.body or {}).get("metadata") or {}).get("name", ""))
